-- Results directories (sources/results.py). Append-only: of one key (host and path, and what is named) the row with the
-- greatest rec_id counts. `run_how`: config | manifest | meta | path; '' if nobody names the run.

-- Manifests, prime-rl's STABLE, and .meta.json sidecars, as they were read.
CREATE TABLE result_file (
    rec_id BIGINT, host VARCHAR, root VARCHAR, path VARCHAR,
    kind VARCHAR,               -- manifest | stable | meta
    digest VARCHAR,             -- SHA-256 of the file
    run VARCHAR, run_how VARCHAR, step BIGINT, policy VARCHAR, input_sha256 VARCHAR,
    valid BIGINT, hooks BIGINT, -- valid tokens or samples, executions of hooks: as it says
    command VARCHAR, code VARCHAR, image VARCHAR,
    entries BIGINT,             -- artifacts that it names
    modified_at TIMESTAMP,
    present BOOLEAN,            -- false: it was there and is gone
    observed_at TIMESTAMP
);

-- Files that a manifest names, and how each one looked when it changed.
CREATE TABLE artifact (
    rec_id BIGINT, host VARCHAR, root VARCHAR, manifest VARCHAR, path VARCHAR, name VARCHAR,
    run VARCHAR, run_how VARCHAR, step BIGINT, policy VARCHAR,
    expected_size BIGINT, expected_sha256 VARCHAR, -- as the manifest says; NULL and '': it does not
    bytes_size BIGINT, sha256 VARCHAR,             -- as it is; '' if it was not hashed
    kept_sha256 VARCHAR,        -- that it was verified or recorded with; '' if it never was
    modified_at TIMESTAMP,
    stamp VARCHAR,              -- device, inode, size and times when it was looked at: the key of the hash
    state VARCHAR,              -- results/judge.py
    why VARCHAR,
    named BOOLEAN,              -- false: its manifest names it no more, or is gone
    observed_at TIMESTAMP
);

-- What else is wrong with results. `present` false: it is over.
CREATE TABLE result_gap (
    rec_id BIGINT, host VARCHAR, root VARCHAR, path VARCHAR, kind VARCHAR,
    subject VARCHAR,            -- what in the file it is about; '' the whole
    run VARCHAR, detail VARCHAR, present BOOLEAN, observed_at TIMESTAMP
);
