-- Every fault once. A store also shows what another one told it of: the row of the store that saw it wins. An incident is
-- what that store says it is, called as the store calls it whose line it is.
WITH kept AS (
    SELECT * FROM part_faults
    WINDOW w AS (PARTITION BY coalesce(origin_store_id, store_id), coalesce(origin_rec_id, rec_id), run_id)
    QUALIFY origin_store_id IS NULL OR (count(*) FILTER (origin_store_id IS NULL) OVER w = 0 AND part_store = min(part_store) OVER w)
),
name AS (
    SELECT DISTINCT part_store, rec_id, coalesce(origin_store_id, store_id) AS store, coalesce(origin_rec_id, rec_id) AS number
    FROM part_faults
)
SELECT k.* EXCLUDE (part_store) REPLACE (
    coalesce(n.number, k.incident) AS incident, coalesce(n.store, k.incident_store_id) AS incident_store_id,
    CASE WHEN k.witness_of IS NOT NULL THEN coalesce(n.number, k.witness_of) END AS witness_of
)
FROM kept k LEFT JOIN name n ON n.part_store = k.part_store AND n.rec_id = k.incident
