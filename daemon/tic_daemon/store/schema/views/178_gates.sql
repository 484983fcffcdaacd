-- What of the ledger's evidence is current, and how the gates of each candidate stand. Nothing here can be set by hand: a cell
-- follows from what was compared, measured and seen, and people can only lower it.

-- Each piece of evidence with the comparison that it is of, also if that was made anew since.
CREATE OR REPLACE VIEW i_evidence AS
WITH one AS (SELECT id, max(rec_id) AS rec_id FROM b_comparison GROUP BY id)
SELECT e.rec_id, e.id, e.candidate, e.run_id, e.step, e.policy, e.workload, e.criterion, e.label, e.reason, e.target, e.manifest_sha256,
    e.policy_content_id, e.receipt_sha256, e.artifacts, e.body, e.gate, e.cell, e.attempt, e.said_at, e.observed_at, c.id AS comparison, c.host AS made_on, c.goal, c.manifest,
    c.intervention, c.scope, c.valid_tokens, c.mismatched_tokens, c.independent_sequences, c.comparator, c.side_a, c.sha256_a, c.side_b,
    c.sha256_b, c.produced_a, c.produced_how_a, c.producer_host_a, c.producer_pid_a, c.produced_b, c.produced_how_b, c.producer_host_b,
    c.producer_pid_b
FROM b_ledger_row e
LEFT JOIN one o ON o.id = e.target
LEFT JOIN b_comparison c ON c.rec_id = o.rec_id
WHERE e.kind = 'evidence';

CREATE OR REPLACE VIEW i_evidence_standing AS
WITH made AS MATERIALIZED (
    SELECT rec_id AS key, run_id, step, produced_a, produced_how_a, producer_host_a, producer_pid_a, produced_b, produced_how_b,
        producer_host_b, producer_pid_b
    FROM i_evidence WHERE gate = ''
),
-- include comparison_standing.sql
SELECT * FROM standing;

