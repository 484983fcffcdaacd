-- Where records can stand, with the thresholds that they are compared with, and what people said of the run and attempt.
CREATE OR REPLACE VIEW i_stand AS
SELECT l.*, EXISTS (
    SELECT 1 FROM i_mark m
    WHERE m.scope <> 'record' AND m.verdict = 'inconclusive' AND NOT m.retracted AND m.run_id = l.run_id
      AND (m.scope = 'run' OR m.attempt = l.lo_attempt)
) AS place_marked
FROM i_lock l;
