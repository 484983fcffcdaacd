-- What moved last over all stores, and the verdict on that, as in each store.
WITH ended AS (
    SELECT run_id, step, min(observed_at) AS observed_at FROM part_step_ends GROUP BY run_id, step
),
step AS (
    SELECT run_id, median(took) FILTER (nth <= 20 AND took > 0) AS step_usual_s
    FROM (SELECT *, epoch(observed_at - lag(observed_at) OVER (PARTITION BY run_id ORDER BY observed_at, step)) AS took,
            row_number() OVER (PARTITION BY run_id ORDER BY observed_at DESC, step DESC) AS nth FROM ended)
    GROUP BY run_id
),
moved AS (
    SELECT p.*, s.step_usual_s, getvariable('now')::TIMESTAMP AS now
    FROM (
        SELECT run_id, max(worker_at) AS worker_at, max(console_at) AS console_at, max(step_at) AS step_at,
            max(last_step) AS last_step, max(checkpoint_at) AS checkpoint_at, max(rollout_at) AS rollout_at,
            bool_and(verdict = 'ended') AS gone
        FROM part_liveness GROUP BY run_id
    ) p LEFT JOIN step s ON s.run_id = p.run_id
),
-- include liveness.sql
