-- What the daemons of other nodes said through the workspace's exchange (store/exchange.py). Append-only, as all event
-- tables. Of what is said of one thing the row with the greatest revision counts; `gone` takes it back.

-- A confirmed fault in a log of another store, with the bounds that its own daemon derived.
CREATE TABLE remote_fault (
    rec_id BIGINT,                -- of this row. A fault is called by the rec_id of the first row about it
    origin_store_id VARCHAR, origin_rec_id BIGINT, revision BIGINT, gone BOOLEAN,
    run_id VARCHAR, run_how VARCHAR, root VARCHAR,
    lo_attempt BIGINT, hi_attempt BIGINT,
    known_attempts BIGINT,        -- the latest attempt of the run that its daemon knew
    host VARCHAR, path VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT, line_no BIGINT,
    inode BIGINT, network BOOLEAN, console BOOLEAN,
    writer VARCHAR,               -- the process that wrote it, as its store calls it; '' unknown
    proc VARCHAR, actor VARCHAR, pid BIGINT, proc_rank INTEGER,
    kind VARCHAR, severity VARCHAR, locks VARCHAR, node_scope BOOLEAN, title VARCHAR, -- of its daemon's rules
    mapped BOOLEAN,               -- false: a kernel line whose GPU no run of its store is known to use
    locking BOOLEAN,
    text VARCHAR, code VARCHAR, bus VARCHAR, node VARCHAR, raw VARCHAR,
    step BIGINT, exact BOOLEAN,   -- exact: the step is its own, and steps elsewhere bound it no further
    lo_us BIGINT, hi_us BIGINT,   -- microseconds since 1970, UTC; NULL: open
    slo BIGINT, shi BIGINT,       -- steps; NULL: open
    line_slo BIGINT, line_shi BIGINT, -- of the line alone, without the steps of its attempt
    event_at TIMESTAMP,
    told_at TIMESTAMP,            -- when its daemon stored it
    observed_at TIMESTAMP
);

-- What another store knows of its runs: what `what` says.
--   run     a run that configuration, a record or a path names, and under which watched root
--   device  a GPU that processes of the run use: `node` is a host that the line names or stands on
--   began   when the attempt began, UTC
CREATE TABLE remote_place (
    rec_id BIGINT, origin_store_id VARCHAR, revision BIGINT, gone BOOLEAN, what VARCHAR,
    run_id VARCHAR, host VARCHAR, root VARCHAR, lo_attempt BIGINT, hi_attempt BIGINT, node VARCHAR, bus VARCHAR,
    began_us BIGINT, observed_at TIMESTAMP
);

-- What of the exchange could not be read or understood, or not be told to the others.
CREATE TABLE remote_gap (
    rec_id BIGINT, kind VARCHAR, path VARCHAR, first_byte BIGINT, last_byte BIGINT, detail VARCHAR, observed_at TIMESTAMP
);
