-- What bounds a fault's time and step, what it does, and on which attempts. Internal.

-- Settings of the lock. A session may set the variables; unset, the defaults of docs/explanation/evidence.md hold.
CREATE OR REPLACE VIEW i_lock_setting AS
SELECT CAST(coalesce(getvariable('tic_margin_s')::DOUBLE, 2.0) * 1000000 AS BIGINT) AS margin_us,
       coalesce(getvariable('tic_staleness')::BIGINT, 1) AS staleness;

-- Upper time bounds for lines without an own stamp: the stamped lines that follow them, one row for each stream `skey`
-- of a line that such a stamp bounds. A stamp bounds an earlier line of the same process if the source is one stream, if
-- the stamped line is on stderr (unbuffered: it was made when it was written), or if both are known to be on stdout.
--   clk  0: hi_us is UTC; else the source's own clock of unknown zone. Where both occur only UTC counts.
CREATE OR REPLACE VIEW i_stamp_line AS
WITH line AS (
    SELECT a.source_id, a.generation, a.proc, a.byte_offset,
        epoch_us(a.stamp) + a.stamp_res_us - CASE WHEN a.stamp_utc THEN 0 ELSE coalesce(s.zone_s, 0)::BIGINT * 1000000 END AS hi_us,
        CASE WHEN a.stamp_utc OR s.zone_s IS NOT NULL THEN 0 ELSE a.source_id END AS clk,
        unnest(CASE WHEN coalesce(s.stream, '') <> '' OR a.stream = 'stderr' THEN ['stdout', 'stderr', '']
                    WHEN a.stream = 'stdout' THEN ['stdout'] ELSE []::VARCHAR[] END) AS skey
    FROM b_stamp_after a LEFT JOIN b_source s ON s.source_id = a.source_id
    WHERE a.stamp IS NOT NULL
),
utc AS (SELECT DISTINCT source_id, generation, proc, skey FROM line WHERE clk = 0)
SELECT l.* FROM line l
WHERE l.clk = 0 OR NOT EXISTS (
    SELECT 1 FROM utc u
    WHERE u.source_id = l.source_id AND u.generation = l.generation AND u.proc = l.proc AND u.skey = l.skey);

