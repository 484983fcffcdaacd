-- Where the weights of each engine are in their lifecycle, and what is wrong with it: see ../../derive.py. The slow, plain twins are
-- tic_daemon/evidence/lifecycle.py and made_in.py.
--
-- An engine is all that one server prints into one log: an access line of its API server speaks for its engine and worker
-- processes. SGLang's servers are engines of their own, told apart by the pid that Ray puts before their lines; so are those of
-- several containers, whose names stand there.
--
-- Only what is new is read: an ask costs by the lines since the last one, and by the findings, not by all lines of all engines. Five tables carry over
-- from one ask to the next, and state/begin.sql makes them empty for the first. What they hold is what all lines of a log before its `cut` come to:
--   t_cut_     one row a log with engines: its cut; `settled`: all of it is before the cut
--   t_tail_    lines that are read and not before the cut: provisional ones, and all behind them, which may come again elsewhere
--   t_engine_  one row an engine of a run and attempt: the last of each kind of line
--   t_cache_   its last setting of the prefix cache
--   t_held_    findings, and what becomes one if the engine is used, or if it ends elsewhere
-- A log is read anew, from its begin, when lines before its cut come or its lines change their place.
--
-- Variable tic_life_mark: rows up to this rec_id were read.

-- Lines that tell of an engine. `pos` orders the lines of a log over its generations.
--   what    life: of the weights | use: a batch of some kind | cache: setting of the prefix cache | record | other: its time alone counts
CREATE OR REPLACE TEMP VIEW t_line_ AS
SELECT *, generation::BIGINT * 17592186044416 + byte_offset AS pos,
    regexp_extract(proc, '^in:\S+ ?')
        || CASE WHEN rule LIKE 'sglang.%' THEN 'sglang ' || regexp_extract(proc, '^(?:in:\S+ )?(pid:\S+)', 1) ELSE '' END AS outer_proc
FROM (
    SELECT CASE WHEN role = 'rollout' THEN 'life' ELSE 'other' END AS what, rec_id, prov, source_id, generation, proc, byte_offset, host,
        proc_rank, pid, step, line_no, observed_at, stamp, stamp_utc, after_stamp, after_utc, rule, track, phase, level, NULL::VARCHAR AS cache
    FROM b_weight_phase
    UNION ALL
    SELECT CASE WHEN field = 'step_kind' AND observed IS NOT NULL THEN 'use' WHEN field = 'prefix_cache' AND role = 'rollout' THEN 'cache' ELSE 'other' END,
        rec_id, prov, source_id, generation, proc, byte_offset, host, proc_rank, pid, step, line_no, observed_at, stamp, stamp_utc, after_stamp, after_utc,
        rule, '', '', '', coalesce(observed, claimed)
    FROM b_exec_state
    UNION ALL
    SELECT 'record', rec_id, prov, source_id, generation, proc, byte_offset, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '', '', '', NULL
    FROM b_mismatch
);

CREATE OR REPLACE TEMP TABLE t_new_ AS
SELECT * FROM t_line_
WHERE (rec_id > getvariable('tic_life_mark')::BIGINT OR prov IS NOT NULL)
  AND source_id IN (
    SELECT source_id FROM t_cut_
    UNION ALL SELECT source_id FROM b_weight_phase WHERE role = 'rollout' AND (rec_id > getvariable('tic_life_mark')::BIGINT OR prov IS NOT NULL)
  );

-- The places of the lines of such a log, as a number. Hashed twice: see statements.py.
CREATE OR REPLACE TEMP TABLE t_life_place_ AS
SELECT source_id, bit_xor(hash(hash(generation, proc, from_off, to_off, run_id, run_how, host, root, console, zone_s, pid, path, rank, lo_attempt, hi_attempt))) AS print
FROM t_place WHERE source_id IN (SELECT source_id FROM t_cut_ UNION ALL SELECT source_id FROM t_new_) GROUP BY source_id;

-- Logs that are read anew. A line that shows that its framework keeps the cache on purpose speaks for the whole life of its engine.
CREATE OR REPLACE TEMP TABLE t_redo_ AS
SELECT DISTINCT n.source_id FROM t_new_ n LEFT JOIN t_cut_ c ON c.source_id = n.source_id WHERE c.source_id IS NULL OR n.pos < c.cut
UNION
SELECT c.source_id FROM t_cut_ c LEFT JOIN t_life_place_ p ON p.source_id = c.source_id WHERE p.print IS DISTINCT FROM c.print
UNION
SELECT n.source_id FROM t_new_ n JOIN t_engine_ e ON e.source_id = n.source_id WHERE n.what = 'life' AND n.rule LIKE 'prime.%' AND NOT e.keeps_kv;

