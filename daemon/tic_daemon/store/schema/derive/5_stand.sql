-- Where records can stand: see ../../derive.py. All that one is compared with and that follows from its place alone, in one row,
-- because a view that joins five small tables for it takes longer to plan than to run.

-- One row for every place and `code` (2_lock.sql): the thresholds of the lock, whose voice it is (4_in_force.sql), and
--   f_zone      the findings that it is held against (3_state.sql); NULL: none
--   told_zone   of the states in force by time of the run and attempt; NULL: nobody told
--   told_of_run others told of theirs, in some attempt of the run
CREATE OR REPLACE TEMP TABLE t_stand AS
WITH told AS MATERIALIZED (SELECT DISTINCT run_id, attempt, zone FROM t_in_force)
SELECT l.*, coalesce(o.zone, g.zone) AS f_zone,
    CASE WHEN s.console THEN 'console' ELSE coalesce(s.kind, 'file') END AS source_kind,
    v.voice, n.zone AS told_zone, l.run_id IN (SELECT run_id FROM told) AS told_of_run
FROM t_lock_ l
LEFT JOIN b_source s ON s.source_id = l.source_id
LEFT JOIN t_finding_zone o ON o.run_id = l.run_id AND o.attempt = l.lo_attempt AND o.own = l.source_id
LEFT JOIN t_finding_zone g ON g.run_id = l.run_id AND g.attempt = l.lo_attempt AND g.own = 0
LEFT JOIN t_voice v ON v.source_id = l.source_id AND v.generation = l.generation AND v.proc = l.proc
LEFT JOIN told n ON n.run_id = l.run_id AND n.attempt = l.lo_attempt;
