-- GPUs: what they are, what they read, who uses them, what they told. The run and rank of a process: i_gpu_use.
-- Each start of a daemon is a generation, and tells anew of what is there: what it does not tell of is gone.

CREATE OR REPLACE VIEW gpu_processes AS
WITH last AS (
    SELECT * REPLACE (CASE WHEN generation < (SELECT max(i.generation) FROM b_gpu_info i WHERE i.source_id = b_gpu_process.source_id) THEN 'gone' ELSE state END AS state)
    FROM b_gpu_process
    QUALIFY row_number() OVER (PARTITION BY source_id, uuid, bus, mig, gpu_pid, coalesce(started_at, TIMESTAMP '1970-01-01')
                               ORDER BY b_gpu_process.rec_id DESC) = 1
),
began AS (
    SELECT source_id, uuid, bus, gpu_pid, coalesce(started_at, TIMESTAMP '1970-01-01') AS began,
        min(CASE WHEN stamp_utc THEN stamp END) AS first_seen_at
    FROM b_gpu_process GROUP BY ALL
),
file AS (SELECT source_id, path FROM b_source WHERE framework = 'nvidia-smi')
SELECT l.rec_id, l.store_id, u.run_id, u.lo_attempt AS attempt, u.rank, nullif(l.host, '') AS host, l.pid, l.gpu_pid, l.uuid, l.bus, l.mig,
    l.memory_used, l.command, l.state, l.started_at, b.first_seen_at, CASE WHEN l.state = 'gone' AND l.stamp_utc THEN l.stamp END AS gone_at,
    CASE WHEN u.run_id IS NOT NULL THEN ''
         WHEN f.path IS NOT NULL THEN 'a file tells of it, and not when it was started'
         WHEN l.started_at IS NULL THEN 'no such process here: its pid is of another namespace'
         ELSE 'no followed log is known to be its' END AS why,
    l.observed_at, f.path
FROM last l
JOIN began b ON b.source_id = l.source_id AND b.uuid = l.uuid AND b.bus = l.bus AND b.gpu_pid = l.gpu_pid
    AND b.began = coalesce(l.started_at, TIMESTAMP '1970-01-01')
LEFT JOIN file f ON f.source_id = l.source_id
LEFT JOIN i_gpu_use u ON u.host = l.host AND u.uuid = l.uuid AND u.gpu_pid = l.gpu_pid AND u.started_at = l.started_at;

CREATE OR REPLACE VIEW gpu_samples AS
SELECT s.rec_id, s.store_id, nullif(s.host, '') AS host, s.uuid, CASE WHEN s.stamp_utc THEN s.stamp END AS event_at, s.memory_used,
    s.memory_total, s.utilization, s.sm_clock, s.memory_clock, s.throttle, s.temperature, s.power_w, s.ecc_corrected, s.ecc_uncorrected,
    s.why, s.observed_at, f.path, CASE WHEN NOT s.stamp_utc THEN s.stamp END AS told_at
FROM b_gpu_sample s LEFT JOIN b_source f ON f.source_id = s.source_id AND f.framework = 'nvidia-smi';

CREATE OR REPLACE VIEW gpu_events AS
SELECT rec_id, store_id, host, uuid, bus, kind, code, detail, stamp AS event_at, observed_at FROM b_gpu_event;

