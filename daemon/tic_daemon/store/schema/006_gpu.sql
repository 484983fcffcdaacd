-- GPUs: meaning of the columns in scan/events.py. The source is of kind `gpu`; `byte_offset` counts what it told, and each
-- start of a daemon is a generation. Thinned when written, since nothing is ever deleted: see sources/gpu.py.

CREATE TABLE gpu_info (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    origin VARCHAR, uuid VARCHAR, gpu_index BIGINT, bus VARCHAR, name VARCHAR, driver VARCHAR, fabric_cluster VARCHAR,
    fabric_clique BIGINT, fabric_state VARCHAR, fabric_status VARCHAR, fabric_health VARCHAR, mig VARCHAR, memory_total BIGINT,
    unread VARCHAR
);

CREATE TABLE gpu_sample (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    uuid VARCHAR, memory_used BIGINT, memory_total BIGINT, utilization BIGINT, sm_clock BIGINT, memory_clock BIGINT, throttle VARCHAR,
    temperature BIGINT, power_w DOUBLE, ecc_corrected BIGINT, ecc_uncorrected BIGINT, why VARCHAR
);

CREATE TABLE gpu_process (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    uuid VARCHAR, bus VARCHAR, mig VARCHAR, gpu_pid BIGINT, started_at TIMESTAMP, memory_used BIGINT, command VARCHAR,
    out_path VARCHAR, err_path VARCHAR, state VARCHAR
);

CREATE TABLE gpu_event (
    rec_id BIGINT, store_id VARCHAR, host VARCHAR, source_id BIGINT, generation INTEGER, byte_offset BIGINT, byte_length BIGINT,
    line_no BIGINT, prov BIGINT, proc VARCHAR, pid BIGINT, proc_rank INTEGER, actor VARCHAR, stream VARCHAR,
    stamp TIMESTAMP, stamp_res_us BIGINT, stamp_utc BOOLEAN, after_stamp TIMESTAMP, after_utc BOOLEAN,
    step BIGINT, step_carried BOOLEAN, policy VARCHAR, observed_at TIMESTAMP,
    uuid VARCHAR, bus VARCHAR, kind VARCHAR, code VARCHAR, detail VARCHAR
);
