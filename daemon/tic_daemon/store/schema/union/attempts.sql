-- One row an attempt: counts are added up, and a lock or a mark in one store is one for all.
WITH counted AS (
    SELECT k.run_id, k.attempt, count(*) AS faults, count(*) FILTER (WHERE f.locks) AS locking_faults,
        count(*) FILTER (WHERE f.origin_store_id IS NOT NULL) AS remote_faults
    FROM (SELECT DISTINCT run_id, attempt FROM part_attempts) k
    JOIN i_acting f ON f.run_id = k.run_id AND k.attempt BETWEEN f.attempt AND f.last_attempt
    GROUP BY ALL
),
added AS (
    SELECT p.run_id, p.attempt, bool_or(p.locked) AS locked, max(p.last_step) AS last_step, max(p.last_event_at) AS last_event_at,
        max(p.last_observed_at) AS last_observed_at, sum(p.mismatches)::BIGINT AS mismatches, sum(p.admissible)::BIGINT AS admissible,
        sum(p.suspect)::BIGINT AS suspect, sum(p.locked_records)::BIGINT AS locked_records, bool_or(p.marked) AS marked,
        any_value(p.from_kind) AS from_kind, any_value(p.from_time) AS from_time, any_value(p.reason) AS reason,
        any_value(p.who) AS who, any_value(p.declared_at) AS declared_at, sum(p.after_fault)::BIGINT AS after_fault,
        sum(p.order_unknown)::BIGINT AS order_unknown,
        coalesce(min(p.exit_code) FILTER (p.exit_code <> 0), max(p.exit_code)) AS exit_code,
        -- In the order of the view: what helps most comes first.
        coalesce(max(p.would_help) FILTER (p.would_help LIKE 'set %'), max(p.would_help) FILTER (p.would_help LIKE '%time stamp%'),
            max(p.would_help) FILTER (p.would_help <> ''), '') AS would_help,
        arg_min(coalesce(o.kept_rec_id, p.first_fault_rec_id), (o.place, p.part_store)) FILTER (p.first_fault_rec_id IS NOT NULL)
            AS first_fault_rec_id,
        arg_min(coalesce(o.kept_store, p.part_store), (o.place, p.part_store)) FILTER (p.first_fault_rec_id IS NOT NULL)
            AS first_fault_origin,
        -- Numbers of the store that names the first one: they mean nothing beside those of another.
        arg_min(p.first_fault_candidates, (o.place, p.part_store)) FILTER (p.first_fault_rec_id IS NOT NULL) AS first_fault_candidates
    FROM part_attempts p
    LEFT JOIN i_order o ON o.part_store = p.part_store AND o.rec_id = p.first_fault_rec_id AND o.run_id = p.run_id
    GROUP BY p.run_id, p.attempt
)
SELECT a.run_id, a.attempt, a.locked, a.first_fault_rec_id, a.last_step, a.last_event_at, a.last_observed_at, a.mismatches,
    a.admissible, a.suspect, a.locked_records, coalesce(c.faults, 0) AS faults, a.marked, a.from_kind, a.from_time, a.reason, a.who,
    a.declared_at, coalesce(c.locking_faults, 0) AS locking_faults, a.first_fault_candidates, a.after_fault, a.order_unknown,
    a.would_help, coalesce(c.remote_faults, 0) AS remote_faults, a.first_fault_origin, coalesce(y.why, '') AS first_fault_why,
    a.exit_code
FROM added a LEFT JOIN counted c ON c.run_id = a.run_id AND c.attempt = a.attempt
LEFT JOIN i_first_why y ON y.run_id = a.run_id AND y.attempt = a.attempt
