-- What each fault does, and the thresholds against which records are compared: see ../../derive.py.

-- Processes on GPUs as the driver names them, joined to the run whose log they write: by the file that their stdout or
-- stderr is, else by the pid that their lines print. Pids are used again: the log's first line must tell a time within the
-- life of the process. Of several runs, none is meant.
CREATE OR REPLACE TEMP TABLE t_gpu_use AS
WITH life AS MATERIALIZED (
    SELECT host, uuid, gpu_pid, started_at, any_value(bus) AS bus, any_value(pid) AS pid, any_value(out_path) AS out_path,
        any_value(err_path) AS err_path, max(epoch_us(stamp)) FILTER (WHERE state = 'gone') AS gone_us
    FROM b_gpu_process WHERE started_at IS NOT NULL GROUP BY host, uuid, gpu_pid, started_at
),
place AS MATERIALIZED (
    SELECT host, path, pid, run_id, lo_attempt, hi_attempt, rank, console, declared_single,
        CASE WHEN first_utc OR zone_s IS NOT NULL
             THEN epoch_us(first_stamp) - CASE WHEN first_utc THEN 0 ELSE zone_s::BIGINT * 1000000 END END AS first_us
    FROM t_place WHERE kind = 'file'
),
by_path AS (
    SELECT DISTINCT l.host, l.uuid, l.gpu_pid, l.started_at, l.bus, p.run_id, p.lo_attempt, p.hi_attempt,
        CASE WHEN p.declared_single THEN p.rank END AS rank
    FROM life l JOIN place p ON p.host = l.host AND p.path IN (l.out_path, l.err_path)
    WHERE coalesce(p.pid = l.pid, true)
),
by_pid AS (
    SELECT DISTINCT l.host, l.uuid, l.gpu_pid, l.started_at, l.bus, p.run_id, p.lo_attempt, p.hi_attempt, p.rank
    FROM life l JOIN place p ON p.host = l.host AND p.pid = l.pid AND NOT p.console
    WHERE p.first_us >= epoch_us(l.started_at) - 2000000 AND p.first_us <= coalesce(l.gone_us, 4611686018427387904)
      AND (l.host, l.uuid, l.gpu_pid, l.started_at) NOT IN (SELECT (host, uuid, gpu_pid, started_at) FROM by_path)
)
SELECT host, uuid, bus, gpu_pid, started_at, min(run_id) AS run_id, min(lo_attempt) AS lo_attempt, max(hi_attempt) AS hi_attempt,
    CASE WHEN count(DISTINCT rank) = 1 THEN min(rank) END AS rank
FROM (SELECT * FROM by_path UNION ALL SELECT * FROM by_pid)
GROUP BY host, uuid, bus, gpu_pid, started_at HAVING count(DISTINCT run_id) = 1;

-- GPUs that processes of each run use, told by their lines or by the driver; and when each attempt began: the first stamped first line of a
-- process of it. Of this store; what other stores say of theirs is in t_told_place_.
CREATE OR REPLACE TEMP TABLE t_device AS
SELECT DISTINCT run_id, lo_attempt, hi_attempt, split_part(lower(node), '.', 1) AS node, lower(bus) AS bus
FROM (
    SELECT p.run_id, p.lo_attempt, p.hi_attempt, v.bus, unnest([v.host, v.node]) AS node
    FROM b_device v
    JOIN t_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
    WHERE v.bus <> ''
    UNION ALL
    SELECT run_id, lo_attempt, hi_attempt, bus, host FROM t_gpu_use WHERE bus <> ''
) WHERE node <> '';

CREATE OR REPLACE TEMP TABLE t_began AS
SELECT run_id, lo_attempt,
    min(epoch_us(first_stamp) - CASE WHEN first_utc THEN 0 ELSE zone_s::BIGINT * 1000000 END) AS began_us
FROM t_place WHERE first_utc OR zone_s IS NOT NULL GROUP BY run_id, lo_attempt;

-- Faults that other stores tell of, as told last, one row for each (run, attempt) that they act on there.
--   rec_id      what the fault is called here: of the first row about it
--   told_rec_id of the row that counts
--   copy_of     an own fault that is the same line of the same file: this store's own word counts
CREATE OR REPLACE TEMP TABLE t_told_fault_ AS
WITH told AS MATERIALIZED (
    SELECT * EXCLUDE (gone) FROM (
        SELECT * REPLACE (min(rec_id) OVER (PARTITION BY origin_store_id, origin_rec_id) AS rec_id), rec_id AS told_rec_id
        FROM b_remote_fault
        QUALIFY row_number() OVER (PARTITION BY origin_store_id, origin_rec_id, run_id, lo_attempt
                                   ORDER BY revision DESC, b_remote_fault.rec_id DESC) = 1
    ) WHERE NOT gone
),
own AS (
    SELECT f.rec_id, f.source_id, f.byte_offset, f.byte_length, f.kind, s.path, coalesce(s.network, false) AS network, c.inode
    FROM b_fault f
    LEFT JOIN b_source s ON s.source_id = f.source_id
    LEFT JOIN b_cursor c ON c.source_id = f.source_id AND c.generation = f.generation
    WHERE EXISTS (SELECT 1 FROM told)
),
copy AS (
    SELECT t.rec_id, min(o.rec_id) AS copy_of
    FROM told t JOIN own o ON o.byte_offset = t.byte_offset AND o.byte_length = t.byte_length AND o.kind = t.kind
    WHERE o.inode = t.inode AND (o.source_id = t.source_id OR (o.path = t.path AND o.network AND t.network AND t.inode <> 0))
    GROUP BY t.rec_id
)
SELECT t.*, c.copy_of, r.kind IS NOT NULL AS has_rule, coalesce(r.severity, t.severity) AS today_severity,
    coalesce(r.locks, t.locks) AS today_locks
FROM told t LEFT JOIN copy c ON c.rec_id = t.rec_id LEFT JOIN b_fault_rule r ON r.kind = t.kind;

