-- A comparison once: on a shared file system several daemons compare the same files. Of one result the store that lowers it most
-- counts, of several results of one pair the newest.
SELECT * EXCLUDE (part_store, lowered) FROM (
    SELECT *, CASE admissibility WHEN 'locked' THEN 0 WHEN 'suspect' THEN 1 ELSE 2 END - marked::INTEGER * 3 AS lowered
    FROM part_comparisons
    QUALIFY row_number() OVER (PARTITION BY comparison_id ORDER BY lowered, observed_at DESC, part_store) = 1
)
QUALIFY row_number() OVER (PARTITION BY task ORDER BY observed_at DESC, comparison_id) = 1
