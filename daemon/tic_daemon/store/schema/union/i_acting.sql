-- Acting faults, each once, as in faults.sql: what a store counts has in it what others told it of.
SELECT * EXCLUDE (part_store) FROM part_acting
WINDOW w AS (PARTITION BY coalesce(origin_store_id, store_id), coalesce(origin_rec_id, rec_id), run_id)
QUALIFY origin_store_id IS NULL OR (count(*) FILTER (origin_store_id IS NULL) OVER w = 0 AND part_store = min(part_store) OVER w)
