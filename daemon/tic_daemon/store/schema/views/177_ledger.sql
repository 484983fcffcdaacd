-- The ledger as it stands, and what people declared in it. What is current of the evidence: 178_gates.sql.

-- Each row as its hash covers it; "" is what nobody said.
CREATE OR REPLACE VIEW ledger AS
SELECT r.rec_id, r.seq, r.id, r.kind, r.candidate AS candidate_id, r.run_id, r.attempt, r.step, r.gate, r.cell, r.policy, r.workload,
    r.criterion AS criterion_id, r.label, r.reason, r.plane, r.target, r.manifest_sha256, r.policy_content_id, r.receipt_sha256,
    r.artifacts, r.body, r.who, r.host, r.said_at, r.prev_hash, r.row_hash, s.store_id, r.observed_at
FROM b_ledger_row r CROSS JOIN (SELECT store_id FROM b_store) s;

-- Each criterion once: as the row said that named it first. Proof of order counts from when a daemon had that row.
CREATE OR REPLACE VIEW criteria AS
-- include criteria.sql
;

CREATE OR REPLACE VIEW candidates AS
-- include candidates.sql
;

CREATE OR REPLACE VIEW cases AS
-- include cases.sql
;

CREATE OR REPLACE VIEW baselines AS
-- include baselines.sql
;
