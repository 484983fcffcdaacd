-- Which run, process and attempt the lines of each generation belong to: see ../../derive.py. Reasons and examples:
-- docs/explanation/evidence.md. The slow, obvious twin of this SQL and the next is tic_daemon/evidence/lock.py.
--
-- Integers stand in for the infinities, so that comparisons stay comparisons of integers: +-4611686018427387904 (2^62).

-- Settings of the lock. A session may set the variables; unset, the defaults of docs/explanation/evidence.md hold.
CREATE OR REPLACE TEMP VIEW t_lock_setting_ AS
SELECT CAST(coalesce(getvariable('tic_margin_s')::DOUBLE, 2.0) * 1000000 AS BIGINT) AS margin_us,
       coalesce(getvariable('tic_staleness')::BIGINT, 1) AS staleness;

-- The same, for readers of the store.
CREATE OR REPLACE TEMP TABLE t_lock_setting AS SELECT * FROM t_lock_setting_;

-- What other stores of the workspace say of their runs.
CREATE OR REPLACE TEMP TABLE t_told_place_ AS
SELECT origin_store_id, what, run_id, host, root, lo_attempt, hi_attempt, node, bus, began_us
FROM (
    SELECT * FROM b_remote_place
    QUALIFY row_number() OVER (PARTITION BY origin_store_id, what, run_id, host, root, lo_attempt, hi_attempt, node, bus
                               ORDER BY revision DESC, rec_id DESC) = 1
) WHERE NOT gone;

