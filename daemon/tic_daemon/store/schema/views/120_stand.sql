-- Where records can stand, with the thresholds that they are compared with, and what people said of the run and attempt.
CREATE OR REPLACE VIEW i_stand AS
SELECT l.* REPLACE (least(l.lock_slo, u.lock_slo) AS lock_slo), EXISTS (
    SELECT 1 FROM i_mark m
    WHERE m.scope <> 'record' AND m.verdict = 'inconclusive' AND NOT m.retracted AND m.run_id = l.run_id
      AND (m.scope = 'run' OR m.attempt = l.lo_attempt)
) AS place_marked,
    coalesce(u.locking > 0, false) AS u_locks, u.lo_us AS u_lo_us, u.slo AS u_slo, u.void_lo AS u_void_lo,
    u.void_hi AS u_void_hi,
    coalesce(o.zone, g.zone) AS f_zone, coalesce(o.findings, g.findings, 0) > 0 AS f_any,
    CASE WHEN o.zone IS NULL THEN g.stepless ELSE o.stepless END AS f_stepless,
    CASE WHEN o.zone IS NULL THEN g.timeless ELSE o.timeless END AS f_timeless,
    CASE WHEN o.zone IS NULL THEN g.step_lo ELSE o.step_lo END AS f_step_lo,
    CASE WHEN o.zone IS NULL THEN g.step_hi ELSE o.step_hi END AS f_step_hi,
    CASE WHEN o.zone IS NULL THEN g.last_us ELSE o.last_us END AS f_last_us,
    CASE WHEN o.zone IS NULL THEN g.words ELSE o.words END AS f_words
FROM i_lock l
LEFT JOIN i_unheard u ON u.run_id = l.run_id AND u.attempt = l.lo_attempt
LEFT JOIN i_finding_zone o ON o.run_id = l.run_id AND o.attempt = l.lo_attempt AND o.own = l.source_id
LEFT JOIN i_finding_zone g ON g.run_id = l.run_id AND g.attempt = l.lo_attempt AND g.own = 0;
