-- What this store tells the stores of other nodes (store/exchange.py): only what its own logs show. Columns as the fields of
-- RemoteFaultRow and RemotePlaceRow, in their order. Internal.

-- Confirmed faults that act, and kernel lines whose GPU no run here is known to use: it may be one of a run elsewhere.
CREATE OR REPLACE VIEW i_tell_fault AS
SELECT s.store_id, j.rec_id, 0::BIGINT AS revision, false AS gone, j.run_id, coalesce(j.run_how, 'us') AS run_how,
    coalesce(c.root, '') AS root, j.lo_attempt, j.hi_attempt, coalesce(a.attempt, 1) AS known_attempts, f.host,
    coalesce(c.path, '') AS path, f.source_id, f.generation, f.byte_offset, f.byte_length, f.line_no, coalesce(k.inode, 0) AS inode,
    coalesce(c.network, false) AS network, coalesce(j.console, false) AS console, coalesce(j.wkey, '') AS writer, f.proc, f.actor,
    f.pid, coalesce(f.proc_rank, c.rank) AS proc_rank, f.kind, j.severity, j.locks0 AS locks,
    coalesce(r.node_scope, false) AS node_scope, coalesce(r.title, '') AS title, j.mapped, j.locking,
    f.text, f.code, f.bus, f.node, f.raw, f.step, coalesce(j.exact, false) AS exact,
    CASE WHEN j.lo_clk = 0 THEN j.lo_us END AS lo_us, CASE WHEN j.hi_clk = 0 THEN j.hi_us END AS hi_us,
    nullif(j.slo, -4611686018427387904) AS slo, nullif(j.shi, 4611686018427387904) AS shi, j.line_slo, j.line_shi,
    CASE WHEN f.stamp_utc THEN f.stamp WHEN c.zone_s IS NOT NULL THEN f.stamp - to_seconds(c.zone_s) END AS event_at,
    f.observed_at AS told_at
FROM i_fault j
JOIN b_fault f ON f.rec_id = j.rec_id
LEFT JOIN b_source c ON c.source_id = f.source_id
LEFT JOIN b_cursor k ON k.source_id = f.source_id AND k.generation = f.generation
LEFT JOIN b_fault_rule r ON r.kind = f.kind
LEFT JOIN (SELECT run_id, max(attempt) AS attempt FROM i_attempt GROUP BY run_id) a ON a.run_id = j.run_id
CROSS JOIN b_store s
WHERE j.told_rec_id IS NULL AND f.verdict = 'confirmed' AND j.severity <> 'I' AND NOT j.loose AND (j.acts OR NOT j.mapped);

-- Runs by name with their watched roots, the GPUs that they use, and when their attempts began.
CREATE OR REPLACE VIEW i_tell_place AS
SELECT s.store_id, 0::BIGINT AS revision, false AS gone, p.what, p.run_id, p.host, p.root, p.lo_attempt, p.hi_attempt, p.node, p.bus,
    p.began_us
FROM (
    SELECT DISTINCT 'run' AS what, run_id, host, root, 0::BIGINT AS lo_attempt, 0::BIGINT AS hi_attempt, '' AS node, '' AS bus,
        NULL::BIGINT AS began_us
    FROM i_place WHERE run_how NOT IN ('us', 'workspace')
    UNION ALL
    SELECT 'device', run_id, '', '', lo_attempt, hi_attempt, node, bus, NULL FROM i_device
    UNION ALL
    SELECT 'began', run_id, '', '', lo_attempt, 0, '', '', began_us FROM i_began WHERE began_us IS NOT NULL
) p CROSS JOIN b_store s;
