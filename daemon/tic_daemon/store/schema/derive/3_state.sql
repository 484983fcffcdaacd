-- Where the weights of each engine are in their lifecycle, and what is wrong with it: see ../../derive.py. The slow, obvious
-- twin is tic_daemon/evidence/lifecycle.py.
--
-- An engine is all that one server prints into one log: an access line of its API server speaks for its engine and worker
-- processes. SGLang's servers are engines of their own, told apart by the pid that Ray puts before their lines.

-- Lifecycle events of engines. `pos` orders the lines of a log over its generations.
--   load    weights are there anew; upd: other weights than before; paired: an update that prints its end has begun
--   tags    what an `awake` woke: NULL for all of it, or not told
CREATE OR REPLACE TEMP TABLE t_life_ AS
SELECT *, sum(CASE WHEN phase = 'new_process' THEN 1 ELSE 0 END) OVER w AS epoch FROM (
    SELECT p.run_id, p.lo_attempt AS attempt, v.source_id, v.generation, v.byte_offset, v.rec_id, v.rule, v.phase, v.pid,
        CASE WHEN v.rule LIKE 'sglang.%' THEN 'sglang ' || CASE WHEN v.proc LIKE 'pid:%' THEN split_part(v.proc, ' ', 1) ELSE '' END ELSE '' END AS outer_proc,
        v.generation::BIGINT * 17592186044416 + v.byte_offset AS pos, p.console,
        v.track <> 'version' AND v.phase <> 'reset_refused' AS heard,
        v.phase = 'asleep' AND v.level <> '0' AS slept, v.phase = 'asleep' AND v.level = '2' AS dropped,
        v.phase = 'asleep' AND v.level NOT IN ('0', 'unstated') AS slept_all,
        v.phase = 'awake' AND v.level <> 'kv_cache' AS woke_weights, v.phase = 'awake' AND v.level <> 'weights' AS woke_kv,
        v.phase IN ('reloaded', 'updated', 'cold_load', 'new_process') OR (v.phase = 'reloading' AND v.level <> 'begun') AS load,
        v.phase IN ('reloaded', 'updated') OR (v.phase = 'reloading' AND v.level <> 'begun') AS upd,
        v.phase = 'reloading' AND v.level = 'begun' AS begun, v.phase = 'reset' AS emptied,
        v.phase = 'reset_refused' AS refused, v.phase = 'reset_refused' OR v.phase = 'reset' OR v.phase = 'new_process' AS answer,
        v.rule LIKE 'prime.%' AS keeps_kv
    FROM b_weight_phase v
    JOIN t_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
    WHERE v.role = 'rollout'
)
WINDOW w AS (PARTITION BY run_id, attempt, source_id, outer_proc ORDER BY pos, rule);

-- What stands before and after each of them in its process epoch; the use of the engine between it and the next.
CREATE OR REPLACE TEMP TABLE t_seen_ AS
WITH used AS (
    SELECT l.run_id, l.attempt, l.source_id, l.outer_proc, l.pos, min(u.pos) AS first_use, max(u.pos) AS last_use
    FROM (
        SELECT source_id, generation::BIGINT * 17592186044416 + byte_offset AS pos,
            CASE WHEN rule LIKE 'sglang.%' THEN 'sglang ' || CASE WHEN proc LIKE 'pid:%' THEN split_part(proc, ' ', 1) ELSE '' END ELSE '' END AS outer_proc
        FROM b_exec_state
        WHERE field = 'step_kind' AND observed IS NOT NULL AND source_id IN (SELECT source_id FROM t_life_)
        UNION ALL
        SELECT m.source_id, generation::BIGINT * 17592186044416 + byte_offset, e.outer_proc
        FROM b_mismatch m
        JOIN (SELECT DISTINCT source_id, outer_proc FROM t_life_) e ON e.source_id = m.source_id
    ) u
    ASOF JOIN (SELECT run_id, attempt, source_id, outer_proc, max(pos) AS pos FROM t_life_
               GROUP BY run_id, attempt, source_id, outer_proc, pos) l
        ON l.source_id = u.source_id AND l.outer_proc = u.outer_proc AND u.pos >= l.pos
    GROUP BY l.run_id, l.attempt, l.source_id, l.outer_proc, l.pos
)
SELECT l.*, u.first_use, u.last_use,
    max(CASE WHEN l.dropped THEN l.pos END) OVER past AS drop_pos, max(CASE WHEN l.slept THEN l.pos END) OVER past AS sleep_pos,
    max(CASE WHEN l.slept_all THEN l.pos END) OVER past AS sleep_all_pos, max(CASE WHEN l.load THEN l.pos END) OVER past AS load_pos,
    max(CASE WHEN l.woke_weights THEN l.pos END) OVER past AS weights_pos, max(CASE WHEN l.woke_kv THEN l.pos END) OVER past AS kv_pos,
    max(CASE WHEN l.emptied THEN l.pos END) OVER past AS reset_pos, max(CASE WHEN l.upd THEN l.pos END) OVER past AS upd_pos,
    max(CASE WHEN l.answer THEN l.pos END) OVER past AS answer_pos, max(u.last_use) OVER past AS use_pos,
    coalesce(bool_or(l.heard) OVER past, false) AS was_heard, bool_or(l.keeps_kv) OVER whole AS policy,
    min(CASE WHEN l.load THEN l.pos END) OVER future AS next_load, min(CASE WHEN l.slept THEN l.pos END) OVER future AS next_sleep,
    min(CASE WHEN l.woke_weights THEN l.pos END) OVER future AS next_weights, min(CASE WHEN l.woke_kv THEN l.pos END) OVER future AS next_kv,
    min(CASE WHEN l.emptied THEN l.pos END) OVER future AS next_reset, min(CASE WHEN l.answer THEN l.pos END) OVER future AS next_answer,
    min(CASE WHEN l.upd THEN l.pos END) OVER future AS next_upd, max(l.pos) OVER whole AS last_pos
