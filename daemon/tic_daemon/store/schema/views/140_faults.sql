-- Faults as people see them: of this store's logs, and those that other stores of the workspace told of.

CREATE OR REPLACE VIEW faults AS
WITH place AS MATERIALIZED (
    SELECT DISTINCT source_id, path, rank, zone_s, kind FROM i_place
    UNION ALL SELECT source_id, path, NULL, NULL, kind FROM b_source WHERE kind = 'gpu'
)
SELECT f.rec_id, j.run_id, j.lo_attempt AS attempt, j.severity, f.kind, j.now_verdict AS verdict, j.locking AS locks,
    coalesce(f.proc_rank, s.rank) AS rank, f.pid, f.host, f.code, f.step, f.text, j.echo_of, s.path, f.line_no, f.byte_offset,
    f.byte_length,
    CASE WHEN f.stamp_utc THEN f.stamp WHEN s.zone_s IS NOT NULL THEN f.stamp - to_seconds(s.zone_s) END AS event_at,
    f.observed_at, r.title,
    CASE WHEN f.verdict = 'confirmed' AND NOT j.mapped THEN 'GPU not mapped to this run'
         WHEN j.now_verdict = 'refuted' THEN 'its process finished GPU work afterwards'
         WHEN j.echo_of IS NOT NULL AND s.kind = 'gpu' THEN 'the kernel''s log tells it, too'
         WHEN j.echo_of IS NOT NULL THEN 'a copy of a worker''s own line'
         WHEN f.verdict <> 'confirmed' THEN 'only confirmed lines act'
         WHEN NOT j.has_rule THEN 'no rule knows this kind: it locks until one does'
         WHEN j.locks0 = 'if_continues' AND NOT j.locking THEN 'its process did not go on computing: no lock'
         ELSE '' END AS reason,
    j.hi_attempt AS last_attempt, f.stamp AS event_local, f.step_carried, f.bus, f.node, f.actor, f.proc, f.source_id,
    f.generation, f.raw, f.store_id, NULL::VARCHAR AS origin_store_id, NULL::BIGINT AS origin_rec_id, w.incident,
    CASE WHEN w.witness AND j.echo_of IS NULL THEN w.incident END AS witness_of,
    CASE WHEN j.echo_of IS NULL THEN coalesce(w.witnesses, 0) ELSE 0 END AS witnesses,
    CASE WHEN w.incident IS NOT NULL THEN f.store_id END AS incident_store_id
FROM i_fault j
JOIN b_fault f ON f.rec_id = j.rec_id
LEFT JOIN b_fault_rule r ON r.kind = f.kind
LEFT JOIN place s ON s.source_id = f.source_id
LEFT JOIN i_witness w ON w.rec_id = coalesce(j.echo_of, j.rec_id) AND w.run_id = j.run_id AND w.lo_attempt = j.lo_attempt
WHERE j.told_rec_id IS NULL
UNION ALL
SELECT j.rec_id, j.run_id, j.lo_attempt, j.severity, t.kind, j.now_verdict, j.locking, t.proc_rank, t.pid, t.host, t.code, t.step,
    t.text, j.echo_of, t.path, t.line_no, t.byte_offset, t.byte_length, t.event_at, f.observed_at, coalesce(r.title, t.title),
    CASE WHEN j.echo_of IS NOT NULL THEN 'a copy of a line that acts itself'
         WHEN j.loose THEN 'of no known run: it may be of any that shares its place'
         WHEN NOT j.has_rule THEN 'no rule here knows this kind'
         WHEN j.locks0 = 'if_continues' AND NOT j.locking THEN 'its process did not go on computing: no lock'
         ELSE '' END,
    j.hi_attempt, NULL, NOT t.exact AND t.step IS NOT NULL, t.bus, t.node, t.actor, t.proc, t.source_id, t.generation, t.raw,
    s.store_id, t.origin_store_id, t.origin_rec_id, w.incident,
    CASE WHEN w.witness AND j.echo_of IS NULL THEN w.incident END,
    CASE WHEN j.echo_of IS NULL THEN coalesce(w.witnesses, 0) ELSE 0 END, CASE WHEN w.incident IS NOT NULL THEN s.store_id END
FROM i_fault j
JOIN b_remote_fault t ON t.rec_id = j.told_rec_id
JOIN b_remote_fault f ON f.rec_id = j.rec_id
LEFT JOIN i_witness w ON w.rec_id = coalesce(j.echo_of, j.rec_id) AND w.run_id = j.run_id AND w.lo_attempt = j.lo_attempt
LEFT JOIN b_fault_rule r ON r.kind = t.kind
CROSS JOIN b_store s;

