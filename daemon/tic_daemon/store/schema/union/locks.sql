-- The locked attempts, as in each store (views/150_runs.sql), of what is united.
SELECT run_id, attempt, first_fault_rec_id, first_fault_candidates AS candidates, locking_faults AS faults, locked_records,
    after_fault, order_unknown, would_help, first_fault_why
FROM attempts WHERE locked
