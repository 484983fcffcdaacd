-- W&B: histories from local logs and through the API, runs, readings, uploads. Event tables as in 001_tables.sql; meaning of
-- the columns: tic_daemon/wandb/events.py. The source is of kind `wandb_local` or `wandb_api`.

-- `stamp` is the row's `_timestamp`, UTC; `step` its training step where that was known when it was read. What both kinds of
-- source give is in neither table twice: a row that a later reading brings again is not stored again (wandb_read.seen).
CREATE TABLE wandb_row (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    wandb_step BIGINT, row_no BIGINT, writer VARCHAR, keys BIGINT, digest VARCHAR, read_id VARCHAR
);

-- The values of wandb_row, one row a key: `row_id` is its rec_id.
--   value       as a double; NULL where it is no number
--   value_text  what the double does not say: digits of an integer that no double holds, text, JSON; NULL if nothing
--   kind        number | int | nan | inf | -inf | null | bool | text | media | json
CREATE TABLE wandb_value (
    row_id BIGINT, key VARCHAR, value DOUBLE, value_text VARCHAR, kind VARCHAR, observed_at TIMESTAMP
);

-- The newest row of a source counts.
CREATE TABLE wandb_run (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    run_path VARCHAR, wandb_id VARCHAR, entity VARCHAR, project VARCHAR, name VARCHAR, mode VARCHAR, directory VARCHAR,
    writer VARCHAR, started_at TIMESTAMP, starting_step BIGINT, state VARCHAR, exit_code BIGINT, runtime_s DOUBLE,
    config VARCHAR, summary VARCHAR, client_version VARCHAR, framework VARCHAR, git_commit VARCHAR, synced BOOLEAN
);

CREATE TABLE wandb_read (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    read_id VARCHAR, run_path VARCHAR, began_at TIMESTAMP, took_s DOUBLE, client_version VARCHAR, page_size BIGINT,
    first_step BIGINT, last_step BIGINT, rows BIGINT, history_line_count BIGINT, last_history_step BIGINT, seen VARCHAR,
    outcome VARCHAR, detail VARCHAR, who VARCHAR
);

CREATE TABLE wandb_upload (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    directory VARCHAR, wandb_id VARCHAR, state VARCHAR, history_offset BIGINT, history_lines BIGINT, status BIGINT,
    dropped_step BIGINT, current_step BIGINT, detail VARCHAR
);
