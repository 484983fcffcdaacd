-- Steps, metrics, timings, execution state and the weight lifecycle, each with its run and attempt.

CREATE OR REPLACE VIEW metrics AS
SELECT v.rec_id, g.run_id, CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE 1 END AS attempt,
    v.step, v.key, v.value, v.value_text, CASE WHEN coalesce(s.console, false) THEN 'console' ELSE coalesce(s.kind, 'file') END AS source_kind,
    s.path, v.line_no, CASE WHEN v.stamp_utc THEN v.stamp WHEN w.zone_s IS NOT NULL THEN v.stamp - to_seconds(w.zone_s) END AS event_at,
    v.observed_at, v.step_carried, coalesce(v.proc_rank, s.rank) AS rank, v.host, v.source_id, v.generation, v.byte_offset,
    v.byte_length, v.raw
FROM b_metric v
JOIN i_run_range g ON g.source_id = v.source_id AND g.generation = v.generation
    AND v.byte_offset >= g.from_off AND v.byte_offset < g.to_off
LEFT JOIN i_writer w ON w.source_id = v.source_id AND w.generation = v.generation AND w.proc = v.proc
LEFT JOIN i_epoch_attempt e ON e.ekey = w.ekey AND e.run_id = g.run_id
LEFT JOIN b_source s ON s.source_id = v.source_id;

-- A step as each kind of source first showed it, by a step line or by a metric that carries it.
CREATE OR REPLACE VIEW steps AS
SELECT run_id, attempt, step, source_kind, min(observed_at) AS first_observed_at, min(event_at) AS first_event_at,
    bool_or(ended) AS ended
FROM (
    SELECT g.run_id, CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE 1 END AS attempt, v.step,
        CASE WHEN coalesce(s.console, false) THEN 'console' ELSE coalesce(s.kind, 'file') END AS source_kind, v.observed_at, CASE WHEN v.stamp_utc THEN v.stamp WHEN w.zone_s IS NOT NULL THEN v.stamp - to_seconds(w.zone_s) END AS event_at, v.edge = 'end' AS ended
    FROM b_step_event v
    JOIN i_run_range g ON g.source_id = v.source_id AND g.generation = v.generation
        AND v.byte_offset >= g.from_off AND v.byte_offset < g.to_off
    LEFT JOIN i_writer w ON w.source_id = v.source_id AND w.generation = v.generation AND w.proc = v.proc
    LEFT JOIN i_epoch_attempt e ON e.ekey = w.ekey AND e.run_id = g.run_id
    LEFT JOIN b_source s ON s.source_id = v.source_id
    WHERE v.step IS NOT NULL
    UNION ALL
    SELECT run_id, attempt, step, source_kind, observed_at, event_at, false FROM metrics WHERE step IS NOT NULL AND NOT step_carried
)
GROUP BY run_id, attempt, step, source_kind;

CREATE OR REPLACE VIEW timings AS
SELECT v.rec_id, g.run_id, CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE 1 END AS attempt,
    v.step, v.phase, v.seconds, v.cold, CASE WHEN coalesce(s.console, false) THEN 'console' ELSE coalesce(s.kind, 'file') END AS source_kind, s.path, v.line_no,
    CASE WHEN v.stamp_utc THEN v.stamp WHEN w.zone_s IS NOT NULL THEN v.stamp - to_seconds(w.zone_s) END AS event_at, v.observed_at, v.source_id, v.generation, v.byte_offset, v.byte_length
FROM b_timing v
JOIN i_run_range g ON g.source_id = v.source_id AND g.generation = v.generation
    AND v.byte_offset >= g.from_off AND v.byte_offset < g.to_off
LEFT JOIN i_writer w ON w.source_id = v.source_id AND w.generation = v.generation AND w.proc = v.proc
LEFT JOIN i_epoch_attempt e ON e.ekey = w.ekey AND e.run_id = g.run_id
LEFT JOIN b_source s ON s.source_id = v.source_id;

