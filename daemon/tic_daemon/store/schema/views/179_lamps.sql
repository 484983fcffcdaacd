-- Three lamps a run, none of which stands for another: whether it ended well, whether its numbers agree, whether a held-out score
-- was judged. What nothing shows is `not run`.

CREATE OR REPLACE VIEW lamps AS
WITH store AS (SELECT store_id AS store FROM b_store),
run AS MATERIALIZED (SELECT run_id, attempt, state, locked, marked, first_fault_rec_id FROM run_states),
-- Whether the latest attempt ended well. Only an exit code that its processes told passes, and only with no fault beside it.
exit AS MATERIALIZED (SELECT * FROM i_wandb_exit),
fault AS (
    SELECT f.rec_id, coalesce(r.title, f.kind) AS title FROM b_fault f LEFT JOIN b_fault_rule r ON r.kind = f.kind
    WHERE f.rec_id IN (SELECT first_fault_rec_id FROM run)
    UNION ALL
    SELECT f.rec_id, coalesce(r.title, f.title) FROM b_remote_fault f LEFT JOIN b_fault_rule r ON r.kind = f.kind
    WHERE f.rec_id IN (SELECT first_fault_rec_id FROM run)
),
told AS (
    SELECT s.run_id, s.attempt, s.state AS moves, s.locked, s.marked, x.exit_code, s.first_fault_rec_id IS NOT NULL AS faulty,
        coalesce(f.title, 'a fault') AS fault, b.before
    FROM run s
    LEFT JOIN exit x ON x.run_id = s.run_id AND x.attempt = s.attempt
    LEFT JOIN (SELECT o.run_id, max(o.attempt) AS before FROM exit o JOIN run r ON r.run_id = o.run_id AND o.attempt < r.attempt GROUP BY o.run_id) b ON b.run_id = s.run_id
    LEFT JOIN fault f ON f.rec_id = s.first_fault_rec_id
),
execution AS (
    SELECT run_id, attempt,
        CASE WHEN locked OR faulty THEN 'inconclusive' WHEN exit_code IS NULL THEN 'not run' WHEN marked THEN 'inconclusive'
             WHEN exit_code <> 0 THEN 'fail' WHEN moves = 'moving' THEN 'not run' ELSE 'pass' END AS state,
        NOT locked AND NOT faulty AND exit_code IS NULL AND before IS NOT NULL AS stale,
        CASE WHEN locked THEN 'locked: ' || fault
             WHEN faulty THEN 'fault: ' || fault || coalesce('; exit code ' || exit_code, '')
             WHEN exit_code IS NULL THEN CASE WHEN before IS NOT NULL THEN 'stale: attempt ' || before || ' ended, attempt ' || attempt || ' has not'
                 WHEN moves IN ('moving', 'quiet') THEN 'it has not ended' ELSE 'nothing shows how it ended' END
             WHEN marked THEN 'marked inconclusive'
             WHEN exit_code <> 0 THEN 'exit code ' || exit_code
             WHEN moves = 'moving' THEN 'exit code 0, and its logs still grow'
             ELSE 'exit code 0, and no fault' END AS because
    FROM told
),
-- include lamps.sql
;
