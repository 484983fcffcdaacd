-- What a person's marks say now: a mark stands unless a later row retracts its id.
CREATE OR REPLACE VIEW i_mark AS
SELECT m.rec_id, m.id, m.run_id, m.attempt, m.scope, m.target, m.verdict, m.reason, m.who, m.marked_at, m.host, m.observed_at,
    coalesce(m.id IN (SELECT r.target FROM b_mark r WHERE r.verdict = 'retract' AND r.target IS NOT NULL), false) AS retracted
FROM b_mark m;

-- What is doubted by the mark of a person: attempts, and whole runs.
CREATE OR REPLACE VIEW i_doubted AS
SELECT run_id, attempt, scope = 'run' AS of_run FROM i_mark
WHERE scope <> 'record' AND verdict = 'inconclusive' AND NOT retracted AND run_id IS NOT NULL AND (scope = 'run' OR attempt IS NOT NULL);

CREATE OR REPLACE VIEW marks AS
SELECT m.rec_id, m.id, m.run_id, m.attempt, m.scope, m.target, m.verdict, m.reason, m.who, m.marked_at, m.retracted, m.host
FROM i_mark m;

