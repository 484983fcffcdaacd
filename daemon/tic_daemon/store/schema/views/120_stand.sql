-- Where records can stand, with the thresholds that they are compared with, and what people said of the run and attempt.
CREATE OR REPLACE VIEW i_stand AS
SELECT l.* REPLACE (least(l.lock_slo, u.lock_slo) AS lock_slo), EXISTS (
    SELECT 1 FROM i_mark m
    WHERE m.scope <> 'record' AND m.verdict = 'inconclusive' AND NOT m.retracted AND m.run_id = l.run_id
      AND (m.scope = 'run' OR m.attempt = l.lo_attempt)
) AS place_marked,
    coalesce(u.locking > 0, false) AS u_locks, u.lo_us AS u_lo_us, u.slo AS u_slo, u.void_lo AS u_void_lo,
    u.void_hi AS u_void_hi
FROM i_lock l LEFT JOIN i_unheard u ON u.run_id = l.run_id AND u.attempt = l.lo_attempt;
