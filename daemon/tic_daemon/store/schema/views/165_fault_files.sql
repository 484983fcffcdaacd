-- Files that faults left, as they look now, each with the fault that it is most likely of. Its run is that of the log that
-- names it; else that of the logs in the nearest directory above that has any, if they are of one run; else that of the fault
-- whose process it names on the same host; else the only run of the store. A file that a log line names need not lie where
-- anybody looks. The fault: of the same process; else of the same rank; both within an hour,
-- or without a time of its own; else the nearest in time within ten minutes. Lines that only inform come last.
CREATE OR REPLACE VIEW fault_files AS
WITH said AS MATERIALIZED (
    SELECT kind, host, path, run_id, rank, pid, said_at, observed_at FROM i_file_said WHERE kind = 'flight_recorder'
    QUALIFY row_number() OVER (PARTITION BY host, path ORDER BY said_at DESC, pid IS NULL, rank IS NULL) = 1
),
newest AS MATERIALIZED (
    SELECT * REPLACE (coalesce(nullif(named_host, ''), host) AS host), host AS seen_on,
        split_part(lower(coalesce(nullif(named_host, ''), host)), '.', 1) AS node, row_number() OVER () AS file
    FROM (
        SELECT f.* REPLACE (coalesce(f.pid, s.pid) AS pid, coalesce(f.rank, s.rank) AS rank), s.run_id AS said_run
        FROM (SELECT * FROM b_fault_file QUALIFY row_number() OVER (PARTITION BY host, path ORDER BY observed_at DESC) = 1) f
        LEFT JOIN said s ON s.host = f.host AND s.path = f.path
        UNION ALL BY NAME
        SELECT s.host, '/' AS root, s.path, s.kind, s.pid, s.rank, '' AS named_host, s.said_at AS modified_at, s.observed_at, s.run_id AS said_run
        FROM said s WHERE NOT EXISTS (SELECT 1 FROM b_fault_file f WHERE f.host = s.host AND f.path = s.path)
    )
),
folder AS MATERIALIZED (SELECT * FROM i_run_folder),
near AS (
    SELECT c.file, arg_max(f.run_id, c.depth) AS run_id, arg_max(f.runs, c.depth) AS runs
    FROM (SELECT file, seen_on, path, root, unnest(range(2, len(string_split(path, '/')))) AS depth FROM newest) c
    JOIN folder f ON f.host = c.seen_on AND f.dir = array_to_string(string_split(c.path, '/')[1:c.depth], '/')
    WHERE len(f.dir) >= len(rtrim(c.root, '/'))
    GROUP BY c.file
),
sole AS (SELECT CASE WHEN count(DISTINCT run_id) = 1 THEN min(run_id) END AS run_id FROM i_place),
placed AS MATERIALIZED (
    SELECT c.*, coalesce(c.said_run, CASE WHEN n.runs = 1 THEN n.run_id WHEN n.runs IS NULL THEN o.run_id END) AS near_run
    FROM newest c LEFT JOIN near n ON n.file = c.file CROSS JOIN sole o
),
fault AS MATERIALIZED (
    SELECT rec_id, store_id, run_id, attempt, rank, pid, split_part(lower(host), '.', 1) AS node, severity = 'I' AS idle, event_at,
        coalesce(event_at, observed_at) AS told_at
    FROM faults WHERE echo_of IS NULL AND verdict NOT IN ('mention', 'refuted') AND (SELECT count(*) > 0 FROM newest)
),
pair AS (
    SELECT 1 AS how, p.file, p.modified_at, f.* FROM placed p
    JOIN fault f ON f.node = p.node AND f.pid = p.pid AND coalesce(p.near_run, f.run_id) = f.run_id
    WHERE f.event_at IS NULL OR abs(epoch(p.modified_at - f.event_at)) <= 3600
    UNION ALL
    SELECT 2, p.file, p.modified_at, f.* FROM placed p
    JOIN fault f ON f.run_id = p.near_run AND f.rank = p.rank
    WHERE f.event_at IS NULL OR abs(epoch(p.modified_at - f.event_at)) <= 3600
    UNION ALL
    SELECT 3, p.file, p.modified_at, f.* FROM placed p
    JOIN fault f ON f.run_id = p.near_run
        AND f.told_at BETWEEN p.modified_at - INTERVAL 10 MINUTE AND p.modified_at + INTERVAL 10 MINUTE
),
best AS (
    SELECT * FROM pair
    QUALIFY row_number() OVER (
        PARTITION BY file ORDER BY how, idle, event_at IS NULL, abs(epoch(modified_at - told_at)), rec_id, attempt) = 1
),
linked AS (
    SELECT p.*, coalesce(p.near_run, b.run_id) AS run_id, b.attempt AS fault_attempt, b.rec_id, b.store_id, b.how, b.pid AS fault_pid,
        b.rank AS fault_rank, abs(epoch(p.modified_at - b.told_at)) AS apart
    FROM placed p LEFT JOIN best b ON b.file = p.file
)
SELECT l.run_id, coalesce(l.fault_attempt, (
        SELECT max(a.attempt) FROM i_attempt a JOIN b_run_attempt d ON d.id = a.id
        WHERE a.run_id = l.run_id AND d.declared_at <= l.modified_at), 1) AS attempt,
    l.rec_id, l.kind, l.path, l.host, l.pid, coalesce(l.rank, CASE WHEN l.how = 1 THEN l.fault_rank END) AS rank, l.bytes_size, l.modified_at,
    CASE WHEN l.how < 3 AND l.said_run IS NOT NULL THEN 'a line of the fault''s process names it'
         WHEN l.how = 1 THEN 'its name has pid ' || l.pid || ', the fault''s on ' || l.host
         WHEN l.how = 2 THEN 'its name has rank ' || l.rank || ', the fault''s'
         WHEN l.how = 3 THEN 'the nearest fault of its run in time, ' || CASE WHEN l.apart < 90 THEN round(l.apart)::BIGINT || ' s'
             ELSE round(l.apart / 60)::BIGINT || ' min' END || ' apart'
             || CASE WHEN l.pid <> l.fault_pid THEN '; it is of another process, pid ' || l.pid
                     WHEN l.rank <> l.fault_rank THEN '; it is of another rank, ' || l.rank ELSE '' END
         WHEN l.run_id IS NULL THEN 'no logs beside it tell its run'
         ELSE 'no fault of its run is of its process or rank, or within 10 min' END AS why,
    l.observed_at, l.present, l.seen_on, l.store_id
FROM linked l;
