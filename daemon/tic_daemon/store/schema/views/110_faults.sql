-- What bounds a fault's time and step, what it does, and on which attempts.

-- One row a fault; kernel lines get one for every attempt whose GPU they name.
--   lo_us, hi_us, lo_clk, hi_clk  time bounds; clk 0: UTC, a source_id: its own clock of unknown zone, NULL: no bound
--   slo, shi                      step bounds
--   lo_attempt, hi_attempt        the attempts that it acts on
--   acts                          confirmed, mapped, no copy; only such lines lock or void
--   locking, voiding              locks its attempts; makes the numbers of its steps suspect
--   now_verdict                   confirmed | suspect | refuted | mention
CREATE OR REPLACE VIEW i_fault AS
WITH place AS MATERIALIZED (SELECT * FROM i_place),
placed AS MATERIALIZED (
    SELECT f.rec_id, f.host, f.source_id, f.generation, f.byte_offset, f.proc, f.pid, f.step, f.step_carried, f.kind, f.verdict,
        f.text, lower(f.bus) AS bus, lower(f.node) AS node, p.run_id, p.wkey, p.ekey, p.declared_single, p.console, p.lo_attempt,
        p.hi_attempt, p.cut_attempt, p.stream0, CASE WHEN f.stream <> '' THEN f.stream ELSE p.stream0 END AS estream,
        f.generation::BIGINT * 17592186044416 + f.byte_offset AS pos,
        coalesce(r.severity, 'L') AS severity, coalesce(r.locks, 'always') AS locks0, coalesce(r.node_scope, false) AS node_scope,
        r.kind IS NOT NULL AS has_rule, f.stamp IS NULL AS unstamped,
        CASE WHEN p.zone_s IS NULL THEN f.source_id ELSE 0 END AS naive_clk, coalesce(p.zone_s, 0)::BIGINT * 1000000 AS shift,
        CASE WHEN f.stamp IS NOT NULL THEN f.stamp
             WHEN f.stream = 'stderr' OR p.stream0 <> '' THEN f.after_stamp END AS low,
        CASE WHEN f.stamp IS NOT NULL THEN f.stamp_utc ELSE f.after_utc END AS low_utc,
        f.stamp_res_us AS res_us
    FROM b_fault f
    LEFT JOIN place p ON p.source_id = f.source_id AND p.generation = f.generation AND p.proc = f.proc
        AND f.byte_offset >= p.from_off AND f.byte_offset < p.to_off
    LEFT JOIN b_fault_rule r ON r.kind = f.kind
),
-- Without an own stamp: the stamped lines that follow. A stamp bounds an earlier line of the same process if the source is
-- one stream, if the stamped line is on stderr (unbuffered: written when it was made), or if both are known to be stdout.
line AS (
    SELECT f.rec_id, f.run_id, a.byte_offset, a.stamp_utc OR f.naive_clk = 0 AS utc,
        epoch_us(a.stamp) + a.stamp_res_us - CASE WHEN a.stamp_utc THEN 0 ELSE f.shift END AS hi_us
    FROM (SELECT source_id, generation, proc, byte_offset, stamp, stamp_res_us, stamp_utc, stream FROM b_stamp_after
          WHERE stamp IS NOT NULL AND source_id IN (SELECT source_id FROM placed WHERE unstamped AND verdict <> 'mention')) a
    JOIN placed f ON f.source_id = a.source_id AND f.generation = a.generation AND f.proc = a.proc
    WHERE f.unstamped AND (f.stream0 <> '' OR a.stream = 'stderr' OR (a.stream = 'stdout' AND f.estream = 'stdout'))
),
-- Of the clocks of one process only UTC counts if it has any; the greatest stamp up to the next line counts, so that a
-- clock that jumped back bounds nothing.
next_line AS (
    SELECT l.rec_id, l.run_id, bool_or(l.utc) AS any_utc,
        min(l.byte_offset) FILTER (WHERE l.utc AND l.byte_offset > f.byte_offset) AS utc_off,
        min(l.byte_offset) FILTER (WHERE NOT l.utc AND l.byte_offset > f.byte_offset) AS naive_off
    FROM line l JOIN placed f ON f.rec_id = l.rec_id GROUP BY l.rec_id, l.run_id
),
upper_bound AS (
    SELECT n.rec_id, any_value(n.any_utc) AS utc, max(l.hi_us) AS hi_us
    FROM next_line n JOIN line l ON l.rec_id = n.rec_id AND l.utc = n.any_utc
        AND l.byte_offset <= CASE WHEN n.any_utc THEN n.utc_off ELSE n.naive_off END
    GROUP BY n.rec_id
),
timed AS MATERIALIZED (
    SELECT f.* EXCLUDE (low, low_utc, res_us, unstamped, shift),
        epoch_us(f.low) - CASE WHEN f.low_utc THEN 0 ELSE f.shift END AS lo_us,
        CASE WHEN f.low IS NOT NULL THEN CASE WHEN f.low_utc THEN 0 ELSE f.naive_clk END END AS lo_clk,
        CASE WHEN f.unstamped THEN u.hi_us ELSE epoch_us(f.low) + f.res_us - CASE WHEN f.low_utc THEN 0 ELSE f.shift END END AS hi_us,
        CASE WHEN f.unstamped THEN CASE WHEN u.utc THEN 0 WHEN NOT u.utc THEN f.naive_clk END
             WHEN f.low_utc THEN 0 ELSE f.naive_clk END AS hi_clk
    FROM placed f LEFT JOIN upper_bound u ON u.rec_id = f.rec_id
),
-- Kernel lines. 5d000, 5d:00.0, 0000:5d:00 and 00000000:5D:00.0 are one GPU: domain without leading zeros, bus, device.
gpu AS (
    SELECT d.*, CASE WHEN contains(d.bus, ':')
             THEN ltrim(CASE WHEN length(d.bus) - length(replace(d.bus, ':', '')) > 1
                             THEN split_part(d.bus, ':', 1) ELSE '' END, '0') || '/' || lpad(split_part(d.bus, ':', -2), 2, '0')
                  || '/' || lpad(split_part(split_part(d.bus, ':', -1), '.', 1), 2, '0')
             ELSE ltrim(left(lpad(d.bus, 16, '0'), 11), '0') || '/' || substr(lpad(d.bus, 16, '0'), 12, 2)
                  || '/' || substr(lpad(d.bus, 16, '0'), 14, 2) END AS gpu
    FROM (
        SELECT NULL::BIGINT AS rec_id, p.run_id, p.lo_attempt, p.hi_attempt, split_part(lower(v.host), '.', 1) AS host1,
            split_part(lower(v.node), '.', 1) AS host2, lower(v.bus) AS bus
        FROM b_device v JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
            AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
        WHERE v.bus <> ''
        UNION ALL
        SELECT rec_id, NULL, NULL, NULL, split_part(CASE WHEN node <> '' THEN node ELSE lower(host) END, '.', 1), '', bus
        FROM timed WHERE node_scope AND bus <> ''
    ) d
),
-- When an attempt began: the first stamped first line of a process of it.
began AS (
    SELECT run_id, lo_attempt,
        min(epoch_us(first_stamp) - CASE WHEN first_utc THEN 0 ELSE zone_s::BIGINT * 1000000 END) AS began_us
    FROM place WHERE first_utc OR zone_s IS NOT NULL GROUP BY run_id, lo_attempt
),
mapped AS (
    SELECT DISTINCT k.rec_id, h.run_id, h.lo_attempt, h.hi_attempt
    FROM gpu k
    JOIN gpu h ON h.rec_id IS NULL AND h.gpu = k.gpu AND k.host1 IN (h.host1, h.host2)
    JOIN began b ON b.run_id = h.run_id AND b.lo_attempt = h.lo_attempt
    JOIN timed t ON t.rec_id = k.rec_id
    CROSS JOIN i_lock_setting o
    WHERE t.hi_clk = 0 AND t.hi_us + o.margin_us >= b.began_us
),
-- A console forwards lines of workers. A copy of a line that stands in the worker's own file does nothing of itself: the
-- worker's line, with its better bounds, acts.
original AS (
    SELECT run_id, pid, kind, text, min(rec_id) AS rec_id FROM timed
    WHERE NOT console AND pid IS NOT NULL AND verdict = 'confirmed' AND NOT node_scope GROUP BY run_id, pid, kind, text
),
fault AS MATERIALIZED (
    SELECT t.* REPLACE (coalesce(m.run_id, t.run_id) AS run_id, coalesce(m.lo_attempt, t.lo_attempt, 1) AS lo_attempt,
                        coalesce(m.hi_attempt, t.hi_attempt, 1) AS hi_attempt,
                        CASE WHEN m.rec_id IS NULL THEN t.ekey ELSE 'mapped' END AS ekey),
        NOT t.node_scope OR m.run_id IS NOT NULL AS mapped, o.rec_id AS echo_of,
        t.verdict = 'confirmed' AND (NOT t.node_scope OR m.run_id IS NOT NULL) AND o.rec_id IS NULL AS acts
    FROM timed t
    LEFT JOIN mapped m ON m.rec_id = t.rec_id
    LEFT JOIN original o ON o.run_id = CASE WHEN t.console THEN t.run_id END AND o.pid = t.pid AND o.kind = t.kind AND o.text = t.text
),
-- What its process did afterwards: ends of steps, records, metrics. Asked of few processes.
asking AS MATERIALIZED (
    SELECT DISTINCT p.source_id, p.generation, p.proc, p.wkey FROM place p
    WHERE p.wkey IN (SELECT wkey FROM fault WHERE (acts AND locks0 = 'if_continues') OR (verdict = 'suspect' AND NOT node_scope))
),
went_on AS (
    SELECT a.wkey, max(e.pos) AS pos, max(e.pos) FILTER (WHERE e.gpu) AS gpu_pos
    FROM (
        SELECT source_id, generation, proc, generation::BIGINT * 17592186044416 + byte_offset AS pos, gpu FROM b_step_event
        WHERE edge = 'end' AND source_id IN (SELECT source_id FROM asking)
        UNION ALL
        SELECT source_id, generation, proc, generation::BIGINT * 17592186044416 + byte_offset, false FROM b_mismatch
        WHERE source_id IN (SELECT source_id FROM asking)
        UNION ALL
        SELECT source_id, generation, proc, generation::BIGINT * 17592186044416 + byte_offset, false FROM b_metric
        WHERE source_id IN (SELECT source_id FROM asking)
    ) e
    JOIN asking a ON a.source_id = e.source_id AND a.generation = e.generation AND a.proc = e.proc
    GROUP BY a.wkey
),
-- A cut by time: a fault that is surely older does not act on the newer attempt.
timely AS (
    SELECT f.rec_id, f.run_id, max(d.attempt) AS attempt
    FROM fault f
    JOIN (SELECT run_id, from_kind, epoch_us(from_time) AS from_us,
              1 + row_number() OVER (PARTITION BY run_id ORDER BY declared_at, id) AS attempt FROM b_run_attempt) d
        ON d.run_id = f.run_id AND d.from_kind = 'time'
    WHERE f.ekey IS NULL AND NOT coalesce(f.hi_clk = 0 AND f.hi_us < d.from_us, false)
    GROUP BY f.rec_id, f.run_id
),
judged AS MATERIALIZED (
    SELECT f.* REPLACE (CASE WHEN f.ekey IS NULL AND f.hi_attempt > f.lo_attempt
                             THEN greatest(f.cut_attempt, coalesce(d.attempt, 1)) ELSE f.hi_attempt END AS hi_attempt),
        f.acts AND (f.locks0 NOT IN ('if_continues', 'never') OR (f.locks0 = 'if_continues' AND coalesce(n.pos > f.pos, false)))
            AS locking,
        f.acts AND f.severity IN ('N', 'S', 'E') AS voiding,
        CASE WHEN f.verdict = 'suspect' AND NOT f.node_scope AND coalesce(n.gpu_pos > f.pos, false) THEN 'refuted'
             WHEN f.verdict = 'confirmed' AND NOT f.mapped THEN 'suspect'
             ELSE f.verdict END AS now_verdict
    FROM fault f LEFT JOIN went_on n ON n.wkey = f.wkey LEFT JOIN timely d ON d.rec_id = f.rec_id AND d.run_id = f.run_id
),
-- Steps of the attempt that are surely earlier or surely later bound a fault that names none.
lost AS MATERIALIZED (
    SELECT rec_id, run_id, lo_attempt, wkey, proc, estream, declared_single, pos,
        CASE WHEN lo_clk = 0 THEN lo_us END AS lo_us, CASE WHEN hi_clk = 0 THEN hi_us END AS hi_us,
        '' AS any_host, CASE WHEN NOT console THEN 'h' || host END AS own_host
    FROM judged WHERE step IS NULL AND (locking OR voiding) AND lo_attempt = hi_attempt
),
step_place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, wkey, console, declared_single, stream0, zone_s
    FROM place WHERE lo_attempt = hi_attempt AND run_id IN (SELECT run_id FROM lost)
),
step AS MATERIALIZED (
    SELECT p.run_id, p.lo_attempt AS attempt, v.host, p.console, p.wkey, v.proc, p.declared_single,
        CASE WHEN v.stream <> '' THEN v.stream ELSE p.stream0 END AS estream,
        v.generation::BIGINT * 17592186044416 + v.byte_offset AS pos, v.edge = 'end' AS ended,
        least(greatest(v.step, -2305843009213693952), 2305843009213693952) AS step,
        CASE WHEN v.stamp_utc OR p.zone_s IS NOT NULL
             THEN epoch_us(v.stamp) - CASE WHEN v.stamp_utc THEN 0 ELSE p.zone_s::BIGINT * 1000000 END END AS lo_us,
        v.stamp_res_us AS res_us
    FROM (SELECT source_id, generation, proc, byte_offset, host, stream, edge, step, stamp, stamp_utc, stamp_res_us
          FROM b_step_event WHERE step IS NOT NULL AND source_id IN (SELECT source_id FROM step_place)) v
    JOIN step_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
),
by_time AS MATERIALIZED (
    SELECT run_id, attempt, host, console, step, min(lo_us + res_us) FILTER (WHERE ended) AS first_end, max(lo_us) AS last_seen
    FROM step WHERE lo_us IS NOT NULL GROUP BY run_id, attempt, host, console, step
),
by_host AS MATERIALIZED (
    SELECT run_id, attempt, '' AS hkey, step, min(first_end + margin_us) AS first_end, max(last_seen - margin_us) AS last_seen
    FROM by_time, i_lock_setting GROUP BY run_id, attempt, step
    UNION ALL SELECT run_id, attempt, 'h' || host, step, first_end, last_seen FROM by_time WHERE NOT console
),
ended AS MATERIALIZED (
    SELECT run_id, attempt, hkey, first_end AS t, max(step) OVER (PARTITION BY run_id, attempt, hkey ORDER BY first_end) AS step
    FROM by_host WHERE first_end IS NOT NULL
),
followed AS MATERIALIZED (
    SELECT run_id, attempt, hkey, last_seen AS t,
        min(step) OVER (PARTITION BY run_id, attempt, hkey ORDER BY last_seen DESC) AS step
    FROM by_host
),
by_place AS (
    SELECT l.rec_id, l.run_id, l.lo_attempt,
        max(v.step) FILTER (WHERE v.ended AND v.pos < l.pos AND (l.estream = 'stderr' OR (
            v.estream <> '' AND v.estream = l.estream AND (v.declared_single OR v.proc = l.proc)))) AS slo,
        min(v.step) FILTER (WHERE v.pos > l.pos AND (v.estream = 'stderr' OR (
            v.estream <> '' AND v.estream = l.estream AND (v.declared_single OR v.proc = l.proc)))) AS shi
    FROM lost l JOIN (SELECT * FROM step WHERE wkey IN (SELECT wkey FROM lost)) v ON v.wkey = l.wkey AND v.run_id = l.run_id AND v.attempt = l.lo_attempt
    GROUP BY l.rec_id, l.run_id, l.lo_attempt
),
bounded AS (
    SELECT l.rec_id, l.run_id, l.lo_attempt, greatest(a.step, b.step, p.slo) AS slo, least(c.step, d.step, p.shi) AS shi
    FROM lost l
    ASOF LEFT JOIN ended a
        ON a.run_id = l.run_id AND a.attempt = l.lo_attempt AND a.hkey = l.own_host AND l.lo_us > a.t
    ASOF LEFT JOIN ended b
        ON b.run_id = l.run_id AND b.attempt = l.lo_attempt AND b.hkey = l.any_host AND l.lo_us > b.t
    ASOF LEFT JOIN followed c
        ON c.run_id = l.run_id AND c.attempt = l.lo_attempt AND c.hkey = l.own_host AND l.hi_us < c.t
    ASOF LEFT JOIN followed d
        ON d.run_id = l.run_id AND d.attempt = l.lo_attempt AND d.hkey = l.any_host AND l.hi_us < d.t
    LEFT JOIN by_place p ON p.rec_id = l.rec_id AND p.run_id = l.run_id AND p.lo_attempt = l.lo_attempt
)
SELECT j.rec_id, j.run_id, j.lo_attempt, j.hi_attempt, j.source_id, j.generation, j.byte_offset, j.pos, j.host, j.console, j.proc,
    j.pid, j.wkey, j.estream, j.kind, j.severity, j.locks0, j.has_rule, j.verdict, j.now_verdict, j.mapped, j.echo_of, j.acts,
    j.locking, j.voiding, j.lo_us, coalesce(j.lo_clk, -1) AS lo_clk, j.hi_us, coalesce(j.hi_clk, -1) AS hi_clk,
    -- greatest() and least() pass over NULL, so a missing step must be told apart first.
    coalesce(CASE WHEN j.step IS NOT NULL THEN least(greatest(j.step, -2305843009213693952), 2305843009213693952) END,
             b.slo, -4611686018427387904) AS slo,
    coalesce(CASE WHEN j.step IS NOT NULL THEN least(greatest(j.step, -2305843009213693952), 2305843009213693952) END
             + CASE WHEN j.step_carried THEN 1 ELSE 0 END, b.shi, 4611686018427387904) AS shi
FROM judged j
LEFT JOIN bounded b ON b.rec_id = j.rec_id AND b.run_id = j.run_id AND b.lo_attempt = j.lo_attempt;
