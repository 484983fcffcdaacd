-- The record of each run: what its launcher says that it was made of, and what its workers show. Which fields there are and
-- where each is found is data: record/fields.toml.

CREATE OR REPLACE VIEW i_record_field AS
-- record fields
;

CREATE OR REPLACE VIEW i_record_pattern AS
-- record patterns
;

-- The latest attempt of each run. Not run_states: that says much more, and costs as much.
CREATE OR REPLACE VIEW i_latest_attempt AS SELECT run_id, max(attempt) AS attempt FROM i_attempt GROUP BY run_id;

-- One row a value that something tells of a field of a run. What is no value (an empty text, unknown, a reference to another
-- key that nobody resolved) is none. `origin`: the kind of file, or the view that shows it.
CREATE OR REPLACE VIEW record_values AS
WITH pattern AS MATERIALIZED (SELECT * FROM i_record_pattern),
config AS MATERIALIZED (
    -- `bare`: without what may stand before a key (record/fields.py).
    SELECT *, regexp_extract(name, '[^.]*$') AS leaf, regexp_replace(name, '^(trainer|rollout|record|run|provenance|env|environment)\.', '') AS bare
    FROM config_values
    WHERE run_id IS NOT NULL AND problem = '' AND NOT secret AND NOT regexp_matches(name, '^pairs?\.')
        AND lower(trim(value)) NOT IN ('', 'null', 'none', 'unknown', 'n/a', '-', '?', 'todo') AND NOT contains(value, '${')
),
latest AS MATERIALIZED (SELECT run_id, attempt FROM i_latest_attempt),
state AS MATERIALIZED (
    SELECT s.* FROM exec_state_now s JOIN latest l ON l.run_id = s.run_id AND l.attempt = s.attempt
    WHERE s.field IN (SELECT leaf FROM pattern WHERE kind = 'state')
),
gpu AS MATERIALIZED (
    SELECT p.run_id, p.host, p.rec_id, p.observed_at, p.path, g.uuid, g.name, g.memory_total
    FROM gpu_processes p JOIN gpus g ON g.uuid = p.uuid AND g.host IS NOT DISTINCT FROM p.host WHERE p.run_id IS NOT NULL
),
fact AS (
    SELECT run_id, 'gpu_name' AS fact, 'worker' AS side, name AS value, 'gpus' AS origin, host, path, NULL::BIGINT AS line_no, rec_id, observed_at
    FROM gpu WHERE name <> ''
    UNION ALL
    SELECT run_id, 'gpu_memory', 'worker', memory_total::VARCHAR, 'gpus', host, path, NULL, rec_id, observed_at FROM gpu WHERE memory_total > 0
    UNION ALL
    SELECT run_id, 'gpu_count', 'worker', count(DISTINCT uuid) || ' on ' || host, 'gpus', host, NULL, NULL, min(rec_id), max(observed_at)
    FROM gpu GROUP BY run_id, host
    UNION ALL
    SELECT t.run_id, CASE t.what WHEN 'channel' THEN 'transport' ELSE 'nccl' END, 'worker', t.transport, 'transports', t.host, t.path, t.line_no,
        t.rec_id, t.observed_at
    FROM transports t JOIN latest l ON l.run_id = t.run_id AND l.attempt = t.attempt
    WHERE t.transport <> '' AND (t.what = 'channel' OR (t.what = 'version' AND NOT t.console))
    UNION ALL
    SELECT w.run_id, CASE w.track WHEN 'graph' THEN 'graph_phase' ELSE 'residency' END, 'worker', w.phase, 'weight_lifecycle', min(w.host),
        min(w.path), NULL, min(w.rec_id), max(w.observed_at)
    FROM weight_lifecycle w JOIN latest l ON l.run_id = w.run_id AND l.attempt = w.attempt
    WHERE w.track IN ('graph', 'residency') GROUP BY ALL
    UNION ALL
    SELECT run_id, 'weight_version', 'worker', version, 'weight_lifecycle', host, path, line_no, rec_id, observed_at
    FROM (SELECT w.* FROM weight_lifecycle w JOIN latest l ON l.run_id = w.run_id AND l.attempt = w.attempt
          WHERE w.track = 'version' AND w.version <> ''
          QUALIFY row_number() OVER (PARTITION BY w.run_id, w.source_id, w.voice ORDER BY w.generation DESC, w.byte_offset DESC) = 1)
    UNION ALL
    SELECT e.run_id, 'step_kind', 'worker', e.observed, 'exec_states', min(e.host), min(e.path), NULL, min(e.rec_id), max(e.observed_at)
    FROM exec_states e JOIN latest l ON l.run_id = e.run_id AND l.attempt = e.attempt
    WHERE e.field = 'step_kind' AND e.observed IS NOT NULL AND e.observed <> 'unknown' GROUP BY ALL
    UNION ALL
    SELECT DISTINCT p.run_id, 'node', 'worker', s.host, 'sources', s.host, s.path, NULL::BIGINT, NULL::BIGINT, s.observed_at
    FROM i_place p JOIN b_source s ON s.source_id = p.source_id
    WHERE s.kind = 'file' AND NOT s.console AND NOT s.network AND s.host <> '' AND s.role IN ('rollout', 'trainer')
    UNION ALL
    SELECT run_id, 'wandb_commit', 'launcher', git_commit, 'wandb_runs', NULL, NULL, NULL, NULL, observed_at FROM i_wandb_source WHERE git_commit <> ''
    UNION ALL
    SELECT run_id, 'config_digest', 'launcher', sha256(string_agg(DISTINCT digest, chr(10) ORDER BY digest)), 'config', min(host),
        min(path), NULL, min(rec_id), max(observed_at)
    FROM config_values WHERE run_id IS NOT NULL AND kind IN ('hydra', 'config', 'wandb') AND problem = '' GROUP BY run_id
)
SELECT c.run_id, c.field, c.side, CASE WHEN c."when" = '' THEN c.value ELSE c.gives END AS value, c.kind AS origin, c.host, c.path, c.line_no,
    c.key, c.rec_id, c.observed_at
