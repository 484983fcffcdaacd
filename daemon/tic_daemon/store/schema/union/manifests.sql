-- A manifest as the store that read it last saw it: on a shared file system several see one.
SELECT * EXCLUDE (part_store) FROM part_manifests
QUALIFY row_number() OVER (PARTITION BY path ORDER BY observed_at DESC, part_store) = 1
