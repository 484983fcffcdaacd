-- Lines that name a file which their process writes or has written. `kind`: checkpoint | flight_recorder. `edge`: begin | end.
-- `path` as printed, relative to a directory that is not known, or '': not printed. The checkpoint's step is `step`.
CREATE TABLE file_said (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    kind VARCHAR, edge VARCHAR, path VARCHAR, rule VARCHAR
);
