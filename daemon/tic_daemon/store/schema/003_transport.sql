-- Transports, compilations, the begin of measurements, and the environment. Event tables as in 001_tables.sql.

CREATE TABLE transport (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    what VARCHAR, transport VARCHAR, channel VARCHAR, peer_rank BIGINT, direction VARCHAR, comm VARCHAR, comm_id VARCHAR,
    comm_by VARCHAR, own_rank BIGINT, nranks BIGINT, nnodes BIGINT, mnnvl BOOLEAN, clique_id VARCHAR, clique_size BIGINT,
    rule VARCHAR
);

CREATE TABLE compile_event (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    compiler VARCHAR, what VARCHAR, seconds DOUBLE, stage VARCHAR, rule VARCHAR
);

CREATE TABLE bench_mark (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    what VARCHAR, rule VARCHAR
);

CREATE TABLE env_seen (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    name VARCHAR, value VARCHAR, rule VARCHAR
);
