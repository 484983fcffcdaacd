-- One row an attempt, as attempts.sql, without what is counted from records. It is no one store's row: store_id is NULL.
WITH known AS (
    SELECT p.run_id, p.attempt, bool_or(p.locked) AS locked, bool_or(p.marked) AS marked,
        arg_min(coalesce(o.kept_rec_id, p.first_fault_rec_id), (o.place, p.part_store)) FILTER (p.first_fault_rec_id IS NOT NULL)
            AS first_fault_rec_id,
        arg_min(coalesce(o.kept_store, p.part_store), (o.place, p.part_store)) FILTER (p.first_fault_rec_id IS NOT NULL)
            AS first_fault_origin,
        arg_min(p.first_fault_candidates, (o.place, p.part_store)) FILTER (p.first_fault_rec_id IS NOT NULL) AS first_fault_candidates
    FROM part_attempt_states p
    LEFT JOIN i_order o ON o.part_store = p.part_store AND o.rec_id = p.first_fault_rec_id AND o.run_id = p.run_id
    GROUP BY p.run_id, p.attempt
),
counted AS (
    SELECT k.run_id, k.attempt, count(*) AS faults, count(*) FILTER (WHERE f.locks) AS locking_faults,
        count(*) FILTER (WHERE f.origin_store_id IS NOT NULL) AS remote_faults
    FROM known k JOIN i_acting f ON f.run_id = k.run_id AND k.attempt BETWEEN f.attempt AND f.last_attempt
    GROUP BY ALL
)
SELECT k.run_id, k.attempt, k.locked, k.first_fault_rec_id, k.first_fault_candidates, coalesce(c.faults, 0) AS faults,
    coalesce(c.locking_faults, 0) AS locking_faults, k.marked, coalesce(c.remote_faults, 0) AS remote_faults, k.first_fault_origin,
    NULL::VARCHAR AS store_id, coalesce(y.why, '') AS first_fault_why
FROM known k LEFT JOIN counted c ON c.run_id = k.run_id AND c.attempt = k.attempt
LEFT JOIN i_first_why y ON y.run_id = k.run_id AND y.attempt = k.attempt
