-- What one store was told of, another may not have heard yet: it leaves the current table of all.
SELECT * EXCLUDE (part_store) FROM part_evidence_current
WHERE id NOT IN (SELECT target FROM ledger WHERE kind = 'supersede')
  AND coalesce(criterion_id, '') NOT IN (SELECT criterion_id FROM ledger WHERE kind = 'replaced')
QUALIFY row_number() OVER (PARTITION BY id ORDER BY CASE state WHEN 'fail' THEN 3 WHEN 'inconclusive' THEN 2 ELSE 1 END DESC, part_store) = 1
