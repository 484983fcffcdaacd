-- What is watched and what moves.
CREATE OR REPLACE VIEW sources AS
SELECT s.source_id, r.run_id, s.kind, s.role, s.rank, s.host, s.path, s.generation, coalesce(c.byte_offset, 0) AS bytes_read,
    s.bytes_size, coalesce(c.line_no, 0) AS lines, coalesce(a.skipped, 0) AS skipped, s.last_growth_at, s.state,
    s.error, s.why, s.framework, s.pid, s.stream, s.console, s.single_process, s.network, r.run_how, s.zone_s, s.zone_how,
    coalesce(a.bad_utf8, 0) AS bad_utf8, coalesce(a.nul_bytes, 0) AS nul_bytes, coalesce(a.capped_lines, 0) AS capped_lines,
    s.root, s.first_seen_at
FROM b_source s
LEFT JOIN b_cursor c ON c.source_id = s.source_id AND c.generation = s.generation
LEFT JOIN (
    SELECT source_id, sum(skipped_bytes)::BIGINT AS skipped, sum(bad_utf8)::BIGINT AS bad_utf8, sum(nul_bytes)::BIGINT AS nul_bytes,
        sum(capped_lines)::BIGINT AS capped_lines
    FROM b_cursor GROUP BY source_id
) a ON a.source_id = s.source_id
LEFT JOIN (
    SELECT source_id, arg_max(run_id, (generation, from_off)) AS run_id, arg_max(run_how, (generation, from_off)) AS run_how
    FROM i_place GROUP BY source_id
) r ON r.source_id = s.source_id;

-- Ranks from 0 to the highest that anything names: expected. Watched: a file of its own, or its lines in a shared log that
-- is no console.
CREATE OR REPLACE VIEW coverage AS
WITH place AS MATERIALIZED (SELECT source_id, generation, proc, from_off, to_off, run_id, console, rank, path FROM i_place),
named AS MATERIALIZED (
    SELECT p.run_id, v.proc_rank AS rank, bool_or(NOT p.console) AS own_lines
    FROM b_process_seen v
    JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
        AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
    WHERE v.proc_rank BETWEEN 0 AND 99999 GROUP BY p.run_id, v.proc_rank
),
watched AS MATERIALIZED (
    SELECT p.run_id, p.rank, count(DISTINCT p.source_id) AS sources, max(s.last_growth_at) AS last_growth_at, min(p.path) AS path
    FROM place p JOIN b_source s ON s.source_id = p.source_id
    WHERE p.rank BETWEEN 0 AND 99999 AND NOT p.console AND s.state <> 'unreadable'
    GROUP BY p.run_id, p.rank
),
expected AS (
    SELECT run_id, unnest(range(0, max(rank)::BIGINT + 1)) AS rank
    FROM (SELECT run_id, rank FROM named UNION ALL SELECT run_id, rank FROM watched) GROUP BY run_id
)
SELECT e.run_id, e.rank::INTEGER AS rank, n.rank IS NOT NULL AS mentioned, w.rank IS NOT NULL OR coalesce(n.own_lines, false) AS watched,
    CASE WHEN w.rank IS NOT NULL THEN 'watched' WHEN n.own_lines THEN 'in a shared log' ELSE 'not watched' END AS state,
    coalesce(w.sources, 0) AS sources, w.last_growth_at, w.path
FROM expected e
LEFT JOIN named n ON n.run_id = e.run_id AND n.rank = e.rank
LEFT JOIN watched w ON w.run_id = e.run_id AND w.rank = e.rank;

-- Directories above logs, and the run of these logs if it is one.
CREATE OR REPLACE VIEW i_run_folder AS
SELECT host, dir, min(run_id) AS run_id, count(DISTINCT run_id) AS runs
FROM (SELECT host, run_id, array_to_string(parts[1:depth], '/') AS dir
      FROM (SELECT host, run_id, parts, unnest(range(2, len(parts))) AS depth
            FROM (SELECT DISTINCT s.host, string_split(s.path, '/') AS parts, p.run_id
                  FROM (SELECT DISTINCT source_id, run_id FROM i_place) p JOIN b_source s ON s.source_id = p.source_id)))
GROUP BY host, dir;

-- Files that lines name, each with its run and process. `said_at`: when the line was written, as far as is known.
CREATE OR REPLACE VIEW i_file_said AS
WITH place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, rank, pid, zone_s FROM i_place
)
SELECT v.kind, v.edge, v.path, v.host, p.run_id, p.lo_attempt AS attempt, CASE WHEN NOT v.step_carried THEN v.step END AS step,
    coalesce(v.proc_rank, p.rank) AS rank, coalesce(v.pid, p.pid) AS pid, v.observed_at,
    least(coalesce(CASE WHEN v.stamp_utc THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END, v.observed_at),
        v.observed_at) AS said_at
FROM b_file_said v
JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off;

