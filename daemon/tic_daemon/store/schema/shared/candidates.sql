-- Reads view ledger, of one store or of several united. A run is of the candidate that it was declared for first.
-- First is what a store had first, whatever a person's clock says. Each part of a body is taken out by itself: who asks for one does not wait for the others.
SELECT c.candidate_id, c.body->>'$.name' AS name, nullif(c.target, '') AS parent_id, coalesce(r.run_ids, []) AS run_ids,
    list_sort([field.key FOR field IN map_entries(from_json(c.body->'$.fields', '"MAP(VARCHAR, VARCHAR)"')) IF field.value = 'unknown']) AS unknown,
    coalesce(lower(trim(c.body->>'$.fields."rollout.lifecycle"')) = 'none', false) AS screening,
    coalesce(from_json(c.body->'$.changed', '["VARCHAR"]'), []) AS changed, coalesce(from_json(c.body->'$.unshown', '["VARCHAR"]'), []) AS unshown,
    coalesce(from_json(c.body->'$.regressions', '["VARCHAR"]'), []) AS regressions,
    coalesce(from_json(c.body->'$.stale', '[["VARCHAR"]]'), []) AS stale, from_json(c.body->'$.fields', '"MAP(VARCHAR, VARCHAR)"') AS fields,
    nullif(c.policy_content_id, '') AS policy_content_id, nullif(c.manifest_sha256, '') AS manifest_sha256,
    nullif(c.receipt_sha256, '') AS receipt_sha256, c.who, c.host, c.said_at, c.id
FROM (
    SELECT * FROM ledger WHERE kind = 'candidate'
    QUALIFY row_number() OVER (PARTITION BY candidate_id ORDER BY observed_at, seq) = 1
) c
LEFT JOIN (
    SELECT candidate_id, list(run_id ORDER BY said_at, id) AS run_ids
    FROM (
        SELECT candidate_id, run_id, said_at, id FROM ledger WHERE kind = 'candidate' AND run_id <> ''
        QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY observed_at, seq) = 1
    ) GROUP BY candidate_id
) r ON r.candidate_id = c.candidate_id