CREATE OR REPLACE VIEW exec_states AS
SELECT v.rec_id, g.run_id, CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE 1 END AS attempt,
    v.role, coalesce(v.proc_rank, s.rank) AS rank, v.host, coalesce(v.pid, w.pid) AS pid, v.field, v.claimed, v.observed, CASE WHEN v.stamp_utc THEN v.stamp WHEN w.zone_s IS NOT NULL THEN v.stamp - to_seconds(w.zone_s) END AS event_at,
    v.observed_at, s.path, v.line_no, v.step, v.rule, v.proc, v.source_id, v.generation, v.byte_offset, v.byte_length
FROM b_exec_state v
JOIN i_run_range g ON g.source_id = v.source_id AND g.generation = v.generation
    AND v.byte_offset >= g.from_off AND v.byte_offset < g.to_off
LEFT JOIN i_writer w ON w.source_id = v.source_id AND w.generation = v.generation AND w.proc = v.proc
LEFT JOIN i_epoch_attempt e ON e.ekey = w.ekey AND e.run_id = g.run_id
LEFT JOIN b_source s ON s.source_id = v.source_id;

-- The state in force: for every process and field the last that was claimed and the last that was observed, in its source.
CREATE OR REPLACE VIEW exec_state_now AS
SELECT run_id, attempt, role, any_value(rank) AS rank, host, any_value(pid) AS pid, any_value(path) AS path, proc, field,
    arg_max(claimed, (generation, byte_offset)) AS claimed,
    coalesce(arg_max(observed, (generation, byte_offset)), 'unknown') AS observed,
    arg_max(event_at, (generation, byte_offset)) AS event_at, max(observed_at) AS observed_at, source_id
FROM exec_states
GROUP BY run_id, attempt, role, host, source_id, proc, field;

-- `legal` is false where a transition should not follow the one before it on its track.
CREATE OR REPLACE VIEW weight_lifecycle AS
SELECT rec_id, run_id, attempt, role, rank, host, pid, track, phase, level, version, duration_s,
    NOT coalesce(
        (track = 'residency' AND phase = 'asleep' AND before_phase = 'asleep')
        OR (track = 'residency' AND phase = 'awake' AND before_phase = 'awake')
        OR (track = 'residency' AND phase = 'reloaded' AND before_phase = 'asleep')
        OR (track = 'version' AND residency = 'asleep'), false) AS legal,
    event_at, path, line_no, before_phase, residency, rule, observed_at, source_id, generation, byte_offset, byte_length
FROM (
    SELECT v.rec_id, g.run_id, CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE 1 END AS attempt, v.role,
        coalesce(v.proc_rank, s.rank) AS rank, v.host, coalesce(v.pid, w.pid) AS pid, v.track, v.phase, v.level, v.version, v.duration_s,
        lag(v.phase) OVER t AS before_phase,
        last_value(CASE WHEN v.track = 'residency' THEN v.phase END IGNORE NULLS) OVER p AS residency,
        CASE WHEN v.stamp_utc THEN v.stamp WHEN w.zone_s IS NOT NULL THEN v.stamp - to_seconds(w.zone_s) END AS event_at, s.path, v.line_no, v.rule, v.observed_at, v.source_id, v.generation, v.byte_offset, v.byte_length
    FROM b_weight_phase v
    JOIN i_run_range g ON g.source_id = v.source_id AND g.generation = v.generation
        AND v.byte_offset >= g.from_off AND v.byte_offset < g.to_off
    LEFT JOIN i_writer w ON w.source_id = v.source_id AND w.generation = v.generation AND w.proc = v.proc
    LEFT JOIN i_epoch_attempt e ON e.ekey = w.ekey AND e.run_id = g.run_id
    LEFT JOIN b_source s ON s.source_id = v.source_id
    WINDOW t AS (PARTITION BY v.source_id, v.generation, v.proc, v.track ORDER BY v.byte_offset, v.rule),
           p AS (PARTITION BY v.source_id, v.generation, v.proc ORDER BY v.byte_offset, v.rule
                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
);
