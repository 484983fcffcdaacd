-- Which steps the sources of a run have, and what their values are against each other: see ../../../reconcile.py.

-- W&B's sources with their run, and what is known of them. `wid` is the run's id at W&B; one that has told nothing yet, as a server
-- without an account, is named for it.
CREATE OR REPLACE TEMP TABLE t_wandb_source_ AS
SELECT l.source_id, l.kind, l.framework, l.shared, l.main, p.run_id, p.attempt,
    coalesce(nullif(r.wandb_id, ''), nullif(CASE l.kind WHEN 'wandb_api' THEN split_part(b.path, '/', 3)
        ELSE regexp_extract(b.path, '(?:^|/)run-([^/]*)[.]wandb$', 1) END, ''), 'source ' || l.source_id) AS wid, coalesce(r.mode, '') AS mode, coalesce(r.state, '') AS state,
    coalesce(r.directory, '') AS directory, r.started_at, r.starting_step, r.exit_code,
    r.source_id IS NOT NULL OR l.source_id IN (SELECT source_id FROM d_wandb_unit) AS told
FROM d_wandb_source l
JOIN b_source b ON b.source_id = l.source_id
JOIN (SELECT source_id, arg_max(run_id, (generation, from_off)) AS run_id, max(lo_attempt) AS attempt FROM t_place GROUP BY source_id) p
    ON p.source_id = l.source_id
LEFT JOIN (
    SELECT source_id, wandb_id, mode, state, directory, started_at, starting_step, exit_code FROM b_wandb_run
    QUALIFY row_number() OVER (PARTITION BY source_id ORDER BY rec_id DESC) = 1
) r ON r.source_id = l.source_id
WHERE l.kind <> 'log';

-- Logs that print what W&B gets: lines of others tell of no step that W&B should have.
CREATE OR REPLACE TEMP TABLE t_wandb_speaks_ AS
SELECT DISTINCT p.run_id, k.source_id, k.axis
FROM d_wandb_key k
JOIN d_wandb_source l ON l.source_id = k.source_id AND l.kind = 'log'
JOIN (SELECT DISTINCT source_id, run_id FROM t_place) p ON p.source_id = k.source_id
JOIN (SELECT DISTINCT s.run_id, k.key FROM d_wandb_key k JOIN t_wandb_source_ s ON s.source_id = k.source_id) w
    ON w.run_id = p.run_id AND w.key = k.key;

-- Units with run and side: wandb_local | wandb_api | console | file.
CREATE OR REPLACE TEMP TABLE t_wandb_at_ AS
SELECT s.run_id, s.attempt, s.wid, s.kind AS side, s.framework, u.*
FROM d_wandb_unit u JOIN t_wandb_source_ s ON s.source_id = u.source_id
WHERE u.step IS NOT NULL
UNION ALL
SELECT p.run_id, p.lo_attempt, NULL, CASE WHEN p.console THEN 'console' ELSE 'file' END, l.framework, u.*
FROM d_wandb_unit u
JOIN d_wandb_source l ON l.source_id = u.source_id AND l.kind = 'log'
JOIN t_place p ON p.source_id = u.source_id AND p.generation = u.generation AND p.proc = u.proc
    AND u.byte_offset >= p.from_off AND u.byte_offset < p.to_off
SEMI JOIN t_wandb_speaks_ k ON k.run_id = p.run_id AND k.source_id = u.source_id AND k.axis = u.axis;

-- Readings through the API. `page` and `first_step` tell where pages begin.
CREATE OR REPLACE TEMP TABLE t_wandb_read_ AS
SELECT s.run_id, s.wid, s.attempt, d.read_id, d.began_at, coalesce(d.first_step, 0) AS first_step,
    coalesce(d.last_step, 4611686018427387904) AS last_step, greatest(coalesce(d.page_size, 4611686018427387904), 1) AS page,
    d.outcome, coalesce(d.seen, '') AS seen, d.rows, d.detail, d.rec_id, d.observed_at, d.first_step AS asked_first, d.last_step AS asked_last,
    d.last_history_step
FROM b_wandb_read d JOIN t_wandb_source_ s ON s.source_id = d.source_id AND s.kind = 'wandb_api';

