-- Of the newest attempt, and of what its stores say the worst: a fault before all. A run that still moves anywhere has not ended.
WITH store AS (SELECT NULL::VARCHAR AS store),
run AS MATERIALIZED (SELECT run_id, attempt, state, locked, marked FROM run_states),
ended AS (
    SELECT p.*, r.marked AND p.state IN ('pass', 'fail') AS doubted, r.state = 'moving' AND p.state = 'pass' AS moves
    FROM part_lamp_execution p JOIN run r ON r.run_id = p.run_id AND r.attempt = p.attempt
    QUALIFY row_number() OVER (PARTITION BY p.run_id
        ORDER BY CASE p.state WHEN 'inconclusive' THEN 4 WHEN 'fail' THEN 3 WHEN 'pass' THEN 2 ELSE p.stale::INTEGER END DESC, p.part_store) = 1
),
before AS (
    SELECT p.run_id, max(p.attempt) AS attempt FROM part_lamp_execution p JOIN run r ON r.run_id = p.run_id AND p.attempt < r.attempt
    WHERE p.state IN ('pass', 'fail') GROUP BY p.run_id
),
execution AS (
    SELECT e.run_id, e.attempt, CASE WHEN e.doubted THEN 'inconclusive' WHEN e.moves THEN 'not run' ELSE e.state END AS state,
        e.stale OR (e.state = 'not run' AND b.attempt IS NOT NULL) AS stale,
        CASE WHEN e.doubted THEN 'marked inconclusive' WHEN e.moves THEN 'exit code 0, and its logs still grow'
             WHEN e.state = 'not run' AND NOT e.stale AND b.attempt IS NOT NULL THEN 'stale: attempt ' || b.attempt || ' ended, attempt ' || e.attempt || ' has not'
             ELSE e.because END AS because
    FROM ended e LEFT JOIN before b ON b.run_id = e.run_id
),
-- include lamps.sql
