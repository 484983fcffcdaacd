-- Faults as people see them, and how many act on each attempt.

-- (run, attempt) pairs; `id` of the declaration, NULL for the undeclared first.
CREATE OR REPLACE VIEW i_attempt AS
SELECT run_id, 1::BIGINT AS attempt, NULL::VARCHAR AS id FROM (
    SELECT run_id FROM i_place UNION SELECT run_id FROM b_run_attempt
)
UNION ALL
SELECT run_id, 1 + row_number() OVER (PARTITION BY run_id ORDER BY declared_at, id), id FROM b_run_attempt;

CREATE OR REPLACE VIEW faults AS
WITH place AS MATERIALIZED (
    SELECT DISTINCT source_id, path, rank, zone_s FROM i_place
)
SELECT f.rec_id, j.run_id, j.lo_attempt AS attempt, j.severity, f.kind, j.now_verdict AS verdict, j.locking AS locks,
    coalesce(f.proc_rank, s.rank) AS rank, f.pid, f.host, f.code, f.step, f.text, j.echo_of, s.path, f.line_no, f.byte_offset,
    f.byte_length,
    CASE WHEN f.stamp_utc THEN f.stamp WHEN s.zone_s IS NOT NULL THEN f.stamp - to_seconds(s.zone_s) END AS event_at,
    f.observed_at, r.title,
    CASE WHEN f.verdict = 'confirmed' AND NOT j.mapped THEN 'GPU not mapped to this run'
         WHEN j.now_verdict = 'refuted' THEN 'its process finished GPU work afterwards'
         WHEN j.echo_of IS NOT NULL THEN 'a console''s copy of a worker''s line'
         WHEN f.verdict <> 'confirmed' THEN 'only confirmed lines act'
         WHEN NOT j.has_rule THEN 'no rule knows this kind: it locks until one does'
         WHEN j.locks0 = 'if_continues' AND NOT j.locking THEN 'its process did not go on computing: no lock'
         ELSE '' END AS reason,
    j.hi_attempt AS last_attempt, f.stamp AS event_local, f.step_carried, f.bus, f.node, f.actor, f.proc, f.source_id,
    f.generation, f.raw
FROM i_fault j
JOIN b_fault f ON f.rec_id = j.rec_id
LEFT JOIN b_fault_rule r ON r.kind = f.kind
LEFT JOIN place s ON s.source_id = f.source_id;

-- The attempts that faults act on: how many, and the first of them, for display; it decides nothing. L, LH and E come before
-- S, which is a consequence. `candidates`: all that nothing shows to be later than another.
CREATE OR REPLACE VIEW i_attempt_fault AS
WITH act AS MATERIALIZED (
    SELECT a.run_id, a.attempt, f.rec_id, f.source_id, f.generation, f.wkey, f.pos, f.slo, f.shi, f.locking,
        CASE WHEN f.lo_clk = 0 THEN f.lo_us END AS lo_us, CASE WHEN f.hi_clk = 0 THEN f.hi_us END AS hi_us,
        f.severity IN ('L', 'LH', 'E') AS prime, f.severity
    FROM i_attempt a
    JOIN i_fault f ON f.run_id = a.run_id AND f.lo_attempt <= a.attempt AND f.hi_attempt >= a.attempt
    WHERE f.acts AND f.severity <> 'I'
),
ranked AS (
    SELECT * FROM act WHERE severity <> 'N' QUALIFY prime = bool_or(prime) OVER (PARTITION BY run_id, attempt)
),
kept AS (
    SELECT *, min(hi_us) OVER a AS first_hi, min(shi) OVER a AS first_shi, min(pos) OVER w AS first_pos FROM ranked
    WINDOW a AS (PARTITION BY run_id, attempt), w AS (PARTITION BY run_id, attempt, coalesce(wkey, rec_id::VARCHAR))
),
first_fault AS (
    SELECT run_id, attempt, list(rec_id ORDER BY lo_us NULLS LAST, slo, source_id, generation, pos) AS candidates
    FROM kept, i_lock_setting
    WHERE pos = first_pos AND NOT coalesce(lo_us > first_hi + margin_us, false) AND NOT slo > first_shi + staleness
    GROUP BY run_id, attempt
),
counted AS (
    SELECT run_id, attempt, count(DISTINCT rec_id) AS faults, count(DISTINCT rec_id) FILTER (WHERE locking) AS locking
    FROM act GROUP BY run_id, attempt
)
SELECT c.run_id, c.attempt, c.faults, c.locking, f.candidates[1] AS first_fault_rec_id, f.candidates
FROM counted c LEFT JOIN first_fault f ON f.run_id = c.run_id AND f.attempt = c.attempt;
