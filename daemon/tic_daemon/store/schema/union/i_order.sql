-- Acting faults of all stores in one order, for display: what is a consequence comes last, then by time, as far as known.
-- `kept_rec_id` and `kept_store` name the row that stands for it in the united faults.
SELECT part_store, run_id, rec_id,
    row_number() OVER (ORDER BY severity IN ('L', 'LH', 'E') DESC, event_at NULLS LAST, step, source_id, generation, byte_offset,
        part_store) AS place,
    first_value(rec_id) OVER w AS kept_rec_id, first_value(store_id) OVER w AS kept_store
FROM part_acting
WINDOW w AS (PARTITION BY coalesce(origin_store_id, store_id), coalesce(origin_rec_id, rec_id), run_id
    ORDER BY origin_store_id IS NOT NULL, part_store)
