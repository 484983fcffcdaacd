-- What is wrong with results is told once, though on a shared file system several daemons see it.
SELECT * EXCLUDE (part_store) FROM part_evidence_gaps
QUALIFY source_id IS NOT NULL OR kind IN ('exchange', 'untold')
    OR row_number() OVER (PARTITION BY kind, path, detail ORDER BY observed_at, part_store) = 1
