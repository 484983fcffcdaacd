-- Where records can stand, with the thresholds that they are compared with, and what people said of the run and attempt.
-- Places are some thousands, records millions: what a record is joined with has its key here, NULL where there is nothing.
CREATE OR REPLACE VIEW i_stand AS
SELECT l.* REPLACE (least(l.lock_slo, u.lock_slo) AS lock_slo), EXISTS (
    SELECT 1 FROM i_mark m
    WHERE m.scope <> 'record' AND m.verdict = 'inconclusive' AND NOT m.retracted AND m.run_id = l.run_id
      AND (m.scope = 'run' OR m.attempt = l.lo_attempt)
) AS place_marked,
    coalesce(u.locking > 0, false) AS u_locks, u.lo_us AS u_lo_us, u.slo AS u_slo, u.void_lo AS u_void_lo,
    u.void_hi AS u_void_hi,
    coalesce(o.zone, g.zone) AS f_zone,
    CASE WHEN s.console THEN 'console' ELSE coalesce(s.kind, 'file') END AS source_kind,
    v.voice, n.zone AS told_zone, EXISTS (SELECT 1 FROM i_in_force f WHERE f.run_id = l.run_id) AS told_of_run
FROM i_lock l
LEFT JOIN b_source s ON s.source_id = l.source_id
LEFT JOIN i_unheard u ON u.run_id = l.run_id AND u.attempt = l.lo_attempt
LEFT JOIN i_finding_zone o ON o.run_id = l.run_id AND o.attempt = l.lo_attempt AND o.own = l.source_id
LEFT JOIN i_finding_zone g ON g.run_id = l.run_id AND g.attempt = l.lo_attempt AND g.own = 0
LEFT JOIN i_voice v ON v.source_id = l.source_id AND v.generation = l.generation AND v.proc = l.proc
LEFT JOIN (SELECT DISTINCT run_id, attempt, zone FROM i_in_force) n ON n.run_id = l.run_id AND n.attempt = l.lo_attempt;
