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

-- Which of worker logs, completed steps and console moved last, and one verdict. A console that stopped is a forwarding
-- that stopped, so workers decide.
CREATE OR REPLACE VIEW liveness AS
WITH step AS (SELECT run_id, max(observed_at) FILTER (WHERE edge = 'end') AS step_at, max(step) FILTER (WHERE edge = 'end') AS last_step
              FROM step_lines GROUP BY run_id),
moved AS (
    SELECT g.run_id, g.worker_at, g.console_at, s.step_at, s.last_step, NULL::TIMESTAMP AS checkpoint_at, g.gone, n.now,
        coalesce(greatest(g.worker_at, s.step_at), g.console_at) AS work_at
    FROM i_run_growth g LEFT JOIN step s ON s.run_id = g.run_id CROSS JOIN i_now n
)
SELECT run_id,
    CASE WHEN gone THEN 'ended'
         WHEN now - work_at <= INTERVAL 60 SECOND THEN
             CASE WHEN console_at IS NOT NULL AND now - console_at > INTERVAL 60 SECOND THEN 'console only silent' ELSE 'moving' END
         WHEN now - greatest(work_at, console_at) <= INTERVAL 15 MINUTE THEN 'quiet'
         ELSE 'silent everywhere' END AS verdict,
    worker_at, console_at, step_at, checkpoint_at, last_step,
    CASE WHEN greatest(worker_at, console_at, step_at) IS NULL THEN 'nothing'
         WHEN step_at = greatest(worker_at, console_at, step_at) THEN 'step'
         WHEN worker_at = greatest(worker_at, console_at, step_at) THEN 'worker log' ELSE 'console' END AS moved_last
FROM moved;

-- What could not be read or understood.
CREATE OR REPLACE VIEW evidence_gaps AS
WITH place AS MATERIALIZED (
    SELECT DISTINCT source_id, generation, from_off, to_off, run_id, path FROM i_place
)
SELECT g.rec_id, p.run_id, g.kind, p.path, g.source_id, g.generation, g.first_byte, g.last_byte, g.detail, g.host, g.observed_at
FROM b_source_gap g
LEFT JOIN place p ON p.source_id = g.source_id AND p.generation = g.generation
    AND g.byte_offset >= p.from_off AND g.byte_offset < p.to_off
UNION ALL
SELECT NULL, (SELECT min(run_id) FROM place WHERE place.source_id = s.source_id), 'unreadable', s.path, s.source_id, s.generation,
    NULL, NULL, s.error, s.host, s.observed_at
FROM b_source s
WHERE s.state = 'unreadable'
UNION ALL
SELECT g.rec_id, NULL, g.kind, g.path, NULL, NULL, g.first_byte, g.last_byte, g.detail, (SELECT host FROM b_store), g.observed_at
FROM b_remote_gap g;
