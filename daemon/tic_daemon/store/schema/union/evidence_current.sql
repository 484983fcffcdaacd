-- What one store was told of, another may not have heard yet: it leaves the current table of all, and a lock or a mark takes a PASS away.
WITH unheard AS (
    SELECT DISTINCT e.part_store, f.run_id
    FROM (SELECT DISTINCT part_store FROM part_evidence_current) e JOIN part_acting f ON f.part_store <> e.part_store AND f.origin_store_id IS NULL
    WHERE NOT EXISTS (
        SELECT 1 FROM part_acting h WHERE h.part_store = e.part_store AND h.origin_store_id = f.store_id AND h.origin_rec_id = f.rec_id)
),
doubted AS (
    SELECT DISTINCT run_id, CASE WHEN scope = 'attempt' THEN attempt END AS attempt, CASE WHEN scope = 'record' THEN target END AS target
    FROM marks WHERE verdict = 'inconclusive' AND NOT retracted
),
stood AS (SELECT run_id, attempt, locked, attempt = max(attempt) OVER (PARTITION BY run_id) AS latest FROM attempt_states),
told AS (
    SELECT e.*, CASE WHEN e.state <> 'pass' THEN NULL WHEN s.locked AND u.run_id IS NOT NULL THEN 'locked: a fault that another store saw'
        WHEN EXISTS (SELECT 1 FROM doubted d WHERE d.run_id = e.run_id AND (d.attempt IS NULL OR d.attempt = e.attempt)
            AND (d.target IS NULL OR d.target = 'comparison:' || e.comparison_id)) THEN 'marked inconclusive' END AS doubt
    FROM part_evidence_current e
    LEFT JOIN stood s ON s.run_id = e.run_id AND (s.attempt = e.attempt OR (e.attempt IS NULL AND s.latest))
    LEFT JOIN unheard u ON u.part_store = e.part_store AND u.run_id = e.run_id
)
SELECT * EXCLUDE (part_store, doubt) REPLACE (
    CASE WHEN doubt IS NULL THEN state ELSE 'inconclusive' END AS state, coalesce(doubt, reason) AS reason,
    CASE WHEN starts_with(doubt, 'locked') THEN coalesce(plane, 'environment') ELSE plane END AS plane)
FROM told
WHERE id NOT IN (SELECT target FROM ledger WHERE kind = 'supersede')
  AND coalesce(criterion_id, '') NOT IN (SELECT criterion_id FROM ledger WHERE kind = 'replaced')
QUALIFY row_number() OVER (PARTITION BY id ORDER BY CASE WHEN doubt IS NOT NULL THEN 2 WHEN state = 'fail' THEN 3 WHEN state = 'inconclusive' THEN 2 ELSE 1 END DESC, part_store) = 1
