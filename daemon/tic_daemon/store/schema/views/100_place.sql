-- Where an event belongs: its writer, its run, its attempt. Internal (i_*): the public views stand on these.
-- Reasons and examples: docs/explanation/evidence.md. The slow, obvious twin of this SQL is tic_daemon/evidence/lock.py.
--
-- Integers stand in for the infinities, so that comparisons stay comparisons of integers: +-4611686018427387904 (2^62).

-- Every generation that anything is known of. Large event tables need no scan: the scanner's process_seen and the
-- reader's cursor name each generation.
CREATE OR REPLACE VIEW i_generation AS
SELECT source_id, generation FROM b_cursor
UNION SELECT source_id, generation FROM b_process_seen
UNION SELECT source_id, generation FROM b_source_run
UNION SELECT source_id, generation FROM b_fault;

-- Runs by byte ranges [from_off, to_off) of a generation; a generation without a word of its own has one range.
-- Order of trust: configuration; what records in it said; the path or a manifest; the only run of the watched root;
-- else the root's base name, `run_how` = 'us'. Bytes before the first word belong to the first run that was named.
CREATE OR REPLACE VIEW i_run_range AS
WITH said AS (
    SELECT r.source_id, r.generation, r.byte_offset, max(r.run) AS run
    FROM b_source_run r LEFT JOIN b_source s ON s.source_id = r.source_id
    WHERE r.run <> '' AND NOT coalesce(s.run_hint <> '' AND s.run_how = 'config', false)
    GROUP BY ALL
),
change AS (
    SELECT source_id, generation, byte_offset, run FROM said
    QUALIFY run IS DISTINCT FROM lag(run) OVER (PARTITION BY source_id, generation ORDER BY byte_offset)
),
ranged AS (
    SELECT source_id, generation, run,
        CASE WHEN lag(run) OVER w IS NULL THEN -1 ELSE byte_offset END AS from_off,
        coalesce(lead(byte_offset) OVER w, 4611686018427387904) AS to_off
    FROM change
    WINDOW w AS (PARTITION BY source_id, generation ORDER BY byte_offset)
),
root_run AS (
    SELECT host, root, min(run) AS run
    FROM (
        SELECT s.host, s.root, c.run FROM change c JOIN b_source s ON s.source_id = c.source_id
        UNION ALL SELECT host, root, run_hint FROM b_source WHERE run_hint <> ''
    )
    GROUP BY host, root HAVING count(DISTINCT run) = 1
)
SELECT source_id, generation, from_off, to_off, run AS run_id, 'record' AS run_how FROM ranged
UNION ALL
SELECT g.source_id, g.generation, -1, 4611686018427387904,
    CASE WHEN s.run_hint <> '' THEN s.run_hint
         WHEN r.run IS NOT NULL THEN r.run
         ELSE coalesce(nullif(regexp_extract(rtrim(coalesce(s.root, ''), '/'), '[^/]+$'), ''), 'unnamed') END,
    CASE WHEN s.run_hint <> '' THEN coalesce(nullif(s.run_how, ''), 'path')
         WHEN r.run IS NOT NULL THEN 'root' ELSE 'us' END
FROM i_generation g
LEFT JOIN b_source s ON s.source_id = g.source_id
LEFT JOIN root_run r ON r.host = s.host AND r.root = s.root
WHERE NOT EXISTS (SELECT 1 FROM ranged n WHERE n.source_id = g.source_id AND n.generation = g.generation);

