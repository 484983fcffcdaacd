-- Receipts of workers: the hash of each, and whether the shards that it names are what was verified.

-- One row a receipt. `role`: whose it is; ''.
CREATE OR REPLACE VIEW i_receipt AS
SELECT run_id, host, path, max(value) FILTER (key = '#sha256') AS sha256, max(try_cast(value AS BIGINT)) FILTER (key = '#size') AS size,
    coalesce(max(regexp_extract(name, '^(trainer|rollout)\.', 1)), '') AS role,
    max(value) FILTER (regexp_matches(name, '(^|\.)policy_content_id$') AND NOT secret) AS policy_content_id,
    max(value) FILTER (regexp_matches(name, '(^|\.)policy_version$') AND NOT secret) AS policy, max(observed_at) AS observed_at
FROM config_values WHERE kind = 'receipt' AND problem = '' AND run_id IS NOT NULL
GROUP BY run_id, host, path
HAVING sha256 IS NOT NULL;

-- {"shards": [{"path": …, "sha256": …}]}, {"shards": {PATH: {"sha256": …}}} and {"shards": {PATH: SHA256}}. A shard is the artifact of the
-- run whose path ends with its own; receipts of one policy content must name one hash for it.
CREATE OR REPLACE VIEW receipt_shards AS
WITH line AS MATERIALIZED (
    SELECT run_id, host, path, key, value, observed_at FROM config_values
    WHERE kind = 'receipt' AND run_id IS NOT NULL AND NOT secret AND regexp_matches(key, '(^|\.)shards\.')
),
hash AS (
    SELECT *, regexp_replace(key, '\.(sha256|hash|digest)$', '') AS place, lower(regexp_extract(value, '^(?:sha-?256:)?([0-9a-fA-F]{64})$', 1)) AS sha256
    FROM line WHERE regexp_full_match(value, '(?:sha-?256:)?[0-9a-fA-F]{64}')
),
shard AS MATERIALIZED (
    SELECT h.run_id, h.host, h.path, coalesce(n.value, regexp_extract(h.place, '(?:^|\.)shards\.(.+)$', 1)) AS shard, h.sha256, h.observed_at
    FROM hash h LEFT JOIN line n ON n.host = h.host AND n.path = h.path AND n.key IN (h.place || '.path', h.place || '.file', h.place || '.name')
    QUALIFY row_number() OVER (PARTITION BY h.host, h.path, h.place ORDER BY n.key) = 1
),
named AS MATERIALIZED (SELECT *, regexp_extract(shard, '[^/]*$') AS leaf FROM shard),
file AS MATERIALIZED (
    SELECT run_id, path, state, sha256, regexp_extract(path, '[^/]*$') AS leaf FROM artifacts
    WHERE run_id IN (SELECT run_id FROM named) AND sha256 IS NOT NULL
),
held AS (
    SELECT s.host, s.path, s.shard, s.sha256, bool_or(f.sha256 = s.sha256 AND f.state IN ('verified', 'recorded')) AS verified,
        min(f.path) FILTER (f.sha256 = s.sha256 AND f.state IN ('verified', 'recorded')) AS artifact,
        min(f.path || ' has ' || f.sha256) FILTER (f.sha256 <> s.sha256) AS other
    FROM named s JOIN file f ON f.run_id = s.run_id AND f.leaf = s.leaf AND (f.path = s.shard OR ends_with(f.path, '/' || ltrim(s.shard, './')))
    GROUP BY ALL
),
told AS (
    SELECT s.host, s.path, s.shard, s.sha256, min(o.path || ' says ' || o.sha256) AS other
    FROM named s JOIN i_receipt r ON r.host = s.host AND r.path = s.path AND r.policy_content_id IS NOT NULL
    JOIN named o ON o.run_id = s.run_id AND o.leaf = s.leaf AND o.sha256 <> s.sha256 AND (o.host, o.path) <> (s.host, s.path)
    JOIN i_receipt q ON q.host = o.host AND q.path = o.path AND q.policy_content_id = r.policy_content_id
    GROUP BY ALL
)
SELECT s.run_id, r.role, r.policy, r.policy_content_id, s.shard, s.sha256,
    CASE WHEN t.other IS NOT NULL OR (h.other IS NOT NULL AND NOT h.verified) THEN 'differs' WHEN h.verified THEN 'verified' ELSE 'not shown' END AS state,
    CASE WHEN t.other IS NOT NULL THEN t.other WHEN h.other IS NOT NULL AND NOT h.verified THEN h.other WHEN h.verified THEN ''
         ELSE 'no manifest names this file' END AS why,
    CASE WHEN t.other IS NULL THEN h.artifact END AS artifact, s.path, s.host, r.sha256 AS receipt_sha256, s.observed_at
FROM named s
JOIN i_receipt r ON r.host = s.host AND r.path = s.path
LEFT JOIN held h ON h.host = s.host AND h.path = s.path AND h.shard = s.shard AND h.sha256 = s.sha256
LEFT JOIN told t ON t.host = s.host AND t.path = s.path AND t.shard = s.shard AND t.sha256 = s.sha256;