-- What local uploaders told. A chunk that was acknowledged is what the server should have.
CREATE OR REPLACE TEMP TABLE t_wandb_sent_ AS
SELECT s.run_id, s.wid, s.source_id AS log_id, u.state, u.history_offset AS lo, u.history_offset + u.history_lines AS hi, u.status, u.dropped_step,
    u.current_step, u.detail, coalesce(CASE WHEN u.stamp_utc THEN u.stamp END, u.observed_at) AS told_at, u.rec_id, u.observed_at
FROM b_wandb_upload u
JOIN t_wandb_source_ s ON s.kind = 'wandb_local' AND s.directory = u.directory;

-- Steps that lines of trainers end.
CREATE OR REPLACE TEMP TABLE t_wandb_ended_ AS
SELECT p.run_id, p.console, e.step, max(p.lo_attempt) AS attempt, min(least(CASE WHEN e.stamp_utc THEN e.stamp END, e.observed_at)) AS told_at
FROM b_step_event e
JOIN t_place p ON p.source_id = e.source_id AND p.generation = e.generation AND p.proc = e.proc
    AND e.byte_offset >= p.from_off AND e.byte_offset < p.to_off
WHERE e.edge = 'end' AND e.step IS NOT NULL AND e.prov IS NULL AND p.kind NOT IN ('wandb_local', 'wandb_api')
  AND p.run_id IN (SELECT run_id FROM t_wandb_source_)
GROUP BY p.run_id, p.console, e.step;

-- All that follows reads these tables, and values of rows: what comes meanwhile waits for the next round.

CREATE OR REPLACE TEMP TABLE t_wandb_group_ AS
SELECT run_id, wid, side, axis, step, count(*) AS rows, sum(keys)::BIGINT AS keys, max(attempt) AS attempt, min(told_at) AS first_at, max(told_at) AS last_at,
    bit_xor(DISTINCT content) AS content, min(wandb_step) AS w_lo, max(wandb_step) AS w_hi,
    arg_max(source_id, (told_at, rec_id)) AS source_id, arg_max(row_no, (told_at, rec_id)) AS row_no, max(bytes) AS bytes
FROM t_wandb_at_ GROUP BY run_id, wid, side, axis, step;

-- Steps whose values must be looked at. `sign` changes whenever a source has got more of the step.
CREATE OR REPLACE TEMP TABLE t_wandb_sign_ AS
SELECT run_id, axis, step, bit_xor(sign) AS sign, sum(keys)::BIGINT AS keys,
    -- Two sides of one history that differ, or a side of W&B and a log.
    bool_or(wid IS NOT NULL AND contents > 1) OR (bool_or(wid IS NULL) AND bool_or(wid IS NOT NULL)) AS needed
FROM (
    SELECT run_id, axis, step, wid, bit_xor(hash(hash(wid, side, content, rows))) AS sign, sum(keys) AS keys,
        count(DISTINCT content) AS contents
    FROM t_wandb_group_ GROUP BY run_id, axis, step, wid
) GROUP BY run_id, axis, step;

CREATE OR REPLACE TEMP TABLE t_wandb_due_ AS
SELECT s.run_id, s.axis, s.step, s.sign, s.keys, s.needed
FROM t_wandb_sign_ s
ANTI JOIN d_wandb_compared c ON c.run_id = s.run_id AND c.axis = s.axis AND c.step = s.step AND c.sign = s.sign;

CREATE OR REPLACE TEMP TABLE t_wandb_slice_ AS
SELECT run_id, axis, step, sign, needed FROM (
    SELECT *, sum(CASE WHEN needed THEN keys ELSE 0 END) OVER (ORDER BY run_id, axis, step) AS so_far FROM t_wandb_due_
)
WHERE so_far <= getvariable('tic_wandb_budget')::BIGINT OR so_far = keys;

