-- Performance and quality, each key a cell of its own, with the single pairs and their medians. Effective tokens and errors come
-- first: without them, or where they differ, a number of performance is none.
-- One number a run and key: of performance the median over its steps, of quality the last, of tokens and errors the sum. Where
-- several sources tell one step, one of them counts: what programs wrote as data before what a log printed.
WITH said AS MATERIALIZED (SELECT * FROM pair_declarations),
cell AS MATERIALIZED (
    SELECT pair, 'performance' AS cell, unnest(performance) AS key FROM said UNION ALL SELECT pair, 'quality', unnest(quality) FROM said
    UNION ALL SELECT pair, 'tokens', tokens FROM said WHERE tokens <> '' UNION ALL SELECT pair, 'errors', errors FROM said WHERE errors <> ''
),
one AS MATERIALIZED (
    SELECT * FROM arm_facts WHERE fact = 'metric' AND number IS NOT NULL AND isfinite(number)
    QUALIFY row_number() OVER (PARTITION BY run_id, key, step ORDER BY
        CASE origin WHEN 'wandb_api' THEN 1 WHEN 'wandb_local' THEN 0 WHEN 'results' THEN 0 WHEN 'file' THEN 2 ELSE 3 END, until_at, observed_at) = 1
),
number AS (
    SELECT run_id, key, median(number) AS middle, arg_max(number, (coalesce(step, -1), coalesce(until_at, observed_at))) AS last, sum(number) AS total, count(*) AS told
    FROM one GROUP BY run_id, key
),
arm AS (
    SELECT pair, arm, position, runs[position] AS run_id
    FROM (SELECT *, unnest(range(1, len(runs) + 1)) AS position FROM (SELECT pair, 'a' AS arm, a AS runs FROM said UNION ALL SELECT pair, 'b', b FROM said))
),
put AS (
    SELECT c.pair, c.cell, c.key, a.arm, a.position, a.run_id, CASE c.cell WHEN 'performance' THEN n.middle WHEN 'quality' THEN n.last ELSE n.total END AS value, n.told
    FROM cell c JOIN arm a ON a.pair = c.pair LEFT JOIN number n ON n.run_id = a.run_id AND n.key = c.key
),
single AS MATERIALIZED (
    SELECT pair, cell, key, position, max(run_id) FILTER (arm = 'a') AS run_a, max(run_id) FILTER (arm = 'b') AS run_b,
        max(value) FILTER (arm = 'a') AS value_a, max(value) FILTER (arm = 'b') AS value_b,
        max(value) FILTER (arm = 'b') - max(value) FILTER (arm = 'a') AS difference,
        CASE WHEN max(value) FILTER (arm = 'a') <> 0 THEN max(value) FILTER (arm = 'b') / max(value) FILTER (arm = 'a') END AS ratio,
        max(told) FILTER (arm = 'a') AS values_a, max(told) FILTER (arm = 'b') AS values_b
    FROM put GROUP BY pair, cell, key, position
),
effort AS (
    SELECT s.pair, concat_ws('; ', CASE WHEN bool_or(v.cell = 'tokens' AND (v.value_a <= 0 OR v.value_b <= 0)) THEN 'a run has no effective tokens' END,
        CASE WHEN bool_or(v.cell = 'errors' AND (v.value_a > 0 OR v.value_b > 0)) THEN 'requests failed' END,
        CASE WHEN bool_or(v.cell = 'tokens' AND v.value_a <> v.value_b) THEN 'the effective tokens differ' END,
        CASE WHEN coalesce(count(*) FILTER (v.cell = 'tokens') = 0 OR bool_or(v.cell = 'tokens' AND v.difference IS NULL), true) THEN 'the effective tokens are not known' END,
        CASE WHEN coalesce(count(*) FILTER (v.cell = 'errors') = 0 OR bool_or(v.cell = 'errors' AND v.difference IS NULL), true) THEN 'the number of errors is not known' END) AS why
    FROM said s LEFT JOIN single v ON v.pair = s.pair GROUP BY s.pair
),
discipline AS (
    SELECT pair, string_agg(title || CASE state WHEN 'unknown' THEN ' unknown' ELSE '' END, '; ' ORDER BY number) AS why FROM pair_rules WHERE state <> 'met' GROUP BY pair
),
medians AS (
    SELECT pair, cell, key, count(difference) AS pairs, count(*) AS declared, median(value_a) AS median_a, median(value_b) AS median_b,
        median(difference) AS median_difference, median(ratio) AS median_ratio
    FROM single GROUP BY pair, cell, key
)
SELECT v.*, m.pairs, m.declared, m.median_a, m.median_b, m.median_difference, m.median_ratio,
    CASE WHEN m.pairs = 0 THEN 'not run' WHEN d.why IS NOT NULL OR m.pairs < m.declared OR (v.cell = 'performance' AND e.why <> '') THEN 'pending re-check' ELSE 'measured' END AS state,
    concat_ws('; ', CASE WHEN v.cell = 'performance' AND e.why <> '' THEN e.why END, CASE WHEN m.pairs < m.declared THEN 'a number is missing in ' || (m.declared - m.pairs) || ' of ' || m.declared || ' pairs' END,
        d.why) AS reason
FROM single v JOIN medians m ON m.pair = v.pair AND m.cell = v.cell AND m.key = v.key JOIN effort e ON e.pair = v.pair LEFT JOIN discipline d ON d.pair = v.pair
