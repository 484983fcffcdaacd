-- Marks come from one spool, so each store has them: each once, under the number of the first store. Taken back in one
-- store is taken back: another one has not read that line yet.
SELECT * EXCLUDE (part_store) REPLACE (bool_or(retracted) OVER (PARTITION BY id) AS retracted)
FROM part_marks
QUALIFY row_number() OVER (PARTITION BY id ORDER BY part_store) = 1
