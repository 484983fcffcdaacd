-- Where records can stand, with the thresholds that they are compared with, and what people said of the run and attempt.
-- Places are some thousands, records millions: what a record is joined with has its key here, NULL where there is nothing.
-- Each column more costs as much as a twentieth of the join: what few readers ask is joined elsewhere.
CREATE OR REPLACE VIEW i_stand AS
SELECT l.*, coalesce(l.run_id IN (SELECT run_id FROM i_doubted WHERE of_run)
    OR (l.run_id, l.lo_attempt) IN (SELECT (run_id, attempt) FROM i_doubted WHERE NOT of_run), false) AS place_marked
FROM i_kept_stand l;
