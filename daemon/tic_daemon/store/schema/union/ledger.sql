-- What people declare is in each store; each once, with its place in the chain of the store that had it first.
SELECT * EXCLUDE (part_store) FROM part_ledger QUALIFY row_number() OVER (PARTITION BY id ORDER BY observed_at, part_store) = 1
