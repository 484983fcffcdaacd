-- The evidence ledger: one chain of rows, append-only. Fields: tic_daemon/ledger/entries.py `Entry` and chain.py `Link`.
-- `row_hash` covers all columns but rec_id and observed_at, and the hash of the row before: `tic-daemon verify` walks it.
CREATE TABLE ledger_row (
    rec_id BIGINT, id VARCHAR, kind VARCHAR, said_at TIMESTAMP, who VARCHAR, host VARCHAR,
    candidate VARCHAR, run_id VARCHAR, attempt INTEGER, step BIGINT, gate VARCHAR, cell VARCHAR, policy VARCHAR,
    workload VARCHAR, criterion VARCHAR, label VARCHAR, reason VARCHAR, plane VARCHAR,
    target VARCHAR,             -- the row, candidate or criterion that it is about besides its own
    -- Manifest version, weight content, run artifact: three questions, never compared with each other.
    manifest_sha256 VARCHAR, policy_content_id VARCHAR, receipt_sha256 VARCHAR,
    artifacts VARCHAR, body VARCHAR, -- canonical JSON
    seq BIGINT, prev_hash VARCHAR, row_hash VARCHAR,
    observed_at TIMESTAMP
);