-- All lines of these.
CREATE OR REPLACE TEMP TABLE t_again_ AS
SELECT * FROM t_line_ WHERE source_id IN (SELECT source_id FROM t_redo_);

-- What is read and not before the cut, in its place.
--   own_at  UTC, by its own stamp; from_at: by the last one, too
--   told    what is said of a line that begins a finding
CREATE OR REPLACE TEMP TABLE t_tail_ AS
SELECT * FROM t_tail_
WHERE NOT open AND source_id IN (SELECT source_id FROM t_cut_ WHERE NOT settled) AND source_id NOT IN (SELECT source_id FROM t_redo_)
UNION ALL
SELECT p.run_id, p.lo_attempt AS attempt, v.source_id, v.outer_proc, v.pos, v.rule, v.rec_id, v.what, v.prov IS NOT NULL AS open, v.cache,
    v.track, v.phase, v.level, CASE WHEN v.stamp_utc THEN v.stamp ELSE v.stamp - to_seconds(p.zone_s) END AS own_at,
    CASE WHEN v.stamp IS NULL AND v.after_utc OR v.stamp_utc THEN coalesce(v.stamp, v.after_stamp)
         WHEN p.zone_s IS NOT NULL THEN coalesce(v.stamp, v.after_stamp) - to_seconds(p.zone_s) END AS from_at,
    CASE WHEN v.what = 'life' THEN {'generation': v.generation, 'byte_offset': v.byte_offset, 'line_no': v.line_no, 'host': v.host, 'rank': coalesce(v.proc_rank, p.rank),
     'pid': coalesce(v.pid, p.pid), 'step': v.step, 'path': p.path, 'console': p.console, 'place_host': p.host, 'root': p.root,
     'run_how': p.run_how, 'hi_attempt': p.hi_attempt, 'observed_at': v.observed_at, 'printed': coalesce(v.stamp, v.after_stamp)} END AS told
FROM (SELECT * FROM t_new_ WHERE source_id NOT IN (SELECT source_id FROM t_redo_) UNION ALL SELECT * FROM t_again_) v
JOIN t_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off;

-- A provisional line may go again: while a log has one, what follows from its tail is not carried over.
CREATE OR REPLACE TEMP TABLE t_cut_ AS
SELECT k.source_id, p.print, NOT coalesce(t.open, false) AS settled,
    CASE WHEN coalesce(t.open, false) THEN CASE WHEN r.source_id IS NULL THEN coalesce(c.cut, -1) ELSE -1 END
         ELSE greatest(t.last_pos + 1, CASE WHEN r.source_id IS NULL THEN c.cut END, -1) END AS cut
FROM (SELECT source_id FROM t_cut_ UNION SELECT source_id FROM t_new_) k
LEFT JOIN t_cut_ c ON c.source_id = k.source_id
LEFT JOIN t_redo_ r ON r.source_id = k.source_id
LEFT JOIN t_life_place_ p ON p.source_id = k.source_id
LEFT JOIN (SELECT source_id, max(pos) AS last_pos, bool_or(open) AS open FROM t_tail_ GROUP BY source_id) t ON t.source_id = k.source_id;