FROM t_life_ l
LEFT JOIN used u ON u.run_id = l.run_id AND u.attempt = l.attempt AND u.source_id = l.source_id AND u.outer_proc = l.outer_proc
    AND u.pos = l.pos
WINDOW past AS (PARTITION BY l.run_id, l.attempt, l.source_id, l.outer_proc, l.epoch ORDER BY l.pos, l.rule
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    future AS (PARTITION BY l.run_id, l.attempt, l.source_id, l.outer_proc, l.epoch ORDER BY l.pos, l.rule
               ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING),
    whole AS (PARTITION BY l.run_id, l.attempt, l.source_id, l.outer_proc, l.epoch);

-- What is wrong, with the bytes from which on and up to which it holds. A finding needs a use: a batch that the engine
-- printed, or a number in its log. An update of weights that sleep needs none. Where another engine line closes it, the next
-- opens anew; so each cycle has its own.
CREATE OR REPLACE TEMP TABLE t_finding_ AS
WITH armed AS (
    SELECT *, 'wake_without_weights' AS kind, least(next_load, next_sleep) AS until_pos,
        'awake after a sleep that dropped the weights (level 2), and nothing loaded them again before the next use' AS detail
    FROM t_seen_ WHERE woke_weights AND drop_pos > coalesce(load_pos, -1) AND NOT coalesce(weights_pos > sleep_pos, false)
    UNION ALL
    SELECT *, 'wake_tags_missing', least(next_load, CASE WHEN woke_kv THEN next_weights ELSE next_kv END, next_sleep),
        CASE WHEN woke_kv THEN 'the KV cache is awake and the weights still sleep' ELSE 'the weights are awake and the KV cache still sleeps' END
    FROM t_seen_
    WHERE woke_weights <> woke_kv AND sleep_all_pos = sleep_pos
      AND NOT coalesce(CASE WHEN woke_kv THEN weights_pos ELSE kv_pos END > sleep_pos, false)
    UNION ALL
    SELECT *, 'update_while_asleep', coalesce(next_upd, next_sleep), 'weights were updated while they slept'
    FROM t_seen_
    WHERE (upd OR begun) AND sleep_all_pos = sleep_pos AND NOT coalesce(weights_pos > sleep_pos, false)
      AND NOT coalesce(upd_pos > sleep_pos, false)
    UNION ALL
    SELECT *, 'update_without_reset', next_answer, 'the weights were updated, and the engine went on with a prefix cache that nothing shows to be reset'
    FROM t_seen_
    WHERE upd AND was_heard AND NOT policy AND NOT coalesce(reset_pos > coalesce(use_pos, -1), false)
      AND NOT coalesce(upd_pos > coalesce(greatest(answer_pos, use_pos), -1), false)
    UNION ALL
    SELECT *, 'reset_refused', CASE WHEN was_heard THEN next_reset ELSE pos END,
        'the prefix cache was not reset, because requests still held blocks of it'
    FROM t_seen_
    WHERE refused AND NOT policy
      AND CASE WHEN was_heard THEN upd_pos > coalesce(reset_pos, -1) AND NOT coalesce(answer_pos > upd_pos, false) ELSE true END
    UNION ALL
    SELECT *, 'update_missing', least(next_upd, next_load), 'an update of the weights began, and nothing shows that it ended'
    FROM t_seen_ WHERE begun
),
-- From the line on up to its end: the first use in it.
shown AS (
    SELECT a.kind, a.rec_id, a.pos, min(s.first_use) AS use_pos
    FROM armed a
    JOIN t_seen_ s ON s.run_id = a.run_id AND s.attempt = a.attempt AND s.source_id = a.source_id AND s.outer_proc = a.outer_proc
        AND s.epoch = a.epoch AND s.pos >= a.pos AND s.pos < coalesce(a.until_pos, 4611686018427387904)
    WHERE s.first_use IS NOT NULL
    GROUP BY a.kind, a.rec_id, a.pos
),
cache AS (
    SELECT source_id, generation::BIGINT * 17592186044416 + byte_offset AS pos, coalesce(observed, claimed) AS cache,
        CASE WHEN rule LIKE 'sglang.%' THEN 'sglang ' || CASE WHEN proc LIKE 'pid:%' THEN split_part(proc, ' ', 1) ELSE '' END ELSE '' END AS outer_proc
    FROM b_exec_state WHERE field = 'prefix_cache' AND role = 'rollout'
),
off AS (
    SELECT a.rec_id, a.kind, arg_max(c.cache, c.pos) = 'off' AS off
    FROM armed a JOIN cache c ON c.source_id = a.source_id AND c.outer_proc = a.outer_proc AND c.pos < a.pos
    WHERE a.kind IN ('update_without_reset', 'reset_refused') GROUP BY a.rec_id, a.kind
)
SELECT a.run_id, a.attempt, a.kind, a.detail, a.rec_id, a.source_id, a.generation, a.byte_offset, a.pos, a.until_pos, a.console,
    a.outer_proc, a.epoch
FROM armed a
LEFT JOIN shown s ON s.rec_id = a.rec_id AND s.kind = a.kind AND s.pos = a.pos
LEFT JOIN off o ON o.rec_id = a.rec_id AND o.kind = a.kind
WHERE NOT coalesce(o.off, false)
  AND (s.use_pos IS NOT NULL OR a.kind = 'update_while_asleep' OR (a.kind = 'reset_refused' AND NOT a.was_heard));

-- One row a finding. A console's copy of an engine's lines says nothing of its own: the same finding at the same printed time
-- is one, and the engine's own log counts before a console.
--   from_pos, until_pos   bytes of its log, over generations; until NULL: it holds still
--   from_at, until_at     UTC, NULL where the log's zone is not known
--   first_step, last_step the steps that were under way then, as the step lines of the attempt tell
CREATE OR REPLACE TEMP TABLE t_finding AS
WITH step AS MATERIALIZED (
    SELECT p.run_id, p.lo_attempt AS attempt, v.step,
        min(CASE WHEN v.stamp_utc THEN v.stamp ELSE v.stamp - to_seconds(p.zone_s) END) AS ended_at
    FROM b_step_event v
    JOIN t_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
    WHERE v.edge = 'end' AND v.step IS NOT NULL AND p.run_id IN (SELECT run_id FROM t_finding_)
    GROUP BY p.run_id, p.lo_attempt, v.step
),
timed AS (
    SELECT f.*, v.role, coalesce(v.proc_rank, p.rank) AS rank, v.host, coalesce(v.pid, p.pid) AS pid, v.step, p.path, v.line_no,
        v.observed_at, coalesce(v.stamp, v.after_stamp) AS printed,
        CASE WHEN v.stamp IS NULL AND v.after_utc OR v.stamp_utc THEN coalesce(v.stamp, v.after_stamp)
             WHEN p.zone_s IS NOT NULL THEN coalesce(v.stamp, v.after_stamp) - to_seconds(p.zone_s) END AS from_at
    FROM t_finding_ f
    JOIN b_weight_phase v ON v.rec_id = f.rec_id
    JOIN t_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
),
-- In one epoch of one log no line is another's copy, whatever its time.
told AS (
    SELECT * FROM (
        SELECT *, row_number() OVER (
            PARTITION BY run_id, attempt, source_id, outer_proc, epoch, kind, pid, printed ORDER BY pos) AS nth FROM timed)
    QUALIFY printed IS NULL OR row_number() OVER (
        PARTITION BY run_id, attempt, kind, pid, printed, nth, CASE WHEN printed IS NULL THEN rec_id END ORDER BY console, source_id, pos) = 1
),
ending AS (
    SELECT f.rec_id, f.kind, min(CASE WHEN v.stamp IS NULL AND v.after_utc OR v.stamp_utc THEN coalesce(v.stamp, v.after_stamp)
        WHEN p.zone_s IS NOT NULL THEN coalesce(v.stamp, v.after_stamp) - to_seconds(p.zone_s) END) AS until_at
    FROM told f
    JOIN t_life_ l ON l.source_id = f.source_id AND l.outer_proc = f.outer_proc AND l.run_id = f.run_id AND l.attempt = f.attempt
        AND l.pos = f.until_pos
    JOIN b_weight_phase v ON v.rec_id = l.rec_id
    JOIN t_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
    GROUP BY f.rec_id, f.kind
)
SELECT f.kind || ':' || f.source_id || ':' || f.generation || ':' || f.byte_offset AS finding_id, f.rec_id, f.run_id, f.attempt, f.role,
    f.rank, f.host, f.pid, f.kind, 'N' AS severity, f.detail, f.pos AS from_pos, f.until_pos, f.from_at, e.until_at,
    coalesce((SELECT min(s.step) FROM step s WHERE s.run_id = f.run_id AND s.attempt = f.attempt AND s.ended_at >= f.from_at), f.step) AS first_step,
    (SELECT min(s.step) FROM step s WHERE s.run_id = f.run_id AND s.attempt = f.attempt AND s.ended_at >= e.until_at) AS last_step,
    f.path, f.line_no, f.byte_offset, f.source_id, f.generation, f.observed_at
FROM told f LEFT JOIN ending e ON e.rec_id = f.rec_id AND e.kind = f.kind;