-- One row a fault; kernel lines get one for every attempt whose GPU they name. Of other stores' faults those are here that
-- may concern a run of this store.
--   lo_us, hi_us, lo_clk, hi_clk  time bounds; clk 0: UTC, a source_id: its own clock of unknown zone, NULL: no bound
--   slo, shi                      step bounds
--   lo_attempt, hi_attempt        the attempts that it acts on
--   acts                          confirmed, mapped, no copy; only such lines lock or void
--   locking, voiding              locks its attempts; makes the numbers of its steps suspect
--   now_verdict                   confirmed | suspect | refuted | mention
--   loose                         it may be of any of several runs: see `homeless`
--   exact, line_slo, line_shi     it prints its step; the bounds that its line alone gives, NULL if none
--   origin_store_id, told_rec_id  another store's fault, and its row in remote_fault; NULL for this store's own
CREATE OR REPLACE TEMP TABLE t_fault AS
WITH place AS MATERIALIZED (SELECT * FROM t_place),
placed AS MATERIALIZED (
    SELECT f.rec_id, f.host, f.source_id, f.generation, f.byte_offset, f.proc, f.pid, f.kind, f.verdict,
        f.text, f.code, f.source_id IN (SELECT source_id FROM b_source WHERE kind = 'gpu') AS nvml, lower(f.bus) AS bus, lower(f.node) AS node, p.run_id, p.run_how, p.root, p.wkey, p.ekey, p.declared_single, p.console, p.lo_attempt,
        p.hi_attempt, p.cut_attempt, p.stream0, CASE WHEN f.stream <> '' THEN f.stream ELSE p.stream0 END AS estream,
        p.pid AS file_pid,
        -- torchrun's tee names a process by its role and local rank: default3.
        coalesce(f.proc_rank, p.rank, CASE WHEN f.pid IS NULL AND (starts_with(f.proc, 'actor:') OR contains(f.proc, ' actor:'))
            THEN TRY_CAST(nullif(regexp_extract(f.actor, '^[a-z_]+([0-9]{1,6})$', 1), '') AS INTEGER) END) AS rank,
        f.generation::BIGINT * 17592186044416 + f.byte_offset AS pos,
        coalesce(r.severity, 'L') AS severity, coalesce(r.locks, 'always') AS locks0, coalesce(r.node_scope, false) AS node_scope,
        r.kind IS NOT NULL AS has_rule, f.stamp IS NULL AS unstamped,
        CASE WHEN p.zone_s IS NULL THEN f.source_id ELSE 0 END AS naive_clk, coalesce(p.zone_s, 0)::BIGINT * 1000000 AS shift,
        CASE WHEN f.stamp IS NOT NULL THEN f.stamp
             -- The neighbour before was written earlier; that bounds this line if it was not itself held in a buffer. What
             -- a console forwards was held, on either stream.
             WHEN (CASE WHEN f.stream <> '' THEN f.stream ELSE p.stream0 END = 'stderr' AND NOT p.console)
                  OR (p.stream0 <> '' AND p.wkey IS NOT NULL)
             THEN f.after_stamp END AS low,
        CASE WHEN f.stamp IS NOT NULL THEN f.stamp_utc ELSE f.after_utc END AS low_utc,
        f.stamp_res_us AS res_us, f.step IS NOT NULL AND NOT coalesce(f.step_carried, false) AS exact,
        -- A carried step is what a neighbour says, too: it bounds from below what was not held in a buffer, and from above
        -- what went through one buffer with it.
        CASE WHEN f.step IS NOT NULL AND (NOT coalesce(f.step_carried, false) OR (p.stream0 <> '' AND p.wkey IS NOT NULL)
                  OR (CASE WHEN f.stream <> '' THEN f.stream ELSE p.stream0 END = 'stderr' AND NOT p.console))
             THEN least(greatest(f.step, -2305843009213693952), 2305843009213693952) END AS own_slo,
        CASE WHEN f.step IS NOT NULL AND NOT coalesce(f.step_carried, false)
             THEN least(greatest(f.step, -2305843009213693952), 2305843009213693952)
             WHEN f.step IS NOT NULL AND p.stream0 <> '' AND p.wkey IS NOT NULL
             THEN least(greatest(f.step, -2305843009213693952), 2305843009213693952) + 1 END AS own_shi
    FROM b_fault f
    LEFT JOIN place p ON p.source_id = f.source_id AND p.generation = f.generation AND p.proc = f.proc
        AND f.byte_offset >= p.from_off AND f.byte_offset < p.to_off
    LEFT JOIN b_fault_rule r ON r.kind = f.kind
),
-- Without an own stamp: the stamped lines that follow. A stamp bounds an earlier line of the same process if the stamped line
-- is on stderr (unbuffered: written when it was made, but for a console's copy), or if both are on one stream of a known process (one buffer).
line AS (
    SELECT f.rec_id, f.run_id, a.byte_offset, a.stamp_utc OR f.naive_clk = 0 AS utc,
        epoch_us(a.stamp) + a.stamp_res_us - CASE WHEN a.stamp_utc THEN 0 ELSE f.shift END AS hi_us
    FROM (SELECT source_id, generation, proc, byte_offset, stamp, stamp_res_us, stamp_utc, stream FROM b_stamp_after
          WHERE stamp IS NOT NULL AND source_id IN (SELECT source_id FROM placed WHERE unstamped AND verdict <> 'mention')) a
    JOIN placed f ON f.source_id = a.source_id AND f.generation = a.generation AND f.proc = a.proc
    WHERE f.unstamped AND (
        (CASE WHEN a.stream <> '' THEN a.stream ELSE f.stream0 END = 'stderr' AND NOT f.console)
        OR (f.wkey IS NOT NULL AND f.estream <> '' AND CASE WHEN a.stream <> '' THEN a.stream ELSE f.stream0 END = f.estream))
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
        SELECT NULL::BIGINT AS rec_id, run_id, lo_attempt, hi_attempt, node AS host, bus FROM t_device
        UNION ALL
        SELECT NULL, run_id, lo_attempt, hi_attempt, split_part(lower(node), '.', 1), lower(bus) FROM t_told_place_
        WHERE what = 'device' AND bus <> ''
        UNION ALL
        SELECT rec_id, NULL, NULL, NULL, split_part(CASE WHEN node <> '' THEN node ELSE lower(host) END, '.', 1), bus
        FROM timed WHERE node_scope AND bus <> ''
        UNION ALL
        SELECT DISTINCT rec_id, NULL, NULL, NULL, split_part(lower(CASE WHEN node <> '' THEN node ELSE host END), '.', 1), lower(bus)
        FROM t_told_fault_ WHERE node_scope AND bus <> ''
    ) d
),
began AS (
    SELECT run_id, lo_attempt, min(began_us) AS began_us FROM (
        SELECT run_id, lo_attempt, began_us FROM t_began
        UNION ALL SELECT run_id, lo_attempt, began_us FROM t_told_place_ WHERE what = 'began'
    ) GROUP BY run_id, lo_attempt
),
kernel_line AS (
    SELECT rec_id, hi_us FROM timed WHERE node_scope AND hi_clk = 0
    UNION SELECT rec_id, hi_us FROM t_told_fault_ WHERE node_scope AND hi_us IS NOT NULL
),
mapped AS MATERIALIZED (
    SELECT DISTINCT k.rec_id, h.run_id, h.lo_attempt, h.hi_attempt
    FROM gpu k
    JOIN gpu h ON h.rec_id IS NULL AND h.gpu = k.gpu AND k.host = h.host
    JOIN began b ON b.run_id = h.run_id AND b.lo_attempt = h.lo_attempt
    JOIN kernel_line t ON t.rec_id = k.rec_id
    CROSS JOIN t_lock_setting_ o
    WHERE t.hi_us + o.margin_us >= b.began_us
),
-- A fault in a log of no known run, where several runs share the watched root: it may be any one's. Beside the run that we
-- named after the root it locks none, and makes the numbers of all suspect, but those shown to be of another step.
homeless AS (
    SELECT t.rec_id, r.run_id, 1 AS lo_attempt, r.hi_attempt
    FROM timed t
    JOIN (SELECT DISTINCT p.host, p.root, p.run_id, a.hi_attempt
          FROM place p JOIN (SELECT run_id, max(attempt) AS hi_attempt FROM t_attempt GROUP BY run_id) a ON a.run_id = p.run_id
          WHERE p.run_how <> 'us') r
        ON r.host = t.host AND r.root = t.root
    WHERE t.run_how = 'us' AND NOT t.node_scope AND t.verdict <> 'mention'
),
given AS (
    SELECT rec_id, run_id, lo_attempt, hi_attempt, false AS loose, false AS own FROM mapped
    WHERE rec_id IN (SELECT rec_id FROM timed)
    UNION ALL SELECT rec_id, run_id, lo_attempt, hi_attempt, true, false FROM homeless
    UNION ALL SELECT rec_id, run_id, lo_attempt, hi_attempt, false, true FROM timed
              WHERE rec_id IN (SELECT rec_id FROM homeless)
),
-- A console forwards lines of workers. A copy of a line that stands in the worker's own file does nothing of itself: the
-- worker's line, with its better bounds, acts. What is surely earlier than all such lines is no copy: containers on several
-- nodes have processes of one pid.
original AS MATERIALIZED (
    SELECT run_id, pid, kind, text, min(rec_id) AS rec_id, min(coalesce(lo_us, -4611686018427387904)) AS lo_us FROM (
        SELECT run_id, pid, kind, text, rec_id, CASE WHEN lo_clk = 0 THEN lo_us END AS lo_us FROM timed
        WHERE NOT console AND pid IS NOT NULL AND verdict = 'confirmed' AND NOT node_scope
        UNION ALL
        SELECT run_id, pid, kind, text, rec_id, lo_us FROM t_told_fault_ WHERE NOT console AND pid IS NOT NULL AND NOT node_scope
    ) GROUP BY run_id, pid, kind, text
),
-- Where no pid is printed, a rank names the process; and a worker's line is copied by others than consoles: by the log of
-- several processes that a launcher's output goes to, by the process that asked for the work (RayTaskError names the worker).
-- A rank is used again by every attempt, and such a log may be the only one of an attempt: a copy is what may be of no
-- other attempt than the original. `alone`: the file of one process, about itself.
source_line AS MATERIALIZED (
    SELECT run_id, attempt, pid, rank, kind, text, alone, min(rec_id) AS rec_id, min(coalesce(lo_us, -4611686018427387904)) AS lo_us
    FROM (
        SELECT run_id, lo_attempt AS attempt, pid, rank, kind, text, rec_id, CASE WHEN lo_clk = 0 THEN lo_us END AS lo_us,
            coalesce(declared_single AND coalesce(pid = file_pid, true), false) AS alone
        FROM timed WHERE NOT console AND verdict = 'confirmed' AND NOT node_scope AND lo_attempt = hi_attempt
        UNION ALL
        SELECT run_id, lo_attempt, pid, proc_rank, kind, text, rec_id, lo_us, false FROM t_told_fault_
        WHERE NOT console AND NOT node_scope AND mapped AND lo_attempt = hi_attempt
    ) WHERE pid IS NOT NULL OR rank IS NOT NULL
    GROUP BY run_id, attempt, pid, rank, kind, text, alone
),
forwarded AS (
    SELECT t.rec_id, min(o.rec_id) AS echo_of
    FROM timed t
    JOIN source_line o ON o.run_id = t.run_id AND o.kind = t.kind AND o.text = t.text
    CROSS JOIN t_lock_setting_ g
    WHERE t.lo_attempt = o.attempt AND t.hi_attempt = o.attempt AND NOT t.node_scope
        AND o.lo_us <= coalesce(CASE WHEN t.hi_clk = 0 THEN t.hi_us + g.margin_us END, 4611686018427387904)
        AND CASE WHEN t.console THEN (t.pid IS NULL OR o.pid IS NULL) AND o.rank = t.rank
                 WHEN o.alone AND o.pid = t.pid THEN NOT t.declared_single OR t.file_pid <> t.pid
                 ELSE o.alone AND NOT t.declared_single AND (t.pid IS NULL OR o.pid IS NULL) AND o.rank = t.rank END
    GROUP BY t.rec_id
),
-- The driver tells of an Xid what the kernel's log says as well. The log's line acts, if it tells a time; else this one.
nvml_echo AS (
    SELECT n.rec_id, min(k.rec_id) AS echo_of
    FROM timed n
    JOIN gpu ng ON ng.rec_id = n.rec_id
    JOIN gpu kg ON kg.rec_id <> n.rec_id AND kg.gpu = ng.gpu AND kg.host = ng.host
    JOIN timed k ON k.rec_id = kg.rec_id AND k.kind = n.kind AND k.code = n.code AND NOT k.nvml
        AND k.verdict = 'confirmed' AND k.lo_clk = 0 AND k.hi_clk = 0
    CROSS JOIN t_lock_setting_ g
    WHERE n.nvml AND k.lo_us <= n.hi_us + g.margin_us AND k.hi_us + g.margin_us >= n.lo_us
    GROUP BY n.rec_id
),
fault AS MATERIALIZED (
    SELECT t.* REPLACE (coalesce(m.run_id, t.run_id) AS run_id, coalesce(m.lo_attempt, t.lo_attempt, 1) AS lo_attempt,
                        coalesce(m.hi_attempt, t.hi_attempt, 1) AS hi_attempt,
                        CASE WHEN m.rec_id IS NULL OR m.own THEN t.ekey ELSE 'mapped' END AS ekey),
        NOT t.node_scope OR m.run_id IS NOT NULL AS mapped, coalesce(m.loose, false) AS loose,
        coalesce(o.rec_id, w.echo_of, e.echo_of) AS echo_of,
        t.verdict = 'confirmed' AND (NOT t.node_scope OR m.run_id IS NOT NULL) AND coalesce(o.rec_id, w.echo_of, e.echo_of) IS NULL AS acts
    FROM timed t
    LEFT JOIN given m ON m.rec_id = t.rec_id
    LEFT JOIN forwarded w ON w.rec_id = t.rec_id
    LEFT JOIN nvml_echo e ON e.rec_id = t.rec_id
    CROSS JOIN t_lock_setting_ g
    LEFT JOIN original o ON o.run_id = CASE WHEN t.console THEN t.run_id END AND o.pid = t.pid AND o.kind = t.kind AND o.text = t.text
        AND o.lo_us <= coalesce(CASE WHEN t.hi_clk = 0 THEN t.hi_us + g.margin_us END, 4611686018427387904)
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
    WHERE f.hi_attempt > f.lo_attempt AND NOT coalesce(f.hi_clk = 0 AND f.hi_us < d.from_us, false)
    GROUP BY f.rec_id, f.run_id
),
own_judged AS (
    SELECT f.* REPLACE (CASE WHEN f.ekey IS DISTINCT FROM 'mapped' AND f.hi_attempt > f.lo_attempt
                             THEN least(f.hi_attempt, greatest(f.cut_attempt, coalesce(d.attempt, 1)))
                             ELSE f.hi_attempt END AS hi_attempt),
        f.acts AND NOT f.loose AND (f.locks0 NOT IN ('if_continues', 'never') OR (f.locks0 = 'if_continues' AND coalesce(n.pos > f.pos, false)))
            AS locking,
        f.acts AND (f.severity IN ('N', 'S', 'E') OR (f.loose AND f.severity IN ('L', 'LH'))) AS voiding,
        CASE WHEN f.verdict = 'suspect' AND NOT f.node_scope AND coalesce(n.gpu_pos > f.pos, false) THEN 'refuted'
             WHEN f.verdict = 'confirmed' AND NOT f.mapped THEN 'suspect'
             ELSE f.verdict END AS now_verdict
    FROM fault f LEFT JOIN went_on n ON n.wkey = f.wkey LEFT JOIN timely d ON d.rec_id = f.rec_id AND d.run_id = f.run_id
),
-- Faults of other stores. Which run, attempt and process they are of was decided there, where all bytes of the process are;
-- what is decided here: whether they are copies, which GPU a kernel line names, and whose a fault of no known run is.
here AS MATERIALIZED (SELECT run_id, max(attempt) AS hi_attempt FROM t_attempt GROUP BY run_id),
named_run AS MATERIALIZED (
    SELECT DISTINCT NULL::VARCHAR AS store_id, NULL::VARCHAR AS host, NULL::VARCHAR AS root, run_id FROM place
    WHERE run_how NOT IN ('us', 'workspace')
    UNION ALL SELECT origin_store_id, host, root, run_id FROM t_told_place_ WHERE what = 'run'
),
-- A store that knows runs by name says which ones share the root; for one that knows none, those of all others may be meant.
guest AS MATERIALIZED (
    SELECT DISTINCT t.rec_id, t.told_rec_id, n.run_id, true AS loose
    FROM t_told_fault_ t
    JOIN named_run n ON n.store_id = t.origin_store_id AND n.host = t.host AND n.root = t.root
    WHERE t.run_how = 'us' AND NOT t.node_scope
    UNION ALL
    SELECT t.rec_id, t.told_rec_id, n.run_id, n.runs > 1
    FROM t_told_fault_ t
    JOIN (
        SELECT o.origin_store_id, n.run_id, count(*) OVER (PARTITION BY o.origin_store_id) AS runs
        FROM (SELECT DISTINCT origin_store_id FROM t_told_fault_ WHERE run_how = 'us') o
        JOIN named_run n ON n.store_id IS DISTINCT FROM o.origin_store_id
        WHERE o.origin_store_id NOT IN (SELECT store_id FROM named_run WHERE store_id IS NOT NULL)
        GROUP BY o.origin_store_id, n.run_id
    ) n ON n.origin_store_id = t.origin_store_id
    WHERE t.run_how = 'us' AND NOT t.node_scope
),
-- Attempts that its daemon did not know of when it spoke: its line is of them if the cut lets it be.
later_attempt AS (
    SELECT t.told_rec_id, d.run_id, max(d.attempt) AS attempt
    FROM (
        SELECT told_rec_id, run_id, known_attempts FROM t_told_fault_
        UNION ALL SELECT told_rec_id, run_id, 1 FROM guest WHERE NOT loose
    ) k
    JOIN t_told_fault_ t ON t.told_rec_id = k.told_rec_id
    JOIN (SELECT run_id, id, from_kind, epoch_us(from_time) AS from_us, declared_at,
              1 + row_number() OVER (PARTITION BY run_id ORDER BY declared_at, id) AS attempt FROM b_run_attempt) d
        ON d.run_id = k.run_id AND d.attempt > k.known_attempts
    LEFT JOIN (SELECT id, source_id, generation, byte_offset FROM b_attempt_cut) c ON c.id = d.id AND c.source_id = t.source_id
    CROSS JOIN t_lock_setting_ s
    WHERE CASE WHEN d.from_kind = 'time' THEN NOT coalesce(t.hi_us < d.from_us, false)
               -- Of a source that no cut names: what its daemon, dead by then, had stored before was there before.
               WHEN c.id IS NULL THEN NOT coalesce(epoch_us(t.told_at) + s.margin_us < epoch_us(d.declared_at), false)
               ELSE t.generation > c.generation OR (t.generation = c.generation AND t.byte_offset >= c.byte_offset) END
    GROUP BY t.told_rec_id, d.run_id
),
told_given AS (
    SELECT rec_id, told_rec_id, run_id, lo_attempt, hi_attempt, false AS loose, true AS as_told FROM t_told_fault_ WHERE mapped
    UNION ALL
    SELECT m.rec_id, t.told_rec_id, m.run_id, m.lo_attempt, m.hi_attempt, false, false
    FROM mapped m
    JOIN (SELECT rec_id, min(told_rec_id) AS told_rec_id FROM t_told_fault_ GROUP BY rec_id) t ON t.rec_id = m.rec_id
    WHERE (m.rec_id, m.run_id, m.lo_attempt) NOT IN (SELECT (rec_id, run_id, lo_attempt) FROM t_told_fault_ WHERE mapped)
    UNION ALL
    SELECT g.rec_id, g.told_rec_id, g.run_id, 1, CASE WHEN g.loose THEN h.hi_attempt ELSE 1 END, g.loose, false
    FROM guest g JOIN here h ON h.run_id = g.run_id
),
told AS (
    SELECT t.* REPLACE (g.run_id AS run_id, g.lo_attempt AS lo_attempt, greatest(g.hi_attempt, l.attempt) AS hi_attempt),
        -- Bounds by the steps of an attempt are of that attempt alone.
        g.loose, g.as_told AND coalesce(l.attempt <= t.hi_attempt, true) AS bound, coalesce(t.copy_of, o.rec_id) AS echo_of
    FROM told_given g
    JOIN t_told_fault_ t ON t.told_rec_id = g.told_rec_id
    JOIN here h ON h.run_id = g.run_id
    LEFT JOIN later_attempt l ON l.told_rec_id = g.told_rec_id AND l.run_id = g.run_id
    CROSS JOIN t_lock_setting_ v
    -- A line of no known run is no copy of what a run's worker wrote, as where one store holds both.
    LEFT JOIN original o ON o.run_id = CASE WHEN t.console THEN CASE WHEN g.loose THEN t.run_id ELSE g.run_id END END
        AND o.pid = t.pid AND o.kind = t.kind AND o.text = t.text
        AND o.lo_us <= coalesce(t.hi_us + v.margin_us, 4611686018427387904)
),
judged AS MATERIALIZED (
    SELECT rec_id, run_id, run_how, lo_attempt, hi_attempt, source_id, generation, byte_offset, pos, host, console, proc, pid, wkey,
        estream, declared_single, kind, severity, locks0, has_rule, verdict, now_verdict, mapped, loose, echo_of, acts, locking,
        voiding, lo_us, lo_clk, hi_us, hi_clk, exact, own_slo, own_shi, NULL::VARCHAR AS origin_store_id, NULL::BIGINT AS told_rec_id
    FROM own_judged
    UNION ALL
    SELECT rec_id, run_id, run_how, lo_attempt, hi_attempt, source_id, generation, byte_offset,
        generation::BIGINT * 17592186044416 + byte_offset, host, console, proc, pid,
        CASE WHEN writer <> '' THEN 'told:' || origin_store_id || ':' || writer END, '', false,
        kind, today_severity, today_locks, has_rule, 'confirmed', 'confirmed', true, loose, echo_of, echo_of IS NULL,
        echo_of IS NULL AND NOT loose
            AND (today_locks NOT IN ('if_continues', 'never') OR (today_locks = 'if_continues' AND locking)),
        echo_of IS NULL AND (today_severity IN ('N', 'S', 'E') OR (loose AND today_severity IN ('L', 'LH'))),
        lo_us, CASE WHEN lo_us IS NOT NULL THEN 0 END, hi_us, CASE WHEN hi_us IS NOT NULL THEN 0 END, exact,
        CASE WHEN bound THEN slo ELSE line_slo END, CASE WHEN bound THEN shi ELSE line_shi END, origin_store_id, told_rec_id
    FROM told
),
-- Steps of the attempt that are surely earlier or surely later bound a fault that prints none. An open bound is a number
-- that no time reaches, not NULL: an ASOF join of DuckDB 1.5.6 takes a NULL on its left for the greatest value when its
-- inputs are small, and finds a row.
lost AS MATERIALIZED (
    SELECT rec_id, run_id, lo_attempt, wkey, proc, estream, declared_single, pos,
        coalesce(CASE WHEN lo_clk = 0 THEN lo_us END, -4611686018427387904) AS lo_us,
        coalesce(CASE WHEN hi_clk = 0 THEN hi_us END, 4611686018427387904) AS hi_us,
        '' AS any_host, CASE WHEN NOT console THEN 'h' || host END AS own_host
    FROM judged WHERE NOT exact AND (locking OR voiding) AND lo_attempt = hi_attempt
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
          FROM b_step_event WHERE step IS NOT NULL AND edge IN ('begin', 'end') AND source_id IN (SELECT source_id FROM step_place)) v
    JOIN step_place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
),
by_time AS MATERIALIZED (
    SELECT run_id, attempt, host, console, step, min(lo_us + res_us) FILTER (WHERE ended) AS first_end, max(lo_us) AS last_seen
    FROM step WHERE lo_us IS NOT NULL GROUP BY run_id, attempt, host, console, step
),
by_host AS MATERIALIZED (
    SELECT run_id, attempt, '' AS hkey, step, min(first_end + margin_us) AS first_end, max(last_seen - margin_us) AS last_seen
    FROM by_time, t_lock_setting_ GROUP BY run_id, attempt, step
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
        max(v.step) FILTER (WHERE v.ended AND v.pos < l.pos AND ((l.estream = 'stderr' AND NOT v.console) OR (
            v.estream <> '' AND v.estream = l.estream AND (v.declared_single OR v.proc = l.proc)))) AS slo,
        min(v.step) FILTER (WHERE v.pos > l.pos AND ((v.estream = 'stderr' AND NOT v.console) OR (
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
    -- greatest() and least() pass over NULL: the tighter of what is known.
    coalesce(CASE WHEN j.exact THEN j.own_slo ELSE greatest(j.own_slo, b.slo) END, -4611686018427387904) AS slo,
    coalesce(CASE WHEN j.exact THEN j.own_shi ELSE least(j.own_shi, b.shi) END, 4611686018427387904) AS shi,
    j.run_how, j.loose, j.exact, j.own_slo AS line_slo, j.own_shi AS line_shi, j.origin_store_id, j.told_rec_id
FROM judged j
-- A kernel line may act on one attempt by one process and on several by another: only the former is bounded by its steps.
LEFT JOIN bounded b
    ON b.rec_id = j.rec_id AND b.run_id = j.run_id AND b.lo_attempt = j.lo_attempt AND b.lo_attempt = j.hi_attempt;

-- How the clock and the stream of a record are told: `code` = stream * 3 + clock; stream as the record says (0 unknown,
-- 1 stdout, 2 stderr), clock 0 no own stamp, 1 UTC, 2 naive.
CREATE OR REPLACE TEMP VIEW t_code_ AS
SELECT s.code * 3 + c.code AS code, s.name AS stream, c.code AS clock
FROM (VALUES (0, ''), (1, 'stdout'), (2, 'stderr')) s(code, name), (VALUES (0), (1), (2)) c(code);

-- The lock: thresholds against which a record is compared, for each place that it can stand in and that a fault acts on.
--
-- "Exists a locking fault that fails the time test and the step test" is a question of dominance in two dimensions. The
-- faults that can decide it are a staircase: x ascending (what the time must be below), s descending (what the step must
-- be below). Its first and last point decide nearly every record; the others look it up in `xs` and `ss`, which are text
-- because a join copies lists row by row and hands on text by reference.
-- A record is never held by time or step against faults of its own writer that offsets decide, so writers that own a
-- point of the staircase get a staircase of their own.
--
-- One row for every place and code where a fault acts: cid = wid * 16 + code. A place's number is its row in t_place: one of its
-- own, in the order of all, would change with every new process, and each place be kept anew.
CREATE OR REPLACE TEMP TABLE t_threshold_ AS
WITH place AS MATERIALIZED (
    SELECT rowid AS wid, source_id, generation, proc, from_off, to_off, run_id, lo_attempt, hi_attempt, wkey, host, console, stream0, zone_s,
        declared_single, path
    FROM t_place
),
act AS MATERIALIZED (
    SELECT run_id, lo_attempt, hi_attempt, source_id, generation, byte_offset, host, console, proc, wkey, estream, locking, voiding,
        lo_us, lo_clk, hi_us, hi_clk, slo, shi
    FROM t_fault WHERE locking OR voiding
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
    SELECT zid, void_lo, void_hi, voids, void_los, void_his,
        CASE WHEN voids > 1 AND void_hi::HUGEINT - void_lo < 1000000 THEN coalesce(nullif(bits, ''), '0')::BIT END AS void_bits
    FROM (
        SELECT zid, min(lo) AS void_lo, max(hi) AS void_hi, count(*) AS voids,
            string_agg(lo::VARCHAR, ',' ORDER BY lo) AS void_los, string_agg(hi::VARCHAR, ',' ORDER BY lo) AS void_his,
            string_agg(repeat('0', CASE WHEN gap < 1000000 THEN gap::BIGINT ELSE 0 END)
                       || repeat('1', CASE WHEN width < 1000000 THEN width::BIGINT ELSE 0 END), '' ORDER BY lo) AS bits
        FROM (
            SELECT zid, lo, hi, (hi::HUGEINT - lo + 1) AS width,
                coalesce(lo::HUGEINT - lag(hi) OVER (PARTITION BY zid ORDER BY lo) - 1, 0) AS gap
            FROM void_part
        ) GROUP BY zid
    )
),
-- Hosts and clocks that matter: records elsewhere are all alike.
fault_host AS (SELECT DISTINCT zid, host FROM fault WHERE NOT console),
fault_clock AS MATERIALIZED (
    SELECT DISTINCT zid, lo_clk AS clk FROM fault WHERE lo_clk > 0 UNION SELECT DISTINCT zid, hi_clk FROM fault WHERE hi_clk > 0
),
-- Stamped lines after unstamped ones, by the stream of the lines that they bound: see t_fault.
line AS MATERIALIZED (
    SELECT source_id, generation, proc, skey, byte_offset, hi_us, utc FROM (
        SELECT a.source_id, a.generation, a.proc, k.name AS skey, a.byte_offset, a.stamp_utc OR p.zone_s IS NOT NULL AS utc,
            epoch_us(a.stamp) + a.stamp_res_us - CASE WHEN a.stamp_utc THEN 0 ELSE coalesce(p.zone_s, 0)::BIGINT * 1000000 END AS hi_us
        FROM (SELECT source_id, generation, proc, byte_offset, stamp, stamp_res_us, stamp_utc, stream FROM b_stamp_after
              WHERE stamp IS NOT NULL AND source_id IN (
                  SELECT p.source_id FROM place p JOIN zone z ON z.run_id = p.run_id
                  WHERE EXISTS (SELECT 1 FROM fault WHERE lo_clk >= 0))) a
        JOIN (SELECT DISTINCT source_id, generation, proc, stream0, zone_s, wkey, console FROM place) p
            ON p.source_id = a.source_id AND p.generation = a.generation AND p.proc = a.proc
        JOIN (VALUES (''), ('stdout'), ('stderr')) k(name)
            ON (CASE WHEN a.stream <> '' THEN a.stream ELSE p.stream0 END = 'stderr' AND NOT p.console)
            OR (p.wkey IS NOT NULL AND k.name <> '' AND CASE WHEN a.stream <> '' THEN a.stream ELSE p.stream0 END = k.name)
    )
),
stamped AS MATERIALIZED (
    SELECT source_id, generation, proc, skey, bool_or(utc) AS utc FROM line GROUP BY source_id, generation, proc, skey
),
variant AS MATERIALIZED (
    SELECT p.wid * 16 + c.code AS cid, z.zid, p.source_id, p.generation, p.proc, p.wkey, p.declared_single,
        p.stream0, p.console, CASE WHEN c.stream = '' THEN p.stream0 ELSE c.stream END AS estream, c.clock AS clock_code, p.zone_s,
        CASE WHEN NOT p.console AND h.host IS NOT NULL THEN p.host ELSE '' END AS hkey,
        CASE WHEN p.zone_s IS NOT NULL THEN 0 WHEN n.clk IS NOT NULL THEN p.source_id ELSE -1 END AS naive_clk
    FROM place p
    JOIN zone z ON z.run_id = p.run_id AND z.lo_attempt = p.lo_attempt AND z.hi_attempt = p.hi_attempt
    CROSS JOIN t_code_ c
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
    FROM look l JOIN fault f ON f.zid = l.zid CROSS JOIN t_lock_setting_ o
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
            WHERE (f.estream = 'stderr' AND NOT f.console)
               OR (v.estream <> '' AND v.estream = f.estream AND (v.declared_single OR v.proc = f.proc))) AS own_off,
        min(CASE WHEN f.generation < v.generation THEN -1 ELSE f.byte_offset END) FILTER (
            WHERE (v.estream = 'stderr' AND NOT f.console)
               OR (v.estream <> '' AND v.estream = f.estream AND (v.declared_single OR v.proc = f.proc))) AS own_late
    FROM looked v JOIN fault f ON f.zid = v.zid AND f.wkey = v.wkey
    WHERE f.generation <= v.generation
    GROUP BY v.cid
),
own_sight AS MATERIALIZED (
    SELECT v.cid,
        CASE WHEN v.clk < 0 OR f.lo_clk <> v.clk THEN -4611686018427387904
             WHEN (f.wkey = v.wkey AND (v.declared_single OR f.proc = v.proc))
               OR (v.hkey <> '' AND f.host = v.hkey AND NOT f.console) THEN f.lo_us
             ELSE f.lo_us - o.margin_us END AS x,
        CASE WHEN f.slo = -4611686018427387904 OR (f.wkey = v.wkey AND (v.declared_single OR f.proc = v.proc)) THEN f.slo
             ELSE f.slo - o.staleness END AS s,
        CASE WHEN f.hi_clk <> 0 THEN 4611686018427387904
             WHEN v.hkey <> '' AND f.host = v.hkey AND NOT f.console THEN f.hi_us ELSE f.hi_us + o.margin_us END AS late_utc,
        CASE WHEN v.naive_clk < 0 OR f.hi_clk <> v.naive_clk THEN 4611686018427387904
             WHEN v.hkey <> '' AND f.host = v.hkey AND NOT f.console THEN f.hi_us ELSE f.hi_us + o.margin_us END AS late_naive,
        CASE WHEN f.shi = 4611686018427387904 THEN f.shi ELSE f.shi + o.staleness END AS late_s
    FROM looked v JOIN fault f ON f.zid = v.zid CROSS JOIN t_lock_setting_ o
    WHERE v.owns AND NOT coalesce(f.wkey = v.wkey AND ((f.estream = 'stderr' AND NOT f.console) OR (
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
        v.clock_code = 0 AND NOT ((v.estream = 'stderr' AND NOT v.console) OR (v.stream0 <> '' AND v.wkey IS NOT NULL)) AS no_earlier_line
    FROM looked v
)
SELECT v.cid, CASE WHEN v.clock_code = 2 AND v.zone_s IS NOT NULL THEN v.zone_s::BIGINT * 1000000 ELSE 0 END AS shift_us,
    b.own_off, b.own_late, e.points, e.x1, e.s1, e.xk, e.sk, e.xs, e.ss,
    CASE WHEN NOT v.no_earlier_line THEN CASE WHEN v.owns THEN ol.late_utc ELSE lu.late_x END END AS late_utc,
    CASE WHEN NOT v.no_earlier_line THEN CASE WHEN v.owns THEN ol.late_naive ELSE ln.late_x END END AS late_naive,
    CASE WHEN v.owns THEN ol.late_s ELSE lu.late_s END AS late_s, z.lock_slo,
    d.void_lo, d.void_hi, d.voids, d.void_los, d.void_his, d.void_bits
FROM decided v
LEFT JOIN zone z ON z.zid = v.zid
LEFT JOIN own_bound b ON b.cid = v.cid
LEFT JOIN edge e ON e.sid = v.sid
LEFT JOIN late lu ON lu.gid = v.utc_gid
LEFT JOIN late ln ON ln.gid = v.naive_gid
LEFT JOIN own_late ol ON ol.cid = v.cid
LEFT JOIN void d ON d.zid = v.zid;

-- The same for every place and code, NULL where no fault acts. Internal; kept by 5_stand.sql.
CREATE OR REPLACE TEMP TABLE t_lock_ AS
SELECT p.source_id, p.generation, p.proc, c.code, p.from_off, p.to_off, p.run_id, p.lo_attempt, p.zone_s, p.path,
    p.stream0 <> '' AND p.wkey IS NOT NULL AS one_pipe,
    (p.stream0 <> '' AND p.wkey IS NOT NULL)
        OR (CASE WHEN c.stream = '' THEN p.stream0 ELSE c.stream END = 'stderr' AND NOT p.console) AS not_held,
    coalesce(t.shift_us, 0) AS shift_us,
    -- Also where no fault is looked at: findings and other stores' faults are compared by time as well.
    CASE WHEN p.zone_s IS NOT NULL THEN p.zone_s::BIGINT * 1000000 ELSE 0 END AS naive_shift_us,
    t.* EXCLUDE (cid, shift_us)
FROM t_place p
CROSS JOIN t_code_ c
LEFT JOIN t_threshold_ t ON t.cid = p.rowid * 16 + c.code;

-- The attempts that faults act on: how many, and the first of them, for display; it decides nothing. L, LH and E come before
-- S, which is a consequence. `candidates`: all that nothing shows to be later than another, an E after the others (mostly a
-- process' end, stamped where its cause has no stamp); `why` says
-- in words what leaves them undecided, '' for a single one. Clocks of one host are one; a console's times are of no host.
CREATE OR REPLACE TEMP TABLE t_attempt_fault AS
WITH act AS MATERIALIZED (
    SELECT a.run_id, a.attempt, f.rec_id, f.origin_store_id, f.source_id, f.generation, f.wkey, f.pos, f.slo, f.shi, f.locking,
        CASE WHEN f.console THEN '' ELSE coalesce(f.host, '') END AS host, f.lo_clk,
        CASE WHEN f.lo_clk = 0 THEN f.lo_us END AS lo_us, CASE WHEN f.hi_clk = 0 THEN f.hi_us END AS hi_us,
        f.severity IN ('L', 'LH', 'E') AS prime, f.severity
    FROM t_attempt a
    JOIN t_fault f ON f.run_id = a.run_id AND f.lo_attempt <= a.attempt AND f.hi_attempt >= a.attempt
    WHERE f.acts AND f.severity <> 'I'
),
ranked AS (
    SELECT * FROM act WHERE severity <> 'N' QUALIFY prime = bool_or(prime) OVER (PARTITION BY run_id, attempt)
),
kept AS (
    SELECT *, min(hi_us) OVER a AS first_hi, min(shi) OVER a AS first_shi, min(pos) OVER w AS first_pos,
        CASE WHEN host <> '' THEN min(hi_us) OVER h END AS host_hi
    FROM ranked
    WINDOW a AS (PARTITION BY run_id, attempt), w AS (PARTITION BY run_id, attempt, coalesce(wkey, rec_id::VARCHAR)),
        h AS (PARTITION BY run_id, attempt, host)
),
candidate AS MATERIALIZED (
    SELECT * FROM kept, t_lock_setting_
    WHERE pos = first_pos AND NOT coalesce(lo_us > first_hi + margin_us, false) AND NOT coalesce(lo_us > host_hi, false)
        AND NOT slo > first_shi + staleness
),
first_fault AS (
    SELECT run_id, attempt, list(rec_id ORDER BY severity = 'E', lo_us NULLS LAST, slo, source_id, generation, pos) AS candidates,
        first(origin_store_id ORDER BY severity = 'E', lo_us NULLS LAST, slo, source_id, generation, pos) AS origin_store_id,
        CASE WHEN count(*) = 1 THEN ''
             ELSE concat(count(*), ' may be the first: ', array_to_string(list_filter([
                 CASE WHEN count(*) FILTER (lo_clk = -1) > 0 THEN concat(count(*) FILTER (lo_clk = -1), ' without a time stamp') END,
                 CASE WHEN count(*) FILTER (lo_clk > 0) > 0
                      THEN concat(count(*) FILTER (lo_clk > 0), ' with stamps of an unknown time zone') END,
                 CASE WHEN count(DISTINCT host) FILTER (lo_clk = 0 AND host <> '') > 1
                      THEN concat('clocks of hosts may differ by ', printf('%g', max(margin_us) / 1000000.0), ' s') END,
                 CASE WHEN count(*) FILTER (lo_clk = 0 AND host = '') > 0 THEN 'a console does not say when its lines were written' END,
                 CASE WHEN count(*) FILTER (lo_clk = 0) > 1 AND count(DISTINCT host) FILTER (lo_clk = 0 AND host <> '') <= 1
                           AND count(*) FILTER (lo_clk = 0 AND host = '') = 0 AND count(*) FILTER (lo_clk <> 0) = 0
                      THEN 'their times overlap' END], lambda x: x IS NOT NULL), '; ')) END AS why
    FROM candidate GROUP BY run_id, attempt
),
counted AS (
    SELECT run_id, attempt, count(DISTINCT rec_id) AS faults, count(DISTINCT rec_id) FILTER (WHERE locking) AS locking,
        count(DISTINCT rec_id) FILTER (WHERE origin_store_id IS NOT NULL) AS remote
    FROM act GROUP BY run_id, attempt
)
SELECT c.run_id, c.attempt, c.faults, c.locking, f.candidates[1] AS first_fault_rec_id, f.candidates, c.remote,
    f.origin_store_id AS first_fault_origin, coalesce(f.why, '') AS why
FROM counted c LEFT JOIN first_fault f ON f.run_id = c.run_id AND f.attempt = c.attempt;

-- Lines that speak of one fault. For display and for counting; nothing about locks follows from it.
--   incident    rec_id of the first line of all that speak of one fault
--   witness     its process is another than that of the first line
--   witnesses   of the first line: how many other processes say it, too
-- One fault are lines of one kind, whatever their process, with less than a minute between one and the next (`apart`:
-- a step of its own tells severity N apart, too); what is surely no more than half an hour later, NCCL's timeouts, and
-- is a consequence (severity S), a later line of the same process, or the end of a process (kinds `proc.`) is of the
-- first L, LH or E. What has no time is taken for the same.
CREATE OR REPLACE TEMP TABLE t_witness AS
WITH pid_host AS (
    SELECT run_id, pid, min(host) AS host FROM t_place WHERE NOT console AND pid IS NOT NULL
    GROUP BY run_id, pid HAVING count(DISTINCT host) = 1
),
act AS MATERIALIZED (
    SELECT f.rec_id, f.run_id, f.lo_attempt, f.kind, f.severity, f.slo, f.shi, f.exact, f.pid,
        coalesce(b.text, t.text, '') AS text,
        CASE WHEN f.lo_clk = 0 THEN f.lo_us END AS lo_us, CASE WHEN f.hi_clk = 0 THEN f.hi_us END AS hi_us,
        row_number() OVER (PARTITION BY f.run_id, f.lo_attempt ORDER BY CASE WHEN f.lo_clk = 0 THEN f.lo_us END NULLS LAST, f.slo,
            f.source_id, f.generation, f.pos, f.rec_id) AS place,
        -- The process, the same in all sources as far as pid, rank and host tell; NULL: unknown, and no witness.
        CASE WHEN coalesce(f.pid, p.pid) IS NOT NULL
             THEN concat('pid:', CASE WHEN f.console THEN coalesce(h.host, '') ELSE f.host END, '#', coalesce(f.pid, p.pid))
             WHEN coalesce(b.proc_rank, t.proc_rank, p.rank) IS NOT NULL
             THEN concat('rank:', f.host, '#', coalesce(b.proc_rank, t.proc_rank, p.rank))
             ELSE f.wkey END AS who
    FROM t_fault f
    LEFT JOIN b_fault b ON b.rec_id = f.rec_id AND f.told_rec_id IS NULL
    LEFT JOIN b_remote_fault t ON t.rec_id = f.told_rec_id
    LEFT JOIN t_place p ON p.source_id = f.source_id AND p.generation = f.generation AND p.proc = f.proc AND f.told_rec_id IS NULL
        AND f.byte_offset >= p.from_off AND f.byte_offset < p.to_off
    LEFT JOIN pid_host h ON h.run_id = f.run_id AND h.pid = coalesce(f.pid, p.pid)
    WHERE f.acts AND f.severity <> 'I'
),
apart AS (
    SELECT *, CASE WHEN lo_us - lag(lo_us) OVER w > 60000000 OR (severity = 'N' AND exact AND slo > lag(shi) OVER w) THEN 1 ELSE 0 END AS new
    FROM act WINDOW w AS (PARTITION BY run_id, lo_attempt, kind ORDER BY place)
),
said AS MATERIALIZED (
    SELECT *, min(place) OVER g AS head FROM (
        SELECT *, sum(new) OVER (PARTITION BY run_id, lo_attempt, kind ORDER BY place ROWS UNBOUNDED PRECEDING) AS part FROM apart
    ) WINDOW g AS (PARTITION BY run_id, lo_attempt, kind, part)
),
head AS MATERIALIZED (SELECT * FROM said WHERE place = head),
-- The earliest other fault that a group follows from: E and S from L and LH also where that only has the later place, for
-- want of a time; else from what has an earlier one.
cause AS MATERIALIZED (
    SELECT g.run_id, g.lo_attempt, g.head, arg_min(c.head, (c.severity = 'E', c.head)) AS of
    FROM head g JOIN head c ON c.run_id = g.run_id AND c.lo_attempt = g.lo_attempt AND c.head <> g.head
    CROSS JOIN t_lock_setting_ o
    WHERE c.severity IN ('L', 'LH', 'E') AND NOT coalesce(c.lo_us > g.hi_us + o.margin_us, false)
        AND NOT coalesce(g.lo_us > c.hi_us + 1800000000, false)
        AND CASE g.severity WHEN 'S' THEN true
                 WHEN 'E' THEN (c.severity <> 'E' OR c.head < g.head)
                      AND (c.who = g.who OR (starts_with(g.kind, 'proc.') AND NOT starts_with(c.kind, 'proc.')))
                 WHEN 'N' THEN false
                 ELSE c.severity <> 'E' AND c.head < g.head AND c.who = g.who END
    GROUP BY g.run_id, g.lo_attempt, g.head
),
rooted AS MATERIALIZED (
    SELECT s.rec_id, s.run_id, s.lo_attempt, s.who, coalesce(c3.of, c2.of, c1.of, s.head) AS root
    FROM said s
    LEFT JOIN cause c1 ON c1.run_id = s.run_id AND c1.lo_attempt = s.lo_attempt AND c1.head = s.head
    LEFT JOIN cause c2 ON c2.run_id = s.run_id AND c2.lo_attempt = s.lo_attempt AND c2.head = c1.of
    LEFT JOIN cause c3 ON c3.run_id = s.run_id AND c3.lo_attempt = s.lo_attempt AND c3.head = c2.of
),
named AS (
    SELECT r.rec_id, r.run_id, r.lo_attempt, r.who, h.rec_id AS incident, coalesce(r.who <> h.who, false) AS witness
    FROM rooted r JOIN said h ON h.run_id = r.run_id AND h.lo_attempt = r.lo_attempt AND h.place = r.root
)
SELECT n.rec_id, n.run_id, n.lo_attempt, n.incident, n.witness,
    CASE WHEN n.rec_id = n.incident
         THEN count(DISTINCT CASE WHEN n.witness THEN n.who END) OVER (PARTITION BY n.run_id, n.lo_attempt, n.incident)
         ELSE 0 END AS witnesses
FROM named n;
