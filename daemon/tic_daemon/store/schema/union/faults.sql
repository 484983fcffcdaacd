-- Every line of every store.
SELECT * EXCLUDE (part_store) FROM part_faults
