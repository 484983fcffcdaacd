-- Where the weights of each engine are in their lifecycle, and what is wrong with it: see ../../derive.py. The slow, plain twins are
-- tic_daemon/evidence/lifecycle.py and made_in.py.
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

-- The lines at which they begin, a console's copies too.
CREATE OR REPLACE TEMP TABLE t_finding_line AS
SELECT rec_id, string_agg(DISTINCT kind, ', ' ORDER BY kind) AS kinds FROM t_finding_ GROUP BY rec_id;

-- When each step of those attempts ended, UTC, as the first line says that tells it; and the logs that tell of steps.
CREATE OR REPLACE TEMP TABLE t_step_end_ AS
SELECT p.run_id, p.lo_attempt AS attempt, least(greatest(v.step, -2305843009213693952), 2305843009213693952) AS step,
    min(CASE WHEN v.stamp_utc THEN v.stamp ELSE v.stamp - to_seconds(p.zone_s) END) AS ended_at, list(DISTINCT v.source_id) AS logs
FROM b_step_event v
JOIN t_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
WHERE v.edge = 'end' AND v.step IS NOT NULL AND p.run_id IN (SELECT run_id FROM t_finding_)
GROUP BY ALL;

-- One row a finding. A console's copy of an engine's lines says nothing of its own: the same finding at the same printed time
-- is one, and the engine's own log counts before a console.
--   from_pos, until_pos   bytes of its log, over generations; until NULL: it holds still
--   from_at, until_at     UTC, NULL where the log's zone is not known
--   first_step, last_step the steps that were under way then, as the step lines of the attempt tell
CREATE OR REPLACE TEMP TABLE t_finding AS
WITH timed AS (
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
    coalesce((SELECT min(s.step) FROM t_step_end_ s WHERE s.run_id = f.run_id AND s.attempt = f.attempt AND s.ended_at >= f.from_at), f.step) AS first_step,
    (SELECT min(s.step) FROM t_step_end_ s WHERE s.run_id = f.run_id AND s.attempt = f.attempt AND s.ended_at >= e.until_at) AS last_step,
    f.path, f.line_no, f.byte_offset, f.source_id, f.generation, f.observed_at
FROM told f LEFT JOIN ending e ON e.rec_id = f.rec_id AND e.kind = f.kind;

-- What each finding bounds: a record is not of it where something shows that it is not. Stamps are of a second at the coarsest.
--   lo_us, hi_us    UTC: no number before or after is of it; plus infinity: nothing shows that it ended. NULL: its time is
--                   not known. A number without a step may be of any step that was under way.
--   step_lo, step_hi the same in steps; NULL: nothing tells the steps
--   own             its log is the engine's alone: there the order of lines says all
CREATE OR REPLACE TEMP TABLE t_finding_act_ AS
WITH stamped AS MATERIALIZED (
    SELECT v.source_id, v.pos, max(CASE WHEN v.stamp_utc THEN v.stamp ELSE v.stamp - to_seconds(p.zone_s) END) AS at
    FROM (
        SELECT source_id, generation, proc, byte_offset, stamp, stamp_utc, generation::BIGINT * 17592186044416 + byte_offset AS pos
        FROM b_weight_phase WHERE stamp IS NOT NULL AND source_id IN (SELECT source_id FROM t_finding)
        UNION ALL
        SELECT source_id, generation, proc, byte_offset, stamp, stamp_utc, generation::BIGINT * 17592186044416 + byte_offset
        FROM b_exec_state WHERE stamp IS NOT NULL AND source_id IN (SELECT source_id FROM t_finding)
    ) v
    JOIN t_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
    WHERE v.stamp_utc OR p.zone_s IS NOT NULL
    GROUP BY v.source_id, v.pos
),
-- The line that ends it need not tell a time: the next one that does.
ended AS (
    SELECT f.finding_id, s.at
    FROM (SELECT finding_id, source_id, until_pos FROM t_finding WHERE until_pos IS NOT NULL) f
    ASOF JOIN stamped s ON s.source_id = f.source_id AND s.pos >= f.until_pos
),
reach0 AS (
    SELECT f.finding_id, p.host, p.root, p.run_id, p.run_how, p.lo_attempt, max(p.hi_attempt) AS hi_attempt
    FROM t_finding f
    JOIN b_weight_phase v ON v.rec_id = f.rec_id
    JOIN t_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
    GROUP BY ALL
),
-- An engine in a log of no known run may be of any that shares the watched root: as a fault, see 2_lock.sql.
reach AS (
    SELECT finding_id, run_id, lo_attempt, hi_attempt, false AS loose FROM reach0
    UNION ALL
    SELECT r.finding_id, o.run_id, 1, o.hi_attempt, true
    FROM reach0 r
    JOIN (SELECT DISTINCT p.host, p.root, p.run_id, a.hi_attempt
          FROM t_place p JOIN (SELECT run_id, max(attempt) AS hi_attempt FROM t_attempt GROUP BY run_id) a ON a.run_id = p.run_id
          WHERE p.run_how <> 'us') o ON o.host = r.host AND o.root = r.root
    WHERE r.run_how = 'us'
),
bound AS (
    SELECT f.finding_id, r.run_id, r.lo_attempt, r.hi_attempt, r.loose, f.source_id, f.kind, f.from_pos, f.until_pos, f.from_at, e.at AS until_at,
        o.margin_us, o.staleness, NOT r.loose AND EXISTS (SELECT 1 FROM t_step_end_ s WHERE s.run_id = f.run_id AND s.attempt = f.attempt) AS steps,
        CASE WHEN NOT r.loose THEN coalesce(
            (SELECT min(s.step) FROM t_step_end_ s WHERE s.run_id = f.run_id AND s.attempt = f.attempt AND s.ended_at >= f.from_at),
            (SELECT max(s.step) FROM t_step_end_ s WHERE s.run_id = f.run_id AND s.attempt = f.attempt AND s.ended_at < f.from_at),
            -- greatest() passes over NULL
            CASE WHEN f.first_step IS NOT NULL
                 THEN least(greatest(f.first_step, -2305843009213693952), 2305843009213693952) END) END AS first_step,
        (SELECT min(s.step) FROM t_step_end_ s WHERE s.run_id = f.run_id AND s.attempt = f.attempt AND s.ended_at >= e.at) AS last_step
    FROM t_finding f
    JOIN reach r ON r.finding_id = f.finding_id
    LEFT JOIN ended e ON e.finding_id = f.finding_id
    CROSS JOIN t_lock_setting_ o
)
SELECT b.finding_id, b.run_id, b.lo_attempt, b.hi_attempt, b.source_id, b.from_pos, b.until_pos,
    CASE b.kind WHEN 'wake_without_weights' THEN 'weights woken without a reload'
         WHEN 'wake_tags_missing' THEN 'weights or KV cache still asleep'
         WHEN 'update_while_asleep' THEN 'weights updated while asleep'
         WHEN 'update_without_reset' THEN 'weights updated without a reset of the prefix cache'
         WHEN 'reset_refused' THEN 'reset of the prefix cache refused'
         WHEN 'update_missing' THEN 'update of the weights not finished'
         ELSE replace(b.kind, '_', ' ') END AS words,
    epoch_us(b.from_at) - b.margin_us - 1000000 AS lo_us,
    CASE WHEN b.from_at IS NULL THEN NULL
         ELSE coalesce(epoch_us(CASE WHEN b.steps
             THEN (SELECT min(s.ended_at) FROM t_step_end_ s WHERE s.run_id = b.run_id AND s.attempt = b.lo_attempt
                   AND s.step >= b.last_step + b.staleness AND s.ended_at >= b.until_at)
             ELSE b.until_at END) + b.margin_us + 1000000, 4611686018427387904) END AS hi_us,
    b.first_step - b.staleness AS step_lo,
    CASE WHEN b.first_step IS NOT NULL THEN coalesce(b.last_step + b.staleness, 4611686018427387904) END AS step_hi,
    NOT EXISTS (SELECT 1 FROM t_place p WHERE p.source_id = b.source_id AND p.console)
        AND NOT EXISTS (SELECT 1 FROM t_step_end_ s WHERE list_contains(s.logs, b.source_id)) AS own
FROM bound b;

-- All logs of an attempt with the same findings: `own` is the log of an engine, which its own findings reach by position, and
-- 0 all the others. What some number is held against that tells neither time nor step, or where a finding tells no steps.
--   stepless        some finding tells no steps, so that times count also where a number has a step
--   timeless        some finding tells no time
--   step_lo, step_hi, last_us   bounds of them all
--   ids             the findings, at most 20, with blanks between
CREATE OR REPLACE TEMP TABLE t_finding_zone AS
WITH act AS MATERIALIZED (
    SELECT f.*, a.attempt FROM t_finding_act_ f
    JOIN t_attempt a ON a.run_id = f.run_id AND a.attempt BETWEEN f.lo_attempt AND f.hi_attempt
),
log AS (
    SELECT DISTINCT run_id, attempt, CASE WHEN own THEN source_id ELSE 0 END AS own FROM act
    UNION SELECT DISTINCT run_id, attempt, 0 FROM act
)
SELECT row_number() OVER (ORDER BY l.run_id, l.attempt, l.own) AS zone, l.run_id, l.attempt, l.own,
    count(a.finding_id) AS findings, coalesce(bool_or(a.step_lo IS NULL), false) AS stepless, coalesce(bool_or(a.lo_us IS NULL), false) AS timeless,
    min(a.step_lo) AS step_lo, max(a.step_hi) AS step_hi, max(coalesce(a.hi_us, 4611686018427387904)) AS last_us,
    string_agg(DISTINCT a.words, '; ' ORDER BY a.words) AS words,
    array_to_string(list_slice(list(DISTINCT a.finding_id ORDER BY a.finding_id) FILTER (WHERE a.finding_id IS NOT NULL), 1, 20), ' ') AS ids
FROM log l
LEFT JOIN act a ON a.run_id = l.run_id AND a.attempt = l.attempt AND (l.own = 0 OR a.source_id <> l.own)
GROUP BY l.run_id, l.attempt, l.own;

-- Disjoint ranges. `key`: of `pos` the log, of `step` and `time` the zone. Between two ranges of steps lies a whole step, so
-- that a number of one step or of the next meets one of them.
--   since_us        of `step`: what is surely earlier is not of it
--   ids             the findings, at most 20, with blanks between
CREATE OR REPLACE TEMP TABLE t_finding_span AS
WITH range0 AS (
    SELECT 'pos' AS axis, source_id AS key, from_pos AS lo, coalesce(until_pos, 4611686018427387904) - 1 AS hi, NULL::BIGINT AS since_us, words, finding_id
    FROM t_finding_act_
    UNION ALL
    SELECT s.axis, z.zone, s.lo, s.hi, s.since_us, s.words, s.finding_id
    FROM (
        SELECT 'step' AS axis, run_id, lo_attempt, hi_attempt, source_id, step_lo AS lo, step_hi AS hi,
            coalesce(lo_us, -4611686018427387904) AS since_us, words, finding_id
        FROM t_finding_act_ WHERE step_lo IS NOT NULL
        UNION ALL
        SELECT 'time', run_id, lo_attempt, hi_attempt, source_id, lo_us, hi_us, NULL, words, finding_id FROM t_finding_act_ WHERE lo_us IS NOT NULL
    ) s
    JOIN t_finding_zone z ON z.run_id = s.run_id AND z.attempt BETWEEN s.lo_attempt AND s.hi_attempt AND (z.own = 0 OR z.own <> s.source_id)
),
grown AS (
    SELECT *, max(hi) OVER (PARTITION BY axis, key ORDER BY lo, hi, words ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS extent FROM range0
),
island AS (
    SELECT *, sum(CASE WHEN extent IS NULL OR lo > extent + CASE axis WHEN 'step' THEN 1 ELSE 0 END THEN 1 ELSE 0 END)
        OVER (PARTITION BY axis, key ORDER BY lo, hi, words ROWS UNBOUNDED PRECEDING) AS nth
    FROM grown
)
SELECT axis, key, min(lo) AS lo, max(hi) AS hi, min(since_us) AS since_us, string_agg(DISTINCT words, '; ' ORDER BY words) AS words,
    array_to_string(list_slice(list(DISTINCT finding_id ORDER BY finding_id), 1, 20), ' ') AS ids
FROM island GROUP BY axis, key, nth;