-- What the driver says counts more than a file. Of several files the one whose text is the latest; each is of the run whose logs
-- lie below the nearest directory above it that holds any.
CREATE OR REPLACE VIEW gpus AS
WITH told_of AS MATERIALIZED (
    SELECT i.*, f.path, f.root, f.run_hint
    FROM b_gpu_info i LEFT JOIN b_source f ON f.source_id = i.source_id AND i.origin = 'nvidia-smi'
    QUALIFY i.origin = 'nvml' OR i.generation = max(i.generation) OVER (PARTITION BY i.source_id)
),
info AS MATERIALIZED (
    SELECT * REPLACE (coalesce(nullif(host, ''), max(nullif(host, '')) OVER one) AS host)
    FROM (SELECT *, CASE WHEN origin = 'nvml' THEN host || '/' || uuid WHEN uuid <> '' THEN uuid
                         ELSE source_id || ':' || line_no END AS gpu
          FROM told_of
          WHERE origin = 'nvml' OR uuid NOT IN (SELECT uuid FROM b_gpu_info WHERE origin = 'nvml'))
    WINDOW one AS (PARTITION BY gpu)
    QUALIFY row_number() OVER (PARTITION BY gpu ORDER BY CASE WHEN origin <> 'nvml' THEN stamp END DESC NULLS LAST, rec_id DESC) = 1
),
above AS (
    SELECT path, depth, array_to_string(parts[1:depth], '/') || '/' AS dir
    FROM (SELECT path, parts, unnest(range(len(string_split(rtrim(root, '/'), '/')), len(parts))) AS depth
          FROM (SELECT DISTINCT root, path, string_split(path, '/') AS parts FROM info WHERE path IS NOT NULL AND run_hint = ''))
),
near AS (
    SELECT path, CASE WHEN count(DISTINCT run_id) = 1 THEN min(run_id) END AS run_id
    FROM (SELECT a.path, n.run_id, a.depth FROM above a JOIN (SELECT DISTINCT run_id, path FROM i_place) n ON starts_with(n.path, a.dir)
          GROUP BY a.path, n.run_id, a.depth QUALIFY a.depth = max(a.depth) OVER (PARTITION BY a.path))
    GROUP BY path
),
sample AS (
    SELECT *, row_number() OVER (PARTITION BY why = 'file', host, uuid ORDER BY rec_id DESC) AS nth FROM b_gpu_sample
),
use AS (
    SELECT host, uuid, bus, path, CASE WHEN count(DISTINCT run_id) = 1 THEN min(run_id) END AS run_id,
        CASE WHEN count(DISTINCT (run_id, rank)) = 1 THEN min(rank) END AS rank, CASE WHEN count(*) = 1 THEN min(pid) END AS pid,
        count(*) AS processes, count(DISTINCT run_id) AS runs
    FROM gpu_processes WHERE state = 'using' GROUP BY host, uuid, bus, path
),
told AS (
    SELECT host, uuid, arg_max(code, rec_id) FILTER (WHERE kind = 'xid') AS last_xid,
        arg_max(kind, rec_id) FILTER (WHERE kind <> 'xid' AND NOT starts_with(kind, 'ecc_')) AS standing,
        arg_max(detail, rec_id) FILTER (WHERE kind <> 'xid' AND NOT starts_with(kind, 'ecc_')) AS detail,
        max(rec_id) FILTER (WHERE kind <> 'xid' AND NOT starts_with(kind, 'ecc_')) AS standing_rec
    FROM b_gpu_event GROUP BY host, uuid
)
SELECT i.store_id, i.host, i.gpu_index, i.uuid, i.bus, i.name, i.driver, i.fabric_cluster, i.fabric_clique, i.fabric_state,
    i.fabric_status, i.fabric_health, i.mig,
    CASE WHEN i.origin = 'nvml' THEN u.run_id WHEN i.run_hint <> '' THEN i.run_hint ELSE n.run_id END AS run_id,
    u.rank, u.pid, coalesce(u.processes, 0) AS processes, s.memory_used,
    coalesce(s.memory_total, i.memory_total) AS memory_total, s.utilization, s.sm_clock, s.memory_clock, s.throttle, s.temperature,
    s.power_w, s.ecc_corrected, s.ecc_uncorrected, t.last_xid, CASE WHEN s.stamp_utc THEN s.stamp END AS read_at,
    coalesce(s.observed_at, i.observed_at) AS observed_at, i.origin,
    CASE WHEN t.standing IN ('lost', 'silent', 'driver_lost') AND t.standing_rec > coalesce(s.rec_id, 0) THEN t.detail
         WHEN u.runs > 1 THEN 'processes of several runs use it'
         WHEN u.processes > 0 AND u.run_id IS NULL AND i.origin = 'nvml' THEN 'its processes are joined to no run'
         WHEN i.unread <> '' THEN 'not told: ' || i.unread
         WHEN i.host IS NULL THEN 'nothing names the host that the file is of'
         ELSE '' END AS why,
    i.path, CASE WHEN i.path IS NOT NULL THEN i.line_no END AS line_no, CASE WHEN i.path IS NOT NULL THEN i.stamp END AS told_at
FROM info i
LEFT JOIN sample s ON CASE WHEN i.origin = 'nvml' THEN s.why <> 'file' AND s.nth = 1 AND s.host = i.host AND s.uuid = i.uuid
                           ELSE s.source_id = i.source_id AND s.generation = i.generation AND s.line_no = i.line_no END
LEFT JOIN use u ON u.host IS NOT DISTINCT FROM i.host AND u.uuid = i.uuid AND u.bus = i.bus AND u.path IS NOT DISTINCT FROM i.path
LEFT JOIN told t ON t.host = i.host AND t.uuid = i.uuid AND i.origin = 'nvml'
LEFT JOIN near n ON n.path = i.path;
