-- What faults that the store's daemon has not heard of do to each attempt: its derived tables know nothing of them. Only
-- what is surely before all of them stays free, by its own stamp or step; the daemon decides better once it hears.
--   locking, voiding    how many lock it, and make some of its steps suspect
--   lo_us, slo          no locking one is earlier, with the margin and the staleness taken off; minus infinity: not known
--   lock_slo            the same without the staleness: see reported_late
--   void_lo, void_hi    steps that are suspect
CREATE OR REPLACE VIEW i_unheard AS
WITH fault AS (
    SELECT t.run_id, t.run_how, t.lo_attempt, t.hi_attempt, coalesce(t.lo_us, -4611686018427387904) AS lo_us,
        coalesce(t.slo, -4611686018427387904) AS slo, coalesce(t.shi, 4611686018427387904) AS shi,
        -- Of a run without a name: it may be any run's, and locks none.
        t.run_how <> 'us' AND (coalesce(r.locks, t.locks) NOT IN ('if_continues', 'never')
            OR (coalesce(r.locks, t.locks) = 'if_continues' AND t.locking)) AS locking,
        coalesce(r.severity, t.severity) IN ('N', 'S', 'E')
            OR (t.run_how = 'us' AND coalesce(r.severity, t.severity) IN ('L', 'LH')) AS voiding
    FROM b_unheard t LEFT JOIN b_fault_rule r ON r.kind = t.kind
    -- A line of a shared log that this store has read itself is no news.
    WHERE NOT EXISTS (
        SELECT 1 FROM b_fault f JOIN b_source s ON s.source_id = f.source_id
        WHERE f.kind = t.kind AND f.byte_offset = t.byte_offset AND f.byte_length = t.byte_length AND s.path = t.path
          AND s.network AND t.network)
)
SELECT a.run_id, a.attempt, count(*) FILTER (f.locking) AS locking, count(*) FILTER (f.voiding) AS voiding,
    min(f.lo_us) FILTER (f.locking) - any_value(o.margin_us) AS lo_us, min(f.slo) FILTER (f.locking) - any_value(o.staleness) AS slo,
    min(f.slo) FILTER (f.locking) AS lock_slo, min(f.slo) FILTER (f.voiding) AS void_lo, max(f.shi) FILTER (f.voiding) AS void_hi
FROM fault f
JOIN i_attempt a ON (f.run_how = 'us' OR (a.run_id = f.run_id AND a.attempt BETWEEN f.lo_attempt AND f.hi_attempt))
CROSS JOIN i_lock_setting o
WHERE f.locking OR f.voiding
GROUP BY a.run_id, a.attempt;
