-- What leaves the first fault of an attempt undecided: what the store says that names it, and how many faults of other stores
-- that one has not heard of and so has not compared.
WITH named AS (
    SELECT p.run_id, p.attempt, arg_min(p.part_store, (o.place, p.part_store)) AS store,
        arg_min(p.first_fault_why, (o.place, p.part_store)) AS why
    FROM part_attempt_states p
    LEFT JOIN i_order o ON o.part_store = p.part_store AND o.rec_id = p.first_fault_rec_id AND o.run_id = p.run_id
    WHERE p.first_fault_rec_id IS NOT NULL
    GROUP BY p.run_id, p.attempt
),
unheard AS (
    SELECT n.run_id, n.attempt, count(*) AS faults
    FROM named n
    JOIN i_acting f ON f.run_id = n.run_id AND n.attempt BETWEEN f.attempt AND f.last_attempt AND f.severity IN ('L', 'LH', 'E')
    WHERE NOT EXISTS (
        SELECT 1 FROM part_acting k
        WHERE k.part_store = n.store AND k.run_id = f.run_id AND coalesce(k.origin_store_id, k.store_id) = coalesce(f.origin_store_id, f.store_id)
          AND coalesce(k.origin_rec_id, k.rec_id) = coalesce(f.origin_rec_id, f.rec_id))
    GROUP BY n.run_id, n.attempt
)
SELECT n.run_id, n.attempt, concat_ws('; ', nullif(n.why, ''),
    CASE WHEN u.faults = 1 THEN 'one of another store is not compared' WHEN u.faults > 1 THEN u.faults || ' of other stores are not compared' END) AS why
FROM named n LEFT JOIN unheard u ON u.run_id = n.run_id AND u.attempt = n.attempt
