-- Pairs of arms: what is declared, what each run of them shows, and whether the nine rules of experiment discipline hold.

-- Pairs that tic.toml or a manifest declares. Of one name the declaration counts that was read last.
CREATE OR REPLACE VIEW pair_declarations AS
WITH line AS (
    SELECT host, path, kind, regexp_extract(name, '^(pairs?(\.[0-9]+)?)\.', 1) AS place, regexp_extract(name, '[a-z_]+$') AS item, value, observed_at
    FROM config_values WHERE kind IN ('pairs', 'manifest') AND NOT secret AND regexp_full_match(name, 'pairs?(\.[0-9]+)?\.[a-z_]+')
),
list AS (
    SELECT *, CASE WHEN json_valid(value) AND json_type(CASE WHEN json_valid(value) THEN value END) = 'ARRAY'
                   THEN from_json(CASE WHEN json_valid(value) THEN value ELSE '[]' END, '["VARCHAR"]') ELSE [value] END AS texts
    FROM line
)
SELECT max(value) FILTER (item = 'name') AS pair, coalesce(max(value) FILTER (item = 'baseline'), '') AS baseline,
    coalesce(any_value(texts) FILTER (item = 'a'), []) AS a, coalesce(any_value(texts) FILTER (item = 'b'), []) AS b,
    coalesce(any_value(texts) FILTER (item = 'excluded'), []) AS excluded, coalesce(any_value(texts) FILTER (item = 'switch'), []) AS switch,
    coalesce(max(value) FILTER (item = 'purpose'), '') AS purpose, try_cast(max(value) FILTER (item = 'full_steps') AS BIGINT) AS full_steps,
    try_cast(max(value) FILTER (item = 'full_response') AS BIGINT) AS full_response,
    coalesce(lower(max(value) FILTER (item = 'criterion')), '') AS criterion, coalesce(max(value) FILTER (item = 'seeds'), '') AS seeds,
    coalesce(any_value(texts) FILTER (item = 'performance'), []) AS performance, coalesce(any_value(texts) FILTER (item = 'quality'), []) AS quality,
    coalesce(max(value) FILTER (item = 'tokens'), '') AS tokens, coalesce(max(value) FILTER (item = 'errors'), '') AS errors,
    coalesce(max(value) FILTER (item = 'plant'), '') AS plant,
    coalesce(any_value(texts) FILTER (item = 'scores_a'), []) AS scores_a, coalesce(any_value(texts) FILTER (item = 'scores_b'), []) AS scores_b,
    host, path, place, max(observed_at) AS observed_at
FROM list GROUP BY host, path, kind, place
HAVING pair IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY pair ORDER BY max(observed_at) DESC, path, place) = 1;

-- What this store knows of the runs of declared pairs, one row a fact, so that several stores can be put together:
--   metric     key, number, step, origin: a declared key
--   config     key, text: a setting of the launcher; env: a variable, origin its form
--   channel    key the size of a communicator, text its label; link: its nodes and MNNVL
--   fabric     text: NVLink fabric and clique of a GPU
--   interval   from_at, until_at: of its step lines; step: the last; number: how many tell no time
--   mark, compile_before, compile_after, compile_unordered    number: how many lines
--   planted    text: a criterion by which a planted error was judged FAIL. Of no run
--   frozen     text: a criterion of the ledger; until_at: since when it surely is older, with the margin of clocks. Of no run
CREATE OR REPLACE VIEW arm_facts AS
WITH said AS MATERIALIZED (SELECT * FROM pair_declarations),
arm AS MATERIALIZED (SELECT DISTINCT unnest(list_concat(a, b)) AS run_id FROM said),
latest AS MATERIALIZED (SELECT s.run_id, s.attempt FROM i_latest_attempt s JOIN arm a ON a.run_id = s.run_id),
wanted AS MATERIALIZED (
    SELECT DISTINCT unnest(list_concat(performance, list_concat(quality, [tokens, errors]))) AS key FROM said
    UNION SELECT 'tl_after_bench'
)
SELECT m.run_id, 'metric' AS fact, m.key, m.value_text AS text, m.value AS number, m.step, NULL::TIMESTAMP AS from_at, m.event_at AS until_at,
    m.source_kind AS origin, m.observed_at