-- One row a (source, generation, proc), proc '' included.
--   single  all lines of the generation are taken as one writer's
--   wkey    the writer; equal wkey is the same process. NULL: unknown, never the same as any other
--   ekey    the process epoch, the same in all sources of a host. NULL: unknown
--   stream0 the source's stream: stdout | stderr | '' (both, or unknown)
CREATE OR REPLACE VIEW i_writer AS
WITH seen AS (
    SELECT source_id, generation, proc, min(byte_offset) AS first_off, max(pid) AS pid
    FROM b_process_seen WHERE proc <> '' GROUP BY ALL
    UNION
    SELECT f.source_id, f.generation, f.proc, min(f.byte_offset), max(f.pid)
    FROM b_fault f
    WHERE f.proc <> '' AND NOT EXISTS (
        SELECT 1 FROM b_process_seen p
        WHERE p.source_id = f.source_id AND p.generation = f.generation AND p.proc = f.proc)
    GROUP BY ALL
),
shown AS (
    SELECT source_id, generation, count(*) AS procs, max(pid) AS pid FROM seen GROUP BY ALL
),
line AS (
    SELECT source_id, generation, proc, first_off, pid FROM seen
    UNION ALL SELECT source_id, generation, '', 0, NULL FROM i_generation
),
known AS (
    SELECT l.source_id, l.generation, l.proc, l.first_off,
        coalesce(s.host, '') AS host, coalesce(s.console, false) AS console, coalesce(s.stream, '') AS stream0,
        s.zone_s, coalesce(s.single_process, false) AS declared_single,
        coalesce(s.single_process, false) OR coalesce(n.procs, 0) <= 1 AS single, coalesce(n.procs, 0) AS procs,
        CASE WHEN coalesce(s.single_process, false) AND s.pid IS NOT NULL THEN s.pid
             WHEN coalesce(n.procs, 0) = 1 THEN coalesce(n.pid, s.pid)
             WHEN coalesce(n.procs, 0) = 0 THEN s.pid
             WHEN coalesce(s.single_process, false) THEN NULL
             ELSE l.pid END AS pid
    FROM line l
    LEFT JOIN shown n ON n.source_id = l.source_id AND n.generation = l.generation
    LEFT JOIN b_source s ON s.source_id = l.source_id
)
SELECT source_id, generation, proc, host, console, stream0, zone_s, declared_single, single, procs, pid,
    CASE WHEN single THEN 0 ELSE first_off END AS first_off,
    CASE WHEN NOT single AND proc = '' THEN NULL
         WHEN NOT console AND pid IS NOT NULL THEN source_id || '#' || pid
         WHEN single THEN source_id || ':' || generation
         ELSE source_id || ':' || generation || ':' || proc END AS wkey,
    CASE WHEN NOT single AND proc = '' THEN NULL
         WHEN pid IS NOT NULL AND NOT console THEN 'host:' || host || '#' || pid
         WHEN pid IS NOT NULL THEN 'console:' || source_id || '#' || pid
         WHEN declared_single THEN 'file:' || source_id || ':' || generation END AS ekey
FROM known;

-- Declared attempts of a run. The undeclared first is 1.
CREATE OR REPLACE VIEW i_declared AS
SELECT run_id, id, from_kind, from_time,
    1 + row_number() OVER (PARTITION BY run_id ORDER BY declared_at, id) AS attempt
FROM b_run_attempt;

-- Byte ranges [from_off, to_off) of every generation between the cuts of declared attempts; empty without declarations.
CREATE OR REPLACE VIEW i_cut_range AS
WITH edge AS (
    SELECT source_id, generation, byte_offset AS off FROM b_attempt_cut WHERE byte_offset > 0
    UNION SELECT source_id, generation, 0 FROM i_generation WHERE EXISTS (SELECT 1 FROM b_run_attempt)
)
SELECT source_id, generation, off AS from_off,
    coalesce(lead(off) OVER (PARTITION BY source_id, generation ORDER BY off), 4611686018427387904) AS to_off
FROM edge;

