-- Where comparisons stand towards the faults of their run: CTE `standing`, of each row of `made` the attempt, admissibility and reason.
-- Not a question within a CTE: DuckDB 1.4 forgets the names in such a one when it reads a view.
--
-- A dump has no place in a log. Its numbers stand at the step and at the production time of the later side: no later than
-- both sides' times say, no earlier than the later receipt. Which process made them, a receipt tells: then they are of its
-- attempts. Else they are shown in the latest attempt that was declared by then and held against the faults of all before, but those
-- that a cut by time leaves behind. What is not known is before nothing.
--   made    key, run_id, step, and of each side produced_*, produced_how_*, producer_host_*, producer_pid_*
bounded AS (
    SELECT m.*, coalesce(epoch_us(CASE WHEN m.produced_a IS NOT NULL AND m.produced_b IS NOT NULL THEN greatest(m.produced_a, m.produced_b) END),
            4611686018427387904) AS hi_us,
        coalesce(epoch_us(greatest(CASE WHEN m.produced_how_a = 'receipt' THEN m.produced_a END,
            CASE WHEN m.produced_how_b = 'receipt' THEN m.produced_b END)), -4611686018427387904) AS lo_us,
        CASE WHEN m.step IS NULL THEN -4611686018427387904 -- least() and greatest() pass over NULL
             ELSE least(greatest(m.step, -2305843009213693952), 2305843009213693952) END AS slo,
        CASE WHEN m.step IS NULL THEN 4611686018427387904
             ELSE least(greatest(m.step, -2305843009213693952), 2305843009213693952) END AS shi
    FROM made m
),
process AS MATERIALIZED (
    SELECT run_id, ekey, min(lo_attempt) AS lo_attempt, max(hi_attempt) AS hi_attempt FROM i_place
    WHERE starts_with(ekey, 'host:') GROUP BY run_id, ekey
),
by_process AS (
    SELECT b.key, min(p.lo_attempt) AS lo_attempt, max(p.hi_attempt) AS hi_attempt
    FROM bounded b JOIN process p
        ON p.run_id = b.run_id AND p.ekey IN ('host:' || b.producer_host_a || '#' || b.producer_pid_a, 'host:' || b.producer_host_b || '#' || b.producer_pid_b)
    WHERE b.producer_pid_a IS NOT NULL AND b.producer_pid_b IS NOT NULL
    GROUP BY b.key, b.producer_host_a, b.producer_pid_a, b.producer_host_b, b.producer_pid_b
    HAVING count(DISTINCT p.ekey) = CASE WHEN (b.producer_host_a, b.producer_pid_a) = (b.producer_host_b, b.producer_pid_b) THEN 1 ELSE 2 END
),
declared AS MATERIALIZED (
    SELECT a.run_id, a.attempt, d.from_kind, epoch_us(d.from_time) AS from_us, epoch_us(d.declared_at) AS declared_us
    FROM i_attempt a JOIN b_run_attempt d ON d.id = a.id
),
by_time AS (
    SELECT b.key,
        max(d.attempt) FILTER (WHERE coalesce(d.from_us, d.declared_us) <= b.hi_us) AS hi_attempt,
        CASE WHEN bool_and(d.from_us IS NOT NULL) THEN max(d.attempt) FILTER (WHERE d.from_us <= b.lo_us) END AS lo_attempt
    FROM bounded b JOIN declared d ON d.run_id = b.run_id GROUP BY b.key
),
placed AS MATERIALIZED (
    SELECT b.*, coalesce(p.lo_attempt, t.lo_attempt, 1) AS lo_attempt, coalesce(p.hi_attempt, t.hi_attempt, 1) AS hi_attempt,
        z.zone, z.words AS zone_words, z.findings, z.stepless, z.timeless, z.step_lo, z.step_hi, z.last_us
    FROM bounded b
    LEFT JOIN by_process p ON p.key = b.key
    LEFT JOIN by_time t ON t.key = b.key
    LEFT JOIN i_finding_zone z ON z.run_id = b.run_id AND z.attempt = coalesce(p.hi_attempt, t.hi_attempt, 1) AND z.own = 0
),
acting AS MATERIALIZED (
    SELECT run_id, lo_attempt, hi_attempt, locking, voiding, slo, shi, CASE WHEN lo_clk = 0 THEN lo_us END AS lo_us,
        CASE WHEN hi_clk = 0 THEN hi_us END AS hi_us
    FROM i_fault WHERE locking OR voiding
),
held AS (
    SELECT p.key, bool_or(f.locking AND NOT coalesce(p.hi_us + s.margin_us < f.lo_us, false) AND NOT p.shi + s.staleness < f.slo) AS locked,
        bool_or(f.locking AND (coalesce(p.lo_us > f.hi_us + s.margin_us, false) OR p.slo > f.shi)) AS after_fault,
        bool_or(f.locking AND NOT p.shi < f.slo) AS reported_late, bool_or(f.voiding AND p.shi >= f.slo AND p.slo <= f.shi) AS voided
    FROM placed p
    JOIN acting f ON f.run_id = p.run_id AND f.lo_attempt <= p.hi_attempt AND f.hi_attempt >= p.lo_attempt
    CROSS JOIN i_lock_setting s
    GROUP BY p.key
),
unheard AS (
    SELECT p.key, bool_or(u.locking > 0 AND NOT coalesce(p.hi_us < u.lo_us, false) AND NOT p.shi < u.slo) AS locked,
        bool_or(u.locking > 0 AND NOT p.shi < u.lock_slo) AS reported_late,
        bool_or(u.voiding > 0 AND p.shi >= u.void_lo AND p.slo <= u.void_hi) AS voided
    FROM placed p JOIN i_unheard u ON u.run_id = p.run_id AND u.attempt BETWEEN p.lo_attempt AND p.hi_attempt GROUP BY p.key
),
found AS (
    SELECT p.key, any_value(f.words) FILTER (WHERE f.axis = 'step') AS step_words, any_value(f.words) FILTER (WHERE f.axis = 'time') AS time_words
    FROM placed p
    JOIN i_finding_span f ON f.key = p.zone AND (
        (f.axis = 'step' AND p.step IS NOT NULL AND p.slo <= f.hi AND p.shi >= f.lo AND NOT p.hi_us < coalesce(f.since_us, -4611686018427387904))
        OR (f.axis = 'time' AND p.lo_us <= f.hi AND p.hi_us >= f.lo))
    GROUP BY p.key
),
doubted AS MATERIALIZED (SELECT * FROM i_doubted),
-- What was wrong with the weights of an engine then, as for records (130_mismatches.sql).
weighed AS (
    SELECT p.*, h.after_fault, coalesce(h.reported_late, false) OR coalesce(u.reported_late, false) AS reported_late,
        coalesce(h.voided, false) OR coalesce(u.voided, false) AS voided,
        CASE WHEN p.run_id IS NULL THEN (SELECT count(*) > 0 FROM b_fault WHERE verdict = 'confirmed')
                OR (SELECT count(*) > 0 FROM b_remote_fault) OR (SELECT count(*) > 0 FROM b_unheard)
             ELSE coalesce(h.locked, false) OR coalesce(u.locked, false) END AS locked,
        CASE WHEN coalesce(p.findings, 0) = 0 THEN NULL
             WHEN f.step_words IS NOT NULL THEN f.step_words
             WHEN p.step IS NOT NULL AND NOT p.stepless THEN NULL
             WHEN f.time_words IS NOT NULL AND NOT p.timeless THEN f.time_words
             WHEN p.hi_us < 4611686018427387904 AND NOT p.timeless THEN NULL
             WHEN NOT p.stepless AND (p.slo > p.step_hi OR p.shi < p.step_lo) THEN NULL
             ELSE p.zone_words END AS made_in
    FROM placed p
    LEFT JOIN held h ON h.key = p.key LEFT JOIN unheard u ON u.key = p.key LEFT JOIN found f ON f.key = p.key
),
standing AS MATERIALIZED (
    SELECT key, run_id, hi_attempt AS attempt, lo_attempt,
        CASE WHEN locked THEN 'locked' WHEN reported_late OR voided OR made_in IS NOT NULL THEN 'suspect' ELSE 'admissible' END AS admissibility,
        CASE WHEN locked THEN CASE WHEN after_fault THEN 'after the fault' ELSE 'order unknown' END
             WHEN reported_late THEN 'fault reported in or before this step'
             WHEN voided THEN 'step voided by a fault'
             ELSE coalesce(made_in, '') END AS why,
        run_id IN (SELECT run_id FROM i_place) AS known,
        coalesce(run_id IN (SELECT run_id FROM doubted WHERE of_run)
            OR EXISTS (SELECT 1 FROM doubted d WHERE NOT d.of_run AND d.run_id = w.run_id AND d.attempt BETWEEN w.lo_attempt AND w.hi_attempt),
            EXISTS (SELECT 1 FROM doubted)) AS marked
    FROM weighed w
)
