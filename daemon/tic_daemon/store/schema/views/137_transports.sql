-- How data moves between ranks, and what the environment says of it.

-- One row for the first line with each communicator, process, label and direction (scan/comms.py).
CREATE OR REPLACE VIEW transports AS
WITH place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, console, path, rank, pid, zone_s FROM i_place
)
SELECT v.rec_id, p.run_id, p.lo_attempt AS attempt, v.host, coalesce(v.proc_rank, p.rank) AS rank, coalesce(v.pid, p.pid) AS pid,
    v.what, v.transport, v.comm, v.comm_id, v.comm_by, v.own_rank, v.nranks, v.nnodes, v.channel, v.peer_rank, v.direction,
    v.mnnvl, v.clique_id, v.clique_size, v.rule, p.console, p.path, v.line_no, v.source_id, v.generation, v.byte_offset,
    v.byte_length, CASE WHEN v.stamp_utc THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END AS event_at, v.observed_at
FROM b_transport v
JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off;

-- One row for each communicator of a run: the labels that any of its ranks printed, by what a log shows. A communicator
-- whose id is not printed stands with the others of its size.
CREATE OR REPLACE VIEW transport_sets AS
WITH line AS MATERIALIZED (SELECT * FROM transports),
process AS MATERIALIZED (
    SELECT run_id, attempt, string_agg(DISTINCT transport, ', ' ORDER BY transport) FILTER (WHERE what = 'network') AS network,
        string_agg(DISTINCT transport, ', ' ORDER BY transport) FILTER (WHERE what = 'version') AS nccl,
        string_agg(DISTINCT transport, ', ' ORDER BY transport) FILTER (WHERE what IN ('all2all', 'nvshmem')) AS all2all
    FROM line GROUP BY run_id, attempt
)
SELECT l.run_id, l.attempt, l.comm_id, max(l.nranks) AS nranks, max(l.nnodes) AS nnodes,
    count(DISTINCT l.own_rank) AS ranks_seen,
    coalesce(string_agg(DISTINCT l.transport, ', ' ORDER BY l.transport) FILTER (WHERE l.what = 'channel'), 'unknown') AS transports,
    bool_or(l.mnnvl) AS mnnvl, max(l.clique_size) AS clique_size,
    string_agg(DISTINCT l.transport, ', ' ORDER BY l.transport) FILTER (WHERE l.what = 'nvls') AS nvls,
    any_value(p.network) AS network, any_value(p.nccl) AS nccl, any_value(p.all2all) AS all2all,
    min(l.event_at) AS first_at, max(l.observed_at) AS observed_at
FROM line l JOIN process p ON p.run_id = l.run_id AND p.attempt = l.attempt
WHERE l.what IN ('comm', 'topology', 'fabric', 'channel', 'nvls')
GROUP BY l.run_id, l.attempt, l.comm_id, CASE WHEN l.comm_id = '' THEN l.nranks END;

-- Two runs at a time, by size of communicator: did both move their data in the same ways? NULL: one of them does not show it.
CREATE OR REPLACE VIEW transport_pairs AS
WITH side AS MATERIALIZED (
    SELECT run_id, nranks, max(nnodes) AS nnodes, list_sort(list(DISTINCT transport) FILTER (WHERE what = 'channel')) AS labels,
        bool_or(mnnvl) AS mnnvl, max(clique_size) AS clique_size
    FROM transports WHERE nranks IS NOT NULL GROUP BY run_id, nranks
)
SELECT a.run_id AS run_a, b.run_id AS run_b, a.nranks, array_to_string(a.labels, ', ') AS transports_a,
    array_to_string(b.labels, ', ') AS transports_b, a.nnodes AS nnodes_a, b.nnodes AS nnodes_b, a.mnnvl AS mnnvl_a,
    b.mnnvl AS mnnvl_b, a.clique_size AS clique_size_a, b.clique_size AS clique_size_b,
    CASE WHEN len(a.labels) > 0 AND len(b.labels) > 0
         THEN a.labels = b.labels AND a.mnnvl IS NOT DISTINCT FROM b.mnnvl AND a.nnodes IS NOT DISTINCT FROM b.nnodes END AS same
FROM side a JOIN side b ON b.nranks = a.nranks AND a.run_id < b.run_id;

-- Settings of the environment that change transports, kernels or numerics: as files beside the run pin them, and as programs
-- printed them. A file belongs to the runs whose logs lie below the nearest directory above it that holds any.
CREATE OR REPLACE VIEW env_pins AS
WITH pin AS MATERIALIZED (
    SELECT * FROM b_env_pin
    QUALIFY observed_at = max(observed_at) OVER (PARTITION BY host, path)
),
named AS MATERIALIZED (SELECT DISTINCT run_id, host, path FROM i_place),
above AS (
    SELECT f.host, f.path, f.depth, array_to_string(f.parts[1:f.depth], '/') || '/' AS dir
    FROM (SELECT host, path, parts, unnest(range(len(string_split(rtrim(root, '/'), '/')), len(parts))) AS depth
          FROM (SELECT DISTINCT host, root, path, string_split(path, '/') AS parts FROM pin WHERE NOT gone)) f
),
near AS (
    SELECT a.host, a.path, n.run_id FROM above a
    JOIN named n ON n.host = a.host AND starts_with(n.path, a.dir)
    GROUP BY a.host, a.path, n.run_id, a.depth
    QUALIFY a.depth = max(a.depth) OVER (PARTITION BY a.host, a.path)
),
place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, console, path, rank, pid, zone_s FROM i_place
)
SELECT v.rec_id, CASE WHEN v.run_hint <> '' THEN v.run_hint ELSE n.run_id END AS run_id, v.host, NULL::INTEGER AS rank,
    NULL::BIGINT AS pid, v.path, v.line_no, v.name, v.value, v.hard, v.form, v.modified_at AS event_at, v.observed_at
FROM pin v LEFT JOIN near n ON n.host = v.host AND n.path = v.path AND v.run_hint = ''
WHERE NOT v.gone
UNION ALL
SELECT v.rec_id, p.run_id, v.host, coalesce(v.proc_rank, p.rank), coalesce(v.pid, p.pid), p.path, v.line_no, v.name, v.value, NULL,
    'observed', CASE WHEN v.stamp_utc THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END, v.observed_at
FROM b_env_seen v
JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off;
