-- GPUs: what they are, what they read, who uses them, what they told. The run and rank of a process: i_gpu_use.
-- Each start of a daemon is a generation, and tells anew of what is there: what it does not tell of is gone.

CREATE OR REPLACE VIEW gpu_processes AS
WITH last AS (
    SELECT * REPLACE (CASE WHEN generation < (SELECT max(i.generation) FROM b_gpu_info i WHERE i.source_id = b_gpu_process.source_id) THEN 'gone' ELSE state END AS state)
    FROM b_gpu_process
    QUALIFY row_number() OVER (PARTITION BY host, uuid, mig, gpu_pid, coalesce(started_at, TIMESTAMP '1970-01-01')
                               ORDER BY b_gpu_process.rec_id DESC) = 1
),
began AS (
    SELECT host, uuid, gpu_pid, coalesce(started_at, TIMESTAMP '1970-01-01') AS began, min(stamp) AS first_seen_at
    FROM b_gpu_process GROUP BY ALL
)
SELECT l.rec_id, l.store_id, u.run_id, u.lo_attempt AS attempt, u.rank, l.host, l.pid, l.gpu_pid, l.uuid, l.bus, l.mig, l.memory_used,
    l.command, l.state, l.started_at, b.first_seen_at, CASE WHEN l.state = 'gone' THEN l.stamp END AS gone_at,
    CASE WHEN u.run_id IS NOT NULL THEN ''
         WHEN l.started_at IS NULL THEN 'no such process here: its pid is of another namespace'
         ELSE 'no followed log is known to be its' END AS why,
    l.observed_at
FROM last l
JOIN began b ON b.host = l.host AND b.uuid = l.uuid AND b.gpu_pid = l.gpu_pid
    AND b.began = coalesce(l.started_at, TIMESTAMP '1970-01-01')
LEFT JOIN i_gpu_use u ON u.host = l.host AND u.uuid = l.uuid AND u.gpu_pid = l.gpu_pid AND u.started_at = l.started_at;

CREATE OR REPLACE VIEW gpu_samples AS
SELECT rec_id, store_id, host, uuid, stamp AS event_at, memory_used, memory_total, utilization, sm_clock, memory_clock, throttle,
    temperature, power_w, ecc_corrected, ecc_uncorrected, why, observed_at
FROM b_gpu_sample;

CREATE OR REPLACE VIEW gpu_events AS
SELECT rec_id, store_id, host, uuid, bus, kind, code, detail, stamp AS event_at, observed_at FROM b_gpu_event;

CREATE OR REPLACE VIEW gpus AS
WITH info AS (
    SELECT * FROM b_gpu_info QUALIFY row_number() OVER (PARTITION BY host, uuid ORDER BY rec_id DESC) = 1
),
sample AS (
    SELECT * FROM b_gpu_sample QUALIFY row_number() OVER (PARTITION BY host, uuid ORDER BY rec_id DESC) = 1
),
use AS (
    SELECT host, uuid, CASE WHEN count(DISTINCT run_id) = 1 THEN min(run_id) END AS run_id,
        CASE WHEN count(DISTINCT (run_id, rank)) = 1 THEN min(rank) END AS rank, CASE WHEN count(*) = 1 THEN min(pid) END AS pid,
        count(*) AS processes, count(DISTINCT run_id) AS runs
    FROM gpu_processes WHERE state = 'using' GROUP BY host, uuid
),
told AS (
    SELECT host, uuid, arg_max(code, rec_id) FILTER (WHERE kind = 'xid') AS last_xid,
        arg_max(kind, rec_id) FILTER (WHERE kind <> 'xid' AND NOT starts_with(kind, 'ecc_')) AS standing,
        arg_max(detail, rec_id) FILTER (WHERE kind <> 'xid' AND NOT starts_with(kind, 'ecc_')) AS detail,
        max(rec_id) FILTER (WHERE kind <> 'xid' AND NOT starts_with(kind, 'ecc_')) AS standing_rec
    FROM b_gpu_event GROUP BY host, uuid
)
SELECT i.store_id, i.host, i.gpu_index, i.uuid, i.bus, i.name, i.driver, i.fabric_cluster, i.fabric_clique, i.fabric_state,
    i.fabric_status, i.fabric_health, i.mig, u.run_id, u.rank, u.pid, coalesce(u.processes, 0) AS processes, s.memory_used,
    coalesce(s.memory_total, i.memory_total) AS memory_total, s.utilization, s.sm_clock, s.memory_clock, s.throttle, s.temperature,
    s.power_w, s.ecc_corrected, s.ecc_uncorrected, t.last_xid, s.stamp AS read_at,
    coalesce(s.observed_at, i.observed_at) AS observed_at, i.origin,
    CASE WHEN t.standing IN ('lost', 'silent', 'driver_lost') AND t.standing_rec > coalesce(s.rec_id, 0) THEN t.detail
         WHEN u.runs > 1 THEN 'processes of several runs use it'
         WHEN u.processes > 0 AND u.run_id IS NULL THEN 'its processes are joined to no run'
         WHEN i.unread <> '' THEN 'not told: ' || i.unread
         ELSE '' END AS why
FROM info i
LEFT JOIN sample s ON s.host = i.host AND s.uuid = i.uuid
LEFT JOIN use u ON u.host = i.host AND u.uuid = i.uuid
LEFT JOIN told t ON t.host = i.host AND t.uuid = i.uuid;
