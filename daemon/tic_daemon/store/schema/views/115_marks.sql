-- What a person's marks say now: a mark stands unless a later row retracts its id.
CREATE OR REPLACE VIEW i_mark AS
SELECT m.rec_id, m.id, m.run_id, m.attempt, m.scope, m.target, m.verdict, m.reason, m.who, m.marked_at, m.host, m.observed_at,
    EXISTS (SELECT 1 FROM b_mark r WHERE r.verdict = 'retract' AND r.target = m.id) AS retracted
FROM b_mark m;

CREATE OR REPLACE VIEW marks AS
SELECT m.rec_id, m.id, m.run_id, m.attempt, m.scope, m.target, m.verdict, m.reason, m.who, m.marked_at, m.retracted, m.host
FROM i_mark m;

