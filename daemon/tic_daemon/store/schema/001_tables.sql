-- Tables, schema version 1. Event tables are append-only: rows are never updated or deleted.
-- No keys, indexes, computed defaults or foreign keys on event tables: see docs/explanation/store.md.
-- Views are the public interface; nothing outside store/ reads these tables.

CREATE TABLE store (
    store_id VARCHAR, schema_version INTEGER, program_version VARCHAR, workspace VARCHAR, host VARCHAR, created_at TIMESTAMP
);

-- A file, W&B run, results directory or GPU. Updated in place; what as-of shows of it comes from `source_change`.
CREATE TABLE source (
    source_id BIGINT PRIMARY KEY, -- 63 bits of sha256(host, kind, path): the same in every store and after every restart
    kind VARCHAR,                 -- file
    host VARCHAR, root VARCHAR, path VARCHAR,
    role VARCHAR,                 -- rollout | trainer | driver | kernel | scheduler | unknown
    framework VARCHAR,            -- ray | torchrun | slurm | kubernetes | plain | ...
    rank INTEGER,                 -- from the path, NULL if it does not tell
    pid BIGINT,                   -- from the path (Ray), NULL if it does not tell
    single_process BOOLEAN,       -- the path or the configuration shows that one process writes this file
    stream VARCHAR,               -- stdout | stderr | '' (both, or unknown)
    console BOOLEAN,              -- a driver's or launcher's console: forwarded copies of other processes' lines
    run_hint VARCHAR, run_how VARCHAR, -- run told by configuration, manifest or path; '' if none
    zone_s INTEGER, zone_how VARCHAR,  -- seconds east of UTC of its naive stamps; NULL unknown; configured | inferred
    network BOOLEAN,              -- read by re-opening polls
    state VARCHAR,                -- growing | idle | rotated | vanished | unreadable
    error VARCHAR, why VARCHAR,   -- last read error; discovery's reasons, for `tic-daemon doctor`
    generation INTEGER, bytes_size BIGINT,
    first_seen_at TIMESTAMP, last_growth_at TIMESTAMP, observed_at TIMESTAMP
);

-- What as-of shows of a source: a row whenever its state or its zone changed.
CREATE TABLE source_change (
    source_id BIGINT, state VARCHAR, error VARCHAR, zone_s INTEGER, generation INTEGER, bytes_size BIGINT, observed_at TIMESTAMP
);

-- How far each generation is read. `state` is the scanner's state there; `prov` the live provisional sequence (below).
CREATE TABLE cursor (
    source_id BIGINT, generation INTEGER,
    byte_offset BIGINT, line_no BIGINT,
    head_len BIGINT, head_hash VARCHAR, tail_hash VARCHAR, -- of its first bytes and of the 64 bytes before the offset
    device BIGINT, inode BIGINT, path VARCHAR, closed BOOLEAN,
    prov BIGINT,
    lines BIGINT, skipped_bytes BIGINT, bad_utf8 BIGINT, capped_lines BIGINT, nul_bytes BIGINT,
    state VARCHAR, observed_at TIMESTAMP,
    PRIMARY KEY (source_id, generation)
);

-- Columns shared by all event tables, in this order: position, writer, bounds. Meaning: scan/events.py `At`.
--   rec_id increases within the store.
--   prov NULL: final. Else the row speaks of a record that is still open or of a line without its newline; it counts
--   only while it equals its cursor's prov, and is followed by a final row at the same offset.
CREATE TABLE mismatch (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    run VARCHAR, input VARCHAR, phase VARCHAR, rank_text VARCHAR, repeat VARCHAR, scope VARCHAR, intervention VARCHAR,
    metric VARCHAR, value DOUBLE, value_text VARCHAR, reference VARCHAR, self_repeat DOUBLE, self_repeat_text VARCHAR,
    report VARCHAR, classification VARCHAR, extra VARCHAR, parse_state VARCHAR, raw VARCHAR
);

CREATE TABLE fault (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    kind VARCHAR, verdict VARCHAR, text VARCHAR, code VARCHAR, bus VARCHAR, node VARCHAR, raw VARCHAR
);

CREATE TABLE step_event (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    edge VARCHAR, gpu BOOLEAN, rule VARCHAR, raw VARCHAR
);

CREATE TABLE metric (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    key VARCHAR, value DOUBLE, value_text VARCHAR, raw VARCHAR
);

CREATE TABLE exec_state (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    role VARCHAR, field VARCHAR, claimed VARCHAR, observed VARCHAR, rule VARCHAR
);

CREATE TABLE weight_phase (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    role VARCHAR, track VARCHAR, phase VARCHAR, level VARCHAR, version VARCHAR, duration_s DOUBLE, rule VARCHAR
);

CREATE TABLE device (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    bus VARCHAR, node VARCHAR
);

CREATE TABLE timing (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    phase VARCHAR, seconds DOUBLE, cold BOOLEAN
);

CREATE TABLE source_run (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    run VARCHAR, how VARCHAR
);

CREATE TABLE process_seen (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP
);

CREATE TABLE stamp_after (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP
);

CREATE TABLE source_gap (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    kind VARCHAR, first_byte BIGINT, last_byte BIGINT, detail VARCHAR
);

-- What a rule's faults do. Replaced when the daemon starts, so that a rule classed anew reaches old rows.
CREATE TABLE fault_rule (
    kind VARCHAR PRIMARY KEY,
    severity VARCHAR,           -- L | LH | N | S | E | I
    locks VARCHAR,              -- always | if_continues | never
    node_scope BOOLEAN,         -- a kernel line: confirmed for a run only if its GPU is mapped to it
    title VARCHAR, pack VARCHAR, product VARCHAR
);

-- What people said, taken in from the spool. `id` makes taking in idempotent.
CREATE TABLE mark (
    rec_id BIGINT, id VARCHAR, run_id VARCHAR, attempt INTEGER, scope VARCHAR, target VARCHAR, verdict VARCHAR,
    reason VARCHAR, who VARCHAR, marked_at TIMESTAMP, host VARCHAR, observed_at TIMESTAMP
);

-- A declared attempt. Its number is its place among the run's declarations, plus one: the undeclared first is 1.
CREATE TABLE run_attempt (
    rec_id BIGINT, id VARCHAR, run_id VARCHAR, from_kind VARCHAR, from_time TIMESTAMP,
    reason VARCHAR, who VARCHAR, declared_at TIMESTAMP, host VARCHAR, observed_at TIMESTAMP
);
-- Its cut: a process belongs to the attempt if its first line in every source stands at or after the source's cut.
-- A source without a row here appeared later: all of it is after the cut.
CREATE TABLE attempt_cut (
    id VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, observed_at TIMESTAMP
);

-- One tick that wrote something: the daemon's own record.
CREATE TABLE ingest (
    tick BIGINT, session VARCHAR, began_at TIMESTAMP, committed_at TIMESTAMP,
    bytes BIGINT, lines BIGINT, events BIGINT, sources BIGINT, lag_us BIGINT, observed_at TIMESTAMP
);