FROM metrics m JOIN latest l ON l.run_id = m.run_id AND l.attempt = m.attempt
WHERE m.key IN (SELECT key FROM wanted) OR ends_with(m.key, '/tl_after_bench')
UNION ALL
SELECT c.run_id, 'config', c.key, c.value, NULL, NULL, NULL, NULL, c.kind, c.observed_at
FROM config_values c JOIN arm a ON a.run_id = c.run_id
WHERE c.kind IN ('hydra', 'config', 'recipe', 'wandb') AND c.problem = '' AND NOT c.secret
UNION ALL
SELECT DISTINCT e.run_id, 'env', e.name, e.value, NULL::DOUBLE, NULL::BIGINT, NULL::TIMESTAMP, NULL::TIMESTAMP, e.form, max(e.observed_at) OVER (PARTITION BY e.run_id, e.name)
FROM env_pins e JOIN arm a ON a.run_id = e.run_id
UNION ALL
SELECT t.run_id, 'channel', t.nranks::VARCHAR, t.transport, NULL, NULL, NULL, NULL, '', max(t.observed_at)
FROM transports t JOIN latest l ON l.run_id = t.run_id AND l.attempt = t.attempt
WHERE t.what = 'channel' AND t.nranks IS NOT NULL GROUP BY ALL
UNION ALL
SELECT t.run_id, 'link', t.nranks::VARCHAR, concat_ws(', ', max(t.nnodes) || CASE WHEN max(t.nnodes) = 1 THEN ' node' ELSE ' nodes' END, CASE WHEN bool_or(t.mnnvl) THEN 'MNNVL' END, 'clique of ' || max(t.clique_size)),
    NULL, NULL, NULL, NULL, '', max(t.observed_at)
FROM transports t JOIN latest l ON l.run_id = t.run_id AND l.attempt = t.attempt
WHERE t.nranks IS NOT NULL GROUP BY t.run_id, t.nranks
UNION ALL
SELECT DISTINCT a.run_id, 'fabric', '', g.fabric_cluster || ' clique ' || g.fabric_clique, NULL::DOUBLE, NULL::BIGINT, NULL::TIMESTAMP, NULL::TIMESTAMP, '', g.observed_at
FROM gpus g LEFT JOIN (SELECT DISTINCT run_id, uuid FROM gpu_processes WHERE run_id IS NOT NULL) p ON p.uuid = g.uuid
JOIN arm a ON a.run_id = coalesce(p.run_id, g.run_id)
WHERE g.fabric_cluster NOT IN ('', '00000000-0000-0000-0000-000000000000') AND g.fabric_clique IS NOT NULL
UNION ALL
SELECT s.run_id, 'interval', '', NULL, count(*) FILTER (s.event_at IS NULL), max(s.step), min(s.event_at), max(s.event_at), '', max(s.observed_at)
FROM step_lines s JOIN latest l ON l.run_id = s.run_id AND l.attempt = s.attempt GROUP BY s.run_id
UNION ALL
SELECT b.run_id, 'mark', '', NULL, count(*), NULL, NULL, NULL, '', max(b.observed_at)
FROM bench_marks b JOIN latest l ON l.run_id = b.run_id AND l.attempt = b.attempt GROUP BY b.run_id
UNION ALL
SELECT c.run_id, CASE WHEN c.after_bench THEN 'compile_after' WHEN NOT c.after_bench THEN 'compile_before' ELSE 'compile_unordered' END, '', min(c.compiler || ' ' || c.what),
    count(*), NULL, NULL, NULL, '', max(c.observed_at)
FROM compiles c JOIN latest l ON l.run_id = c.run_id AND l.attempt = c.attempt GROUP BY ALL
UNION ALL
SELECT '', 'planted', '', criterion, NULL, NULL, NULL, NULL, '', max(observed_at)
FROM b_comparison WHERE plant <> '' AND label = 'FAIL' AND rule = 11 AND criterion <> '' GROUP BY criterion
UNION ALL
SELECT '', 'planted', '', criterion, NULL, NULL, NULL, NULL, '', max(observed_at)
FROM b_ledger_row WHERE kind = 'planted' AND label = 'FAIL' GROUP BY criterion
UNION ALL
SELECT '', 'frozen', '', c.criterion_id, NULL, NULL, NULL, c.frozen_at + to_microseconds(o.margin_us), '', c.frozen_at
FROM criteria c CROSS JOIN i_lock_setting o;

CREATE OR REPLACE VIEW pair_rules AS
-- include pair_rules.sql
;

CREATE OR REPLACE VIEW pair_values AS
-- include pair_values.sql
;

CREATE OR REPLACE VIEW pairs AS
-- include pairs.sql
;
