-- The verdict on what moved last, of one store or of several: table `moved` holds a row a run.
worked AS (
    SELECT *,
        coalesce(greatest(worker_at, step_at, checkpoint_at), console_at) AS work_at, greatest(worker_at, step_at, checkpoint_at, console_at) AS any_at,
        coalesce(epoch(now - step_at) > greatest(5 * step_usual_s, 300), false) AS no_step
    FROM moved
),
judged AS (
    SELECT *,
        CASE WHEN gone THEN 'ended'
             WHEN now - work_at <= INTERVAL 60 SECOND AND no_step AND coalesce(now - checkpoint_at > INTERVAL 60 SECOND, true) THEN 'quiet'
             WHEN now - work_at <= INTERVAL 60 SECOND THEN
                 CASE WHEN now - console_at > INTERVAL 60 SECOND THEN 'console only silent' ELSE 'moving' END
             WHEN epoch(now - any_at) <= greatest(2 * step_usual_s, 900) THEN 'quiet'
             ELSE 'silent everywhere' END AS verdict,
        CASE WHEN any_at IS NULL THEN 'nothing' WHEN step_at = any_at THEN 'step' WHEN checkpoint_at = any_at THEN 'checkpoint'
             WHEN worker_at = any_at THEN 'worker log' ELSE 'console' END AS moved_last,
        [CASE WHEN s < 0 THEN '0 s' WHEN s < 90 THEN round(s)::BIGINT || ' s' WHEN s < 5400 THEN round(s / 60)::BIGINT || ' min'
              WHEN s < 172800 THEN round(s / 3600)::BIGINT || ' h' ELSE round(s / 86400)::BIGINT || ' days' END
         FOR s IN [epoch(now - any_at), epoch(now - step_at), step_usual_s, epoch(now - console_at), epoch(now - rollout_at)]] AS ages
    FROM worked
)
SELECT run_id, verdict, worker_at, console_at, step_at, checkpoint_at, last_step, moved_last,
    CASE WHEN verdict = 'ended' THEN 'all its logs are gone'
         WHEN any_at IS NULL THEN 'nothing has moved yet'
         WHEN now - work_at <= INTERVAL 60 SECOND AND no_step
         THEN 'logs move, no step has ended for ' || ages[2] || ', usual ' || ages[3]
         WHEN verdict = 'console only silent'
         THEN 'the ' || moved_last || ' moved ' || ages[1] || ' ago, the console has been silent for ' || ages[4]
             || ': a console is a forwarded copy'
         WHEN verdict = 'moving' THEN 'the ' || moved_last || ' moved ' || ages[1] || ' ago'
         ELSE 'nothing has moved for ' || ages[1] || ', the ' || moved_last || ' last'
             || coalesce('; a step usually takes ' || ages[3], '') END
        || CASE WHEN now - rollout_at > INTERVAL 60 SECOND AND verdict <> 'ended'
                THEN '; rollout logs have been silent for ' || ages[5] || ', as those of an engine without requests are'
                ELSE '' END AS why,
    rollout_at, step_usual_s
FROM judged