-- Their values, of the ranges of rows that the slice spans (tic_local_lo and so on): a table of millions is not read for them.
CREATE OR REPLACE TEMP TABLE t_wandb_val_ AS
SELECT u.run_id, u.wid, u.side, u.axis, u.step, v.key, bool_or(v.kind <> 'null') AS said, bool_or(v.kind = 'nan') AS nan,
    list(DISTINCT
-- include wandb_norm.sql
    ) FILTER (v.kind <> 'null') AS norms,
    list(DISTINCT v.value) FILTER (v.kind IN ('int', 'number', 'bool', 'nan', 'inf', '-inf')) AS numbers,
    string_agg(DISTINCT left(CASE WHEN v.value_text IS NOT NULL THEN v.value_text WHEN v.kind = 'int' THEN v.value::HUGEINT::VARCHAR
         WHEN v.kind = 'bool' THEN (v.value <> 0)::VARCHAR ELSE v.value::VARCHAR END, 60), ' and ') AS shown
FROM t_wandb_slice_ s
JOIN t_wandb_at_ u ON u.run_id = s.run_id AND u.axis = s.axis AND u.step = s.step AND u.wid IS NOT NULL
JOIN (
    SELECT * FROM b_wandb_value WHERE row_id BETWEEN getvariable('tic_local_lo')::BIGINT AND getvariable('tic_local_hi')::BIGINT
    UNION ALL
    SELECT * FROM b_wandb_value WHERE row_id BETWEEN getvariable('tic_api_lo')::BIGINT AND getvariable('tic_api_hi')::BIGINT
) v ON v.row_id = u.rec_id
JOIN t_wandb_axis_ a ON a.framework = u.framework AND NOT a.log AND a.key = v.key AND list_contains(u.holds, a.axis)
WHERE s.needed AND v.key <> a.axis
GROUP BY u.run_id, u.wid, u.side, u.axis, u.step, v.key;

-- The same of printed lines, under the names that W&B has. A printed number stands for all that are printed like it.
CREATE OR REPLACE TEMP TABLE t_wandb_print_ AS
SELECT u.run_id, u.axis, u.step, a.wkey AS key, m.value, m.value_text,
    0.50001 * pow(10, coalesce(try_cast(nullif(regexp_extract(m.value_text, '[eE]([+-]?[0-9]{1,3})', 1), '') AS INTEGER), 0)
        - length(regexp_extract(m.value_text, '\.([0-9]+)', 1))) + abs(m.value) * 1e-6 AS tolerance
FROM t_wandb_slice_ s
JOIN t_wandb_at_ u ON u.run_id = s.run_id AND u.axis = s.axis AND u.step = s.step AND u.wid IS NULL
JOIN b_metric m ON m.source_id = u.source_id AND m.generation = u.generation AND m.byte_offset = u.byte_offset
    AND m.prov IS NULL AND m.rec_id BETWEEN getvariable('tic_log_lo')::BIGINT AND getvariable('tic_log_hi')::BIGINT
JOIN t_wandb_axis_ a ON a.framework = u.framework AND a.log AND a.key = m.key AND a.axis = u.axis
WHERE s.needed AND a.wkey <> a.axis AND m.value IS NOT NULL;

