-- A step as each kind of source first showed it, in any store.
SELECT run_id, attempt, step, source_kind, min(first_observed_at) AS first_observed_at, min(first_event_at) AS first_event_at,
    bool_or(ended) AS ended
FROM part_steps GROUP BY run_id, attempt, step, source_kind
