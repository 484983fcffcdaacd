-- What waits once, as the store that looked at it last says.
SELECT * EXCLUDE (part_store) FROM part_comparison_queue
QUALIFY row_number() OVER (PARTITION BY task ORDER BY observed_at DESC, part_store) = 1
