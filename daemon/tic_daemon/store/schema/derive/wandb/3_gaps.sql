-- What is missing where, and why: see ../../../reconcile.py. Words of causes are kept short: views/190_wandb.sql says them.
-- Variables: tic_grace_us, how long a row may be under way; tic_now, the time of this tick.

-- The newest of each way to cut pages that came to its end.
CREATE OR REPLACE TEMP TABLE t_wandb_usable_ AS
SELECT run_id, wid, read_id, began_at, first_step, last_step, page, seen FROM t_wandb_read_
WHERE outcome = 'ok'
QUALIFY row_number() OVER (PARTITION BY run_id, wid, first_step, page ORDER BY began_at DESC, rec_id DESC) = 1;

CREATE OR REPLACE TEMP TABLE t_wandb_latest_ AS
SELECT run_id, wid, any_value(attempt) AS attempt, arg_max(outcome, (began_at, rec_id)) AS outcome, arg_max(detail, (began_at, rec_id)) AS detail,
    max(began_at) AS began_at, max(began_at) FILTER (outcome = 'ok') AS ok_at, arg_max(asked_first, (began_at, rec_id)) AS asked_first,
    arg_max(asked_last, (began_at, rec_id)) AS asked_last, arg_max(read_id, (began_at, rec_id)) AS read_id,
    bool_and(outcome = 'no_account') AS no_account
FROM t_wandb_read_ GROUP BY run_id, wid;

-- The two newest whole readings with pages cut differently, and what they saw.
CREATE OR REPLACE TEMP TABLE t_wandb_whole_ AS
SELECT run_id, wid, read_id, began_at, nth, seen FROM (
    SELECT *, row_number() OVER (PARTITION BY run_id, wid ORDER BY began_at DESC, read_id) AS nth FROM t_wandb_usable_
    WHERE first_step <= 0 AND last_step >= coalesce((
        SELECT max(g.w_hi) FROM t_wandb_group_ g WHERE g.run_id = t_wandb_usable_.run_id AND g.wid = t_wandb_usable_.wid AND g.side = 'wandb_api'), 0)
) WHERE nth <= 2;

CREATE OR REPLACE TEMP TABLE t_wandb_range_ AS
SELECT run_id, wid, nth, began_at, split_part(piece, '-', 1)::BIGINT AS lo,
    coalesce(nullif(split_part(piece, '-', 2), ''), split_part(piece, '-', 1))::BIGINT AS hi
FROM (SELECT run_id, wid, nth, began_at, unnest(string_split(seen, ' ')) AS piece FROM t_wandb_whole_)
WHERE regexp_full_match(piece, '[0-9]{1,18}(-[0-9]{1,18})?');

-- Steps of the server, and whether the newest whole readings still saw them: those that began when an earlier reading had the step.
CREATE OR REPLACE TEMP TABLE t_wandb_served_ AS
WITH had AS (
    SELECT u.run_id, u.wid, u.axis, u.step, min(coalesce(r.began_at, TIMESTAMP 'infinity')) AS at
    FROM t_wandb_at_ u LEFT JOIN t_wandb_read_ r ON r.run_id = u.run_id AND r.wid = u.wid AND r.read_id = u.read_id
    WHERE u.side = 'wandb_api' GROUP BY u.run_id, u.wid, u.axis, u.step
)
SELECT g.run_id, g.wid, g.axis, g.step, g.first_at, g.w_lo, g.w_hi, r1.began_at AS read_at,
    coalesce(r1.began_at > h.at, false) AND g.w_lo IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM t_wandb_range_ x WHERE x.run_id = g.run_id AND x.wid = g.wid AND x.nth = 1 AND g.w_lo BETWEEN x.lo AND x.hi) AS unseen,
    coalesce(r2.began_at > h.at, false) AND g.w_lo IS NOT NULL AND EXISTS (SELECT 1 FROM t_wandb_range_ x WHERE x.run_id = g.run_id AND x.wid = g.wid)
        AND NOT EXISTS (SELECT 1 FROM t_wandb_range_ x WHERE x.run_id = g.run_id AND x.wid = g.wid AND g.w_lo BETWEEN x.lo AND x.hi) AS vanished
FROM t_wandb_group_ g
JOIN had h ON h.run_id = g.run_id AND h.wid = g.wid AND h.axis = g.axis AND h.step = g.step
LEFT JOIN t_wandb_whole_ r1 ON r1.run_id = g.run_id AND r1.wid = g.wid AND r1.nth = 1
LEFT JOIN t_wandb_whole_ r2 ON r2.run_id = g.run_id AND r2.wid = g.wid AND r2.nth = 2
WHERE g.side = 'wandb_api';

-- What each history has of the run: local logs, readings, and how it ended.
CREATE OR REPLACE TEMP TABLE t_wandb_life_ AS
SELECT s.run_id, s.wid, max(s.attempt) AS attempt, any_value(s.main) AS main, bool_or(s.shared) AS shared,
    count(*) FILTER (s.kind = 'wandb_local' AND s.told) AS logs, -- one without a record is as good as none
    bool_and(s.mode = 'offline') FILTER (s.kind = 'wandb_local') AS offline,
    coalesce(arg_max(s.state, coalesce(s.started_at, TIMESTAMP '1970-01-01')) FILTER (s.kind = 'wandb_local'), '') IN ('finished', 'failed') AS closed,
    bool_or(s.kind = 'wandb_api' AND s.state IN ('finished', 'failed', 'crashed', 'killed')) AS over,
    max(s.started_at) FILTER (s.kind = 'wandb_local') AS started_at,
    any_value(l.read_id) IS NOT NULL AND NOT coalesce(any_value(l.no_account), false) AS read, any_value(l.ok_at) IS NOT NULL AS answered
