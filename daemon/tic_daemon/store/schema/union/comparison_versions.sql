-- Of a comparison that several stores have, one store's rows.
SELECT * EXCLUDE (part_store) FROM part_comparison_versions QUALIFY part_store = min(part_store) OVER (PARTITION BY comparison_id)
