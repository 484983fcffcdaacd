-- Artifacts as they look now, those that their manifest names. The run: who names it (configuration, manifest, sidecar, path);
-- else that of the logs in the nearest directory above that has any, if they are of one run; else the only run of the store.
-- The attempt is the latest that was declared when the file was written.
CREATE OR REPLACE VIEW artifacts AS
WITH newest AS MATERIALIZED (
    SELECT * FROM b_artifact QUALIFY row_number() OVER (PARTITION BY host, manifest, path ORDER BY rec_id DESC) = 1
),
past AS (
    SELECT host, manifest, path, min(observed_at) AS first_seen_at, count(DISTINCT nullif(sha256, '')) AS contents,
        max(observed_at) FILTER (WHERE state IN ('verified', 'recorded')) AS verified_at
    FROM b_artifact GROUP BY host, manifest, path
),
lost AS (SELECT DISTINCT host, root, manifest AS path FROM newest WHERE run = ''),
-- include near_run.sql
,
placed AS (
    SELECT c.*, CASE WHEN c.run <> '' THEN c.run WHEN n.runs = 1 THEN n.run_id WHEN n.runs IS NULL THEN o.run_id END AS run_id
    FROM newest c LEFT JOIN near n ON n.host = c.host AND n.path = c.manifest CROSS JOIN sole o
    WHERE c.named
)
SELECT c.rec_id, c.run_id, coalesce((
        SELECT max(a.attempt) FROM i_attempt a JOIN b_run_attempt d ON d.id = a.id
        WHERE a.run_id = c.run_id AND d.declared_at <= coalesce(c.modified_at, c.observed_at)), 1) AS attempt,
    c.step, nullif(c.policy, '') AS policy, c.name, c.path, c.host, c.state, c.why, c.bytes_size, nullif(c.sha256, '') AS sha256,
    c.expected_size, nullif(c.expected_sha256, '') AS expected_sha256, nullif(c.kept_sha256, '') AS kept_sha256, c.manifest,
    c.modified_at, p.first_seen_at, p.verified_at, p.contents, c.observed_at,
    CASE WHEN c.run <> '' THEN c.run_how WHEN c.run_id IS NOT NULL THEN 'directory' END AS run_how
FROM placed c JOIN past p ON p.host = c.host AND p.manifest = c.manifest AND p.path = c.path;

-- Manifests, prime-rl's STABLE, and sidecars that name the file beside them, as they were read last, with their sidecar's provenance where they say none.
CREATE OR REPLACE VIEW manifests AS
WITH newest AS MATERIALIZED (
    SELECT * FROM b_result_file QUALIFY row_number() OVER (PARTITION BY host, path ORDER BY rec_id DESC) = 1
),
meta AS (
    SELECT host, array_to_string(string_split(path, '/')[:-2], '/') AS dir, code, image, command
    FROM newest WHERE kind = 'meta' AND present AND ends_with(path, '/.meta.json')
),
checked AS (
    SELECT host, manifest, count(*) FILTER (WHERE state IN ('verified', 'recorded')) AS verified,
        count(*) FILTER (WHERE state = 'pending') AS pending,
        count(*) FILTER (WHERE state NOT IN ('verified', 'recorded', 'pending')) AS wrong
    FROM artifacts GROUP BY host, manifest
)
SELECT f.rec_id, nullif(f.run, '') AS run_id, f.step, nullif(f.policy, '') AS policy, f.kind, f.path, f.host, f.digest,
    nullif(f.input_sha256, '') AS input_sha256, f.valid AS valid_count, f.hooks AS hook_count,
    coalesce(nullif(f.command, ''), nullif(m.command, '')) AS command, coalesce(nullif(f.code, ''), nullif(m.code, '')) AS code,
    coalesce(nullif(f.image, ''), nullif(m.image, '')) AS image, f.entries AS artifacts, coalesce(c.verified, 0) AS verified,
    coalesce(c.pending, 0) AS pending, coalesce(c.wrong, 0) AS wrong, f.present, f.modified_at, f.observed_at
FROM newest f
LEFT JOIN checked c ON c.host = f.host AND c.manifest = f.path
LEFT JOIN meta m ON m.host = f.host AND m.dir = array_to_string(string_split(f.path, '/')[:-2], '/')
WHERE f.kind <> 'meta' OR f.entries > 0;