FROM t_wandb_source_ s LEFT JOIN t_wandb_latest_ l ON l.run_id = s.run_id AND l.wid = s.wid
GROUP BY s.run_id, s.wid;

-- Steps that a trainer's own lines tell on the main axis, by a line that ends them: they count where W&B has most of their like.
CREATE OR REPLACE TEMP TABLE t_wandb_told_ AS
WITH w AS (
    SELECT g.run_id, g.axis, g.step FROM t_wandb_group_ g JOIN t_wandb_life_ f ON f.run_id = g.run_id AND f.wid = g.wid AND f.main = g.axis
    GROUP BY ALL
),
span AS (SELECT run_id, any_value(axis) AS axis, min(step) AS lo, max(step) AS hi FROM w GROUP BY run_id),
dense AS (
    SELECT l.run_id, l.console FROM t_wandb_ended_ l JOIN span s ON s.run_id = l.run_id AND l.step BETWEEN s.lo AND s.hi
    LEFT JOIN w ON w.run_id = l.run_id AND w.step = l.step
    GROUP BY l.run_id, l.console HAVING count(w.step) >= 3 AND count(w.step) * 2 > count(*)
)
SELECT l.run_id, s.axis, l.step, CASE WHEN l.console THEN 'console' ELSE 'file' END AS side, l.attempt, l.told_at
FROM t_wandb_ended_ l JOIN dense d ON d.run_id = l.run_id AND d.console = l.console JOIN span s ON s.run_id = l.run_id;

-- Only where W&B has at least half of their steps: a trainer may print each step and log every tenth.
CREATE OR REPLACE TEMP TABLE t_wandb_trainer_ AS
WITH told AS (
    SELECT run_id, axis, step, max(side) AS side, max(attempt) AS attempt, min(told_at) AS told_at, max(last_at) AS last_at FROM (
        SELECT run_id, axis, step, side, attempt, first_at AS told_at, last_at FROM t_wandb_group_ WHERE wid IS NULL
        UNION ALL
        SELECT run_id, axis, step, side, attempt, told_at, told_at FROM t_wandb_told_
    ) GROUP BY run_id, axis, step
),
w AS (SELECT DISTINCT run_id, axis, step FROM t_wandb_group_ WHERE wid IS NOT NULL),
span AS (SELECT run_id, axis, min(step) AS lo, max(step) AS hi FROM w GROUP BY run_id, axis),
dense AS (
    SELECT t.run_id, t.axis FROM told t
    JOIN span s ON s.run_id = t.run_id AND s.axis = t.axis AND t.step BETWEEN s.lo AND s.hi
    LEFT JOIN w ON w.run_id = t.run_id AND w.axis = t.axis AND w.step = t.step
    GROUP BY t.run_id, t.axis HAVING count(w.step) * 2 >= count(*)
)
SELECT t.* FROM told t SEMI JOIN dense d ON d.run_id = t.run_id AND d.axis = t.axis;

-- All steps of a run in order; `pos` counts them, so that a history of every tenth step has no holes.
CREATE OR REPLACE TEMP TABLE t_wandb_pos_ AS
SELECT run_id, axis, step, row_number() OVER (PARTITION BY run_id, axis ORDER BY step) AS pos, count(*) OVER (PARTITION BY run_id, axis) AS steps
FROM (SELECT run_id, axis, step FROM t_wandb_group_ WHERE wid IS NOT NULL UNION SELECT run_id, axis, step FROM t_wandb_trainer_);

CREATE OR REPLACE TEMP TABLE t_wandb_uploader_ AS
SELECT log_id, min(lo) FILTER (state IN ('sending', 'acknowledged')) AS base, max(hi) FILTER (state = 'acknowledged') AS acked,
    arg_max(status, rec_id) FILTER (state = 'dead') AS status, max(told_at) FILTER (state = 'dead') AS dead_at,
    arg_max(detail, rec_id) FILTER (state = 'dead') AS detail, bool_or(state = 'no_log') AS no_log,
    bool_or(state = 'too_long') AS too_long
FROM t_wandb_sent_ GROUP BY log_id;

CREATE OR REPLACE TEMP TABLE t_wandb_acked_ AS
SELECT DISTINCT ON (log_id, lo, hi) log_id, lo, hi, status, told_at FROM t_wandb_sent_
WHERE state = 'acknowledged' AND hi > lo ORDER BY log_id, lo, hi, told_at;