-- Checkpoints as they look now, and those that log lines tell of and no directory shows. The run is that of the logs in the nearest directory above that has any, if they are of
-- one run; else the only run of the store; else unknown. The attempt is the latest that was declared when it was written.
CREATE OR REPLACE VIEW checkpoints AS
WITH newest AS MATERIALIZED (
    SELECT * FROM b_checkpoint QUALIFY row_number() OVER (PARTITION BY host, path ORDER BY observed_at DESC) = 1
),
folder AS MATERIALIZED (SELECT * FROM i_run_folder),
near AS (
    SELECT c.host, c.path, arg_max(f.run_id, c.depth) AS run_id, arg_max(f.runs, c.depth) AS runs
    FROM (SELECT host, path, root, unnest(range(2, len(string_split(path, '/')) + 1)) AS depth FROM newest) c
    JOIN folder f ON f.host = c.host AND f.dir = array_to_string(string_split(c.path, '/')[1:c.depth], '/')
    WHERE len(f.dir) >= len(rtrim(c.root, '/'))
    GROUP BY c.host, c.path
),
sole AS (SELECT CASE WHEN count(DISTINCT run_id) = 1 THEN min(run_id) END AS run_id FROM i_place),
placed AS (
    SELECT c.*, CASE WHEN n.runs = 1 THEN n.run_id WHEN n.runs IS NULL THEN o.run_id END AS run_id
    FROM newest c LEFT JOIN near n ON n.host = c.host AND n.path = c.path CROSS JOIN sole o
)
SELECT c.run_id, coalesce((
        SELECT max(a.attempt) FROM i_attempt a JOIN b_run_attempt d ON d.id = a.id
        WHERE a.run_id = c.run_id AND d.declared_at <= c.modified_at), 1) AS attempt,
    c.step, c.path, c.host, c.bytes_size, c.modified_at, c.complete, c.observed_at, c.present, c.why, c.layout, c.files
FROM placed c
UNION ALL
-- `present` NULL: nobody has looked.
SELECT s.run_id, s.attempt, s.step, max(nullif(s.path, '')), min(s.host), NULL, max(s.said_at), bool_or(s.edge = 'end'), max(s.observed_at), NULL,
    CASE WHEN bool_or(s.edge = 'end') THEN 'a log line says that it was saved' ELSE 'a log line says that it is being saved' END
        || ', no directory of it was seen', NULL, NULL
FROM i_file_said s
WHERE s.kind = 'checkpoint' AND s.step IS NOT NULL AND NOT EXISTS (SELECT 1 FROM placed p WHERE p.run_id = s.run_id AND p.step = s.step)
GROUP BY s.run_id, s.attempt, s.step;

-- When each step of a run first ended: by its line's own time, if it has one that is not in the future.
CREATE OR REPLACE VIEW i_step_end AS
SELECT run_id, step, min(coalesce(least(event_at, observed_at), observed_at)) AS observed_at
FROM step_lines WHERE edge = 'end' GROUP BY run_id, step;

-- Which of worker logs, completed steps, checkpoints and console moved last, and one verdict. A console that stopped is a
-- forwarding that stopped, so workers decide; and logs that only repeat while no step ends are not called moving.
CREATE OR REPLACE VIEW liveness AS
WITH step AS (
    SELECT run_id, max(observed_at) AS step_at, max(step) AS last_step, median(took) FILTER (nth <= 20 AND took > 0) AS step_usual_s
    FROM (SELECT *, epoch(observed_at - lag(observed_at) OVER (PARTITION BY run_id ORDER BY observed_at, step)) AS took,
            row_number() OVER (PARTITION BY run_id ORDER BY observed_at DESC, step DESC) AS nth FROM i_step_end)
    GROUP BY run_id
),
saved AS (
    SELECT run_id, max(moved_at) AS checkpoint_at FROM (
        SELECT run_id, modified_at AS moved_at FROM checkpoints WHERE present
        UNION ALL SELECT run_id, said_at FROM i_file_said WHERE kind = 'checkpoint'
    ) GROUP BY run_id
),
rollout AS (
    SELECT r.run_id, max(s.last_growth_at) AS rollout_at
    FROM (SELECT DISTINCT run_id, source_id FROM i_place) r JOIN b_source s ON s.source_id = r.source_id
    WHERE s.role = 'rollout' AND NOT s.console GROUP BY r.run_id
),
moved AS (
    SELECT g.run_id, g.worker_at, g.console_at, s.step_at, s.last_step, s.step_usual_s, c.checkpoint_at, r.rollout_at, g.gone, n.now
    FROM i_run_growth g LEFT JOIN step s ON s.run_id = g.run_id LEFT JOIN saved c ON c.run_id = g.run_id
    LEFT JOIN rollout r ON r.run_id = g.run_id CROSS JOIN i_now n
),
-- include liveness.sql
;
