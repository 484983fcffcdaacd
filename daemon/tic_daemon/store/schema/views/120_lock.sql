-- The lock: thresholds against which a record is compared, for each place that it can stand in. Internal.
--
-- "Exists a locking fault that fails the time test and the step test" is a question of dominance in two dimensions. The
-- faults that can decide it are a staircase: x ascending (what the time must be below), s descending (what the step must
-- be below). Its first and last point decide nearly every record; the others look it up in `xs` and `ss`, which are text
-- because a join copies lists row by row and hands on text by reference.
-- A record is never held by time or step against faults of its own writer that offsets decide, so writers that own a
-- point of the staircase get a staircase of their own.
--
-- One row for every place and `code` = stream * 3 + clock of a record: stream as the record says (0 unknown, 1 stdout,
-- 2 stderr), clock 0 no own stamp, 1 UTC, 2 naive. Thresholds are NULL where no fault acts.
CREATE OR REPLACE VIEW i_lock AS
WITH place AS MATERIALIZED (
    SELECT wid, source_id, generation, proc, from_off, to_off, run_id, lo_attempt, hi_attempt, wkey, host, console, stream0, zone_s,
        declared_single, path
    FROM i_place
),
code AS (
    SELECT s.code * 3 + c.code AS code, s.name AS stream, c.code AS clock
    FROM (VALUES (0, ''), (1, 'stdout'), (2, 'stderr')) s(code, name), (VALUES (0), (1), (2)) c(code)
),
mark AS (SELECT run_id, scope, attempt FROM i_mark WHERE scope <> 'record' AND verdict = 'inconclusive' AND NOT retracted),
act AS MATERIALIZED (
    SELECT run_id, lo_attempt, hi_attempt, source_id, generation, byte_offset, host, console, proc, wkey, estream, locking, voiding,
        lo_us, lo_clk, hi_us, hi_clk, slo, shi
    FROM i_fault WHERE locking OR voiding
),
-- All places with the same faults.
zone AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY run_id, lo_attempt, hi_attempt) AS zid, run_id, lo_attempt, hi_attempt, lock_slo
    FROM (
        SELECT p.run_id, p.lo_attempt, p.hi_attempt, min(a.slo) FILTER (WHERE a.locking) AS lock_slo
        FROM (SELECT DISTINCT run_id, lo_attempt, hi_attempt FROM place) p
        JOIN act a ON a.run_id = p.run_id AND a.lo_attempt <= p.hi_attempt AND a.hi_attempt >= p.lo_attempt
        GROUP BY p.run_id, p.lo_attempt, p.hi_attempt
    )
),
fault AS MATERIALIZED (
    SELECT z.zid, a.host, a.console, a.wkey, a.proc, a.estream, a.generation, a.byte_offset,
        a.lo_us, a.lo_clk, a.hi_us, a.hi_clk, a.slo, a.shi
    FROM zone z
    JOIN act a ON a.run_id = z.run_id AND a.lo_attempt <= z.hi_attempt AND a.hi_attempt >= z.lo_attempt
    WHERE a.locking
),
void0 AS MATERIALIZED (
    SELECT z.zid, a.slo, a.shi,
        max(a.shi) OVER (PARTITION BY z.zid ORDER BY a.slo, a.shi ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS extent
    FROM zone z
    JOIN act a ON a.run_id = z.run_id AND a.lo_attempt <= z.hi_attempt AND a.hi_attempt >= z.lo_attempt
    WHERE a.voiding
),
-- Voided steps: disjoint ranges; `bits` has one for each step from void_lo on, where they are finite and near each other.
void_part AS MATERIALIZED (
    SELECT zid, lo, max(shi) AS hi FROM (
        SELECT zid, shi, max(CASE WHEN extent IS NULL OR slo > extent THEN slo END)
            OVER (PARTITION BY zid ORDER BY slo, shi ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS lo
        FROM void0
    ) GROUP BY zid, lo
),
void AS (
    SELECT zid, min(lo) AS void_lo, max(hi) AS void_hi, count(*) AS voids,
        string_agg(lo::VARCHAR, ',' ORDER BY lo) AS void_los, string_agg(hi::VARCHAR, ',' ORDER BY lo) AS void_his,
        CASE WHEN max(hi) - min(lo) < 1000000
             THEN string_agg(repeat('0', gap) || repeat('1', CASE WHEN hi - lo < 1000000 THEN hi - lo + 1 ELSE 0 END), '' ORDER BY lo)::BIT
             END AS void_bits
    FROM (
        SELECT zid, lo, hi, CASE WHEN lo - lag(hi) OVER w < 1000000 THEN lo - lag(hi) OVER w - 1 ELSE 0 END AS gap
        FROM void_part WINDOW w AS (PARTITION BY zid ORDER BY lo)
    ) GROUP BY zid
),
-- Hosts and clocks that matter: records elsewhere are all alike.
fault_host AS (SELECT DISTINCT zid, host FROM fault WHERE NOT console),
fault_clock AS MATERIALIZED (
    SELECT DISTINCT zid, lo_clk AS clk FROM fault WHERE lo_clk > 0 UNION SELECT DISTINCT zid, hi_clk FROM fault WHERE hi_clk > 0
),
-- Stamped lines after unstamped ones, by the stream of the lines that they bound: see i_fault.
line AS MATERIALIZED (
    SELECT source_id, generation, proc, skey, byte_offset, hi_us, utc FROM (
        SELECT a.source_id, a.generation, a.proc, k.name AS skey, a.byte_offset, a.stamp_utc OR p.zone_s IS NOT NULL AS utc,
            epoch_us(a.stamp) + a.stamp_res_us - CASE WHEN a.stamp_utc THEN 0 ELSE coalesce(p.zone_s, 0)::BIGINT * 1000000 END AS hi_us
        FROM (SELECT source_id, generation, proc, byte_offset, stamp, stamp_res_us, stamp_utc, stream FROM b_stamp_after
              WHERE stamp IS NOT NULL AND source_id IN (
                  SELECT p.source_id FROM place p JOIN zone z ON z.run_id = p.run_id
                  WHERE EXISTS (SELECT 1 FROM fault WHERE lo_clk >= 0))) a
        JOIN (SELECT DISTINCT source_id, generation, proc, stream0, zone_s FROM place) p
            ON p.source_id = a.source_id AND p.generation = a.generation AND p.proc = a.proc
        JOIN (VALUES (''), ('stdout'), ('stderr')) k(name)
            ON p.stream0 <> '' OR a.stream = 'stderr' OR (a.stream = 'stdout' AND k.name = 'stdout')
    )
),
stamped AS MATERIALIZED (
    SELECT source_id, generation, proc, skey, bool_or(utc) AS utc FROM line GROUP BY source_id, generation, proc, skey
),
variant AS MATERIALIZED (
    SELECT p.wid * 16 + c.code AS cid, z.zid, p.source_id, p.generation, p.proc, p.wkey, p.declared_single,
        p.stream0, CASE WHEN c.stream = '' THEN p.stream0 ELSE c.stream END AS estream, c.clock AS clock_code, p.zone_s,
        CASE WHEN NOT p.console AND h.host IS NOT NULL THEN p.host ELSE '' END AS hkey,
        CASE WHEN p.zone_s IS NOT NULL THEN 0 WHEN n.clk IS NOT NULL THEN p.source_id ELSE -1 END AS naive_clk
    FROM place p
    JOIN zone z ON z.run_id = p.run_id AND z.lo_attempt = p.lo_attempt AND z.hi_attempt = p.hi_attempt
    CROSS JOIN code c
    LEFT JOIN fault_host h ON h.zid = z.zid AND h.host = p.host
    LEFT JOIN fault_clock n ON n.zid = z.zid AND n.clk = p.source_id
),
clocked AS MATERIALIZED (
    SELECT v.*, CASE v.clock_code WHEN 1 THEN 0 WHEN 2 THEN v.naive_clk
                ELSE CASE WHEN t.utc THEN 0 WHEN NOT t.utc THEN v.naive_clk ELSE -1 END END AS clk
    FROM variant v
    LEFT JOIN stamped t ON t.source_id = v.source_id AND t.generation = v.generation AND t.proc = v.proc
        AND t.skey = CASE WHEN v.clock_code = 0 THEN v.estream END
),
-- A view of the faults: zone, record host, record clock (0 UTC, a source's own, -1 none).
look AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY zid, hkey, clk) AS gid, zid, hkey, clk FROM (
        SELECT zid, hkey, clk FROM clocked UNION SELECT zid, hkey, naive_clk FROM clocked UNION SELECT zid, hkey, 0 FROM clocked
    )
),
-- As each look sees the faults of other writers: before(r, f) is thi(r) < x or shi(r) < s; r is surely later if
-- tlo(r) > late_x or slo(r) > late_s.
sight AS MATERIALIZED (
    SELECT l.gid, f.wkey,
        CASE WHEN l.clk < 0 OR f.lo_clk <> l.clk THEN -4611686018427387904
             WHEN l.hkey <> '' AND f.host = l.hkey AND NOT f.console THEN f.lo_us ELSE f.lo_us - o.margin_us END AS x,
        CASE WHEN f.slo = -4611686018427387904 THEN f.slo ELSE f.slo - o.staleness END AS s,
        CASE WHEN l.clk < 0 OR f.hi_clk <> l.clk THEN 4611686018427387904
             WHEN l.hkey <> '' AND f.host = l.hkey AND NOT f.console THEN f.hi_us ELSE f.hi_us + o.margin_us END AS late_x,
        CASE WHEN f.shi = 4611686018427387904 THEN f.shi ELSE f.shi + o.staleness END AS late_s
    FROM look l JOIN fault f ON f.zid = l.zid CROSS JOIN i_lock_setting o
),
stair AS MATERIALIZED (
    SELECT gid, x, s, owner FROM (
        SELECT gid, x, s, CASE WHEN count(DISTINCT wkey) = 1 AND bool_and(wkey IS NOT NULL) THEN min(wkey) END AS owner
        FROM sight GROUP BY gid, x, s
    )
    QUALIFY s < coalesce(
        min(s) OVER (PARTITION BY gid ORDER BY x, s ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 4611686018427387905)
),
late AS MATERIALIZED (SELECT gid, min(late_x) AS late_x, min(late_s) AS late_s FROM sight GROUP BY gid),
owner AS MATERIALIZED (
    SELECT gid, owner FROM stair WHERE owner IS NOT NULL
    UNION
    SELECT t.gid, min(t.wkey) FROM sight t JOIN late l ON l.gid = t.gid AND l.late_x = t.late_x
    GROUP BY t.gid HAVING count(DISTINCT t.wkey) = 1 AND bool_and(t.wkey IS NOT NULL)
    UNION
    SELECT t.gid, min(t.wkey) FROM sight t JOIN late l ON l.gid = t.gid AND l.late_s = t.late_s
    GROUP BY t.gid HAVING count(DISTINCT t.wkey) = 1 AND bool_and(t.wkey IS NOT NULL)
),
looked AS MATERIALIZED (
    SELECT c.*, l.gid, u.gid AS utc_gid, n.gid AS naive_gid,
        c.wkey IS NOT NULL AND (a.owner IS NOT NULL OR b.owner IS NOT NULL OR d.owner IS NOT NULL) AS owns
    FROM clocked c
    JOIN look l ON l.zid = c.zid AND l.hkey = c.hkey AND l.clk = c.clk
    JOIN look u ON u.zid = c.zid AND u.hkey = c.hkey AND u.clk = 0
    JOIN look n ON n.zid = c.zid AND n.hkey = c.hkey AND n.clk = c.naive_clk
    LEFT JOIN owner a ON a.gid = l.gid AND a.owner = c.wkey
    LEFT JOIN owner b ON b.gid = u.gid AND b.owner = c.wkey
    LEFT JOIN owner d ON d.gid = n.gid AND d.owner = c.wkey
),
-- Faults of the record's own writer: the offset from which on they hold it, and from which on it is shown to be later.
own_bound AS (
    SELECT v.cid,
        min(CASE WHEN f.generation < v.generation THEN -1 ELSE f.byte_offset END) FILTER (
            WHERE f.estream = 'stderr'
               OR (v.estream <> '' AND v.estream = f.estream AND (v.declared_single OR v.proc = f.proc))) AS own_off,
        min(CASE WHEN f.generation < v.generation THEN -1 ELSE f.byte_offset END) FILTER (
            WHERE v.estream = 'stderr'
               OR (v.estream <> '' AND v.estream = f.estream AND (v.declared_single OR v.proc = f.proc))) AS own_late
    FROM looked v JOIN fault f ON f.zid = v.zid AND f.wkey = v.wkey
    WHERE f.generation <= v.generation
    GROUP BY v.cid
),
own_sight AS MATERIALIZED (
    SELECT v.cid,
        CASE WHEN v.clk < 0 OR f.lo_clk <> v.clk THEN -4611686018427387904
             WHEN f.wkey = v.wkey OR (v.hkey <> '' AND f.host = v.hkey AND NOT f.console) THEN f.lo_us
             ELSE f.lo_us - o.margin_us END AS x,
        CASE WHEN f.slo = -4611686018427387904 OR f.wkey = v.wkey THEN f.slo ELSE f.slo - o.staleness END AS s,
        CASE WHEN f.hi_clk <> 0 THEN 4611686018427387904
             WHEN f.wkey = v.wkey OR (v.hkey <> '' AND f.host = v.hkey AND NOT f.console) THEN f.hi_us
             ELSE f.hi_us + o.margin_us END AS late_utc,
        CASE WHEN v.naive_clk < 0 OR f.hi_clk <> v.naive_clk THEN 4611686018427387904
             WHEN f.wkey = v.wkey OR (v.hkey <> '' AND f.host = v.hkey AND NOT f.console) THEN f.hi_us
             ELSE f.hi_us + o.margin_us END AS late_naive,
        CASE WHEN f.shi = 4611686018427387904 OR f.wkey = v.wkey THEN f.shi ELSE f.shi + o.staleness END AS late_s
    FROM looked v JOIN fault f ON f.zid = v.zid CROSS JOIN i_lock_setting o
    WHERE v.owns AND NOT coalesce(f.wkey = v.wkey AND (f.estream = 'stderr' OR (
        v.estream <> '' AND v.estream = f.estream AND (v.declared_single OR v.proc = f.proc))), false)
),
own_late AS (
    SELECT cid, min(late_utc) AS late_utc, min(late_naive) AS late_naive, min(late_s) AS late_s FROM own_sight GROUP BY cid
),
own_stair AS MATERIALIZED (
    SELECT cid, x, s FROM (SELECT DISTINCT cid, x, s FROM own_sight)
    QUALIFY s < coalesce(
        min(s) OVER (PARTITION BY cid ORDER BY x, s ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 4611686018427387905)
),
-- Lines without an own stamp: a time becomes the offset before which the stamped lines that follow show a line to be
-- earlier. The greatest stamp so far counts, so that a clock that jumped back unlocks nothing.
unstamped AS MATERIALIZED (
    SELECT v.cid, v.source_id, v.generation, v.proc, v.estream, v.clk = 0 AS utc, p.x, p.s
    FROM looked v JOIN stair p ON p.gid = v.gid
    WHERE NOT v.owns AND v.clock_code = 0 AND v.clk >= 0
    UNION ALL
    SELECT v.cid, v.source_id, v.generation, v.proc, v.estream, v.clk = 0, p.x, p.s
    FROM looked v JOIN own_stair p ON p.cid = v.cid
    WHERE v.owns AND v.clock_code = 0 AND v.clk >= 0
),
too_late AS (
    SELECT u.cid, u.x, min(l.byte_offset) AS byte_offset
    FROM unstamped u
    JOIN line l ON l.source_id = u.source_id AND l.generation = u.generation AND l.proc = u.proc AND l.skey = u.estream
        AND (l.utc = u.utc) AND l.hi_us >= u.x
    WHERE u.x > -4611686018427387904
    GROUP BY u.cid, u.x
),
reached AS (
    SELECT u.cid, u.x, max(l.byte_offset) AS byte_offset
    FROM unstamped u
    JOIN line l ON l.source_id = u.source_id AND l.generation = u.generation AND l.proc = u.proc AND l.skey = u.estream
        AND l.utc = u.utc
    LEFT JOIN too_late t ON t.cid = u.cid AND t.x = u.x
    WHERE u.x > -4611686018427387904 AND l.byte_offset < coalesce(t.byte_offset, 4611686018427387904)
    GROUP BY u.cid, u.x
),
-- sid: the staircase; positive shared by all records of a look, negative of one variant.
point AS MATERIALIZED (
    SELECT gid AS sid, x, s FROM stair
    UNION ALL SELECT -2 * cid, x, s FROM own_stair
    UNION ALL
    SELECT -2 * u.cid - 1, coalesce(r.byte_offset, -1), u.s FROM unstamped u LEFT JOIN reached r ON r.cid = u.cid AND r.x = u.x
),
edge AS (
    SELECT sid, count(*) AS points, min(x) AS x1, arg_min(s, (x, s)) AS s1, max(x) AS xk, min(s) AS sk,
        CASE WHEN count(*) > 2 THEN string_agg(x::VARCHAR, ',' ORDER BY x, s DESC) END AS xs,
        CASE WHEN count(*) > 2 THEN string_agg(s::VARCHAR, ',' ORDER BY x, s DESC) END AS ss
    FROM point GROUP BY sid
),
decided AS (
    SELECT v.*, CASE WHEN v.clock_code = 0 AND v.clk >= 0 THEN -2 * v.cid - 1 WHEN v.owns THEN -2 * v.cid ELSE v.gid END AS sid,
        v.clock_code = 0 AND NOT (v.estream = 'stderr' OR v.stream0 <> '') AS no_earlier_line
    FROM looked v
)
SELECT p.source_id, p.generation, p.proc, c.code, p.from_off, p.to_off, p.run_id, p.lo_attempt, p.zone_s, p.path,
    EXISTS (SELECT 1 FROM mark m WHERE m.run_id = p.run_id AND (m.scope = 'run' OR m.attempt = p.lo_attempt)) AS place_marked,
    CASE WHEN v.clock_code = 2 AND v.zone_s IS NOT NULL THEN v.zone_s::BIGINT * 1000000 ELSE 0 END AS shift_us,
    CASE WHEN v.zone_s IS NOT NULL THEN v.zone_s::BIGINT * 1000000 ELSE 0 END AS naive_shift_us,
    b.own_off, b.own_late, e.points, e.x1, e.s1, e.xk, e.sk, e.xs, e.ss,
    CASE WHEN NOT v.no_earlier_line THEN CASE WHEN v.owns THEN ol.late_utc ELSE lu.late_x END END AS late_utc,
    CASE WHEN NOT v.no_earlier_line THEN CASE WHEN v.owns THEN ol.late_naive ELSE ln.late_x END END AS late_naive,
    CASE WHEN v.owns THEN ol.late_s ELSE lu.late_s END AS late_s, z.lock_slo,
    d.void_lo, d.void_hi, d.voids, d.void_los, d.void_his, d.void_bits
FROM place p
CROSS JOIN code c
LEFT JOIN decided v ON v.cid = p.wid * 16 + c.code
LEFT JOIN zone z ON z.zid = v.zid
LEFT JOIN own_bound b ON b.cid = v.cid
LEFT JOIN edge e ON e.sid = v.sid
LEFT JOIN late lu ON lu.gid = v.utc_gid
LEFT JOIN late ln ON ln.gid = v.naive_gid
LEFT JOIN own_late ol ON ol.cid = v.cid
LEFT JOIN void d ON d.zid = v.zid;

-- The same rows. The list and its unnesting are for the planner: it takes i_lock for larger than all records and would
-- build its hash table from those.
CREATE OR REPLACE VIEW i_stand AS
SELECT r.* FROM (SELECT unnest(rows) AS r FROM (SELECT list(l) AS rows FROM i_lock l));
