-- Faults, what they lock, and the attempts they act on.

-- (run, attempt) pairs with their faults: a fault of an unknown process acts on every attempt that it may belong to.
CREATE OR REPLACE VIEW i_attempt AS
SELECT run_id, 1::BIGINT AS attempt, NULL AS id FROM (
    SELECT DISTINCT run_id FROM i_run_range UNION SELECT DISTINCT run_id FROM i_declared
)
UNION ALL SELECT run_id, attempt, id FROM i_declared;

CREATE OR REPLACE VIEW faults AS
SELECT f.rec_id, f.run_id, f.lo_attempt AS attempt, f.severity, f.kind, f.verdict1 AS verdict, f.locking AS locks,
    coalesce(f.proc_rank, s.rank) AS rank, f.pid, f.host, f.code, f.step, f.text, f.echo_of, s.path, f.line_no, f.byte_offset,
    f.byte_length,
    CASE WHEN f.stamp_utc THEN f.stamp WHEN f.zone_s IS NOT NULL THEN f.stamp - to_seconds(f.zone_s) END AS event_at,
    f.observed_at, f.title,
    CASE WHEN f.verdict = 'confirmed' AND NOT f.mapped THEN 'GPU not mapped to this run'
         WHEN f.verdict1 = 'refuted' THEN 'the process finished GPU work afterwards'
         WHEN f.echo_of IS NOT NULL THEN 'a console''s copy of a worker''s line'
         WHEN f.verdict <> 'confirmed' THEN 'only confirmed lines act'
         WHEN f.locks0 = 'if_continues' AND NOT f.locking THEN 'locks if its process goes on computing; it did not'
         WHEN NOT f.has_rule THEN 'no rule knows this kind: it locks until one does'
         ELSE '' END AS reason,
    f.hi_attempt AS last_attempt, f.stamp AS event_local, f.step_carried, f.bus, f.node, f.actor, f.proc, f.source_id,
    f.generation, f.raw
FROM i_fault f
LEFT JOIN b_source s ON s.source_id = f.source_id;

-- The first fault of an attempt, for display; it decides nothing. L, LH and E come before S, which is a consequence.
-- `candidates`: all that nothing shows to be later than another.
CREATE OR REPLACE VIEW i_first_fault AS
WITH act AS MATERIALIZED (
    SELECT a.run_id, a.attempt, f.rec_id, f.wkey, f.pos, f.slo, f.shi, f.severity, f.locking, f.source_id, f.generation,
        CASE WHEN f.lo_clk = 0 THEN f.lo_us END AS lo_us, CASE WHEN f.hi_clk = 0 THEN f.hi_us END AS hi_us,
        f.severity IN ('L', 'LH', 'E') AS prime
    FROM i_attempt a
    JOIN i_fault f ON f.run_id = a.run_id AND f.lo_attempt <= a.attempt AND f.hi_attempt >= a.attempt
    WHERE f.acts AND f.severity IN ('L', 'LH', 'E', 'S')
),
ranked AS (
    SELECT * FROM act QUALIFY prime = bool_or(prime) OVER (PARTITION BY run_id, attempt)
),
kept AS (
    SELECT *, min(hi_us) OVER a AS first_hi, min(shi) OVER a AS first_shi, min(pos) OVER w AS first_pos FROM ranked
    WINDOW a AS (PARTITION BY run_id, attempt), w AS (PARTITION BY run_id, attempt, coalesce(wkey, rec_id::VARCHAR))
)
SELECT run_id, attempt,
    first(rec_id ORDER BY lo_us NULLS LAST, slo, source_id, generation, pos) AS first_fault_rec_id,
    list(rec_id ORDER BY lo_us NULLS LAST, slo, source_id, generation, pos) AS candidates
FROM kept, i_lock_setting
WHERE pos = first_pos AND NOT coalesce(lo_us > first_hi + margin_us, false) AND NOT slo > first_shi + staleness
GROUP BY run_id, attempt;

-- How many faults act on each attempt.
CREATE OR REPLACE VIEW i_fault_count AS
SELECT a.run_id, a.attempt, count(DISTINCT f.rec_id) FILTER (WHERE f.locking) AS locking,
    count(DISTINCT f.rec_id) FILTER (WHERE f.acts AND f.severity <> 'I') AS confirmed,
    min(f.observed_at) FILTER (WHERE f.locking) AS locked_since
FROM i_attempt a
JOIN i_fault f ON f.run_id = a.run_id AND f.lo_attempt <= a.attempt AND f.hi_attempt >= a.attempt
GROUP BY a.run_id, a.attempt;
