-- The lock: thresholds against which a record is compared, for each place that it can stand in. Internal.
--
-- "Exists a locking fault that fails the time test and the step test" is a question of dominance in two dimensions. The
-- faults that can decide it are a staircase: a ascending (what the time must be below), s descending (what the step must
-- be below). Its first and last point decide nearly every record; records between go to i_lock_point.
-- A record is never held by time or step against faults of its own writer that offsets decide, so writers that own a
-- point of the staircase get one of their own.

-- Variants of a place: stream code (0 unknown, 1 stdout, 2 stderr, as the record says) and clock code (0 no own stamp,
-- 1 UTC stamp, 2 naive stamp). cid = wid * 16 + stream * 3 + clock. Only for places with faults that act on them.
CREATE OR REPLACE VIEW i_lock AS
WITH place AS MATERIALIZED (SELECT * FROM i_place),
act AS MATERIALIZED (SELECT * FROM i_fault WHERE locking OR voiding),
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
        a.lo_us, coalesce(a.lo_clk, -1) AS lo_clk, a.hi_us, coalesce(a.hi_clk, -1) AS hi_clk, a.slo, a.shi
    FROM zone z
    JOIN act a ON a.run_id = z.run_id AND a.lo_attempt <= z.hi_attempt AND a.hi_attempt >= z.lo_attempt
    WHERE a.locking
),
void0 AS (
    SELECT z.zid, a.slo, a.shi,
        max(a.shi) OVER (PARTITION BY z.zid ORDER BY a.slo, a.shi ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reach
    FROM zone z
    JOIN act a ON a.run_id = z.run_id AND a.lo_attempt <= z.hi_attempt AND a.hi_attempt >= z.lo_attempt
    WHERE a.voiding
),
void AS (
    SELECT zid, min(slo) AS void_lo, max(shi) AS void_hi, count(*) FILTER (WHERE reach IS NULL OR slo > reach) AS voids
    FROM void0 GROUP BY zid
),
-- Hosts and clocks that matter: records elsewhere are all alike.
fault_host AS (SELECT DISTINCT zid, host FROM fault WHERE NOT console),
fault_clock AS (SELECT DISTINCT zid, lo_clk AS clk FROM fault WHERE lo_clk > 0 UNION SELECT DISTINCT zid, hi_clk FROM fault WHERE hi_clk > 0),
stamped AS (
    SELECT l.source_id, l.generation, l.proc, l.skey, any_value(l.clk) AS clk
    FROM i_stamp_line l WHERE EXISTS (SELECT 1 FROM fault WHERE lo_clk >= 0)
    GROUP BY ALL
),
variant AS MATERIALIZED (
    SELECT p.wid * 16 + s.code * 3 + c.code AS cid, z.zid, p.source_id, p.generation, p.proc, p.wkey, p.declared_single,
        p.stream0, CASE WHEN s.code = 0 THEN p.stream0 ELSE s.name END AS estream, c.code AS clock_code, p.zone_s,
        CASE WHEN NOT p.console AND h.host IS NOT NULL THEN p.host ELSE '' END AS hkey,
        CASE c.code WHEN 0 THEN coalesce(t.clk, -1) WHEN 1 THEN 0
             ELSE CASE WHEN p.zone_s IS NOT NULL THEN 0 ELSE p.source_id END END AS clk0
    FROM place p
    JOIN zone z ON z.run_id = p.run_id AND z.lo_attempt = p.lo_attempt AND z.hi_attempt = p.hi_attempt
    CROSS JOIN (VALUES (0, ''), (1, 'stdout'), (2, 'stderr')) s(code, name)
    CROSS JOIN (VALUES (0), (1), (2)) c(code)
    LEFT JOIN fault_host h ON h.zid = z.zid AND h.host = p.host
    LEFT JOIN stamped t ON c.code = 0 AND t.source_id = p.source_id AND t.generation = p.generation AND t.proc = p.proc
        AND t.skey = CASE WHEN s.code = 0 THEN p.stream0 ELSE s.name END
),
-- A view of the faults: zone, record host, record clock. naive_clk is the clock of naive stamps of the place.
clocked AS MATERIALIZED (
    SELECT v.*, CASE WHEN v.clk0 <= 0 OR f.clk IS NOT NULL THEN v.clk0 ELSE -1 END AS clk,
        CASE WHEN v.zone_s IS NOT NULL THEN 0 WHEN n.clk IS NOT NULL THEN v.source_id ELSE -1 END AS naive_clk
    FROM variant v
    LEFT JOIN fault_clock f ON f.zid = v.zid AND f.clk = v.clk0
    LEFT JOIN fault_clock n ON n.zid = v.zid AND n.clk = v.source_id
),
-- A view of the faults: zone, record host, record clock (0 UTC, a source's own, -1 none).
look AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY zid, hkey, clk) AS gid, zid, hkey, clk FROM (
        SELECT zid, hkey, clk FROM clocked
        UNION SELECT zid, hkey, naive_clk FROM clocked
        UNION SELECT zid, hkey, 0 FROM clocked
    )
),
-- As each look sees each fault of other writers: before(r, f) is thi(r) < a or shi(r) < s; r is surely later if
-- tlo(r) > late_a or slo(r) > late_s.
sight AS MATERIALIZED (
    SELECT l.gid, f.wkey,
        CASE WHEN f.lo_clk = l.clk AND l.clk >= 0 THEN f.lo_us - CASE WHEN f.near THEN 0 ELSE o.margin_us END
             ELSE -4611686018427387904 END AS a,
        CASE WHEN f.slo = -4611686018427387904 THEN f.slo ELSE f.slo - o.staleness END AS s,
        CASE WHEN f.hi_clk = l.clk AND l.clk >= 0 THEN f.hi_us + CASE WHEN f.near THEN 0 ELSE o.margin_us END
             ELSE 4611686018427387904 END AS late_a,
        CASE WHEN f.shi = 4611686018427387904 THEN f.shi ELSE f.shi + o.staleness END AS late_s
    FROM look l
    JOIN (
        SELECT k.gid, k.hkey <> '' AND x.host = k.hkey AND NOT x.console AS near, x.*
        FROM look k JOIN fault x ON x.zid = k.zid
    ) f ON f.gid = l.gid
    CROSS JOIN i_lock_setting o
),
stair0 AS (
    SELECT gid, a, s,
        CASE WHEN count(DISTINCT wkey) = 1 AND bool_and(wkey IS NOT NULL) THEN min(wkey) END AS owner
    FROM sight GROUP BY gid, a, s
),
stair AS MATERIALIZED (
    SELECT gid, a, s, owner FROM stair0
    QUALIFY s < coalesce(
        min(s) OVER (PARTITION BY gid ORDER BY a, s ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 4611686018427387905)
),
late AS MATERIALIZED (SELECT gid, min(late_a) AS late_a, min(late_s) AS late_s FROM sight GROUP BY gid),
late_owner AS (
    SELECT t.gid, min(t.wkey) AS owner FROM sight t JOIN late l ON l.gid = t.gid AND l.late_a = t.late_a
    GROUP BY t.gid HAVING count(DISTINCT t.wkey) = 1 AND bool_and(t.wkey IS NOT NULL)
    UNION
    SELECT t.gid, min(t.wkey) FROM sight t JOIN late l ON l.gid = t.gid AND l.late_s = t.late_s
    GROUP BY t.gid HAVING count(DISTINCT t.wkey) = 1 AND bool_and(t.wkey IS NOT NULL)
),
owner AS MATERIALIZED (
    SELECT gid, owner FROM stair WHERE owner IS NOT NULL UNION SELECT gid, owner FROM late_owner
),
looked AS MATERIALIZED (
    SELECT c.*, l.gid, u.gid AS utc_gid, n.gid AS naive_gid,
        EXISTS (SELECT 1 FROM owner o WHERE o.owner = c.wkey AND o.gid IN (l.gid, u.gid, n.gid)) AS owns
    FROM clocked c
    JOIN look l ON l.zid = c.zid AND l.hkey = c.hkey AND l.clk = c.clk
    JOIN look u ON u.zid = c.zid AND u.hkey = c.hkey AND u.clk = 0
    JOIN look n ON n.zid = c.zid AND n.hkey = c.hkey AND n.clk = c.naive_clk
),
-- Faults of the record's own writer: where offsets decide (`ordered`), and where they show that the record is later.
own AS MATERIALIZED (
    SELECT v.cid, f.generation AS fault_generation, v.generation, f.byte_offset,
        f.estream = 'stderr' OR same_line_order AS ordered, v.estream = 'stderr' OR same_line_order AS shows_later
    FROM looked v
    JOIN (
        SELECT w.cid, x.*, w.estream <> '' AND w.estream = x.estream AND (w.declared_single OR w.proc = x.proc) AS same_line_order
        FROM looked w JOIN fault x ON x.zid = w.zid AND x.wkey = w.wkey
    ) f ON f.cid = v.cid
),
own_bound AS (
    SELECT cid,
        min(CASE WHEN fault_generation < generation THEN -1 ELSE byte_offset END)
            FILTER (WHERE ordered AND fault_generation <= generation) AS own_off,
        min(CASE WHEN fault_generation < generation THEN -1 ELSE byte_offset END)
            FILTER (WHERE shows_later AND fault_generation <= generation) AS own_late
    FROM own GROUP BY cid
),
own_sight AS MATERIALIZED (
    SELECT v.cid,
        CASE WHEN f.lo_clk = v.clk AND v.clk >= 0 THEN f.lo_us - CASE WHEN f.near THEN 0 ELSE o.margin_us END
             ELSE -4611686018427387904 END AS a,
        CASE WHEN f.slo = -4611686018427387904 OR f.same THEN f.slo ELSE f.slo - o.staleness END AS s,
        CASE WHEN f.hi_clk = 0 THEN f.hi_us + CASE WHEN f.near THEN 0 ELSE o.margin_us END
             ELSE 4611686018427387904 END AS late_utc,
        CASE WHEN f.hi_clk = v.naive_clk AND v.naive_clk >= 0 THEN f.hi_us + CASE WHEN f.near THEN 0 ELSE o.margin_us END
             ELSE 4611686018427387904 END AS late_naive,
        CASE WHEN f.shi = 4611686018427387904 OR f.same THEN f.shi ELSE f.shi + o.staleness END AS late_s
    FROM looked v
    JOIN (
        SELECT w.cid, x.*, coalesce(x.wkey = w.wkey, false) AS same,
            coalesce(x.wkey = w.wkey, false) OR (w.hkey <> '' AND x.host = w.hkey AND NOT x.console) AS near,
            coalesce(x.wkey = w.wkey, false) AND (x.estream = 'stderr' OR (
                w.estream <> '' AND w.estream = x.estream AND (w.declared_single OR w.proc = x.proc))) AS ordered
        FROM looked w JOIN fault x ON x.zid = w.zid WHERE w.owns
    ) f ON f.cid = v.cid
    CROSS JOIN i_lock_setting o
    WHERE NOT f.ordered
),
own_stair AS (
    SELECT cid, a, s FROM (SELECT DISTINCT cid, a, s FROM own_sight)
    QUALIFY s < coalesce(
        min(s) OVER (PARTITION BY cid ORDER BY a, s ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 4611686018427387905)
),
own_late AS (
    SELECT cid, min(late_utc) AS late_utc, min(late_naive) AS late_naive, min(late_s) AS late_s FROM own_sight GROUP BY cid
),
-- Lines without an own stamp: a time becomes the offset before which a line is shown, by the stamped lines after it, to
-- have been made earlier. The greatest stamp so far counts, so that a clock that jumped back unlocks nothing.
unstamped AS MATERIALIZED (
    SELECT v.cid, v.source_id, v.generation, v.proc, v.estream, v.clk, p.a, p.s
    FROM looked v
    JOIN (SELECT gid, NULL::BIGINT AS cid, a, s FROM stair UNION ALL SELECT NULL, cid, a, s FROM own_stair) p
        ON (v.owns AND p.cid = v.cid) OR (NOT v.owns AND p.gid = v.gid)
    WHERE v.clock_code = 0 AND v.clk >= 0
),
line AS MATERIALIZED (
    SELECT l.source_id, l.generation, l.proc, l.skey, l.byte_offset, l.hi_us
    FROM i_stamp_line l
    SEMI JOIN (SELECT DISTINCT source_id, generation, proc, estream FROM unstamped WHERE a > -4611686018427387904) u
        ON u.source_id = l.source_id AND u.generation = l.generation AND u.proc = l.proc AND u.estream = l.skey
),
too_late AS (
    SELECT u.cid, u.a, min(l.byte_offset) AS byte_offset
    FROM unstamped u
    JOIN line l ON l.source_id = u.source_id AND l.generation = u.generation AND l.proc = u.proc AND l.skey = u.estream
        AND l.hi_us >= u.a
    GROUP BY u.cid, u.a
),
reached AS (
    SELECT u.cid, u.a, max(l.byte_offset) AS byte_offset
    FROM unstamped u
    JOIN line l ON l.source_id = u.source_id AND l.generation = u.generation AND l.proc = u.proc AND l.skey = u.estream
    LEFT JOIN too_late t ON t.cid = u.cid AND t.a = u.a
    WHERE u.a > -4611686018427387904 AND l.byte_offset < coalesce(t.byte_offset, 4611686018427387904)
    GROUP BY u.cid, u.a
),
-- sid: the staircase; positive shared by all records of a look, negative (-cid) of one variant.
point AS MATERIALIZED (
    SELECT gid AS sid, a AS x, s FROM stair
    UNION ALL SELECT -cid, a, s FROM own_stair
    UNION ALL
    SELECT -1000000000000 - u.cid, coalesce(r.byte_offset, -1), u.s
    FROM unstamped u LEFT JOIN reached r ON r.cid = u.cid AND r.a = u.a
),
edge AS (
    SELECT sid, count(*) AS points, min(x) AS x1, max(s) AS s1, max(x) AS xk, min(s) AS sk FROM point GROUP BY sid
),
void_part AS MATERIALIZED (
    SELECT zid, lo, max(shi) AS hi FROM (
        SELECT zid, slo, shi, max(CASE WHEN reach IS NULL OR slo > reach THEN slo END)
            OVER (PARTITION BY zid ORDER BY slo, shi ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS lo
        FROM void0
    ) GROUP BY zid, lo
)
SELECT 'variant' AS item, v.cid AS id, NULL::BIGINT AS from_x, NULL::BIGINT AS to_x,
    CASE WHEN v.clock_code = 0 AND v.clk >= 0 THEN -1000000000000 - v.cid WHEN v.owns THEN -v.cid ELSE v.gid END AS sid,
    CASE WHEN v.clock_code = 2 AND v.zone_s IS NOT NULL THEN v.zone_s::BIGINT * 1000000 ELSE 0 END AS shift_us,
    CASE WHEN v.zone_s IS NOT NULL THEN v.zone_s::BIGINT * 1000000 ELSE 0 END AS naive_shift_us,
    coalesce(b.own_off, 4611686018427387904) AS own_off, coalesce(b.own_late, 4611686018427387904) AS own_late,
    coalesce(e.points, 0) AS points, coalesce(e.x1, 4611686018427387904) AS x1, coalesce(e.s1, 4611686018427387904) AS s1,
    coalesce(e.xk, 4611686018427387904) AS xk, coalesce(e.sk, 4611686018427387904) AS sk,
    CASE WHEN v.clock_code = 0 AND NOT (v.estream = 'stderr' OR v.stream0 <> '') THEN 4611686018427387904
         WHEN v.owns THEN coalesce(ol.late_utc, 4611686018427387904) ELSE coalesce(lu.late_a, 4611686018427387904) END AS late_utc,
    CASE WHEN v.clock_code = 0 AND NOT (v.estream = 'stderr' OR v.stream0 <> '') THEN 4611686018427387904
         WHEN v.owns THEN coalesce(ol.late_naive, 4611686018427387904) ELSE coalesce(ln.late_a, 4611686018427387904) END AS late_naive,
    CASE WHEN v.owns THEN coalesce(ol.late_s, 4611686018427387904) ELSE coalesce(lu.late_s, 4611686018427387904) END AS late_s,
    coalesce(z.lock_slo, 4611686018427387904) AS lock_slo, z.zid,
    coalesce(d.void_lo, 4611686018427387904) AS void_lo, coalesce(d.void_hi, -4611686018427387904) AS void_hi,
    coalesce(d.voids, 0) AS voids
FROM looked v
JOIN zone z ON z.zid = v.zid
LEFT JOIN own_bound b ON b.cid = v.cid
LEFT JOIN edge e
    ON e.sid = CASE WHEN v.clock_code = 0 AND v.clk >= 0 THEN -1000000000000 - v.cid WHEN v.owns THEN -v.cid ELSE v.gid END
LEFT JOIN late lu ON lu.gid = v.utc_gid
LEFT JOIN late ln ON ln.gid = v.naive_gid
LEFT JOIN own_late ol ON ol.cid = v.cid
LEFT JOIN void d ON d.zid = v.zid
UNION ALL
-- A record whose place is not known, though some attempt is locked: nothing shows it to be before the fault.
SELECT 'variant', -1, NULL, NULL, NULL, 0, 0, -1, 4611686018427387904, 0, 4611686018427387904, 4611686018427387904,
    4611686018427387904, 4611686018427387904, 4611686018427387904, 4611686018427387904, 4611686018427387904,
    -4611686018427387904, NULL, 4611686018427387904, -4611686018427387904, 0
FROM (SELECT 1 WHERE EXISTS (SELECT 1 FROM act WHERE locking))
UNION ALL
SELECT 'point', p.sid, p.x, coalesce(lead(p.x) OVER (PARTITION BY p.sid ORDER BY p.x, p.s DESC), 4611686018427387904),
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, p.s, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM point p JOIN edge e ON e.sid = p.sid WHERE e.points > 2
UNION ALL
SELECT 'void', zid, lo, lead(lo, 1, 4611686018427387904) OVER (PARTITION BY zid ORDER BY lo),
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, hi, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM void_part;
