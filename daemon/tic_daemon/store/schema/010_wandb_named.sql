-- W&B runs that lines of logs name. An event table as in 001_tables.sql; meaning of the columns: scan/events.py WandbNamed.
CREATE TABLE wandb_named (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    run_path VARCHAR, url VARCHAR, rule VARCHAR
);
