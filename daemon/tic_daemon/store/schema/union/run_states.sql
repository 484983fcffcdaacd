-- One row a run. The newest attempt that any store knows counts, in all of them.
WITH newest AS (
    SELECT *, max(attempt) OVER (PARTITION BY run_id) AS newest FROM part_run_states
),
whole AS (
    SELECT n.run_id, max(n.newest) AS attempt, bool_and(n.state = 'unreadable') AS unreadable, bool_and(n.state = 'ended') AS gone,
        coalesce(bool_or(n.locked) FILTER (n.attempt = n.newest), false) AS locked,
        coalesce(bool_or(n.marked) FILTER (n.attempt = n.newest), false) AS marked,
        arg_min(coalesce(o.kept_rec_id, n.first_fault_rec_id), (o.place, n.part_store))
            FILTER (n.attempt = n.newest AND n.first_fault_rec_id IS NOT NULL) AS first_fault_rec_id,
        arg_min(coalesce(o.kept_store, n.part_store), (o.place, n.part_store))
            FILTER (n.attempt = n.newest AND n.first_fault_rec_id IS NOT NULL) AS first_fault_origin,
        bool_and(n.named_by_us) AS named_by_us, sum(n.sources)::BIGINT AS sources, max(n.last_growth_at) AS last_growth_at
    FROM newest n
    LEFT JOIN i_order o ON o.part_store = n.part_store AND o.rec_id = n.first_fault_rec_id AND o.run_id = n.run_id
    GROUP BY n.run_id
),
acting AS (
    -- For each attempt that it acts on, as in a store.
    SELECT w.run_id, sum(least(f.last_attempt, w.attempt) - f.attempt + 1)::BIGINT AS faults,
        sum(least(f.last_attempt, w.attempt) - f.attempt + 1) FILTER (f.origin_store_id IS NOT NULL)::BIGINT AS remote_faults
    FROM whole w JOIN i_acting f ON f.run_id = w.run_id AND f.attempt <= w.attempt GROUP BY w.run_id
)
SELECT w.run_id, w.attempt,
    -- As in each store (views/150_runs.sql), of the logs of all.
    CASE WHEN w.unreadable THEN 'unreadable' WHEN w.gone THEN 'ended'
         WHEN w.last_growth_at IS NULL OR getvariable('now')::TIMESTAMP - w.last_growth_at > INTERVAL 15 MINUTE THEN 'silent'
         WHEN getvariable('now')::TIMESTAMP - w.last_growth_at > INTERVAL 60 SECOND THEN 'quiet' ELSE 'moving' END AS state,
    w.locked, w.first_fault_rec_id, coalesce(a.faults, 0) AS faults, w.marked, w.named_by_us, w.sources, w.last_growth_at,
    coalesce(a.remote_faults, 0) AS remote_faults, w.first_fault_origin
FROM whole w LEFT JOIN acting a ON a.run_id = w.run_id
