-- Reads view ledger, of one store or of several united. The last row of a name counts; the ledger keeps all.
SELECT b.said.name AS name, b.candidate_id, nullif(b.run_id, '') AS run_id, nullif(b.said.config, '') AS config,
    nullif(b.said.results, '') AS results, nullif(b.said.reviewer, '') AS reviewer,
    CASE WHEN coalesce(b.said.reviewer, '') = '' THEN 'pending review' ELSE 'reviewed' END AS state,
    CASE WHEN coalesce(b.said.reviewer, '') <> '' THEN b.said_at END AS reviewed_at, b.reason, b.who, b.said_at, b.id
FROM (
    SELECT *, from_json(body, '{"name": "VARCHAR", "config": "VARCHAR", "results": "VARCHAR", "reviewer": "VARCHAR"}') AS said
    FROM ledger WHERE kind = 'baseline'
) b
QUALIFY row_number() OVER (PARTITION BY b.said.name ORDER BY b.said_at DESC, b.id DESC) = 1
