-- A file once, though on a shared file system several daemons see it: the row that found its fault wins. The fault is called
-- as the store calls it whose line it is.
WITH name AS (
    SELECT part_store, rec_id, min(coalesce(origin_store_id, store_id)) AS store, min(coalesce(origin_rec_id, rec_id)) AS number
    FROM part_faults GROUP BY part_store, rec_id
)
SELECT f.* EXCLUDE (part_store) REPLACE (coalesce(n.number, f.rec_id) AS rec_id, coalesce(n.store, f.store_id) AS store_id)
FROM part_fault_files f LEFT JOIN name n ON n.part_store = f.part_store AND n.rec_id = f.rec_id
QUALIFY row_number() OVER (
    PARTITION BY f.path, f.bytes_size, f.modified_at
    ORDER BY f.present DESC, f.rec_id IS NULL, f.run_id IS NULL, f.host <> f.seen_on, f.observed_at DESC, f.part_store) = 1