FROM (
    SELECT v.*, p.field, p."when", p.gives FROM config v JOIN pattern p ON p.kind = 'name' AND p.leaf = v.name
    UNION ALL
    SELECT v.*, p.field, p."when", p.gives FROM config v JOIN pattern p ON p.kind = 'name' AND p.prefixed AND p.leaf = v.bare WHERE v.bare <> v.name
    UNION ALL
    SELECT v.*, p.field, p."when", p.gives FROM config v JOIN pattern p ON p.kind = 'glob' AND p.leaf = v.leaf
    WHERE contains(v.name, p.mid) AND ((starts_with(v.name, p.head) AND ends_with(v.name, p.tail))
        OR (p.prefixed AND starts_with(v.bare, p.head) AND ends_with(v.bare, p.tail)))
    UNION ALL
    SELECT v.*, p.field, p."when", p.gives FROM config v JOIN pattern p ON p.kind = 'glob' AND p.leaf = ''
        AND (starts_with(v.name, p.head) OR (p.prefixed AND starts_with(v.bare, p.head)))
    WHERE contains(v.name, p.mid) AND ends_with(v.name, p.tail)
) c
WHERE c."when" = '' OR c."when" = lower(c.value)
UNION ALL
SELECT s.run_id, p.field, side.side, CASE WHEN p.part = '' THEN side.value ELSE regexp_extract(side.value, '\b' || p.part || '([0-9]+)', 1) END,
    'exec_states', s.host, s.path, NULL, s.field, side.rec_id, s.observed_at
FROM state s
CROSS JOIN LATERAL (
    SELECT unnest(['launcher', 'worker']) AS side, unnest([s.claimed, s.observed]) AS value, unnest([s.claimed_rec_id, s.observed_rec_id]) AS rec_id
) side
JOIN pattern p ON p.kind = 'state' AND p.leaf = s.field AND p.head = s.role
WHERE side.value IS NOT NULL AND side.value <> 'unknown' AND (p.part = '' OR regexp_matches(side.value, '\b' || p.part || '[0-9]'))
UNION ALL
SELECT e.run_id, p.field, CASE e.form WHEN 'observed' THEN 'worker' ELSE 'launcher' END, e.value, 'env_pins', e.host, e.path, e.line_no, e.name,
    e.rec_id, e.observed_at
FROM env_pins e JOIN pattern p ON p.kind = 'env' AND p.leaf = e.name
WHERE e.run_id IS NOT NULL AND e.value <> '' AND NOT contains(e.value, '$')
UNION ALL
SELECT f.run_id, p.field, f.side, f.value, f.origin, f.host, f.path, f.line_no, f.fact, f.rec_id, f.observed_at
FROM fact f JOIN pattern p ON p.kind = 'fact' AND p.leaf = f.fact;

CREATE OR REPLACE VIEW run_records AS
-- include run_records.sql
;

CREATE OR REPLACE VIEW run_fingerprints AS
-- include run_fingerprints.sql
;