-- Steps that the server lacks: of the local log, or without one, of the trainer's lines.
CREATE OR REPLACE TEMP TABLE t_wandb_unserved_ AS
WITH cand AS (
    SELECT g.run_id, g.wid, g.axis, g.step, g.attempt, g.first_at AS since, 'wandb_local' AS holder, CASE WHEN NOT f.shared THEN g.w_lo END AS w,
        g.source_id AS log_id, g.row_no, g.bytes, v.vanished IS NOT NULL AS vanished, f.shared
    FROM t_wandb_group_ g
    JOIN t_wandb_life_ f ON f.run_id = g.run_id AND f.wid = g.wid AND f.read
    LEFT JOIN t_wandb_served_ v ON v.run_id = g.run_id AND v.wid = g.wid AND v.axis = g.axis AND v.step = g.step
    WHERE g.side = 'wandb_local' AND (v.step IS NULL OR v.vanished)
    UNION ALL
    SELECT t.run_id, f.wid, t.axis, t.step, t.attempt, t.told_at, t.side, CASE WHEN t.axis = '_step' AND NOT f.shared THEN t.step END, NULL, NULL, NULL, false, f.shared
    FROM t_wandb_trainer_ t
    JOIN t_wandb_life_ f ON f.run_id = t.run_id AND f.read AND f.logs = 0
    WHERE f.wid = (SELECT max(x.wid) FROM t_wandb_life_ x WHERE x.run_id = t.run_id)
      AND NOT EXISTS (SELECT 1 FROM t_wandb_group_ g WHERE g.run_id = t.run_id AND g.side = 'wandb_api' AND g.axis = t.axis AND g.step = t.step)
      AND EXISTS (SELECT 1 FROM t_wandb_group_ g WHERE g.run_id = t.run_id AND g.wid = f.wid AND g.axis = t.axis)
    UNION ALL
    -- Seen by the server's readings once, and no more; no other source has it.
    SELECT v.run_id, v.wid, v.axis, v.step, f.attempt, v.first_at, 'wandb_api', v.w_lo, NULL, NULL, NULL, true, f.shared
    FROM t_wandb_served_ v JOIN t_wandb_life_ f ON f.run_id = v.run_id AND f.wid = v.wid
    WHERE v.vanished AND NOT EXISTS (
        SELECT 1 FROM t_wandb_group_ g WHERE g.run_id = v.run_id AND g.wid = v.wid AND g.axis = v.axis AND g.step = v.step AND g.side = 'wandb_local')
),
-- Where its row would stand at the server, if its `_step` is not known: between its neighbours' rows.
placed AS (
    SELECT c.*, coalesce(c.w, b.w_hi, 0) AS w_from FROM cand c
    ASOF LEFT JOIN (SELECT run_id, wid, axis, step, w_hi FROM t_wandb_served_) b
        ON b.run_id = c.run_id AND b.wid = c.wid AND b.axis = c.axis AND c.step > b.step
),
known AS (
    SELECT p.run_id, p.wid, p.axis, p.step,
        count(DISTINCT CASE WHEN r.page > 1000000000 OR p.w IS NULL THEN hash(r.first_step, r.page)
            ELSE hash(r.first_step + (p.w - r.first_step) // r.page * r.page, least(r.first_step + ((p.w - r.first_step) // r.page + 1) * r.page, r.last_step)) END) AS reads
    FROM placed p JOIN t_wandb_usable_ r ON r.run_id = p.run_id AND r.wid = p.wid
        AND r.began_at >= p.since + to_microseconds(getvariable('tic_grace_us')::BIGINT)
        AND r.first_step <= p.w_from AND r.last_step >= p.w_from
    GROUP BY p.run_id, p.wid, p.axis, p.step
)
SELECT p.*, coalesce(k.reads, 0) AS reads, l.outcome, l.began_at, l.ok_at,
    p.since + to_microseconds(getvariable('tic_grace_us')::BIGINT) AS due_at
FROM placed p
LEFT JOIN known k ON k.run_id = p.run_id AND k.wid = p.wid AND k.axis = p.axis AND k.step = p.step
JOIN t_wandb_latest_ l ON l.run_id = p.run_id AND l.wid = p.wid;

-- Why, for each of them.
CREATE OR REPLACE TEMP TABLE t_wandb_unserved_why_ AS
SELECT c.run_id, c.wid, c.axis, c.step, c.attempt, c.since, c.holder, c.reads, c.due_at,
    CASE WHEN c.reads >= 2 THEN 'missing'
         WHEN c.outcome <> 'ok' AND c.began_at >= c.due_at AND coalesce(c.ok_at < c.due_at, true) THEN 'unread' ELSE 'pending' END AS kind,
    CASE WHEN c.vanished THEN 'server_lost'
         WHEN u.dead_at IS NOT NULL AND c.row_no + coalesce(u.base, 0) >= coalesce(u.acked, 0) THEN 'uploader_dead'
         WHEN c.bytes > 10383360 OR (c.bytes > 1000000 AND u.too_long) THEN 'line_too_long'
         WHEN a.log_id IS NOT NULL AND c.reads > 0 THEN 'server_lost_chunk'
         WHEN t.two THEN 'another_writer'
         WHEN c.reads >= 2 AND u.log_id IS NOT NULL AND c.row_no + coalesce(u.base, 0) >= coalesce(u.acked, 0) THEN 'not_uploaded'
         WHEN c.reads < 2 THEN 'under_way' ELSE 'unknown' END AS cause,
    CASE WHEN c.vanished THEN 'earlier readings had it, the last two do not'
         WHEN u.dead_at IS NOT NULL AND c.row_no + coalesce(u.base, 0) >= coalesce(u.acked, 0)
         THEN 'the uploader ended' || coalesce(' with status ' || u.status, '') || ' at ' || strftime(u.dead_at, '%Y-%m-%d %H:%M:%S') || ' UTC; '
            || coalesce(u.acked, 0) || ' lines of history were acknowledged before' || coalesce(': ' || nullif(left(u.detail, 160), ''), '')
         WHEN c.bytes > 10383360 OR (c.bytes > 1000000 AND u.too_long) THEN 'its row has ' || c.bytes || ' bytes'
         WHEN a.log_id IS NOT NULL AND c.reads > 0
         THEN 'lines ' || a.lo || ' to ' || a.hi - 1 || ' of the history were acknowledged' || coalesce(' with status ' || a.status, '') || ' at '
            || strftime(a.told_at, '%Y-%m-%d %H:%M:%S') || ' UTC'
         WHEN t.two THEN 'two processes wrote this run at one time'
         ELSE '' END AS evidence
FROM t_wandb_unserved_ c
LEFT JOIN t_wandb_uploader_ u ON u.log_id = c.log_id
ASOF LEFT JOIN t_wandb_acked_ a ON a.log_id = c.log_id AND c.row_no + coalesce(u.base, 0) >= a.lo
LEFT JOIN (
    SELECT s.run_id, s.wid, true AS two FROM t_wandb_source_ s JOIN t_wandb_source_ o
        ON o.run_id = s.run_id AND o.wid = s.wid AND o.source_id <> s.source_id AND o.kind = 'wandb_local' AND o.started_at > s.started_at
    JOIN (SELECT source_id, max(told_at) AS last_at FROM d_wandb_unit GROUP BY source_id) e ON e.source_id = s.source_id AND e.last_at > o.started_at
    WHERE s.kind = 'wandb_local' AND NOT s.shared AND s.mode <> 'offline'
    GROUP BY s.run_id, s.wid
) t ON t.run_id = c.run_id AND t.wid = c.wid;

-- The last resume of each run.
CREATE OR REPLACE TEMP TABLE t_wandb_resumed_ AS
SELECT run_id, max(starting_step) AS starting_step, arg_max(started_at, starting_step) AS started_at FROM t_wandb_source_
WHERE kind = 'wandb_local' AND starting_step > 0 AND started_at IS NOT NULL GROUP BY run_id;

-- Steps before it that a trainer printed after it. A line without a time may be of any time before it was read: of before
-- the resume, where its log was found later, and in the first look at its log after the resume. What shows more: it stands
-- behind the last step before the resume; it was told before its log was found, and so by its own time; or a later look.
CREATE OR REPLACE TEMP TABLE t_wandb_replayed_ AS
SELECT DISTINCT run_id, step FROM (
    SELECT a.run_id, a.step, a.told_at, r.starting_step, r.started_at, b.first_seen_at,
        max(a.step) OVER (PARTITION BY a.run_id, a.source_id ORDER BY a.generation, a.byte_offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before,
        min(CASE WHEN a.told_at >= r.started_at THEN a.told_at END) OVER (PARTITION BY a.run_id, a.source_id) AS look
    FROM t_wandb_at_ a
    JOIN t_wandb_resumed_ r ON r.run_id = a.run_id
    JOIN b_source b ON b.source_id = a.source_id
    WHERE a.wid IS NULL AND a.axis = '_step'
)
WHERE step < starting_step AND (before >= starting_step - 1
    OR (told_at >= started_at AND (told_at < first_seen_at OR (first_seen_at < started_at AND told_at > look))));

-- Steps that the local log lacks: of the server, or of the trainer's lines.
CREATE OR REPLACE TEMP TABLE t_wandb_unlogged_ AS
WITH edge AS (
    SELECT run_id, wid, axis, max(step) AS last_step, max(last_at) AS last_at FROM t_wandb_group_ WHERE side = 'wandb_local' GROUP BY run_id, wid, axis
),
newest AS (SELECT run_id, axis, max(step) AS step FROM t_wandb_pos_ GROUP BY run_id, axis),
drop AS (
    SELECT run_id, dropped_step AS step, arg_max(current_step, rec_id) AS current_step, max(told_at) AS told_at FROM t_wandb_sent_
    WHERE state = 'dropped' AND dropped_step IS NOT NULL GROUP BY run_id, dropped_step
),
lone AS (SELECT run_id, bool_or(u.no_log) AS no_log FROM t_wandb_uploader_ u JOIN t_wandb_source_ s ON s.source_id = u.log_id GROUP BY run_id),
-- Where bytes of a log are damaged: the steps between the rows before and behind them.
logged AS (SELECT source_id, generation, axis, step, byte_offset FROM t_wandb_at_ WHERE side = 'wandb_local'),
damage AS (
    SELECT s.run_id, s.wid, x.axis, g.first_byte, g.last_byte, b.step AS lo, a.step AS hi
    FROM (SELECT DISTINCT source_id, generation, first_byte, last_byte FROM b_source_gap
        WHERE kind IN ('wandb_damaged', 'wandb_record') AND prov IS NULL) g
    JOIN t_wandb_source_ s ON s.source_id = g.source_id
    JOIN (SELECT DISTINCT source_id, generation, axis FROM logged) x ON x.source_id = g.source_id AND x.generation = g.generation
    ASOF LEFT JOIN logged b ON b.source_id = x.source_id AND b.generation = x.generation AND b.axis = x.axis AND g.first_byte > b.byte_offset
    ASOF JOIN logged a ON a.source_id = x.source_id AND a.generation = x.generation AND a.axis = x.axis AND g.first_byte <= a.byte_offset
),
cand AS (
    SELECT v.run_id, v.wid, v.axis, v.step, v.first_at AS since, true AS served, f.attempt
    FROM t_wandb_served_ v JOIN t_wandb_life_ f ON f.run_id = v.run_id AND f.wid = v.wid AND f.logs > 0
    WHERE NOT v.vanished AND NOT EXISTS (
        SELECT 1 FROM t_wandb_group_ g WHERE g.run_id = v.run_id AND g.wid = v.wid AND g.axis = v.axis AND g.step = v.step AND g.side = 'wandb_local')
    UNION ALL
    SELECT t.run_id, f.wid, t.axis, t.step, t.told_at, false, t.attempt
    FROM t_wandb_trainer_ t JOIN t_wandb_life_ f ON f.run_id = t.run_id AND f.logs > 0
    WHERE f.wid = (SELECT max(x.wid) FROM t_wandb_life_ x WHERE x.run_id = t.run_id AND x.logs > 0)
      AND NOT EXISTS (SELECT 1 FROM t_wandb_group_ g WHERE g.run_id = t.run_id AND g.wid IS NOT NULL AND g.axis = t.axis AND g.step = t.step)
      AND EXISTS (SELECT 1 FROM t_wandb_group_ g WHERE g.run_id = t.run_id AND g.side = 'wandb_local' AND g.axis = t.axis)
)
SELECT c.run_id, c.wid, c.axis, c.step, c.attempt, c.since, c.served,
    c.since + to_microseconds(CASE WHEN n.step IS NOT NULL AND NOT f.closed AND NOT coalesce(f.over, false)
        THEN greatest(900000000, getvariable('tic_grace_us')::BIGINT) ELSE getvariable('tic_grace_us')::BIGINT END) AS due_at,
    CASE WHEN d.step IS NOT NULL THEN 'dropped_by_sdk'
         WHEN NOT c.served AND a.step IS NOT NULL THEN 'dropped_by_sdk'
         WHEN h.step IS NOT NULL THEN 'log_damaged'
         WHEN l.no_log THEN 'no_local_log'
         WHEN c.served AND NOT f.closed AND c.step > coalesce(e.last_step, -1) THEN 'ended_before_flush'
         WHEN c.served THEN 'another_writer'
         WHEN f.closed AND c.since > e.last_at AND c.step > coalesce(e.last_step, -1) THEN 'logged_after_finish'
         WHEN NOT f.closed AND c.step > coalesce(e.last_step, -1) THEN 'ended_before_flush'
         ELSE 'unknown' END AS cause,
    CASE WHEN d.step IS NOT NULL THEN 'log() was called for it' || coalesce(' when the client was at _step ' || d.current_step, '')
         WHEN NOT c.served AND a.step IS NOT NULL
         THEN 'the run was resumed at _step ' || r.starting_step || ' on ' || strftime(r.started_at, '%Y-%m-%d %H:%M:%S') || ' UTC'
         WHEN h.step IS NOT NULL THEN 'bytes ' || h.first_byte || ' to ' || h.last_byte
         WHEN l.no_log THEN 'the client could not open its transaction log'
         WHEN c.step > coalesce(e.last_step, -1) AND NOT f.closed
         THEN 'the log ends at step ' || coalesce(e.last_step::VARCHAR, 'none') || ' without an exit record'
         WHEN c.step > coalesce(e.last_step, -1) AND f.closed THEN 'the log ends at step ' || coalesce(e.last_step::VARCHAR, 'none') || ' with its exit record'
         ELSE '' END AS evidence
FROM cand c
JOIN t_wandb_life_ f ON f.run_id = c.run_id AND f.wid = c.wid
LEFT JOIN edge e ON e.run_id = c.run_id AND e.wid = c.wid AND e.axis = c.axis
LEFT JOIN newest n ON n.run_id = c.run_id AND n.axis = c.axis AND n.step = c.step AND NOT c.served
LEFT JOIN drop d ON d.run_id = c.run_id AND d.step = c.step AND c.axis = '_step'
LEFT JOIN t_wandb_resumed_ r ON r.run_id = c.run_id
LEFT JOIN t_wandb_replayed_ a ON a.run_id = c.run_id AND a.step = c.step AND c.axis = '_step'
LEFT JOIN lone l ON l.run_id = c.run_id
LEFT JOIN (
    SELECT c.run_id, c.wid, c.axis, c.step, min(g.first_byte) AS first_byte, arg_min(g.last_byte, g.first_byte) AS last_byte
    FROM cand c JOIN damage g ON g.run_id = c.run_id AND g.wid = c.wid AND g.axis = c.axis AND c.step > coalesce(g.lo, -1) AND c.step < g.hi
    GROUP BY c.run_id, c.wid, c.axis, c.step
) h ON h.run_id = c.run_id AND h.wid = c.wid AND h.axis = c.axis AND h.step = c.step
UNION ALL
-- Calls that the client left out of a step that it has from an earlier one.
SELECT s.run_id, s.wid, '_step', s.dropped_step, f.attempt, min(s.told_at), false, min(s.told_at),
    'dropped_by_sdk', 'log() was called for it' || coalesce(' when the client was at _step ' || arg_max(s.current_step, s.rec_id), '')
        || CASE WHEN EXISTS (SELECT 1 FROM t_wandb_group_ g WHERE g.run_id = s.run_id AND g.side = 'wandb_local' AND g.axis = '_step'
            AND g.step = s.dropped_step) THEN '; what an earlier call logged is there' ELSE '' END
FROM t_wandb_sent_ s JOIN t_wandb_life_ f ON f.run_id = s.run_id AND f.wid = s.wid
WHERE s.state = 'dropped' AND s.dropped_step IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM cand c WHERE c.run_id = s.run_id AND c.axis = '_step' AND c.step = s.dropped_step)
GROUP BY s.run_id, s.wid, s.dropped_step, f.attempt
UNION ALL
-- A resume that replays steps, where the client's own log does not tell of it: the trainer printed them again.
SELECT t.run_id, f.wid, t.axis, t.step, t.attempt, t.last_at, false, t.last_at, 'dropped_by_sdk',
    'the run was resumed at _step ' || r.starting_step || ' on ' || strftime(r.started_at, '%Y-%m-%d %H:%M:%S') || ' UTC, and the trainer printed the step again'
FROM t_wandb_trainer_ t
JOIN t_wandb_resumed_ r ON r.run_id = t.run_id
JOIN t_wandb_replayed_ a ON a.run_id = t.run_id AND a.step = t.step
JOIN t_wandb_life_ f ON f.run_id = t.run_id AND f.logs > 0 AND f.wid = (SELECT max(x.wid) FROM t_wandb_life_ x WHERE x.run_id = t.run_id AND x.logs > 0)
WHERE t.axis = '_step'
  AND NOT EXISTS (SELECT 1 FROM cand c WHERE c.run_id = t.run_id AND c.axis = '_step' AND c.step = t.step)
  AND NOT EXISTS (SELECT 1 FROM t_wandb_sent_ s WHERE s.run_id = t.run_id AND s.state = 'dropped' AND s.dropped_step = t.step);

-- Steps that W&B has and the trainer's lines do not, where they have nearly all others.
CREATE OR REPLACE TEMP TABLE t_wandb_unprinted_ AS
WITH w AS (
    SELECT g.run_id, g.axis, g.step, min(g.first_at) AS since, max(g.attempt) AS attempt
    FROM t_wandb_group_ g JOIN t_wandb_life_ f ON f.run_id = g.run_id AND f.wid = g.wid AND f.main = g.axis GROUP BY g.run_id, g.axis, g.step
),
span AS (SELECT run_id, axis, min(step) AS lo, max(step) AS hi, count(*) AS n, max(side) AS side FROM t_wandb_trainer_ GROUP BY run_id, axis),
dense AS (
    SELECT s.run_id, s.axis, any_value(s.lo) AS lo, any_value(s.hi) AS hi, any_value(s.side) AS side
    FROM span s JOIN w ON w.run_id = s.run_id AND w.axis = s.axis AND w.step BETWEEN s.lo AND s.hi
    LEFT JOIN t_wandb_trainer_ t ON t.run_id = w.run_id AND t.axis = w.axis AND t.step = w.step
    GROUP BY s.run_id, s.axis HAVING count(t.step) >= 10 AND count(t.step) * 10 >= count(*) * 9
)
SELECT w.run_id, w.axis, w.step, w.attempt, w.since, d.side,
    w.since + to_microseconds(getvariable('tic_grace_us')::BIGINT) AS due_at
FROM w JOIN dense d ON d.run_id = w.run_id AND d.axis = w.axis AND w.step > d.lo AND w.step < d.hi
WHERE NOT EXISTS (SELECT 1 FROM t_wandb_trainer_ t WHERE t.run_id = w.run_id AND t.axis = w.axis AND t.step = w.step);

-- Two rows of one `_step` that say different things, and rows behind later ones, within one log or one reading.
CREATE OR REPLACE TEMP TABLE t_wandb_order_ AS
WITH stream AS (
    SELECT s.run_id, s.wid, s.attempt, s.kind AS source, u.source_id, u.generation, coalesce(u.read_id, '') AS read_id, u.rec_id, u.wandb_step, u.row_no,
        min(u.told_at) AS told_at, bit_xor(u.content) AS content, arg_min(u.axis, u.axis) AS axis, min(u.step) AS step
    FROM d_wandb_unit u JOIN t_wandb_source_ s ON s.source_id = u.source_id AND NOT s.shared
    WHERE u.wandb_step IS NOT NULL
    GROUP BY ALL
),
walked AS (
    SELECT *, max(wandb_step) OVER (PARTITION BY source_id, generation, read_id ORDER BY row_no, rec_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM stream
)
SELECT run_id, wid, attempt, source, axis, step, 'out_of_order' AS kind, min(told_at) AS since,
    'a row of _step ' || min(wandb_step) || ' stands behind one of ' || max(before) AS evidence
FROM walked WHERE before > wandb_step GROUP BY run_id, wid, attempt, source, axis, step
UNION ALL
SELECT run_id, wid, attempt, source, axis, step, 'duplicate', min(told_at), count(*) || ' rows of _step ' || any_value(wandb_step) || ' that differ'
FROM stream GROUP BY run_id, wid, attempt, source, source_id, generation, read_id, wandb_step, axis, step HAVING count(DISTINCT content) > 1;

-- One row a step and finding, then runs of steps as one.
CREATE OR REPLACE TEMP TABLE t_wandb_one_ AS
SELECT run_id, wid, attempt, kind, 'wandb_api' AS source, axis, step, '' AS key, cause, holder AS other, evidence, reads, true AS counts,
    NULL::TIMESTAMP AS due_at, since, 0 AS nth
FROM t_wandb_unserved_why_
UNION ALL
-- Where the server is read, a step that only a trainer printed may be there: a reading since must say that it is not.
SELECT u.run_id, u.wid, u.attempt,
    CASE WHEN u.served OR u.cause = 'dropped_by_sdk' OR NOT f.read OR l.ok_at >= u.due_at THEN 'missing' ELSE 'pending' END,
    'wandb_local', u.axis, u.step, '', u.cause, CASE WHEN u.served THEN 'wandb_api' ELSE 'console' END, u.evidence, 0, NOT u.served, u.due_at, u.since, 0
FROM t_wandb_unlogged_ u
JOIN t_wandb_life_ f ON f.run_id = u.run_id AND f.wid = u.wid
LEFT JOIN t_wandb_latest_ l ON l.run_id = u.run_id AND l.wid = u.wid
UNION ALL
SELECT run_id, NULL, attempt, 'missing', side, axis, step, '', 'not_printed', 'wandb', '', 0, false, due_at, since, 0
FROM t_wandb_unprinted_
UNION ALL
SELECT run_id, wid, attempt, kind, source, axis, step, '', CASE kind WHEN 'duplicate' THEN 'written_twice' ELSE 'step_went_back' END, source, evidence, 0,
    kind = 'duplicate', NULL, since, 0
FROM t_wandb_order_
UNION ALL
SELECT d.run_id, d.wid, g.attempt, d.kind, d.source, d.axis, d.step, d.key,
    CASE WHEN d.kind = 'value_differs' THEN CASE WHEN d.other = 'console' THEN 'overwritten' ELSE 'unknown' END
         WHEN d.source = 'wandb_local' AND d.other = 'wandb_api' THEN 'another_writer'
         WHEN d.other = 'console' THEN 'overwritten' ELSE 'server_lost_part' END,
    d.other, coalesce(d.detail, ''), 0, d.source = 'wandb_api' OR d.other = 'console',
    CASE WHEN d.source = 'wandb_api' AND d.other = 'wandb_local' THEN g.last_at ELSE g.first_at END + to_microseconds(getvariable('tic_grace_us')::BIGINT), g.first_at, d.nth
FROM (
    SELECT run_id, wid, axis, step, kind, source, other, detail, unnest(names) AS key, generate_subscripts(names, 1) AS nth FROM d_wandb_diff
    UNION ALL
    SELECT run_id, wid, axis, step, kind, source, other, 'and ' || n - len(names) || ' more keys', '', 21 FROM d_wandb_diff WHERE n > len(names)
) d
JOIN (SELECT run_id, axis, step, max(attempt) AS attempt, min(first_at) AS first_at, max(last_at) AS last_at FROM t_wandb_group_ GROUP BY run_id, axis, step) g
    ON g.run_id = d.run_id AND g.axis = d.axis AND g.step = d.step;

-- due_at: until then it is pending; NULL: what it is does not depend on the time.
CREATE OR REPLACE TEMP TABLE t_wandb_gap AS
WITH ripe AS (
    SELECT o.*, coalesce(p.pos, o.step) AS pos, coalesce(due_at > getvariable('tic_now')::TIMESTAMP, false) AS early
    FROM t_wandb_one_ o LEFT JOIN t_wandb_pos_ p ON p.run_id = o.run_id AND p.axis = o.axis AND p.step = o.step
),
island AS (
    SELECT *, pos - row_number() OVER (PARTITION BY run_id, wid, attempt, kind, source, axis, key, cause, other, evidence, counts, early, reads >= 2 ORDER BY pos) AS run
    FROM ripe
)
SELECT run_id, attempt, coalesce(wid, '') AS wandb_id, kind, source, axis, min(step) AS first_step, max(step) AS last_step, count(*) AS steps, key, cause, other,
    evidence, min(reads) AS confirmed_reads, counts, max(due_at) AS due_at, min(since) AS first_seen_at
FROM island
GROUP BY run_id, wid, attempt, kind, source, axis, key, cause, other, evidence, counts, early, reads >= 2, run
UNION ALL
-- An offline run that nobody synced.
SELECT f.run_id, f.attempt, f.wid, 'not_synced', 'wandb_api', f.main, min(g.step), max(g.step), count(DISTINCT g.step), '', 'offline', 'wandb_local', '', 0, false, NULL, min(g.first_at)
FROM t_wandb_life_ f JOIN t_wandb_group_ g ON g.run_id = f.run_id AND g.wid = f.wid AND g.axis = f.main AND g.side = 'wandb_local'
WHERE coalesce(f.offline, false) AND NOT EXISTS (SELECT 1 FROM t_wandb_group_ a WHERE a.run_id = f.run_id AND a.wid = f.wid AND a.side = 'wandb_api')
GROUP BY f.run_id, f.attempt, f.wid, f.main
UNION ALL
-- Rows that tell no training step, in shared mode: which rows of another source are theirs nobody can say.
SELECT s.run_id, max(s.attempt), s.wid, 'not_compared', s.kind, u.axis, NULL, NULL, NULL, '', 'no_step', '',
    count(*) || ' rows with ' || sum(u.keys) || ' values tell no ' || u.axis, 0, false, NULL, min(u.told_at)
FROM d_wandb_unit u JOIN t_wandb_source_ s ON s.source_id = u.source_id
WHERE u.step IS NULL GROUP BY s.run_id, s.wid, s.kind, u.axis
UNION ALL
-- The last reading, if it failed.
SELECT run_id, attempt, wid, 'unread', 'wandb_api', '_step', asked_first, asked_last, NULL, '', outcome, 'wandb_api', coalesce(detail, ''), 0, false, NULL, began_at
FROM t_wandb_latest_ WHERE outcome <> 'ok'
UNION ALL
-- The last whole reading, if it did not see what an earlier one had.
SELECT v.run_id, f.attempt, v.wid, 'unread', 'wandb_api', v.axis, min(v.step), max(v.step), count(*), '', 'read_short', 'wandb_api',
    'the last reading of all did not see ' || count(*) || ' steps that earlier ones had', 0, false, NULL, max(v.read_at)
FROM t_wandb_served_ v JOIN t_wandb_life_ f ON f.run_id = v.run_id AND f.wid = v.wid
WHERE v.unseen AND NOT v.vanished
GROUP BY v.run_id, f.attempt, v.wid, v.axis;

-- Each step of each source. `state` is the worst that is said of it there: ok | partial | value_differs | duplicate | out_of_order |
-- pending | missing | unread.
CREATE OR REPLACE TEMP TABLE t_wandb_step AS
WITH have AS (
    SELECT run_id, max(attempt) AS attempt, side AS source, axis, step, sum(rows)::BIGINT AS rows, sum(keys)::BIGINT AS keys, min(first_at) AS told_at
    FROM t_wandb_group_ GROUP BY run_id, side, axis, step
    UNION ALL
    SELECT t.run_id, t.attempt, t.side, t.axis, t.step, 1, 0, t.told_at FROM t_wandb_told_ t
    ANTI JOIN t_wandb_group_ g ON g.run_id = t.run_id AND g.side = t.side AND g.axis = t.axis AND g.step = t.step
),
said AS (
    SELECT run_id, source, axis, step, arg_max(kind, rank) AS kind, arg_max(due_at, rank) AS due_at, max(attempt) AS attempt, min(since) AS since
    FROM (SELECT *, list_position(['out_of_order', 'value_differs', 'duplicate', 'partial', 'pending', 'unread', 'missing'], kind) AS rank FROM t_wandb_one_)
    GROUP BY run_id, source, axis, step
)
SELECT coalesce(h.run_id, s.run_id) AS run_id, coalesce(h.attempt, s.attempt) AS attempt, coalesce(h.source, s.source) AS source,
    coalesce(h.axis, s.axis) AS axis, coalesce(h.step, s.step) AS step, coalesce(s.kind, 'ok') AS state, s.due_at, coalesce(h.rows, 0) AS rows,
    coalesce(h.keys, 0) AS keys, coalesce(h.told_at, s.since) AS first_at,
    coalesce(h.axis, s.axis) IN (SELECT f.main FROM t_wandb_life_ f WHERE f.run_id = coalesce(h.run_id, s.run_id)) AS main
FROM have h FULL JOIN said s ON s.run_id = h.run_id AND s.source = h.source AND s.axis = h.axis AND s.step = h.step;

-- Runs at W&B, one row a run and id: what the screens and `wandb_runs` need of them beside the newest rows.
CREATE OR REPLACE TEMP TABLE t_wandb_history AS
SELECT f.run_id, f.wid AS wandb_id, f.attempt, f.logs, f.read, f.answered, f.closed, coalesce(f.over, false) AS over, f.shared, f.main,
    (SELECT count(DISTINCT g.step) FROM t_wandb_group_ g WHERE g.run_id = f.run_id AND g.wid = f.wid AND g.side = 'wandb_local' AND g.axis = f.main) AS local_steps,
    (SELECT count(DISTINCT g.step) FROM t_wandb_group_ g WHERE g.run_id = f.run_id AND g.wid = f.wid AND g.side = 'wandb_api' AND g.axis = f.main) AS server_steps,
    (SELECT max(g.step) FROM t_wandb_group_ g WHERE g.run_id = f.run_id AND g.wid = f.wid AND g.axis = f.main) AS last_step,
    (SELECT arg_max(s.framework, s.framework <> '') FROM t_wandb_source_ s WHERE s.run_id = f.run_id) AS framework
FROM t_wandb_life_ f;