CREATE OR REPLACE TEMP TABLE t_wandb_diff_ AS
WITH pair AS MATERIALIZED (
    SELECT l.run_id, l.wid, l.axis, l.step, true AS both FROM t_wandb_group_ l
    JOIN t_wandb_group_ a ON a.run_id = l.run_id AND a.wid = l.wid AND a.axis = l.axis AND a.step = l.step AND a.side = 'wandb_api'
    SEMI JOIN t_wandb_slice_ s ON s.run_id = l.run_id AND s.axis = l.axis AND s.step = l.step
    WHERE l.side = 'wandb_local'
),
-- Both sides of one history.
two AS (
    SELECT p.run_id, p.wid, p.axis, p.step, coalesce(l.key, a.key) AS key, l.said AS l_said, a.said AS a_said, l.norms AS l_norms, a.norms AS a_norms,
        l.nan AS l_nan, a.nan AS a_nan, l.shown AS l_shown, a.shown AS a_shown
    FROM (SELECT * FROM t_wandb_val_ WHERE side = 'wandb_local') l
    FULL JOIN (SELECT * FROM t_wandb_val_ WHERE side = 'wandb_api') a
        ON a.run_id = l.run_id AND a.wid = l.wid AND a.axis = l.axis AND a.step = l.step AND a.key = l.key
    JOIN pair p ON p.run_id = coalesce(l.run_id, a.run_id) AND p.wid = coalesce(l.wid, a.wid) AND p.axis = coalesce(l.axis, a.axis)
        AND p.step = coalesce(l.step, a.step)
),
-- What was printed and each side of the newest history that has the step.
wide AS (
    SELECT g.run_id, g.axis, g.step, g.wid, g.side FROM t_wandb_group_ g
    SEMI JOIN t_wandb_slice_ s ON s.run_id = g.run_id AND s.axis = g.axis AND s.step = g.step
    WHERE g.wid IS NOT NULL
),
-- A number in a row of any history of the run agrees with the line: it may have been printed again after a resume.
printed AS (
    SELECT p.run_id, p.axis, p.step, p.key, bool_or(v.key IS NOT NULL) AS has,
        bool_or(list_bool_or(list_transform(coalesce(v.numbers, []), n -> n = p.value OR abs(n - p.value) <= p.tolerance OR (isnan(n) AND isnan(p.value))))
            ) AS agrees,
        any_value(p.value_text) AS shown, any_value(v.shown) AS logged, bool_or(v.said AND len(coalesce(v.numbers, [])) = 0) AS no_number
    FROM t_wandb_print_ p
    LEFT JOIN t_wandb_val_ v ON v.run_id = p.run_id AND v.axis = p.axis AND v.step = p.step AND v.key = p.key
    GROUP BY p.run_id, p.axis, p.step, p.key
),
expected AS (
    SELECT DISTINCT s.run_id, k.key FROM d_wandb_key k JOIN t_wandb_source_ s ON s.source_id = k.source_id
),
one AS (
    SELECT run_id, wid, axis, step, key, 'partial' AS kind, 'wandb_api' AS source, 'wandb_local' AS other, NULL AS detail FROM two
    WHERE l_said AND a_said IS NOT TRUE AND NOT (l_nan AND a_said IS NOT NULL)
    UNION ALL
    SELECT run_id, wid, axis, step, key, 'partial', 'wandb_local', 'wandb_api', NULL FROM two
    WHERE a_said AND l_said IS NOT TRUE AND NOT (a_nan AND l_said IS NOT NULL)
    UNION ALL
    SELECT run_id, wid, axis, step, key, 'value_differs', 'wandb_api', 'wandb_local', 'local ' || l_shown || ', server ' || a_shown FROM two
    WHERE (l_said AND a_said AND NOT list_has_any(l_norms, a_norms)) OR (l_nan AND NOT a_said) OR (a_nan AND NOT l_said)
    UNION ALL
    -- Printed, and in no row: of the local log if there is one, else of the server.
    SELECT p.run_id, w.wid, p.axis, p.step, p.key, 'partial', w.side, 'console', NULL
    FROM printed p
    JOIN (SELECT run_id, axis, step, max(wid) AS wid, max(side) AS side FROM wide GROUP BY run_id, axis, step) w
        ON w.run_id = p.run_id AND w.axis = p.axis AND w.step = p.step
    SEMI JOIN expected e ON e.run_id = p.run_id AND e.key = p.key
    WHERE NOT p.has
    UNION ALL
    SELECT p.run_id, w.wid, p.axis, p.step, p.key, 'value_differs', w.side, 'console', 'printed ' || left(p.shown, 60) || ', logged ' || p.logged
    FROM printed p
    JOIN (SELECT run_id, axis, step, max(wid) AS wid, max(side) AS side FROM wide GROUP BY run_id, axis, step) w
        ON w.run_id = p.run_id AND w.axis = p.axis AND w.step = p.step
    WHERE p.has AND NOT coalesce(p.agrees, false) AND NOT coalesce(p.no_number, false)
)
SELECT run_id, wid, axis, step, kind, source, other, count(*) AS n, list_slice(list(key ORDER BY key), 1, 20) AS names,
    arg_min(detail, key) AS detail
FROM one GROUP BY run_id, wid, axis, step, kind, source, other;
