-- Steps, metrics, timings, execution state and the weight lifecycle, each with its run and attempt.

CREATE OR REPLACE VIEW i_log_metric AS
WITH place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, console, kind, path, rank, pid, zone_s FROM i_place
)
SELECT v.rec_id, p.run_id, p.lo_attempt AS attempt,
    v.step, v.key, v.value, v.value_text, CASE WHEN p.console THEN 'console' ELSE coalesce(p.kind, 'file') END AS source_kind,
    p.path, v.line_no, CASE WHEN v.stamp_utc OR p.zone_s = 0 THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END AS event_at,
    v.observed_at, v.step_carried, coalesce(v.proc_rank, p.rank) AS rank, v.host, v.source_id, v.generation, v.byte_offset,
    v.byte_length, v.raw
FROM b_metric v
JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off;

-- One row for each row of a W&B history with its run and attempt; `kind` is wandb_local or wandb_api.
CREATE OR REPLACE VIEW i_wandb_row AS
WITH place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, kind, path, rank FROM i_place
)
SELECT v.rec_id, p.run_id, p.lo_attempt AS attempt, v.step, v.step_carried, v.wandb_step, v.row_no, v.writer, v.keys, v.digest, v.read_id,
    p.kind, p.path, v.line_no, v.stamp AS event_at, v.observed_at, coalesce(v.proc_rank, p.rank) AS rank, v.host, v.source_id,
    v.generation, v.byte_offset, v.byte_length
FROM b_wandb_row v
JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off;

-- What W&B itself puts into a row is no metric. Several keys of one row have one rec_id.
CREATE OR REPLACE VIEW metrics AS
SELECT * FROM i_log_metric
UNION ALL
SELECT w.rec_id, w.run_id, w.attempt, w.step, v.key, v.value,
    CASE WHEN v.value_text IS NOT NULL THEN v.value_text WHEN v.kind = 'bool' THEN (v.value <> 0)::VARCHAR
         WHEN v.kind = 'int' THEN v.value::HUGEINT::VARCHAR ELSE v.value::VARCHAR END AS value_text,
    w.kind AS source_kind, w.path, w.line_no, w.event_at, w.observed_at, w.step_carried, w.rank, w.host, w.source_id, w.generation,
    w.byte_offset, w.byte_length, NULL AS raw
FROM i_wandb_row w JOIN b_wandb_value v ON v.row_id = w.rec_id
WHERE v.key NOT IN ('_timestamp', '_runtime', '_wandb') AND NOT starts_with(v.key, '_wandb.');

-- Step lines with their run and attempt: one row a line, so that a range of them can be read alone.
CREATE OR REPLACE VIEW step_lines AS
WITH place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, console, kind, path, rank, pid, zone_s FROM i_place
)
SELECT v.rec_id, v.store_id, p.run_id, p.lo_attempt AS attempt, v.step, v.edge, v.gpu, p.console,
    CASE WHEN p.console THEN 'console' ELSE coalesce(p.kind, 'file') END AS source_kind, v.observed_at,
    CASE WHEN v.stamp_utc OR p.zone_s = 0 THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END AS event_at,
    coalesce(v.proc_rank, p.rank) AS rank, v.host, p.path, v.line_no, v.source_id, v.generation, v.byte_offset, v.byte_length,
    v.prov IS NOT NULL AS provisional
FROM b_step_event v
JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
WHERE v.step IS NOT NULL;

-- A step as each kind of source first showed it, by a step line or by a metric or a row of a history that carries it.
CREATE OR REPLACE VIEW steps AS
SELECT run_id, attempt, step, source_kind, min(observed_at) AS first_observed_at, min(event_at) AS first_event_at,
    bool_or(ended) AS ended
FROM (
    SELECT run_id, attempt, step, source_kind, observed_at, event_at, edge = 'end' AS ended FROM step_lines
    UNION ALL
    SELECT run_id, attempt, step, source_kind, observed_at, event_at, false FROM i_log_metric WHERE step IS NOT NULL AND NOT step_carried
    UNION ALL
    SELECT run_id, attempt, step, kind, observed_at, event_at, false FROM i_wandb_row WHERE step IS NOT NULL
)
GROUP BY run_id, attempt, step, source_kind;

CREATE OR REPLACE VIEW timings AS
WITH place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, console, kind, path, rank, pid, zone_s FROM i_place
)
SELECT v.rec_id, p.run_id, p.lo_attempt AS attempt,
    v.step, v.phase, v.seconds, v.cold, CASE WHEN p.console THEN 'console' ELSE coalesce(p.kind, 'file') END AS source_kind, p.path, v.line_no,
    CASE WHEN v.stamp_utc OR p.zone_s = 0 THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END AS event_at, v.observed_at, v.source_id, v.generation, v.byte_offset, v.byte_length
FROM b_timing v
JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off;

