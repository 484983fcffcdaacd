-- Acting faults of all stores in one order, for display: what is a consequence comes last, then by time, as far as known.
SELECT part_store, run_id, rec_id, row_number() OVER (ORDER BY severity IN ('L', 'LH', 'E') DESC, event_at NULLS LAST, step,
    source_id, generation, byte_offset, part_store) AS place
FROM part_acting