CREATE OR REPLACE VIEW evidence_current AS
WITH file AS MATERIALIZED (SELECT * FROM i_comparison_file),
standing AS MATERIALIZED (SELECT * FROM i_evidence_standing),
marked_one AS MATERIALIZED (
    SELECT DISTINCT substr(target, 12) AS id FROM i_mark
    WHERE scope = 'record' AND verdict = 'inconclusive' AND NOT retracted AND starts_with(target, 'comparison:')
),
plane AS (SELECT target, arg_max(plane, (said_at, id)) AS plane FROM b_ledger_row WHERE kind = 'plane' GROUP BY target),
superseded AS MATERIALIZED (SELECT DISTINCT target FROM b_ledger_row WHERE kind = 'supersede'),
replaced AS MATERIALIZED (SELECT DISTINCT criterion FROM b_ledger_row WHERE kind = 'replaced'),
-- What a run shows otherwise than the closure lowers all of its evidence, however late it was seen.
against AS (
    SELECT candidate, run_id, arg_min(reason, (seq, id)) AS why FROM b_ledger_row
    WHERE kind = 'contradiction' AND id NOT IN (SELECT target FROM superseded) GROUP BY candidate, run_id
),
-- Of evidence that is no comparison the newest of what it is of counts: a number that changed is no other run.
latest AS (SELECT max(rec_id) AS rec_id FROM b_ledger_row WHERE kind = 'evidence' AND gate <> '' GROUP BY candidate, gate, cell, target, criterion, attempt),
-- And what its runs are worth now. A fault says nothing of which image ran.
run AS (SELECT run_id, attempt, locked, marked, first_fault_rec_id IS NOT NULL AS faulty FROM attempt_states),
seen AS (
    SELECT e.rec_id, max(e.attempt) AS attempt, bool_or(e.cell <> 'final_image' AND r.locked) AS locked,
        bool_or(e.cell = 'clean_exit' AND r.faulty) AS faulty, bool_or(r.marked) AS marked
    FROM (
        SELECT rec_id, cell, attempt, unnest(coalesce(from_json(body->'$.runs', '["VARCHAR"]'), [run_id])) AS run_id
        FROM i_evidence WHERE gate <> ''
    ) e
    JOIN (SELECT *, attempt = max(attempt) OVER (PARTITION BY run_id) AS latest FROM run) r
        ON r.run_id = e.run_id AND (r.attempt = e.attempt OR (e.attempt IS NULL AND r.latest))
    GROUP BY e.rec_id
),
evidence AS MATERIALIZED (
    SELECT e.* EXCLUDE (attempt), coalesce(s.attempt, o.attempt) AS made_in,
        CASE WHEN e.gate = '' THEN s.admissibility WHEN o.locked THEN 'locked' WHEN o.faulty THEN 'suspect' ELSE 'admissible' END AS admissibility,
        -- Bytes that changed since take a PASS away; a FAIL stands: else it could be got rid of by touching a file.
        CASE WHEN s.admissibility <> 'admissible' THEN s.admissibility || ': ' || s.why
             WHEN o.locked THEN 'locked: a fault stands before it'
             WHEN o.faulty THEN 'fault: ' || e.reason
             WHEN o.marked OR s.marked OR e.comparison IN (SELECT id FROM marked_one) THEN 'marked inconclusive'
             WHEN k.why IS NOT NULL THEN 'another candidate: ' || k.why
             WHEN json_extract_string(e.body, '$.contradicts[0]') IS NOT NULL
             THEN 'another candidate: ' || json_extract_string(e.body, '$.contradicts[0]')
             WHEN e.label IN ('INVALID', 'VACUOUS') THEN e.label || ': ' || e.reason
             WHEN e.gate <> '' THEN CASE WHEN e.label = '' THEN e.reason ELSE '' END
             WHEN e.label = 'PASS' AND e.comparison IS NULL THEN 'its comparison is not in this store'
             WHEN e.label = 'PASS' AND (a.state NOT IN ('verified', 'recorded') OR a.sha256 <> e.sha256_a) THEN 'file A is ' || a.state || ' since'
             WHEN e.label = 'PASS' AND (b.state NOT IN ('verified', 'recorded') OR b.sha256 <> e.sha256_b) THEN 'file B is ' || b.state || ' since'
             WHEN e.label = 'PASS' AND x.changed <> '' THEN x.changed
             WHEN e.label = 'PASS' AND e.manifest = '' THEN 'no manifest names its files'
             WHEN e.label = '' THEN e.reason
             WHEN e.label = 'PASS' AND NOT coalesce(s.known, false) THEN 'no log of its run was read'
             WHEN e.label = 'PASS' AND e.intervention IS NULL THEN 'intervention not stated'
             WHEN e.intervention <> 'none' THEN 'intervention ' || e.intervention
             WHEN e.scope <> 'fixed-input' THEN 'scope ' || e.scope
             ELSE '' END AS not_because,
        p.plane AS said_plane
    FROM i_evidence e
    LEFT JOIN standing s ON s.key = e.rec_id
    LEFT JOIN seen o ON o.rec_id = e.rec_id
    LEFT JOIN against k ON k.candidate = e.candidate AND k.run_id = e.run_id
    LEFT JOIN plane p ON p.target = e.id
    LEFT JOIN file a ON a.host = e.made_on AND a.path = e.side_a
    LEFT JOIN file b ON b.host = e.made_on AND b.path = e.side_b
    LEFT JOIN i_comparison_beside x ON x.host = e.made_on AND x.comparison_id = e.target
    -- What a later row answers, or a changed criterion, stays in the ledger and leaves the current table.
    WHERE e.id NOT IN (SELECT target FROM superseded) AND e.criterion NOT IN (SELECT criterion FROM replaced)
      AND (e.gate = '' OR e.rec_id IN (SELECT rec_id FROM latest))
)
SELECT e.id, e.rec_id, e.candidate AS candidate_id, coalesce(nullif(e.gate, ''), c.gate) AS gate,
    CASE WHEN e.gate <> '' THEN e.cell WHEN c.gate = 'per_version' THEN nullif(e.policy, '') ELSE c.cell END AS cell,
    nullif(e.run_id, '') AS run_id, e.made_in AS attempt, e.step, nullif(e.policy, '') AS policy, nullif(e.workload, '') AS workload,
    nullif(e.criterion, '') AS criterion_id, nullif(e.goal, '') AS goal, nullif(e.label, '') AS label,
    CASE WHEN e.not_because <> '' THEN 'inconclusive' WHEN e.label = 'PASS' THEN 'pass' WHEN e.label = 'FAIL' THEN 'fail'
         ELSE 'inconclusive' END AS state,
    CASE WHEN e.not_because <> '' THEN e.not_because ELSE e.reason END AS reason,
    coalesce(e.said_plane, CASE WHEN e.admissibility <> 'admissible' THEN 'environment' WHEN e.label = 'FAIL' AND e.cell <> 'clean_exit' THEN 'numerical' END) AS plane,
    CASE WHEN e.gate = '' THEN e.target END AS comparison_id, e.valid_tokens, e.mismatched_tokens, e.independent_sequences, e.comparator,
    nullif(e.manifest_sha256, '') AS manifest_sha256, nullif(e.policy_content_id, '') AS policy_content_id,
    nullif(e.receipt_sha256, '') AS receipt_sha256, e.artifacts, e.said_at, e.observed_at
FROM evidence e
LEFT JOIN criteria c ON c.criterion_id = e.criterion
-- A failure of the control plane gives way to what a newer acceptor reads in the same files by the same criterion: the same one, asked again
-- after somebody changed what is said of the files, is no recovery.
WHERE NOT (coalesce(e.said_plane = 'control', false) AND EXISTS (
    SELECT 1 FROM evidence r
    WHERE r.candidate = e.candidate AND r.criterion = e.criterion AND r.sha256_a = e.sha256_a AND r.sha256_b = e.sha256_b AND r.comparator > e.comparator
      AND (r.said_at, r.id) > (e.said_at, e.id)));

CREATE OR REPLACE VIEW gates AS
-- include gates.sql
;