-- What stands before and after each line of an engine's weights in the tail, in its process epoch; the use of the engine between it and the next.
-- `known`: not a line, but what the engine had come to before the cut; it stands before them all.
--   *_here  its own place, if it is of the kind. load: weights are there anew; upd: other weights than before
--   begun   an update that prints its end has begun
--   last    no line of its engine's weights follows
--   kinds   what is wrong there, or would be if the engine were used; NULL where it is not. Lines without any are left out, but for `known` and `last`
CREATE OR REPLACE TEMP TABLE t_seen_ AS
WITH told AS MATERIALIZED (
    SELECT run_id, attempt, source_id, outer_proc, pos, rule, rec_id, false AS known, (phase = 'new_process')::BIGINT AS lives,
        track <> 'version' AND phase <> 'reset_refused' AS heard, rule LIKE 'prime.%' AS keeps_kv,
        phase = 'reloading' AND level = 'begun' AS begun, phase = 'reset_refused' AS refused,
        CASE WHEN phase = 'asleep' AND level = '2' THEN pos END AS drop_here, CASE WHEN phase = 'asleep' AND level <> '0' THEN pos END AS sleep_here,
        CASE WHEN phase = 'asleep' AND level NOT IN ('0', 'unstated') THEN pos END AS sleep_all_here,
        CASE WHEN phase IN ('reloaded', 'updated', 'cold_load', 'new_process') OR (phase = 'reloading' AND level <> 'begun') THEN pos END AS load_here,
        CASE WHEN phase = 'awake' AND level <> 'kv_cache' THEN pos END AS weights_here, CASE WHEN phase = 'awake' AND level <> 'weights' THEN pos END AS kv_here,
        CASE WHEN phase = 'reset' THEN pos END AS reset_here,
        CASE WHEN phase IN ('reloaded', 'updated') OR (phase = 'reloading' AND level <> 'begun') THEN pos END AS upd_here,
        CASE WHEN phase IN ('reset', 'reset_refused', 'new_process') THEN pos END AS answer_here, NULL::BIGINT AS use_here
    FROM t_tail_ WHERE what = 'life'
    UNION ALL
    SELECT run_id, attempt, source_id, outer_proc, pos, '', NULL, true, epoch, heard, keeps_kv, false, false,
        drop_pos, sleep_pos, sleep_all_pos, load_pos, weights_pos, kv_pos, reset_pos, upd_pos, answer_pos, use_pos
    FROM t_engine_ WHERE source_id NOT IN (SELECT source_id FROM t_redo_)
),
-- Numbers in place of names: what follows sorts by them, over and over.
engine AS MATERIALIZED (
    SELECT row_number() OVER () AS engine, * FROM (SELECT DISTINCT run_id, attempt, source_id, outer_proc FROM told)
),
line AS (
    SELECT e.engine, n.nth, t.* EXCLUDE (run_id, attempt, source_id, outer_proc, rule)
    FROM told t
    JOIN engine e ON e.run_id = t.run_id AND e.attempt = t.attempt AND e.source_id = t.source_id AND e.outer_proc = t.outer_proc
    JOIN (SELECT rule, row_number() OVER (ORDER BY rule) AS nth FROM (SELECT DISTINCT rule FROM told)) n ON n.rule IS NOT DISTINCT FROM t.rule
),
used AS (
    SELECT l.engine, l.pos, l.nth, min(u.pos) AS first_use, max(u.pos) AS last_use
    FROM (
        SELECT source_id, outer_proc, pos FROM t_tail_ WHERE what = 'use'
        UNION ALL
        SELECT t.source_id, e.outer_proc, t.pos
        FROM t_tail_ t JOIN (SELECT DISTINCT source_id, outer_proc FROM engine) e ON e.source_id = t.source_id
        WHERE t.what = 'record'
    ) u
    -- Several rules may read one line; a use is behind all of it.
    ASOF JOIN (SELECT e.source_id, e.outer_proc, l.engine, l.pos, max(l.nth) AS nth FROM line l JOIN engine e ON e.engine = l.engine GROUP BY ALL) l
        ON l.source_id = u.source_id AND l.outer_proc = u.outer_proc AND u.pos >= l.pos
    GROUP BY l.engine, l.pos, l.nth
),
lived AS (
    SELECT l.* EXCLUDE (lives), (sum(l.lives) OVER engine)::BIGINT AS epoch, lead(l.pos) OVER engine IS NULL AS last, u.first_use, u.last_use
    FROM line l
    LEFT JOIN used u ON u.engine = l.engine AND u.pos = l.pos AND u.nth = l.nth
    WINDOW engine AS (PARTITION BY l.engine ORDER BY l.pos, l.nth)
),
seen AS (
    SELECT *,
        max(drop_here) OVER past AS drop_pos, max(sleep_here) OVER past AS sleep_pos, max(sleep_all_here) OVER past AS sleep_all_pos,
        max(load_here) OVER past AS load_pos, max(weights_here) OVER past AS weights_pos, max(kv_here) OVER past AS kv_pos,
        max(reset_here) OVER past AS reset_pos, max(upd_here) OVER past AS upd_pos, max(answer_here) OVER past AS answer_pos,
        max(greatest(use_here, last_use)) OVER past AS use_pos,
        coalesce(bool_or(heard) OVER past, false) AS was_heard, bool_or(keeps_kv) OVER whole AS policy,
        -- The least of those that follow is the first: a min() over such a frame takes four times as long.
        first_value(load_here IGNORE NULLS) OVER future AS next_load, first_value(sleep_here IGNORE NULLS) OVER future AS next_sleep,
        first_value(weights_here IGNORE NULLS) OVER future AS next_weights, first_value(kv_here IGNORE NULLS) OVER future AS next_kv,
        first_value(reset_here IGNORE NULLS) OVER future AS next_reset, first_value(answer_here IGNORE NULLS) OVER future AS next_answer,
        first_value(upd_here IGNORE NULLS) OVER future AS next_upd,
        first_value(first_use IGNORE NULLS) OVER (PARTITION BY engine, epoch ORDER BY pos, nth
                                                  ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS next_use
    FROM lived
    WINDOW past AS (PARTITION BY engine, epoch ORDER BY pos, nth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        future AS (PARTITION BY engine, epoch ORDER BY pos, nth ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING),
        whole AS (PARTITION BY engine, epoch)
)
SELECT e.* EXCLUDE (engine), s.* EXCLUDE (engine, nth)
FROM (
    SELECT *, weights_here IS NOT NULL AS woke_weights, kv_here IS NOT NULL AS woke_kv, [
        CASE WHEN woke_weights AND drop_pos > coalesce(load_pos, -1) AND NOT coalesce(weights_pos > sleep_pos, false)
             THEN 'wake_without_weights' END,
        CASE WHEN woke_weights <> woke_kv AND sleep_all_pos = sleep_pos
                AND NOT coalesce(CASE WHEN woke_kv THEN weights_pos ELSE kv_pos END > sleep_pos, false)
             THEN 'wake_tags_missing' END,
        CASE WHEN (upd_here IS NOT NULL OR begun) AND sleep_all_pos = sleep_pos AND NOT coalesce(weights_pos > sleep_pos, false)
                AND NOT coalesce(upd_pos > sleep_pos, false)
             THEN 'update_while_asleep' END,
        CASE WHEN upd_here IS NOT NULL AND was_heard AND NOT policy AND NOT coalesce(reset_pos > coalesce(use_pos, -1), false)
                AND NOT coalesce(upd_pos > coalesce(greatest(answer_pos, use_pos), -1), false)
             THEN 'update_without_reset' END,
        CASE WHEN refused AND NOT policy
                AND CASE WHEN was_heard THEN upd_pos > coalesce(reset_pos, -1) AND NOT coalesce(answer_pos > upd_pos, false) ELSE true END
             THEN 'reset_refused' END,
        CASE WHEN begun THEN 'update_missing' END
    ] AS kinds
    FROM seen
) s
JOIN engine e ON e.engine = s.engine
WHERE s.known OR s.last OR list_count(s.kinds) > 0;

-- What is wrong, or would be if the engine were used, with the bytes from which on and up to which it holds. Where another engine line closes it,
-- the next opens anew; so each cycle has its own.
--   found      it is: a finding needs a use, a batch that the engine printed or a number in its log. An update of weights that sleep needs none.
--   off        its engine has no prefix cache
--   ended_at   when it ended, UTC, as the first line from there on says that tells a time
--   done       no line of its log can change it, but for ended_at
-- An ASOF join of DuckDB 1.5.6 takes a NULL on its left for the greatest or least value: here and below such a one is given a value that nothing meets.
CREATE OR REPLACE TEMP TABLE t_case_ AS
WITH wrong AS (SELECT *, unnest(kinds) AS kind FROM t_seen_ WHERE NOT known),
cache AS (
    SELECT source_id, outer_proc, pos, max(cache) AS cache FROM (
        SELECT source_id, outer_proc, pos, cache FROM t_tail_ WHERE what = 'cache'
        UNION ALL SELECT source_id, outer_proc, pos, cache FROM t_cache_ WHERE source_id NOT IN (SELECT source_id FROM t_redo_)
    ) GROUP BY source_id, outer_proc, pos
),
armed AS (
    SELECT w.kind, w.run_id, w.attempt, w.source_id, w.outer_proc, w.epoch, w.pos, w.rec_id, w.was_heard, w.woke_kv,
        w.next_load, w.next_sleep, w.next_weights, w.next_kv, w.next_reset, w.next_answer, w.next_upd, w.next_use,
        NULL::BIGINT AS until_pos, NULL::TIMESTAMP AS until_at, NULL::TIMESTAMP AS ended_at, t.from_at, t.told, w.kind IN ('update_without_reset', 'reset_refused') AND coalesce(c.cache = 'off', false) AS off
    FROM wrong w
    JOIN (SELECT rec_id, from_at, told FROM t_tail_ WHERE what = 'life') t ON t.rec_id = w.rec_id
    ASOF LEFT JOIN cache c ON c.source_id = w.source_id AND c.outer_proc = w.outer_proc AND c.pos < w.pos
    WHERE w.kind IS NOT NULL
    UNION ALL
    SELECT h.* EXCLUDE (found, done, last) REPLACE (
        coalesce(h.next_load, s.next_load) AS next_load, coalesce(h.next_sleep, s.next_sleep) AS next_sleep,
        coalesce(h.next_weights, s.next_weights) AS next_weights, coalesce(h.next_kv, s.next_kv) AS next_kv,
        coalesce(h.next_reset, s.next_reset) AS next_reset, coalesce(h.next_answer, s.next_answer) AS next_answer,
        coalesce(h.next_upd, s.next_upd) AS next_upd, coalesce(h.next_use, s.next_use) AS next_use)
    FROM t_held_ h
    LEFT JOIN (SELECT * FROM t_seen_ WHERE known) s ON s.run_id = h.run_id AND s.attempt = h.attempt AND s.source_id = h.source_id
        AND s.outer_proc = h.outer_proc AND s.epoch = h.epoch
    WHERE NOT h.done AND h.source_id NOT IN (SELECT source_id FROM t_redo_)
),
bounded AS (
    SELECT a.*, a.until_pos AS was_until, CASE kind
            WHEN 'wake_without_weights' THEN least(next_load, next_sleep)
            WHEN 'wake_tags_missing' THEN least(next_load, CASE WHEN woke_kv THEN next_weights ELSE next_kv END, next_sleep)
            WHEN 'update_while_asleep' THEN coalesce(next_upd, next_sleep)
            WHEN 'update_without_reset' THEN next_answer
            WHEN 'reset_refused' THEN CASE WHEN was_heard THEN next_reset ELSE pos END
            ELSE least(next_upd, next_load) END AS upto,
        l.epoch AS last
    FROM armed a
    LEFT JOIN (SELECT run_id, attempt, source_id, outer_proc, epoch FROM t_seen_ WHERE last) l
        ON l.run_id = a.run_id AND l.attempt = a.attempt AND l.source_id = a.source_id AND l.outer_proc = a.outer_proc
),
ending AS (
    SELECT run_id, attempt, source_id, outer_proc, pos, min(from_at) AS from_at FROM t_tail_ WHERE what = 'life'
    GROUP BY run_id, attempt, source_id, outer_proc, pos
),
told AS (
    SELECT b.* EXCLUDE (was_until, upto) REPLACE (b.upto AS until_pos,
        CASE WHEN b.upto = b.was_until THEN b.until_at ELSE e.from_at END AS until_at,
        CASE WHEN b.upto = b.was_until THEN b.ended_at END AS ended_at),
        NOT b.off AND (coalesce(b.next_use < coalesce(b.upto, 4611686018427387904), false)
            OR b.kind = 'update_while_asleep' OR (b.kind = 'reset_refused' AND NOT b.was_heard)) AS found,
        b.epoch < b.last OR CASE WHEN b.kind = 'update_while_asleep' THEN b.next_upd IS NOT NULL ELSE b.upto IS NOT NULL END AS done
    FROM bounded b
    LEFT JOIN ending e ON e.run_id = b.run_id AND e.attempt = b.attempt AND e.source_id = b.source_id AND e.outer_proc = b.outer_proc AND e.pos = b.upto
)
SELECT f.* REPLACE (coalesce(f.ended_at, t.own_at) AS ended_at)
FROM told f
ASOF LEFT JOIN (SELECT source_id, pos, own_at FROM t_tail_ WHERE own_at IS NOT NULL) t ON t.source_id = f.source_id AND t.pos >= coalesce(f.until_pos, 9223372036854775807)
UNION ALL BY NAME
-- They all end before the tail.
SELECT h.* REPLACE (coalesce(h.ended_at, CASE WHEN h.until_pos IS NOT NULL THEN t.own_at END) AS ended_at)
FROM t_held_ h
LEFT JOIN (SELECT source_id, arg_min(own_at, pos) AS own_at FROM t_tail_ WHERE own_at IS NOT NULL GROUP BY source_id) t ON t.source_id = h.source_id
WHERE h.done AND h.source_id NOT IN (SELECT source_id FROM t_redo_);

-- What is carried over.
CREATE OR REPLACE TEMP TABLE t_held_ AS
SELECT * FROM t_held_
WHERE source_id IN (SELECT source_id FROM t_cut_ WHERE NOT settled) AND source_id NOT IN (SELECT source_id FROM t_redo_)
UNION ALL BY NAME
SELECT * FROM t_case_ WHERE source_id IN (SELECT source_id FROM t_cut_ WHERE settled) AND (found OR NOT done);

CREATE OR REPLACE TEMP TABLE t_engine_ AS
SELECT * FROM t_engine_
WHERE source_id IN (SELECT source_id FROM t_cut_ WHERE NOT settled) AND source_id NOT IN (SELECT source_id FROM t_redo_)
UNION ALL
SELECT run_id, attempt, source_id, outer_proc, epoch, pos, greatest(drop_pos, drop_here) AS drop_pos, greatest(sleep_pos, sleep_here) AS sleep_pos,
    greatest(sleep_all_pos, sleep_all_here) AS sleep_all_pos, greatest(load_pos, load_here) AS load_pos, greatest(weights_pos, weights_here) AS weights_pos,
    greatest(kv_pos, kv_here) AS kv_pos, greatest(reset_pos, reset_here) AS reset_pos, greatest(upd_pos, upd_here) AS upd_pos,
    greatest(answer_pos, answer_here) AS answer_pos, greatest(use_pos, use_here, last_use) AS use_pos, was_heard OR heard AS heard, policy AS keeps_kv
FROM t_seen_ WHERE last AND source_id IN (SELECT source_id FROM t_cut_ WHERE settled);

CREATE OR REPLACE TEMP TABLE t_cache_ AS
SELECT source_id, outer_proc, pos, cache FROM t_cache_
WHERE source_id IN (SELECT source_id FROM t_cut_ WHERE NOT settled) AND source_id NOT IN (SELECT source_id FROM t_redo_)
UNION ALL
SELECT source_id, outer_proc, pos, max(cache) AS cache FROM (
    SELECT source_id, outer_proc, pos, cache FROM t_cache_ WHERE source_id NOT IN (SELECT source_id FROM t_redo_)
    UNION ALL SELECT source_id, outer_proc, pos, cache FROM t_tail_ WHERE what = 'cache'
)
WHERE source_id IN (SELECT source_id FROM t_cut_ WHERE settled) GROUP BY source_id, outer_proc, pos
QUALIFY row_number() OVER (PARTITION BY source_id, outer_proc ORDER BY pos DESC) = 1;

-- The lines at which they begin, a console's copies too.
CREATE OR REPLACE TEMP TABLE t_finding_line AS
SELECT rec_id, array_to_string(list_sort(list(kind)), ', ') AS kinds FROM t_case_ WHERE found GROUP BY rec_id;

-- When each step of those attempts ended, UTC, as the first line says that tells it; and the logs that tell of steps.
CREATE OR REPLACE TEMP TABLE t_step_end_ AS
SELECT p.run_id, p.lo_attempt AS attempt, least(greatest(v.step, -2305843009213693952), 2305843009213693952) AS step,
    min(CASE WHEN v.stamp_utc THEN v.stamp ELSE v.stamp - to_seconds(p.zone_s) END) AS ended_at, list(DISTINCT v.source_id) AS logs
FROM b_step_event v
JOIN t_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
WHERE v.edge = 'end' AND v.step IS NOT NULL AND p.run_id IN (SELECT run_id FROM t_case_ WHERE found)
GROUP BY ALL;

-- By time: the lowest step that ended then or later, and the highest that ended then or before.
CREATE OR REPLACE TEMP TABLE t_step_by_time_ AS
SELECT run_id, attempt, ended_at, min(step) OVER (PARTITION BY run_id, attempt ORDER BY ended_at DESC) AS next_step,
    max(step) OVER (PARTITION BY run_id, attempt ORDER BY ended_at) AS last_step
FROM t_step_end_ WHERE ended_at IS NOT NULL;

-- The findings, each once, and of their steps what the time tells. A console's copy of an engine's lines says nothing of its own: the same finding at
-- the same printed time is one, and the engine's own log counts before a console. In one epoch of one log no line is another's copy, whatever its time.
--   next_step, before_step  the lowest step that ended when it began or later, and the highest that ended before
--   until_step, ended_step  the lowest that ended at until_at or later, and at ended_at
CREATE OR REPLACE TEMP TABLE t_found_ AS
WITH told AS (
    SELECT kind, run_id, attempt, told.pid AS pid FROM t_case_ WHERE found GROUP BY ALL
    HAVING min(source_id) < max(source_id) OR min(outer_proc) < max(outer_proc) OR min(epoch) < max(epoch)
),
copy AS (
    SELECT rec_id, kind FROM (
        SELECT c.rec_id, c.kind, c.run_id, c.attempt, c.source_id, c.pos, c.told.pid AS pid, c.told.printed AS printed, c.told.console AS console,
            row_number() OVER (PARTITION BY c.run_id, c.attempt, c.source_id, c.outer_proc, c.epoch, c.kind, c.told.pid, c.told.printed ORDER BY c.pos) AS nth
        FROM t_case_ c
        JOIN told t ON t.kind = c.kind AND t.run_id = c.run_id AND t.attempt = c.attempt AND t.pid IS NOT DISTINCT FROM c.told.pid
        WHERE c.found AND c.told.printed IS NOT NULL
    )
    QUALIFY row_number() OVER (PARTITION BY run_id, attempt, kind, pid, printed, nth ORDER BY console, source_id, pos) > 1
),
one AS (SELECT * FROM (SELECT * FROM t_case_ WHERE found) c ANTI JOIN copy d ON d.rec_id = c.rec_id AND d.kind = c.kind),
step AS (
    SELECT f.rec_id, f.kind, b.next_step, l.last_step AS before_step, u.next_step AS until_step, e.next_step AS ended_step
    FROM (SELECT rec_id, kind, run_id, attempt, from_at, until_at, ended_at FROM one
          WHERE EXISTS (SELECT 1 FROM t_step_by_time_ s WHERE s.run_id = one.run_id AND s.attempt = one.attempt)) f
    ASOF LEFT JOIN t_step_by_time_ b ON b.run_id = f.run_id AND b.attempt = f.attempt AND b.ended_at >= coalesce(f.from_at, 'infinity'::TIMESTAMP)
    ASOF LEFT JOIN t_step_by_time_ l ON l.run_id = f.run_id AND l.attempt = f.attempt AND l.ended_at < coalesce(f.from_at, '-infinity'::TIMESTAMP)
    ASOF LEFT JOIN t_step_by_time_ u ON u.run_id = f.run_id AND u.attempt = f.attempt AND u.ended_at >= coalesce(f.until_at, 'infinity'::TIMESTAMP)
    ASOF LEFT JOIN t_step_by_time_ e ON e.run_id = f.run_id AND e.attempt = f.attempt AND e.ended_at >= coalesce(f.ended_at, 'infinity'::TIMESTAMP)
)
SELECT f.kind || ':' || f.source_id || ':' || f.told.generation || ':' || f.told.byte_offset AS finding_id, f.rec_id, f.run_id, f.attempt, f.source_id,
    f.kind, f.woke_kv, f.pos, f.until_pos, f.from_at, f.until_at, f.ended_at, s.next_step, s.before_step, s.until_step, s.ended_step,
    unnest(f.told)
FROM one f LEFT JOIN step s ON s.rec_id = f.rec_id AND s.kind = f.kind;

-- One row a finding.
--   from_pos, until_pos   bytes of its log, over generations; until NULL: it holds still
--   from_at, until_at     UTC, NULL where the log's zone is not known
--   first_step, last_step the steps that were under way then, as the step lines of the attempt tell
CREATE OR REPLACE TEMP TABLE t_finding AS
SELECT finding_id, rec_id, run_id, attempt, 'rollout' AS role, rank, host, pid, kind, 'N' AS severity,
    CASE kind
        WHEN 'wake_without_weights' THEN 'awake after a sleep that dropped the weights (level 2), and nothing loaded them again before the next use'
        WHEN 'wake_tags_missing' THEN CASE WHEN woke_kv THEN 'the KV cache is awake and the weights still sleep'
             ELSE 'the weights are awake and the KV cache still sleeps' END
        WHEN 'update_while_asleep' THEN 'weights were updated while they slept'
        WHEN 'update_without_reset'
            THEN 'the weights were updated, and the engine went on with a prefix cache that nothing shows to be reset'
        WHEN 'reset_refused' THEN 'the prefix cache was not reset, because requests still held blocks of it'
        ELSE 'an update of the weights began, and nothing shows that it ended' END AS detail,
    pos AS from_pos, until_pos, from_at, until_at, coalesce(next_step, step) AS first_step, until_step AS last_step,
    path, line_no, byte_offset, source_id, generation, observed_at
FROM t_found_;

-- What each finding bounds: a record is not of it where something shows that it is not. Stamps are of a second at the coarsest.
--   lo_us, hi_us    UTC: no number before or after is of it; plus infinity: nothing shows that it ended. NULL: its time is
--                   not known. A number without a step may be of any step that was under way.
--   step_lo, step_hi the same in steps; NULL: nothing tells the steps
--   own             its log is the engine's alone: there the order of lines says all
-- An engine in a log of no known run may be of any that shares the watched root: as a fault, see 2_lock.sql.
CREATE OR REPLACE TEMP TABLE t_finding_act_ AS
WITH reach AS (
    SELECT finding_id, run_id, attempt AS lo_attempt, hi_attempt, false AS loose FROM t_found_
    UNION ALL
    SELECT r.finding_id, o.run_id, 1, o.hi_attempt, true
    FROM t_found_ r
    JOIN (SELECT DISTINCT p.host, p.root, p.run_id, a.hi_attempt
          FROM t_place p JOIN (SELECT run_id, max(attempt) AS hi_attempt FROM t_attempt GROUP BY run_id) a ON a.run_id = p.run_id
          WHERE p.run_how <> 'us') o ON o.host = r.place_host AND o.root = r.root
    WHERE r.run_how = 'us'
),
bound AS (
    SELECT f.finding_id, r.run_id, r.lo_attempt, r.hi_attempt, r.loose, f.source_id, f.kind, f.pos AS from_pos, f.until_pos, f.from_at, f.ended_at AS until_at,
        o.margin_us, o.staleness, NOT r.loose AND d.run_id IS NOT NULL AS steps,
        -- greatest() passes over NULL
        CASE WHEN NOT r.loose THEN coalesce(f.next_step, f.before_step,
            CASE WHEN f.step IS NOT NULL THEN least(greatest(f.step, -2305843009213693952), 2305843009213693952) END) END AS first_step,
        f.ended_step AS last_step
    FROM t_found_ f
    JOIN reach r ON r.finding_id = f.finding_id
    LEFT JOIN (SELECT DISTINCT run_id, attempt FROM t_step_end_) d ON d.run_id = f.run_id AND d.attempt = f.attempt
    CROSS JOIN t_lock_setting_ o
),
-- Of the steps after it, the first that is `staleness` behind it.
after_ AS (
    SELECT b.run_id, b.lo_attempt, b.last_step, b.staleness, b.until_at, min(s.ended_at) AS ended_at
    FROM (SELECT DISTINCT run_id, lo_attempt, last_step, staleness, until_at FROM bound WHERE steps) b
    JOIN t_step_end_ s ON s.run_id = b.run_id AND s.attempt = b.lo_attempt AND s.step >= b.last_step + b.staleness AND s.ended_at >= b.until_at
    GROUP BY ALL
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
         ELSE coalesce(epoch_us(CASE WHEN b.steps THEN a.ended_at ELSE b.until_at END) + b.margin_us + 1000000, 4611686018427387904) END AS hi_us,
    b.first_step - b.staleness AS step_lo,
    CASE WHEN b.first_step IS NOT NULL THEN coalesce(b.last_step + b.staleness, 4611686018427387904) END AS step_hi,
    b.source_id NOT IN (SELECT source_id FROM t_place WHERE console)
        AND b.source_id NOT IN (SELECT unnest(logs) FROM t_step_end_) AS own
FROM bound b
LEFT JOIN after_ a ON b.steps AND a.run_id = b.run_id AND a.lo_attempt = b.lo_attempt AND a.last_step = b.last_step AND a.staleness = b.staleness
    AND a.until_at = b.until_at;

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
    array_to_string(list_sort(list(DISTINCT a.words) FILTER (WHERE a.words IS NOT NULL)), '; ') AS words,
    array_to_string(min(DISTINCT a.finding_id, 20), ' ') AS ids
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
    SELECT *, max(hi) OVER (PARTITION BY axis, key ORDER BY lo, hi ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS extent FROM range0
),
island AS (
    SELECT *, sum(CASE WHEN extent IS NULL OR lo > extent + CASE axis WHEN 'step' THEN 1 ELSE 0 END THEN 1 ELSE 0 END)
        OVER (PARTITION BY axis, key ORDER BY lo, hi ROWS UNBOUNDED PRECEDING) AS nth
    FROM grown
)
SELECT axis, key, min(lo) AS lo, max(hi) AS hi, min(since_us) AS since_us,
    CASE WHEN count(*) = 1 THEN min(words) ELSE array_to_string(list_sort(list_distinct(list(words))), '; ') END AS words,
    CASE WHEN count(*) = 1 THEN min(finding_id) ELSE array_to_string(list_slice(list_sort(list_distinct(list(finding_id))), 1, 20), ' ') END AS ids
FROM island GROUP BY axis, key, nth;