-- The latest attempt of each run whose cut stands at or before a byte range: what a line of an unknown process there may
-- belong to. A source without a cut row appeared later; a cut by time bounds no bytes.
CREATE OR REPLACE VIEW i_cut_attempt AS
SELECT r.source_id, r.generation, r.from_off, d.run_id, max(d.attempt) AS attempt
FROM i_cut_range r
CROSS JOIN i_declared d
LEFT JOIN b_attempt_cut c ON c.id = d.id AND c.source_id = r.source_id
WHERE d.from_kind = 'time' OR c.id IS NULL OR r.generation > c.generation
   OR (r.generation = c.generation AND r.from_off >= c.byte_offset)
GROUP BY ALL;

-- The attempt that a process epoch started in: the latest whose cut no appearance of it, in any source, precedes.
CREATE OR REPLACE VIEW i_epoch_attempt AS
WITH appearance AS (
    SELECT w.ekey, w.source_id, w.generation, w.first_off,
        CASE WHEN p.stamp_utc OR w.zone_s IS NOT NULL
             THEN epoch_us(p.stamp) - CASE WHEN p.stamp_utc THEN 0 ELSE w.zone_s::BIGINT * 1000000 END END AS utc_us
    FROM i_writer w
    LEFT JOIN b_process_seen p ON p.source_id = w.source_id AND p.generation = w.generation AND p.proc = w.proc
    WHERE w.ekey IS NOT NULL AND (w.proc <> '' OR w.procs = 0) AND EXISTS (SELECT 1 FROM b_run_attempt)
),
held AS (
    SELECT a.ekey, d.run_id, d.attempt,
        bool_and(CASE WHEN d.from_kind = 'time' THEN coalesce(a.utc_us >= epoch_us(d.from_time), false)
                      ELSE c.id IS NULL OR a.generation > c.generation
                           OR (a.generation = c.generation AND a.first_off >= c.byte_offset) END) AS ok
    FROM appearance a
    CROSS JOIN i_declared d
    LEFT JOIN b_attempt_cut c ON c.id = d.id AND c.source_id = a.source_id
    GROUP BY ALL
)
SELECT ekey, run_id, max(attempt) AS attempt FROM held WHERE ok GROUP BY ALL;

-- One row for every (source, generation, proc, printed run, byte range between cuts) that a record can have: its run, its
-- writer and the attempts [lo_attempt, hi_attempt] that it may belong to. A known process has one; a line of an unknown
-- process stays in the oldest and is held against the faults of all.
--   run_key  the run that the record prints; '' for a record that prints none
CREATE OR REPLACE VIEW i_place AS
WITH ranges AS (
    SELECT source_id, generation, count(*) AS n, min(run_id) AS run_id, min(run_how) AS run_how
    FROM i_run_range GROUP BY ALL
),
keyed AS (
    SELECT source_id, generation, '' AS run_key, run_id FROM ranges WHERE n = 1
    UNION SELECT r.source_id, r.generation, s.run, CASE WHEN r.run_how = 'record' THEN s.run ELSE r.run_id END
    FROM ranges r JOIN b_source_run s ON s.source_id = r.source_id AND s.generation = r.generation WHERE s.run <> ''
)
SELECT row_number() OVER (ORDER BY w.source_id, w.generation, w.proc, k.run_key, coalesce(x.from_off, -1)) AS wid,
    w.source_id, w.generation, w.proc, k.run_key, coalesce(x.from_off, -1) AS cut_off, k.run_id,
    w.wkey, w.ekey, w.host, w.console, w.stream0, w.zone_s, w.declared_single,
    CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE 1 END AS lo_attempt,
    CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE coalesce(a.attempt, 1) END AS hi_attempt
FROM i_writer w
JOIN keyed k ON k.source_id = w.source_id AND k.generation = w.generation
LEFT JOIN i_cut_range x ON x.source_id = w.source_id AND x.generation = w.generation
LEFT JOIN i_epoch_attempt e ON e.ekey = w.ekey AND e.run_id = k.run_id
LEFT JOIN i_cut_attempt a ON w.ekey IS NULL AND a.source_id = w.source_id AND a.generation = w.generation
    AND a.from_off = x.from_off AND a.run_id = k.run_id;
