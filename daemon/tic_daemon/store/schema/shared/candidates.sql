-- Reads view ledger, of one store or of several united. A run is of the candidate that it was declared for first.
SELECT c.candidate_id, c.said.name AS name, nullif(c.target, '') AS parent_id, coalesce(r.run_ids, []) AS run_ids,
    list_sort([field.key FOR field IN map_entries(c.said.fields) IF field.value = 'unknown']) AS unknown,
    c.said.fields['lifecycle'] = 'none' AS screening, coalesce(c.said.changed, []) AS changed, coalesce(c.said.unshown, []) AS unshown,
    coalesce(c.said.regressions, []) AS regressions, coalesce(c.said.stale, []) AS stale, c.said.fields AS fields,
    nullif(c.policy_content_id, '') AS policy_content_id, nullif(c.manifest_sha256, '') AS manifest_sha256,
    nullif(c.receipt_sha256, '') AS receipt_sha256, c.who, c.host, c.said_at, c.id
FROM (
    SELECT *, from_json(body, '{"name": "VARCHAR", "fields": "MAP(VARCHAR, VARCHAR)", "changed": ["VARCHAR"], "unshown": ["VARCHAR"],
        "regressions": ["VARCHAR"], "stale": [["VARCHAR"]]}') AS said
    FROM ledger WHERE kind = 'candidate'
    QUALIFY row_number() OVER (PARTITION BY candidate_id ORDER BY said_at, id) = 1
) c
LEFT JOIN (
    SELECT candidate_id, list(run_id ORDER BY said_at, id) AS run_ids
    FROM (
        SELECT candidate_id, run_id, said_at, id FROM ledger WHERE kind = 'candidate' AND run_id <> ''
        QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY said_at, id) = 1
    ) GROUP BY candidate_id
) r ON r.candidate_id = c.candidate_id