CREATE OR REPLACE VIEW exec_states AS
WITH place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, console, kind, path, rank, pid, zone_s FROM i_place
)
SELECT v.rec_id, p.run_id, p.lo_attempt AS attempt,
    v.role, coalesce(v.proc_rank, p.rank) AS rank, v.host, coalesce(v.pid, p.pid) AS pid, v.field, v.claimed, v.observed, CASE WHEN v.stamp_utc OR p.zone_s = 0 THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END AS event_at,
    v.observed_at, p.path, v.line_no, v.step, v.rule, v.proc, coalesce(o.voice, v.proc) AS voice, v.actor,
    v.source_id, v.generation, v.byte_offset, v.byte_length
FROM b_exec_state v
JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
LEFT JOIN i_voice o ON o.source_id = v.source_id AND o.generation = v.generation AND o.proc = v.proc;

-- The state in force: for every process and field the last that was claimed and the last that was observed, in its source.
-- A server settles its graph mode in steps: what its front processes print of it gives way to what its workers print later.
CREATE OR REPLACE VIEW exec_state_now AS
SELECT * EXCLUDE (worker, told, voice) REPLACE (
    CASE WHEN field = 'graph_mode' AND NOT worker AND voice <> 'unknown' AND told < max(told) FILTER (worker) OVER server
         THEN 'unknown' ELSE observed END AS observed)
FROM (
    SELECT run_id, attempt, role, any_value(rank) AS rank, host, any_value(pid) AS pid, any_value(path) AS path, proc, field,
        arg_max(claimed, (generation, byte_offset)) AS claimed,
        coalesce(arg_max(observed, (generation, byte_offset)), 'unknown') AS observed,
        arg_max(event_at, (generation, byte_offset)) AS event_at, max(observed_at) AS observed_at, source_id,
        arg_max(rec_id, (generation, byte_offset)) FILTER (WHERE claimed IS NOT NULL) AS claimed_rec_id,
        arg_max(rec_id, (generation, byte_offset)) FILTER (WHERE observed IS NOT NULL) AS observed_rec_id,
        bool_or(regexp_matches(actor, '^(Vllm|Ray)?Worker')) AS worker, arg_max(voice, generation) AS voice,
        max(generation::BIGINT * 17592186044416 + byte_offset) FILTER (WHERE observed IS NOT NULL) AS told
    FROM exec_states
    GROUP BY run_id, attempt, role, host, source_id, proc, field
)
WINDOW server AS (PARTITION BY run_id, attempt, role, host, source_id, voice, field);

-- `legal` is false where something is wrong with the weights from this line on: `finding` says what.
CREATE OR REPLACE VIEW weight_lifecycle AS
WITH place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, console, kind, path, rank, pid, zone_s FROM i_place
)
SELECT c.rec_id, run_id, attempt, role, rank, host, pid, track, phase, level, version, duration_s, f.rec_id IS NULL AS legal,
    event_at, path, line_no, before_phase, residency, rule, observed_at,
    source_id, generation, byte_offset, byte_length, voice, rule LIKE 'prime.%' AS keeps_kv, coalesce(f.kinds, '') AS finding
FROM (
    SELECT v.rec_id, p.run_id, p.lo_attempt AS attempt, v.role,
        coalesce(v.proc_rank, p.rank) AS rank, v.host, coalesce(v.pid, p.pid) AS pid, v.track, v.phase, v.level, v.version, v.duration_s,
        lag(v.phase) OVER t AS before_phase,
        last_value(CASE WHEN v.track = 'residency' THEN v.phase END IGNORE NULLS) OVER p AS residency,
        CASE WHEN v.stamp_utc OR p.zone_s = 0 THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END AS event_at, p.path, v.line_no, v.rule, v.observed_at, v.source_id, v.generation, v.byte_offset, v.byte_length,
        coalesce(o.voice, v.proc) AS voice
    FROM b_weight_phase v
    JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
    LEFT JOIN i_voice o ON o.source_id = v.source_id AND o.generation = v.generation AND o.proc = v.proc
    WINDOW t AS (PARTITION BY v.source_id, v.generation, v.proc, v.track ORDER BY v.byte_offset, v.rule),
           p AS (PARTITION BY v.source_id, v.generation, v.proc ORDER BY v.byte_offset, v.rule
                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) c
LEFT JOIN i_finding_line f ON f.rec_id = c.rec_id;

-- What is wrong with the lifecycle of an engine's weights: schema/derive/3_state.sql.
CREATE OR REPLACE VIEW lifecycle_findings AS
SELECT f.finding_id, f.rec_id, f.run_id, f.attempt, f.role, f.rank, f.host, f.pid, f.kind, f.severity, f.detail, f.first_step, f.last_step,
    f.from_at, f.until_at, f.path, f.line_no, f.byte_offset, f.source_id, f.generation, f.observed_at,
    f.until_pos // 17592186044416 AS until_generation, f.until_pos % 17592186044416 AS until_offset,
    CASE WHEN s.network THEN '' ELSE f.host END AS log_host
FROM i_finding f LEFT JOIN b_source s ON s.source_id = f.source_id;
