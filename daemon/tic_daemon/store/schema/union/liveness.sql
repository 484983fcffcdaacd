-- What moved last over all stores, and the verdict on that, as in each store (views/160_sources.sql).
WITH moved AS (
    SELECT run_id, max(worker_at) AS worker_at, max(console_at) AS console_at, max(step_at) AS step_at,
        max(checkpoint_at) AS checkpoint_at, max(last_step) AS last_step, bool_and(verdict = 'ended') AS gone,
        coalesce(greatest(max(worker_at), max(step_at)), max(console_at)) AS work_at, getvariable('now')::TIMESTAMP AS now
    FROM part_liveness GROUP BY run_id
)
SELECT run_id,
    CASE WHEN gone THEN 'ended'
         WHEN now - work_at <= INTERVAL 60 SECOND THEN
             CASE WHEN console_at IS NOT NULL AND now - console_at > INTERVAL 60 SECOND THEN 'console only silent' ELSE 'moving' END
         WHEN now - greatest(work_at, console_at) <= INTERVAL 15 MINUTE THEN 'quiet'
         ELSE 'silent everywhere' END AS verdict,
    worker_at, console_at, step_at, checkpoint_at, last_step,
    CASE WHEN greatest(worker_at, console_at, step_at) IS NULL THEN 'nothing'
         WHEN step_at = greatest(worker_at, console_at, step_at) THEN 'step'
         WHEN worker_at = greatest(worker_at, console_at, step_at) THEN 'worker log' ELSE 'console' END AS moved_last
FROM moved