-- Faults with writer, run and time bounds [lo_us, hi_us]; lo_clk, hi_clk: 0 UTC, a source_id its own clock, NULL unknown.
-- One row a fault, but for kernel lines, which get one for every attempt whose GPU they name (`mapped`).
CREATE OR REPLACE VIEW i_fault_placed AS
WITH placed AS (
    SELECT f.*, g.run_id, w.wkey, w.ekey, w.single, w.declared_single, w.console, w.stream0, w.zone_s,
        CASE WHEN f.stream <> '' THEN f.stream ELSE coalesce(w.stream0, '') END AS estream,
        r.severity AS rule_severity, r.locks AS rule_locks, coalesce(r.node_scope, false) AS node_scope, r.title,
        r.kind IS NOT NULL AS has_rule
    FROM b_fault f
    ASOF LEFT JOIN i_run_range g
        ON g.source_id = f.source_id AND g.generation = f.generation AND f.byte_offset >= g.from_off
    LEFT JOIN i_writer w ON w.source_id = f.source_id AND w.generation = f.generation AND w.proc = f.proc
    LEFT JOIN b_fault_rule r ON r.kind = f.kind
),
needs AS (SELECT DISTINCT source_id, generation, proc, estream FROM placed WHERE stamp IS NULL),
upper_bound AS (
    SELECT l.source_id, l.generation, l.proc, l.skey, l.byte_offset, l.clk,
        max(l.hi_us) OVER (PARTITION BY l.source_id, l.generation, l.proc, l.skey ORDER BY l.byte_offset) AS hi_us
    FROM i_stamp_line l
    JOIN needs n ON n.source_id = l.source_id AND n.generation = l.generation AND n.proc = l.proc AND n.estream = l.skey
),
timed AS (
    SELECT p.*,
        CASE WHEN p.stamp IS NOT NULL
                 THEN epoch_us(p.stamp) - CASE WHEN p.stamp_utc THEN 0 ELSE coalesce(p.zone_s, 0)::BIGINT * 1000000 END
             WHEN p.after_stamp IS NOT NULL AND (p.estream = 'stderr' OR p.stream0 <> '')
                 THEN epoch_us(p.after_stamp) - CASE WHEN p.after_utc THEN 0 ELSE coalesce(p.zone_s, 0)::BIGINT * 1000000 END
             END AS lo_us,
        CASE WHEN p.stamp IS NOT NULL THEN CASE WHEN p.stamp_utc OR p.zone_s IS NOT NULL THEN 0 ELSE p.source_id END
             WHEN p.after_stamp IS NOT NULL AND (p.estream = 'stderr' OR p.stream0 <> '')
                 THEN CASE WHEN p.after_utc OR p.zone_s IS NOT NULL THEN 0 ELSE p.source_id END END AS lo_clk,
        CASE WHEN p.stamp IS NOT NULL
                 THEN epoch_us(p.stamp) + p.stamp_res_us
                      - CASE WHEN p.stamp_utc THEN 0 ELSE coalesce(p.zone_s, 0)::BIGINT * 1000000 END
             ELSE u.hi_us END AS hi_us,
        CASE WHEN p.stamp IS NOT NULL THEN CASE WHEN p.stamp_utc OR p.zone_s IS NOT NULL THEN 0 ELSE p.source_id END
             ELSE u.clk END AS hi_clk
    FROM placed p
    ASOF LEFT JOIN upper_bound u
        ON u.source_id = p.source_id AND u.generation = p.generation AND u.proc = p.proc AND u.skey = p.estream
       AND u.byte_offset > p.byte_offset
),
-- 5d000, 5d:00.0, 0000:5d:00 and 00000000:5D:00.0 are one GPU: domain without leading zeros, bus, device.
gpu AS (
    SELECT d.*, CASE WHEN contains(d.bus, ':')
             THEN ltrim(CASE WHEN length(d.bus) - length(replace(d.bus, ':', '')) > 1
                             THEN split_part(d.bus, ':', 1) ELSE '' END, '0') || '/' || lpad(split_part(d.bus, ':', -2), 2, '0')
                  || '/' || lpad(split_part(split_part(d.bus, ':', -1), '.', 1), 2, '0')
             ELSE ltrim(left(lpad(d.bus, 16, '0'), 11), '0') || '/' || substr(lpad(d.bus, 16, '0'), 12, 2)
                  || '/' || substr(lpad(d.bus, 16, '0'), 14, 2)
             END AS gpu
    FROM (
        SELECT DISTINCT source_id, generation, byte_offset, proc, host, lower(node) AS node, lower(bus) AS bus, true AS of_run
        FROM b_device WHERE EXISTS (SELECT 1 FROM timed WHERE node_scope)
        UNION ALL
        SELECT DISTINCT source_id, generation, byte_offset, proc, host, lower(coalesce(node, '')), lower(coalesce(bus, '')), false
        FROM timed WHERE node_scope AND bus <> ''
    ) d
),
held AS (
    SELECT d.gpu, d.host, d.node, g.run_id, coalesce(e.attempt, 1) AS attempt
    FROM gpu d
    ASOF JOIN i_run_range g
        ON g.source_id = d.source_id AND g.generation = d.generation AND d.byte_offset >= g.from_off
    LEFT JOIN i_writer w ON w.source_id = d.source_id AND w.generation = d.generation AND w.proc = d.proc
    LEFT JOIN i_epoch_attempt e ON e.ekey = w.ekey AND e.run_id = g.run_id
    WHERE d.of_run
),
-- When an attempt began: its first line whose time is known.
began AS (
    SELECT g.run_id, coalesce(e.attempt, 1) AS attempt,
        min(epoch_us(p.stamp) - CASE WHEN p.stamp_utc THEN 0 ELSE w.zone_s::BIGINT * 1000000 END) AS utc_us
    FROM (
        SELECT source_id, generation, byte_offset, proc, stamp, stamp_utc FROM b_process_seen
        UNION ALL SELECT source_id, generation, byte_offset, proc, stamp, stamp_utc FROM b_device
    ) p
    ASOF JOIN i_run_range g
        ON g.source_id = p.source_id AND g.generation = p.generation AND p.byte_offset >= g.from_off
    JOIN i_writer w ON w.source_id = p.source_id AND w.generation = p.generation AND w.proc = p.proc
    LEFT JOIN i_epoch_attempt e ON e.ekey = w.ekey AND e.run_id = g.run_id
    WHERE (p.stamp_utc OR w.zone_s IS NOT NULL) AND EXISTS (SELECT 1 FROM timed WHERE node_scope)
    GROUP BY ALL
),
mapped AS (
    SELECT DISTINCT k.source_id, k.generation, k.byte_offset, h.run_id, h.attempt
    FROM gpu k
    JOIN held h ON h.gpu = k.gpu
       AND split_part(CASE WHEN k.node <> '' THEN k.node ELSE lower(k.host) END, '.', 1)
           IN (split_part(h.node, '.', 1), split_part(lower(h.host), '.', 1))
    JOIN began b ON b.run_id = h.run_id AND b.attempt = h.attempt
    JOIN timed t ON t.source_id = k.source_id AND t.generation = k.generation AND t.byte_offset = k.byte_offset
    CROSS JOIN i_lock_setting o
    WHERE NOT k.of_run AND t.node_scope AND t.hi_clk = 0 AND t.hi_us + o.margin_us >= b.utc_us
)
SELECT t.* REPLACE (coalesce(m.run_id, t.run_id) AS run_id), m.attempt AS mapped_attempt,
    NOT t.node_scope OR m.run_id IS NOT NULL AS mapped