-- One row for every (source, generation, proc) and byte range [from_off, to_off) with one run and no cut within: the
-- ranges of a proc cover its generation. An event has the one place whose range holds its offset.
--   run_how     who named the run: config | record | path | pid | directory | root | workspace | us
--   single      all lines of the generation are taken as one writer's
--   wkey        the writer; equal wkey is the same process. NULL: unknown, never the same as any other
--   ekey        the process epoch, the same in all sources of a host. NULL: unknown
--   stream0     the source's stream: stdout | stderr | '' (both, or unknown)
--   lo_attempt, hi_attempt  attempts that its lines may belong to: one for a process whose start is known; a line of any
--               other stays in the oldest and is held against the faults of all
--   cut_attempt the latest by byte cuts alone
CREATE OR REPLACE TEMP TABLE t_place AS
WITH said AS MATERIALIZED (
    SELECT source_id, generation, byte_offset, max(run) AS run FROM b_source_run
    WHERE run <> '' GROUP BY source_id, generation, byte_offset
),
-- Under a root where anything else names a run, W&B's own id is no name: it is kept as `wandb_id`.
strong AS (
    SELECT host, root FROM b_source WHERE run_hint <> '' AND run_how <> 'wandb'
    UNION SELECT s.host, s.root FROM said d JOIN b_source s ON s.source_id = d.source_id
),
src AS MATERIALIZED (
    SELECT source_id, kind, host, root, path, role, rank, pid, coalesce(single_process, false) AS single_process,
        coalesce(stream, '') AS stream, coalesce(console, false) AS console,
        CASE WHEN run_how = 'wandb' AND (host, root) IN (SELECT (host, root) FROM strong) THEN '' ELSE run_hint END AS run_hint,
        CASE WHEN run_how = 'wandb' THEN run_hint ELSE '' END AS wandb_id,
        CASE WHEN run_how = 'wandb' THEN 'path' ELSE run_how END AS run_how, zone_s
    FROM b_source WHERE kind <> 'gpu' -- one tells of all runs of a host
),
seen AS MATERIALIZED (
    SELECT source_id, generation, proc, min(byte_offset) AS first_off, max(pid) AS pid,
        arg_min(stamp, byte_offset) FILTER (WHERE first_line) AS stamp,
        arg_min(stamp_utc, byte_offset) FILTER (WHERE first_line) AS stamp_utc
    FROM (
        SELECT source_id, generation, proc, byte_offset, pid, stamp, stamp_utc, true AS first_line FROM b_process_seen
        UNION ALL SELECT source_id, generation, proc, byte_offset, pid, NULL, NULL, false FROM b_fault
        WHERE source_id NOT IN (SELECT source_id FROM b_source WHERE kind = 'gpu')
    ) GROUP BY source_id, generation, proc
),
shown AS (
    SELECT source_id, generation, count(*) AS procs, max(pid) AS pid FROM seen WHERE proc <> '' GROUP BY source_id, generation
),
-- Large event tables need no scan: cursors, the first lines of processes and run changes name each generation.
generation AS MATERIALIZED (
    SELECT source_id, generation FROM b_cursor
    UNION SELECT source_id, generation FROM seen
    UNION SELECT source_id, generation FROM said
),
-- Runs. Order of trust: configuration; what records said; the path or a manifest; the only run of the log's pid on its host
-- (a worker's .out and .err); the only run of the nearest directory above that knows any, up to the watched root (the
-- stdout.log beside a stderr.log, the other ranks of a launch; all sources of one W&B run together); W&B's id; in a store
-- that knows no run by name, the only run that the other stores of the workspace know; a console's then by the processes
-- that it shows; else the root's base name,
-- `run_how` = 'us'. Bytes before the first word belong to the first run that was named.
change AS MATERIALIZED (
    SELECT d.source_id, d.generation, d.byte_offset, d.run, s.host, s.root
    FROM said d LEFT JOIN src s ON s.source_id = d.source_id
    WHERE NOT coalesce(s.run_hint <> '' AND s.run_how = 'config', false)
    QUALIFY d.run IS DISTINCT FROM lag(d.run) OVER (PARTITION BY d.source_id, d.generation ORDER BY d.byte_offset)
),
root_run AS (
    SELECT host, root, min(run) AS run FROM (
        SELECT host, root, run FROM change UNION ALL SELECT host, root, run_hint FROM src WHERE run_hint <> ''
    ) GROUP BY host, root HAVING count(DISTINCT run) = 1
),
named AS MATERIALIZED (
    SELECT DISTINCT s.source_id, s.host, s.root, s.pid, c.run FROM change c JOIN src s ON s.source_id = c.source_id
    UNION SELECT source_id, host, root, pid, run_hint FROM src WHERE run_hint <> ''
),
told_run AS (
    SELECT CASE WHEN count(DISTINCT run_id) = 1 THEN min(run_id) END AS run FROM t_told_place_
    WHERE what = 'run' AND NOT EXISTS (SELECT 1 FROM named)
),
pid_run AS (
    SELECT host, pid, min(run) AS run FROM named WHERE pid IS NOT NULL GROUP BY host, pid HAVING count(DISTINCT run) = 1
),
folder AS MATERIALIZED (
    SELECT source_id, host, root, depth, array_to_string(parts[1:depth], '/') AS dir
    FROM (SELECT source_id, host, root, parts, unnest(range(len(string_split(rtrim(root, '/'), '/')), len(parts))) AS depth
          FROM (SELECT source_id, host, root, string_split(path, '/') AS parts FROM src))
),
near_run AS (
    SELECT f.source_id, arg_max(d.run, f.depth) AS run, arg_max(d.runs, f.depth) AS runs
    FROM folder f
    JOIN (SELECT f.host, f.root, f.dir, min(n.run) AS run, count(DISTINCT n.run) AS runs
          FROM named n JOIN folder f ON f.source_id = n.source_id GROUP BY f.host, f.root, f.dir) d
        ON d.host = f.host AND d.root = f.root AND d.dir = f.dir
    GROUP BY f.source_id
),
-- The local log of a W&B run and what is read of it through the API, which lies in no directory, are of one run.
wandb_run AS (
    SELECT s.host, s.root, s.wandb_id, min(n.run) AS run
    FROM src s JOIN near_run n ON n.source_id = s.source_id AND n.runs = 1
    WHERE s.wandb_id <> '' AND s.run_hint = '' GROUP BY s.host, s.root, s.wandb_id HAVING count(DISTINCT n.run) = 1
),
range0 AS MATERIALIZED (
    SELECT g.source_id, g.generation,
        CASE WHEN c.run IS NULL OR lag(c.run) OVER w IS NULL THEN -1 ELSE c.byte_offset END AS from_off,
        coalesce(lead(c.byte_offset) OVER w, 4611686018427387904) AS to_off,
        CASE WHEN c.run IS NOT NULL THEN c.run
             WHEN s.run_hint <> '' THEN s.run_hint
             WHEN q.run IS NOT NULL THEN q.run
             WHEN n.runs = 1 THEN n.run
             WHEN b.run IS NOT NULL THEN b.run
             WHEN r.run IS NOT NULL THEN r.run
             WHEN s.wandb_id <> '' THEN s.wandb_id
             WHEN t.run IS NOT NULL THEN t.run
             ELSE coalesce(nullif(regexp_extract(rtrim(coalesce(s.root, ''), '/'), '[^/]+$'), ''), 'unnamed') END AS run_id,
        CASE WHEN c.run IS NOT NULL THEN 'record'
             WHEN s.run_hint <> '' THEN coalesce(nullif(s.run_how, ''), 'path')
             WHEN q.run IS NOT NULL THEN 'pid'
             WHEN coalesce(n.runs = 1, false) OR b.run IS NOT NULL THEN CASE WHEN r.run IS NULL THEN 'directory' ELSE 'root' END
             WHEN s.wandb_id <> '' AND r.run IS NULL THEN 'path'
             WHEN r.run IS NOT NULL THEN 'root' WHEN t.run IS NOT NULL THEN 'workspace' ELSE 'us' END AS run_how
    FROM generation g
    CROSS JOIN told_run t
    LEFT JOIN change c ON c.source_id = g.source_id AND c.generation = g.generation
    LEFT JOIN src s ON s.source_id = g.source_id
    LEFT JOIN root_run r ON r.host = s.host AND r.root = s.root
    LEFT JOIN pid_run q ON q.host = s.host AND q.pid = s.pid
    LEFT JOIN near_run n ON n.source_id = g.source_id
    LEFT JOIN wandb_run b ON b.host = s.host AND b.root = s.root AND b.wandb_id = s.wandb_id
    WINDOW w AS (PARTITION BY g.source_id, g.generation ORDER BY c.byte_offset)
),
-- A driver's console in another watched directory than its workers' logs: it is of the only run of the files of the
-- processes that it shows, two of them or all. Pids come again, so one of many says nothing.
console_pid AS MATERIALIZED (
    SELECT DISTINCT s.source_id, s.host, e.pid FROM src s JOIN seen e ON e.source_id = s.source_id
    WHERE s.console AND e.proc <> '' AND e.pid IS NOT NULL
),
forwarded AS (
    SELECT c.source_id, min(r.run_id) AS run_id, CASE WHEN bool_and(r.run_how = 'us') THEN 'us' ELSE 'pid' END AS run_how
    FROM console_pid c
    JOIN src w ON w.host = c.host AND w.pid = c.pid AND w.single_process AND NOT w.console
    JOIN range0 r ON r.source_id = w.source_id
    JOIN (SELECT source_id, count(*) AS pids FROM console_pid GROUP BY source_id) n ON n.source_id = c.source_id
    GROUP BY c.source_id
    HAVING count(DISTINCT r.run_id) = 1 AND (count(DISTINCT c.pid) > 1 OR count(DISTINCT c.pid) = min(n.pids))
),
run_range AS MATERIALIZED (
    SELECT r.* REPLACE (coalesce(f.run_id, r.run_id) AS run_id, coalesce(f.run_how, r.run_how) AS run_how)
    FROM range0 r LEFT JOIN forwarded f ON f.source_id = r.source_id AND r.run_how = 'us'
),
known AS (
    SELECT l.source_id, l.generation, l.proc, l.first_off, l.stamp, l.stamp_utc, coalesce(n.procs, 0) AS procs,
        coalesce(s.host, '') AS host, coalesce(s.console, false) AS console, coalesce(s.stream, '') AS stream0, s.zone_s,
        coalesce(s.single_process, false) AS declared_single, s.kind, s.path, s.root, s.role, s.rank,
        coalesce(s.single_process, false) OR coalesce(n.procs, 0) <= 1 AS single,
        CASE WHEN s.single_process AND s.pid IS NOT NULL THEN s.pid
             WHEN coalesce(n.procs, 0) <= 1 THEN coalesce(n.pid, s.pid)
             WHEN s.single_process THEN NULL
             ELSE l.pid END AS pid
    FROM (
        SELECT source_id, generation, proc, first_off, stamp, stamp_utc, pid FROM seen WHERE proc <> ''
        UNION ALL
        SELECT g.source_id, g.generation, '', 0, e.stamp, e.stamp_utc, NULL
        FROM generation g LEFT JOIN seen e ON e.source_id = g.source_id AND e.generation = g.generation AND e.proc = ''
    ) l
    LEFT JOIN shown n ON n.source_id = l.source_id AND n.generation = l.generation
    LEFT JOIN src s ON s.source_id = l.source_id
),
writer AS MATERIALIZED (
    SELECT source_id, generation, proc, stamp, stamp_utc, procs, host, console, stream0, zone_s, declared_single, kind, path, root,
        role, rank, single, pid, CASE WHEN single THEN 0 ELSE known.first_off END AS first_off,
        CASE WHEN single AND NOT declared_single AND known.first_off > 0 THEN NULL
             WHEN stamp_utc THEN epoch_us(stamp)
             WHEN zone_s IS NOT NULL THEN epoch_us(stamp) - zone_s::BIGINT * 1000000 END AS begun_us,
        CASE WHEN NOT single AND proc = '' THEN NULL
             WHEN NOT console AND pid IS NOT NULL THEN source_id || '#' || pid
             WHEN single THEN source_id || ':' || generation
             ELSE source_id || ':' || generation || ':' || proc END AS wkey,
        CASE WHEN NOT single AND proc = '' THEN NULL
             WHEN pid IS NOT NULL AND NOT console THEN 'host:' || host || '#' || pid
             WHEN pid IS NOT NULL THEN 'console:' || source_id || '#' || pid
             WHEN declared_single THEN 'file:' || source_id END AS ekey
    FROM known
),
-- Attempts. The undeclared first is 1.
declared AS MATERIALIZED (
    SELECT run_id, id, from_kind, epoch_us(from_time) AS from_us,
        1 + row_number() OVER (PARTITION BY run_id ORDER BY declared_at, id) AS attempt
    FROM b_run_attempt
),
cut AS MATERIALIZED (SELECT id, source_id, generation, byte_offset FROM b_attempt_cut),
-- The attempt that a process started in: the latest whose cut no appearance of it, in any source, precedes. A source
-- without a cut appeared later. A process whose first line tells no time may have begun on either side of a cut by time:
-- its records stay in the older attempt, and its faults act on both. In a file of one process, unmarked lines may stand
-- before the first that names it; what time those had is not known.
epoch AS (
    SELECT ekey, run_id, max(attempt) FILTER (WHERE ok) AS attempt, max(attempt) FILTER (WHERE possible) AS hi_attempt
    FROM (
        SELECT w.ekey, d.run_id, d.attempt,
            bool_and(CASE WHEN d.from_kind = 'time' THEN coalesce(d.from_us <= w.begun_us, false) ELSE at_or_after END) AS ok,
            bool_and(CASE WHEN d.from_kind = 'time' THEN coalesce(d.from_us <= w.begun_us, true) ELSE at_or_after END) AS possible
        FROM (
            SELECT w.ekey, w.begun_us, d.id, c.id IS NULL OR w.generation > c.generation
                   OR (w.generation = c.generation AND w.first_off >= c.byte_offset) AS at_or_after
            FROM writer w CROSS JOIN declared d
            LEFT JOIN cut c ON c.id = d.id AND c.source_id = w.source_id
            WHERE w.ekey IS NOT NULL AND (w.proc <> '' OR w.procs = 0)
        ) w JOIN declared d ON d.id = w.id
        GROUP BY w.ekey, d.run_id, d.attempt
    ) GROUP BY ekey, run_id
),
cut_edge AS (
    SELECT source_id, generation, byte_offset AS off FROM cut WHERE byte_offset > 0 UNION SELECT source_id, generation, 0 FROM cut
),
cut_range AS MATERIALIZED (
    SELECT source_id, generation, off AS from_off,
        coalesce(lead(off) OVER (PARTITION BY source_id, generation ORDER BY off), 4611686018427387904) AS to_off
    FROM cut_edge
),
piece AS (
    SELECT r.source_id, r.generation, r.run_id, r.run_how, greatest(r.from_off, coalesce(c.from_off, -1)) AS from_off,
        least(r.to_off, coalesce(c.to_off, r.to_off)) AS to_off
    FROM run_range r
    LEFT JOIN cut_range c
        ON c.source_id = r.source_id AND c.generation = r.generation AND c.from_off < r.to_off AND c.to_off > r.from_off
),
-- The latest attempt that a line of an unknown process may belong to. A cut by time bounds no bytes.
reach AS (
    SELECT p.source_id, p.generation, p.from_off, max(d.attempt) AS attempt,
        max(d.attempt) FILTER (WHERE d.from_kind <> 'time') AS cut_attempt
    FROM piece p
    JOIN declared d ON d.run_id = p.run_id
    LEFT JOIN cut c ON c.id = d.id AND c.source_id = p.source_id
    WHERE d.from_kind = 'time' OR c.id IS NULL OR p.generation > c.generation
       OR (p.generation = c.generation AND p.from_off >= c.byte_offset)
    GROUP BY p.source_id, p.generation, p.from_off
)
SELECT w.source_id, w.generation, w.proc, p.from_off, p.to_off, p.run_id, p.run_how, w.wkey, w.ekey, w.host, w.console, w.stream0,
    w.zone_s, w.declared_single, w.pid, w.kind, w.path, w.root, w.role, w.rank, w.stamp AS first_stamp, w.stamp_utc AS first_utc,
    CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE 1 END AS lo_attempt,
    CASE WHEN w.ekey IS NOT NULL THEN greatest(e.attempt, e.hi_attempt, 1) ELSE coalesce(a.attempt, 1) END AS hi_attempt,
    CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE coalesce(a.cut_attempt, 1) END AS cut_attempt
FROM writer w
JOIN piece p ON p.source_id = w.source_id AND p.generation = w.generation
LEFT JOIN epoch e ON e.ekey = w.ekey AND e.run_id = p.run_id
LEFT JOIN reach a ON a.source_id = p.source_id AND a.generation = p.generation AND a.from_off = p.from_off;

-- (run, attempt) pairs; `id` of the declaration, NULL for the undeclared first.
CREATE OR REPLACE TEMP TABLE t_attempt AS
SELECT run_id, 1::BIGINT AS attempt, NULL::VARCHAR AS id FROM (
    SELECT run_id FROM t_place UNION SELECT run_id FROM b_run_attempt
)
UNION ALL
SELECT run_id, 1 + row_number() OVER (PARTITION BY run_id ORDER BY declared_at, id), id FROM b_run_attempt;
