-- An artifact as the store that looked at it last saw it: on a shared file system several see one.
SELECT * EXCLUDE (part_store) FROM part_artifacts
QUALIFY row_number() OVER (PARTITION BY manifest, path ORDER BY observed_at DESC, part_store) = 1
