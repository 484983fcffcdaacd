WITH said AS MATERIALIZED (SELECT * FROM pair_declarations),
arm AS MATERIALIZED (
    SELECT pair, arm, position, runs[position] AS run_id, len(runs) AS n
    FROM (SELECT *, unnest(range(1, len(runs) + 1)) AS position
          FROM (SELECT pair, 'a' AS arm, a AS runs FROM said UNION ALL SELECT pair, 'b', b FROM said))
),
fact AS MATERIALIZED (SELECT * FROM arm_facts),
record AS MATERIALIZED (
    SELECT run_id, field, value, same_value, launcher, position FROM run_records WHERE run_id IN (SELECT run_id FROM arm)
),
-- Of each arm and field of the record: of how many runs it is known, and what its values are.
field AS MATERIALIZED (
    SELECT a.pair, a.arm, r.field, any_value(a.n) AS n, count(*) FILTER (r.value <> 'unknown') AS known,
        count(DISTINCT r.same_value) FILTER (r.value <> 'unknown') AS different,
        string_agg(DISTINCT r.value, ' | ' ORDER BY r.value) FILTER (r.value <> 'unknown') AS value,
        string_agg(DISTINCT r.same_value, ' | ' ORDER BY r.same_value) FILTER (r.value <> 'unknown') AS same, any_value(r.position) AS position
    FROM arm a JOIN record r ON r.run_id = a.run_id GROUP BY a.pair, a.arm, r.field
),
sides AS MATERIALIZED (
    SELECT s.pair, f.field, a.value AS value_a, b.value AS value_b, a.same AS same_a, b.same AS same_b,
        coalesce(a.known = a.n AND a.n > 0, false) AND coalesce(b.known = b.n AND b.n > 0, false) AS known,
        coalesce(a.known, 0) > 0 AND coalesce(b.known, 0) > 0 AND (a.same <> b.same) OR coalesce(a.different, 0) > 1 OR coalesce(b.different, 0) > 1 AS differ,
        EXISTS (SELECT 1 FROM (SELECT unnest(s.switch) AS key) k WHERE lower(k.key) = f.field) AS switched, f.position
    FROM said s CROSS JOIN (SELECT DISTINCT field, position FROM field) f
    LEFT JOIN field a ON a.pair = s.pair AND a.arm = 'a' AND a.field = f.field
    LEFT JOIN field b ON b.pair = s.pair AND b.arm = 'b' AND b.field = f.field
),
-- Settings of each run; a run's own name in a value is no difference. What names places, times and the run is left out, and
-- seeds have a rule of their own.
setting AS (
    SELECT a.pair, a.arm, a.run_id, a.n, CASE f.fact WHEN 'env' THEN 'env ' ELSE '' END || f.key AS key,
        string_agg(DISTINCT replace(f.text, a.run_id, '<run>'), ' | ' ORDER BY replace(f.text, a.run_id, '<run>')) AS value
    FROM arm a JOIN fact f ON f.run_id = a.run_id AND f.fact IN ('config', 'env')
    WHERE regexp_extract(lower(f.key), '[^.]*$') NOT IN (
        'experiment_name', 'exp_name', 'run_name', 'run_id', 'run', 'job_id', 'job_name', 'wandb_id', 'output_dir', 'default_local_dir', 'log_dir',
        'logdir', 'logging_dir', 'save_dir', 'save_path', 'checkpoint_dir', 'work_dir', 'timestamp', 'date', 'start_time', 'port', 'master_port',
        'master_addr', 'hostname', 'node_rank', 'seed', 'random_seed', 'rollout_seed', 'nccl_debug', 'nccl_debug_subsys', 'nvshmem_debug')
    GROUP BY ALL
),
arm_setting AS (
    SELECT pair, arm, key, count(DISTINCT value) AS different, string_agg(DISTINCT value, ' | ' ORDER BY value) AS value FROM setting GROUP BY pair, arm, key
),
configured AS (SELECT a.pair, count(DISTINCT (a.arm, a.position)) AS runs FROM arm a JOIN fact f ON f.run_id = a.run_id AND f.fact = 'config' GROUP BY a.pair),
difference AS MATERIALIZED (
    SELECT pair, key, any_value(value) FILTER (arm = 'a') AS value_a, any_value(value) FILTER (arm = 'b') AS value_b,
        bool_or(different > 1) AS within
    FROM arm_setting GROUP BY pair, key
    HAVING within OR value_a IS DISTINCT FROM value_b
),
marked AS MATERIALIZED (
    SELECT d.*, EXISTS (SELECT 1 FROM (SELECT unnest(s.switch) AS key) k
        WHERE lower(d.key) = lower(k.key) OR lower(d.key) = 'env ' || lower(k.key) OR ends_with(lower(d.key), '.' || lower(k.key))) AS switched
    FROM difference d JOIN said s ON s.pair = d.pair
),
recipe AS (
    SELECT pair, count(*) FILTER (NOT switched) AS others, count(*) FILTER (switched) AS switches,
        string_agg(key || ' ' || coalesce(value_a, 'not set'), ', ' ORDER BY key) FILTER (NOT switched) AS others_a,
        string_agg(key || ' ' || coalesce(value_b, 'not set'), ', ' ORDER BY key) FILTER (NOT switched) AS others_b,
        string_agg(key || ' ' || coalesce(value_a, 'not set'), ', ' ORDER BY key) FILTER (switched) AS switches_a,
        string_agg(key || ' ' || coalesce(value_b, 'not set'), ', ' ORDER BY key) FILTER (switched) AS switches_b,
        string_agg(key, ', ' ORDER BY key) FILTER (NOT switched) AS names,
        count(*) FILTER (NOT switched AND regexp_matches(key, '^env (NCCL|NVSHMEM|DEEP_?EP|VLLM_DEEPEP|UCX|RCCL)_')) AS fabric_pins,
        string_agg(key, ', ' ORDER BY key) FILTER (NOT switched AND regexp_matches(key, '^env (NCCL|NVSHMEM|DEEP_?EP|VLLM_DEEPEP|UCX|RCCL)_')) AS fabric_names
    FROM marked GROUP BY pair
),
confounder AS (
    SELECT pair, list(field || ': ' || coalesce(value_a, 'unknown') || ' and ' || coalesce(value_b, 'unknown') ORDER BY position) AS fields
    FROM sides WHERE differ AND NOT switched AND field <> 'config.resolved' GROUP BY pair -- key by key it is compared below
),
image AS (
    SELECT s.pair, i.value_a, i.value_b, coalesce(i.known, false) AS known, coalesce(i.differ AND NOT i.switched, false) AS differ,
        (SELECT string_agg(c.field, ', ' ORDER BY c.field) FROM sides c
         WHERE c.pair = s.pair AND c.field IN ('code.commit', 'code.patch', 'code.overlay', 'code.untracked') AND c.differ AND NOT c.switched) AS code,
        EXISTS (SELECT 1 FROM sides c WHERE c.pair = s.pair AND c.switched AND c.differ) AS switched
    FROM said s LEFT JOIN sides i ON i.pair = s.pair AND i.field = 'image.digest'
),
one_image AS (
    SELECT s.pair, 'one_image' AS rule,
        CASE WHEN i.differ OR i.code IS NOT NULL OR coalesce(r.others, 0) > 0 THEN 'unmet'
             WHEN NOT i.known OR coalesce(c.runs, 0) < len(s.a) + len(s.b) OR len(s.switch) = 0 OR (coalesce(r.switches, 0) = 0 AND NOT i.switched) THEN 'unknown'
             ELSE 'met' END AS state,
        concat_ws('; ', 'image ' || coalesce(i.value_a, 'unknown'), r.others_a, r.switches_a) AS value_a,
        concat_ws('; ', 'image ' || coalesce(i.value_b, 'unknown'), r.others_b, r.switches_b) AS value_b,
        concat_ws('; ', CASE WHEN i.differ THEN 'the images differ' END, 'the code differs: ' || i.code,
            'differs besides the switch: ' || CASE WHEN r.others > 0 THEN r.names END,
            CASE WHEN NOT i.known THEN 'the image of a run is not known' END,
            CASE WHEN coalesce(c.runs, 0) < len(s.a) + len(s.b) THEN 'a run has no resolved configuration' END,
            CASE WHEN len(s.switch) = 0 THEN 'no switch is declared'
                 WHEN coalesce(r.switches, 0) = 0 AND NOT i.switched THEN 'nothing shows the switch to differ' END) AS why
    FROM said s JOIN image i ON i.pair = s.pair LEFT JOIN recipe r ON r.pair = s.pair LEFT JOIN configured c ON c.pair = s.pair
),
one_seed AS (
    SELECT s.pair, 'one_seed', CASE WHEN NOT coalesce(b.known, false) THEN 'unknown' WHEN NOT b.differ THEN 'met' WHEN s.seeds <> '' THEN 'met' ELSE 'unmet' END,
        coalesce(b.value_a, 'unknown'), coalesce(b.value_b, 'unknown'),
        CASE WHEN NOT coalesce(b.known, false) THEN 'the seed of a run is not known' WHEN b.differ AND s.seeds <> '' THEN 'several seeds, asked for: ' || s.seeds
             WHEN b.differ THEN 'the seeds differ, and nobody asked for several' ELSE '' END
    FROM said s LEFT JOIN sides b ON b.pair = s.pair AND b.field = 'workload.seed'
),
-- Of one run several stores may know a part.
span AS MATERIALIZED (
    SELECT run_id, max(step) AS step, min(from_at) AS from_at, max(until_at) AS until_at, sum(number) AS timeless FROM fact WHERE fact = 'interval' GROUP BY run_id
),
size AS (
    SELECT a.pair, a.arm, count(f.step) AS known, any_value(a.n) AS n, max(f.step) AS steps,
        count(try_cast(r.value AS BIGINT)) AS responses, max(try_cast(r.value AS BIGINT)) AS response
    FROM arm a LEFT JOIN span f ON f.run_id = a.run_id
    LEFT JOIN record r ON r.run_id = a.run_id AND r.field = 'workload.response_lengths'
    GROUP BY a.pair, a.arm
),
small AS (
    SELECT s.pair, s.purpose, s.full_steps, s.full_response, a.known = a.n AND b.known = b.n AS steps_known,
        a.responses = a.n AND b.responses = b.n AS responses_known, greatest(a.steps, b.steps) AS steps, greatest(a.response, b.response) AS response,
        concat_ws(', ', a.steps || ' steps', 'responses up to ' || a.response) AS value_a, concat_ws(', ', b.steps || ' steps', 'responses up to ' || b.response) AS value_b
    FROM said s LEFT JOIN size a ON a.pair = s.pair AND a.arm = 'a' LEFT JOIN size b ON b.pair = s.pair AND b.arm = 'b'
),
small_workload AS (
    SELECT pair, 'small_workload',
        CASE WHEN purpose = 'acceptance' THEN 'met' WHEN purpose <> 'iteration' THEN 'unknown'
             WHEN steps >= full_steps OR response >= full_response THEN 'unmet'
             WHEN full_steps IS NULL AND full_response IS NULL THEN 'unknown'
             WHEN (full_steps IS NULL OR coalesce(steps_known, false)) AND (full_response IS NULL OR coalesce(responses_known, false)) THEN 'met' ELSE 'unknown' END,
        coalesce(nullif(value_a, ''), 'unknown'), coalesce(nullif(value_b, ''), 'unknown'),
        CASE WHEN purpose = 'acceptance' THEN 'the default workload, for acceptance' WHEN purpose <> 'iteration' THEN 'purpose is neither iteration nor acceptance'
             WHEN steps >= full_steps OR response >= full_response THEN 'no smaller than the default of ' || concat_ws(', ', full_steps || ' steps', 'responses up to ' || full_response)
             WHEN full_steps IS NULL AND full_response IS NULL THEN 'full_steps and full_response do not say what the default is'
             WHEN (full_steps IS NULL OR coalesce(steps_known, false)) AND (full_response IS NULL OR coalesce(responses_known, false)) THEN ''
             ELSE 'steps or response lengths of a run are not known' END
    FROM small
),
-- A row of the ledger proves the order where it is older than the first step of each run.
older AS (
    SELECT a.pair, bool_and(coalesce(f.at < p.from_at AND p.timeless = 0, false)) AS shown, any_value(f.at) AS at
    FROM arm a JOIN said s ON s.pair = a.pair LEFT JOIN span p ON p.run_id = a.run_id
    LEFT JOIN (SELECT lower(text) AS criterion, min(until_at) AS at FROM fact WHERE fact = 'frozen' GROUP BY 1) f ON f.criterion = s.criterion
    GROUP BY a.pair
),
frozen AS (
    SELECT s.pair, s.criterion, coalesce(b.known, false) OR coalesce(l.shown, false) AS known, CASE WHEN l.shown THEN s.criterion || ' in the ledger before' END AS ledger, b.value_a, b.value_b, b.same_a = s.criterion AND b.same_b = s.criterion AS same,
        EXISTS (SELECT 1 FROM fact f WHERE f.fact = 'planted' AND lower(f.text) = s.criterion) OR s.plant <> '' AS planted
    FROM said s LEFT JOIN sides b ON b.pair = s.pair AND b.field = 'scope.criterion' LEFT JOIN older l ON l.pair = s.pair
),
frozen_criterion AS (
    SELECT pair, 'frozen_criterion',
        CASE WHEN criterion = '' THEN 'unknown' WHEN value_a IS NOT NULL AND value_b IS NOT NULL AND NOT same THEN 'unmet'
             WHEN NOT coalesce(known, false) OR NOT planted THEN 'unknown' ELSE 'met' END,
        coalesce(value_a, ledger, 'unknown'), coalesce(value_b, ledger, 'unknown'),
        concat_ws('; ', CASE WHEN criterion = '' THEN 'no criterion is declared' END,
            CASE WHEN criterion <> '' AND value_a IS NOT NULL AND value_b IS NOT NULL AND NOT same THEN 'a run names another criterion than ' || criterion END,
            CASE WHEN criterion <> '' AND NOT coalesce(known, false) THEN 'no manifest of a run names the criterion, and no row of the ledger is shown to be older' END,
            CASE WHEN criterion <> '' AND NOT planted THEN 'no planted error was judged FAIL by it' END)
    FROM frozen
),
repeats AS (
    SELECT s.pair, 'repeats',
        CASE WHEN coalesce(k.seen, 0) < len(s.a) + len(s.b) THEN 'unknown' WHEN list_unique(s.a) < 2 OR list_unique(s.b) < 2 THEN 'unmet' ELSE 'met' END,
        len(s.a) || CASE WHEN len(s.a) = 1 THEN ' run' ELSE ' runs' END, len(s.b) || CASE WHEN len(s.b) = 1 THEN ' run' ELSE ' runs' END,
        CASE WHEN coalesce(k.seen, 0) < len(s.a) + len(s.b) THEN 'a run is not known here' WHEN list_unique(s.a) < 2 OR list_unique(s.b) < 2
             THEN 'one run shows no noise: no conclusion from it' ELSE '' END
    FROM said s LEFT JOIN (SELECT pair, count(DISTINCT (arm, position)) AS seen FROM arm WHERE run_id IN (SELECT run_id FROM record) GROUP BY pair) k ON k.pair = s.pair
),
way AS (
    SELECT a.pair, a.arm, f.key, string_agg(DISTINCT f.text, ', ' ORDER BY f.text) FILTER (f.fact = 'channel')
        || coalesce(' (' || string_agg(DISTINCT f.text, '; ' ORDER BY f.text) FILTER (f.fact = 'link') || ')', '') AS label
    FROM arm a JOIN fact f ON f.run_id = a.run_id AND f.fact IN ('channel', 'link') GROUP BY ALL
),
ways AS (
    SELECT pair, string_agg(key || ' ranks: ' || label, '; ' ORDER BY key) FILTER (arm = 'a') AS value_a,
        string_agg(key || ' ranks: ' || label, '; ' ORDER BY key) FILTER (arm = 'b') AS value_b
    FROM way WHERE label IS NOT NULL GROUP BY pair
),
way_pair AS (
    SELECT pair, bool_or(differ) AS differ, bool_or(alone) AS alone
    FROM (SELECT pair, key, count(DISTINCT label) > 1 AS differ, count(DISTINCT arm) = 1 AS alone FROM way WHERE label IS NOT NULL GROUP BY pair, key) GROUP BY pair
),
shown AS (SELECT a.pair, count(DISTINCT (a.arm, a.position)) AS runs FROM arm a JOIN fact f ON f.run_id = a.run_id AND f.fact = 'channel' GROUP BY a.pair),
fabric AS (
    SELECT a.pair, string_agg(DISTINCT f.text, ' | ' ORDER BY f.text) FILTER (a.arm = 'a') AS value_a,
        string_agg(DISTINCT f.text, ' | ' ORDER BY f.text) FILTER (a.arm = 'b') AS value_b
    FROM arm a JOIN fact f ON f.run_id = a.run_id AND f.fact = 'fabric' GROUP BY a.pair
),
same_fabric AS (
    SELECT s.pair, 'same_fabric',
        CASE WHEN coalesce(p.differ, false) OR coalesce(f.value_a <> f.value_b, false) OR coalesce(r.fabric_pins, 0) > 0 THEN 'unmet'
             WHEN coalesce(h.runs, 0) < len(s.a) + len(s.b) OR p.alone OR len(s.a) = 0 OR len(s.b) = 0 THEN 'unknown' ELSE 'met' END,
        concat_ws('; ', coalesce(w.value_a, 'unknown'), 'fabric ' || f.value_a), concat_ws('; ', coalesce(w.value_b, 'unknown'), 'fabric ' || f.value_b),
        concat_ws('; ', CASE WHEN p.differ THEN 'the transports differ' END, CASE WHEN f.value_a <> f.value_b THEN 'the NVLink fabrics differ' END,
            'pins of the environment differ: ' || CASE WHEN r.fabric_pins > 0 THEN r.fabric_names END,
            CASE WHEN coalesce(h.runs, 0) < len(s.a) + len(s.b) THEN 'a run shows no transport: NCCL_DEBUG=INFO prints it' END,
            CASE WHEN p.alone THEN 'a size of communicator is in one arm alone' END)
    FROM said s LEFT JOIN ways w ON w.pair = s.pair LEFT JOIN way_pair p ON p.pair = s.pair LEFT JOIN shown h ON h.pair = s.pair
    LEFT JOIN fabric f ON f.pair = s.pair LEFT JOIN recipe r ON r.pair = s.pair
),
placed AS (
    SELECT a.pair, a.position, a.arm, a.run_id, nullif(r.value, 'unknown') AS nodes, min(f.from_at) AS from_at, max(f.until_at) AS until_at
    FROM arm a LEFT JOIN record r ON r.run_id = a.run_id AND r.field = 'hardware.nodes' LEFT JOIN span f ON f.run_id = a.run_id
    GROUP BY ALL
),
turn AS (
    SELECT coalesce(a.pair, b.pair) AS pair, coalesce(a.position, b.position) AS position, a.nodes AS nodes_a, b.nodes AS nodes_b,
        a.run_id IS NULL OR b.run_id IS NULL AS alone, a.nodes <> b.nodes AS elsewhere, a.from_at <= b.until_at AND b.from_at <= a.until_at AS at_once
    FROM (SELECT * FROM placed WHERE arm = 'a') a FULL JOIN (SELECT * FROM placed WHERE arm = 'b') b ON b.pair = a.pair AND b.position = a.position
),
same_nodes AS (
    SELECT s.pair, 'same_nodes',
        CASE WHEN bool_or(t.elsewhere) OR bool_or(t.at_once) THEN 'unmet' WHEN coalesce(bool_or(t.alone OR t.elsewhere IS NULL OR t.at_once IS NULL), true) THEN 'unknown' ELSE 'met' END,
        coalesce(string_agg(DISTINCT t.nodes_a, ' | ' ORDER BY t.nodes_a), 'unknown'), coalesce(string_agg(DISTINCT t.nodes_b, ' | ' ORDER BY t.nodes_b), 'unknown'),
        concat_ws('; ', CASE WHEN bool_or(t.elsewhere) THEN 'the runs of a pair are on different nodes' END, CASE WHEN bool_or(t.at_once) THEN 'the runs of a pair ran at the same time' END,
            CASE WHEN bool_or(t.alone) THEN 'a run has no partner' END, CASE WHEN bool_or(NOT t.alone AND t.elsewhere IS NULL) THEN 'the nodes of a run are not known' END,
            CASE WHEN bool_or(NOT t.alone AND t.at_once IS NULL) THEN 'when a run ran is not known: its step lines have no time' END)
    FROM said s LEFT JOIN turn t ON t.pair = s.pair GROUP BY s.pair
),
compiled AS (
    SELECT a.pair, a.arm, a.position, a.run_id, coalesce(sum(f.number) FILTER (f.fact = 'compile_after'), 0) AS after_mark,
        coalesce(sum(f.number) FILTER (f.fact = 'compile_before'), 0) AS before_mark, coalesce(sum(f.number) FILTER (f.fact = 'compile_unordered'), 0) AS unordered,
        coalesce(sum(f.number) FILTER (f.fact = 'mark'), 0) AS marks, max(f.number) FILTER (f.fact = 'metric' AND regexp_matches(f.key, '(^|/)tl_after_bench$')) AS counted,
        min(f.text) FILTER (f.fact = 'compile_after') AS what
    FROM arm a LEFT JOIN fact f ON f.run_id = a.run_id GROUP BY ALL
),
compiled_run AS (
    SELECT *, CASE WHEN after_mark > 0 OR counted > 0 THEN 'unmet' WHEN counted = 0 THEN 'met' WHEN marks = 0 OR unordered > 0 OR before_mark = 0 THEN 'unknown' ELSE 'met' END AS state,
        run_id || ': ' || CASE WHEN counted IS NOT NULL THEN 'tl_after_bench=' || counted::BIGINT ELSE after_mark::BIGINT || ' after the mark, ' || before_mark::BIGINT || ' before' END AS words,
        CASE WHEN after_mark > 0 THEN run_id || ' compiled after the mark: ' || what WHEN counted > 0 THEN run_id || ' counted ' || counted::BIGINT
             WHEN counted = 0 THEN NULL WHEN marks = 0 THEN run_id || ' shows no begin of a benchmark' WHEN unordered > 0 THEN run_id || ' compiled, and nothing shows when'
             WHEN before_mark = 0 THEN run_id || ' prints no compilation at all: that none came later shows nothing' END AS why
    FROM compiled
),
no_late_compilation AS (
    SELECT s.pair, 'no_late_compilation', CASE WHEN bool_or(c.state = 'unmet') THEN 'unmet' WHEN coalesce(bool_and(c.state = 'met'), false) THEN 'met' ELSE 'unknown' END,
        coalesce(string_agg(c.words, '; ' ORDER BY c.position) FILTER (c.arm = 'a'), 'unknown'), coalesce(string_agg(c.words, '; ' ORDER BY c.position) FILTER (c.arm = 'b'), 'unknown'),
        coalesce(string_agg(c.why, '; ' ORDER BY c.arm, c.position), '')
    FROM said s LEFT JOIN compiled_run c ON c.pair = s.pair GROUP BY s.pair
),
asked AS (
    SELECT DISTINCT pair, key FROM (SELECT pair, unnest(list_concat(performance, list_concat(quality, [tokens, errors]))) AS key FROM said) WHERE key <> ''
),
reading AS (
    SELECT k.pair, k.key, a.arm, a.run_id, count(f.run_id) AS rows, count(f.run_id) FILTER (f.origin <> 'console') AS raw,
        string_agg(DISTINCT f.origin, ', ' ORDER BY f.origin) AS origins
    FROM asked k JOIN arm a ON a.pair = k.pair LEFT JOIN fact f ON f.run_id = a.run_id AND f.fact = 'metric' AND f.key = k.key GROUP BY ALL
),
keyed AS (
    SELECT s.pair, 'metrics_by_key',
        CASE WHEN count(r.key) = 0 OR bool_or(r.rows = 0) THEN 'unknown' WHEN bool_or(r.raw = 0) THEN 'unmet' ELSE 'met' END,
        coalesce(string_agg(DISTINCT r.key || ' (' || r.origins || ')', ', ' ORDER BY r.key || ' (' || r.origins || ')') FILTER (r.arm = 'a' AND r.rows > 0), 'unknown'),
        coalesce(string_agg(DISTINCT r.key || ' (' || r.origins || ')', ', ' ORDER BY r.key || ' (' || r.origins || ')') FILTER (r.arm = 'b' AND r.rows > 0), 'unknown'),
        CASE WHEN count(r.key) = 0 THEN 'no key is declared'
             WHEN bool_or(r.rows = 0) THEN 'not found: ' || string_agg(DISTINCT r.key || ' of ' || r.run_id, ', ' ORDER BY r.key || ' of ' || r.run_id) FILTER (r.rows = 0)
             WHEN bool_or(r.raw = 0) THEN 'only in a console''s lines: ' || string_agg(DISTINCT r.key || ' of ' || r.run_id, ', ' ORDER BY r.key || ' of ' || r.run_id) FILTER (r.raw = 0)
             ELSE '' END
    FROM said s LEFT JOIN reading r ON r.pair = s.pair GROUP BY s.pair
)
SELECT r.pair, n.number, r.rule, n.title, r.state, r.value_a, r.value_b, r.why, coalesce(c.fields, []) AS confounders FROM (
    SELECT * FROM one_image UNION ALL SELECT * FROM one_seed UNION ALL SELECT * FROM small_workload UNION ALL SELECT * FROM frozen_criterion
    UNION ALL SELECT * FROM repeats UNION ALL SELECT * FROM same_fabric UNION ALL SELECT * FROM same_nodes UNION ALL SELECT * FROM no_late_compilation
    UNION ALL SELECT * FROM keyed
) r
LEFT JOIN confounder c ON c.pair = r.pair
JOIN (VALUES (1, 'one_image', 'one image and one recipe'), (2, 'one_seed', 'one seed'), (3, 'small_workload', 'small workload while iterating'),
    (4, 'frozen_criterion', 'criterion frozen, error planted'), (5, 'repeats', 'more than one run'), (6, 'same_fabric', 'same fabric'),
    (7, 'same_nodes', 'same nodes, one after the other'), (8, 'no_late_compilation', 'nothing compiled after the benchmark began'),
    (9, 'metrics_by_key', 'metrics by their full key')) n(number, rule, title) ON n.rule = r.rule