FROM timed t
LEFT JOIN mapped m
    ON t.node_scope AND m.source_id = t.source_id AND m.generation = t.generation AND m.byte_offset = t.byte_offset;

-- What each fault does: verdict, severity, whether it locks, whether it voids its steps, on which attempts
-- [lo_attempt, hi_attempt] it acts, and its step bounds [slo, shi].
CREATE OR REPLACE VIEW i_fault AS
WITH original AS (
    -- A console forwards lines of workers. A copy of a line that stands in the worker's own file does nothing of itself:
    -- the worker's line, with its better bounds, acts.
    SELECT run_id, pid, kind, text, min(rec_id) AS rec_id FROM i_fault_placed
    WHERE NOT console AND pid IS NOT NULL AND verdict = 'confirmed' AND mapped GROUP BY ALL
),
fault0 AS MATERIALIZED (
    SELECT p.*, p.generation::BIGINT * 17592186044416 + p.byte_offset AS pos,
        coalesce(p.rule_severity, 'L') AS severity,
        CASE WHEN NOT p.has_rule THEN 'always' ELSE coalesce(p.rule_locks, 'always') END AS locks0,
        p.verdict = 'confirmed' AND p.mapped AND o.rec_id IS NULL AS acts, o.rec_id AS echo_of
    FROM i_fault_placed p
    LEFT JOIN original o
        ON p.console AND o.run_id = p.run_id AND o.pid = p.pid AND o.kind = p.kind AND o.text = p.text
),
-- Events that can tell that the process of a fault went on: the ends of steps, records, metrics.
asks AS (SELECT DISTINCT wkey FROM fault0 WHERE wkey IS NOT NULL AND acts AND locks0 = 'if_continues'),
asking AS (
    SELECT w.source_id, w.generation, w.proc, w.wkey FROM i_writer w JOIN asks a ON a.wkey = w.wkey
),
went_on AS (
    SELECT a.wkey, max(e.generation::BIGINT * 17592186044416 + e.byte_offset) AS pos
    FROM asking a
    JOIN (
        SELECT source_id, generation, proc, byte_offset FROM b_step_event WHERE edge = 'end'
        UNION ALL SELECT source_id, generation, proc, byte_offset FROM b_mismatch
        UNION ALL SELECT source_id, generation, proc, byte_offset FROM b_metric
    ) e ON e.source_id = a.source_id AND e.generation = a.generation AND e.proc = a.proc
    GROUP BY a.wkey
),
doubted AS (SELECT DISTINCT wkey FROM fault0 WHERE wkey IS NOT NULL AND verdict = 'suspect' AND NOT node_scope),
alive AS (
    SELECT w.wkey, max(e.generation::BIGINT * 17592186044416 + e.byte_offset) AS pos
    FROM i_writer w JOIN doubted d ON d.wkey = w.wkey
    JOIN b_step_event e ON e.source_id = w.source_id AND e.generation = w.generation AND e.proc = w.proc
    WHERE e.edge = 'end' AND e.gpu
    GROUP BY w.wkey
),
latest AS (
    SELECT f.source_id, f.generation, f.byte_offset, f.run_id, max(d.attempt) AS attempt
    FROM fault0 f
    JOIN i_declared d ON d.run_id = f.run_id
    LEFT JOIN b_attempt_cut c ON c.id = d.id AND c.source_id = f.source_id
    WHERE CASE WHEN d.from_kind = 'time' THEN NOT coalesce(f.hi_clk = 0 AND f.hi_us < epoch_us(d.from_time), false)
               ELSE c.id IS NULL OR f.generation > c.generation
                    OR (f.generation = c.generation AND f.byte_offset >= c.byte_offset) END
    GROUP BY ALL
),
fault1 AS MATERIALIZED (
    SELECT f.*,
        f.acts AND (f.locks0 NOT IN ('if_continues', 'never')
                    OR (f.locks0 = 'if_continues' AND coalesce(n.pos > f.pos, false))) AS locking,
        f.acts AND f.severity IN ('N', 'S', 'E') AS voiding,
        CASE WHEN f.verdict = 'suspect' AND NOT f.node_scope AND coalesce(a.pos > f.pos, false) THEN 'refuted'
             WHEN f.verdict = 'confirmed' AND NOT f.mapped THEN 'suspect'
             ELSE f.verdict END AS verdict1,
        CASE WHEN f.mapped_attempt IS NOT NULL THEN f.mapped_attempt
             WHEN f.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE 1 END AS lo_attempt,
        CASE WHEN f.mapped_attempt IS NOT NULL THEN f.mapped_attempt
             WHEN f.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE coalesce(x.attempt, 1) END AS hi_attempt
    FROM fault0 f
    LEFT JOIN went_on n ON n.wkey = f.wkey
    LEFT JOIN alive a ON a.wkey = f.wkey
    LEFT JOIN i_epoch_attempt e ON e.ekey = f.ekey AND e.run_id = f.run_id
    LEFT JOIN latest x ON x.source_id = f.source_id AND x.generation = f.generation
        AND x.byte_offset = f.byte_offset AND x.run_id = f.run_id
),
-- Steps of the attempt that are surely earlier or surely later bound a fault that names none.
lost AS MATERIALIZED (
    SELECT source_id, generation, byte_offset, kind, run_id, lo_attempt, wkey, pos,
        CASE WHEN lo_clk = 0 THEN lo_us END AS lo_us, CASE WHEN hi_clk = 0 THEN hi_us END AS hi_us,
        '' AS any_host, CASE WHEN NOT console THEN 'h' || host END AS own_host,
        CASE WHEN estream = 'stderr' THEN '*' END AS any_stream, '!' AS err_stream,
        CASE WHEN estream <> '' THEN CASE WHEN declared_single THEN '' ELSE proc END || '|' || estream END AS own_stream
    FROM fault1
    WHERE step IS NULL AND (locking OR voiding) AND lo_attempt = hi_attempt
),
lost_run AS (SELECT DISTINCT run_id, lo_attempt FROM lost),
step0 AS MATERIALIZED (
    SELECT g.run_id, CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE 1 END AS attempt,
        v.host, coalesce(w.console, false) AS console, w.wkey, v.proc, coalesce(w.declared_single, false) AS declared_single,
        CASE WHEN v.stream <> '' THEN v.stream ELSE coalesce(w.stream0, '') END AS estream,
        v.generation::BIGINT * 17592186044416 + v.byte_offset AS pos, v.edge,
        least(greatest(v.step, -2305843009213693952), 2305843009213693952) AS step,
        CASE WHEN v.stamp IS NOT NULL AND (v.stamp_utc OR w.zone_s IS NOT NULL)
             THEN epoch_us(v.stamp) - CASE WHEN v.stamp_utc THEN 0 ELSE w.zone_s::BIGINT * 1000000 END END AS lo_us,
        v.stamp_res_us AS res_us
    FROM b_step_event v
    ASOF JOIN i_run_range g
        ON g.source_id = v.source_id AND g.generation = v.generation AND v.byte_offset >= g.from_off
    LEFT JOIN i_writer w ON w.source_id = v.source_id AND w.generation = v.generation AND w.proc = v.proc
    LEFT JOIN i_epoch_attempt e ON e.ekey = w.ekey AND e.run_id = g.run_id
    LEFT JOIN i_cut_range x ON w.ekey IS NULL AND x.source_id = v.source_id AND x.generation = v.generation
        AND v.byte_offset >= x.from_off AND v.byte_offset < x.to_off
    LEFT JOIN i_cut_attempt y
        ON y.source_id = x.source_id AND y.generation = x.generation AND y.from_off = x.from_off AND y.run_id = g.run_id
    WHERE v.step IS NOT NULL AND y.attempt IS NULL AND EXISTS (SELECT 1 FROM lost)
),
step1 AS MATERIALIZED (
    SELECT s.* FROM step0 s JOIN lost_run r ON r.run_id = s.run_id AND r.lo_attempt = s.attempt
),
-- Earlier by time: the greatest step that ended before t. Hosts apart (no margin), and all together (margin).
ended AS (
    SELECT run_id, attempt, hkey, t, max(step) OVER (PARTITION BY run_id, attempt, hkey ORDER BY t) AS step
    FROM (
        SELECT run_id, attempt, hkey, t, max(step) AS step FROM (
            SELECT run_id, attempt, '' AS hkey, lo_us + res_us + margin_us AS t, step FROM step1, i_lock_setting
            WHERE edge = 'end' AND lo_us IS NOT NULL
            UNION ALL
            SELECT run_id, attempt, 'h' || host, lo_us + res_us, step FROM step1
            WHERE edge = 'end' AND lo_us IS NOT NULL AND NOT console
        ) GROUP BY ALL
    )
),
followed AS (
    SELECT run_id, attempt, hkey, t, min(step) OVER (PARTITION BY run_id, attempt, hkey ORDER BY t DESC) AS step
    FROM (
        SELECT run_id, attempt, hkey, t, min(step) AS step FROM (
            SELECT run_id, attempt, '' AS hkey, lo_us - margin_us AS t, step FROM step1, i_lock_setting
            WHERE lo_us IS NOT NULL
            UNION ALL
            SELECT run_id, attempt, 'h' || host, lo_us, step FROM step1 WHERE lo_us IS NOT NULL AND NOT console
        ) GROUP BY ALL
    )
),
-- Earlier and later by place: lines of the same writer whose order in the file is the order in which they were made.
place AS (
    SELECT wkey, run_id, attempt, pkey, pos, max(ended) OVER w AS ended, min(step) OVER v AS step
    FROM (
        SELECT wkey, run_id, attempt, '*' AS pkey, pos, CASE WHEN edge = 'end' THEN step END AS ended, NULL::BIGINT AS step
        FROM step1 WHERE wkey IS NOT NULL
        UNION ALL
        SELECT wkey, run_id, attempt, CASE WHEN declared_single THEN '' ELSE proc END || '|' || estream, pos,
            CASE WHEN edge = 'end' THEN step END, step
        FROM step1 WHERE wkey IS NOT NULL AND estream <> ''
        UNION ALL
        SELECT wkey, run_id, attempt, '!', pos, NULL, step FROM step1 WHERE wkey IS NOT NULL AND estream = 'stderr'
    )
    WINDOW w AS (PARTITION BY wkey, run_id, attempt, pkey ORDER BY pos),
           v AS (PARTITION BY wkey, run_id, attempt, pkey ORDER BY pos DESC)
),
bounded AS (
    SELECT l.source_id, l.generation, l.byte_offset, l.kind, l.run_id, l.lo_attempt,
        greatest(a.step, b.step, p.ended, q.ended) AS slo, least(c.step, d.step, r.step, z.step) AS shi
    FROM lost l
    ASOF LEFT JOIN ended a
        ON a.run_id = l.run_id AND a.attempt = l.lo_attempt AND a.hkey = l.own_host AND l.lo_us > a.t
    ASOF LEFT JOIN ended b
        ON b.run_id = l.run_id AND b.attempt = l.lo_attempt AND b.hkey = l.any_host AND l.lo_us > b.t
    ASOF LEFT JOIN followed c
        ON c.run_id = l.run_id AND c.attempt = l.lo_attempt AND c.hkey = l.own_host AND l.hi_us < c.t
    ASOF LEFT JOIN followed d
        ON d.run_id = l.run_id AND d.attempt = l.lo_attempt AND d.hkey = l.any_host AND l.hi_us < d.t
    ASOF LEFT JOIN place p ON p.wkey = l.wkey AND p.run_id = l.run_id AND p.attempt = l.lo_attempt
        AND p.pkey = l.any_stream AND l.pos > p.pos
    ASOF LEFT JOIN place q ON q.wkey = l.wkey AND q.run_id = l.run_id AND q.attempt = l.lo_attempt
        AND q.pkey = l.own_stream AND l.pos > q.pos
    ASOF LEFT JOIN place r ON r.wkey = l.wkey AND r.run_id = l.run_id AND r.attempt = l.lo_attempt
        AND r.pkey = l.own_stream AND l.pos < r.pos
    ASOF LEFT JOIN place z ON z.wkey = l.wkey AND z.run_id = l.run_id AND z.attempt = l.lo_attempt
        AND z.pkey = l.err_stream AND l.pos < z.pos
)
SELECT f.*,
    coalesce(least(greatest(f.step, -2305843009213693952), 2305843009213693952), b.slo, -4611686018427387904) AS slo,
    coalesce(least(greatest(f.step, -2305843009213693952), 2305843009213693952) + CASE WHEN f.step_carried THEN 1 ELSE 0 END,
             b.shi, 4611686018427387904) AS shi
FROM fault1 f
LEFT JOIN bounded b ON b.source_id = f.source_id AND b.generation = f.generation AND b.byte_offset = f.byte_offset
    AND b.kind = f.kind AND b.run_id = f.run_id AND b.lo_attempt = f.lo_attempt;
