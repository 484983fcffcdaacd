-- What could not be read or understood, and what of results is not as it should be.
CREATE OR REPLACE VIEW evidence_gaps AS
WITH place AS MATERIALIZED (
    SELECT DISTINCT source_id, generation, from_off, to_off, run_id, path FROM i_place
)
SELECT g.rec_id, p.run_id, g.kind, coalesce(p.path, s.path) AS path, g.source_id, g.generation, g.first_byte, g.last_byte, g.detail,
    g.host, g.observed_at
FROM b_source_gap g
LEFT JOIN b_source s ON s.source_id = g.source_id AND s.kind = 'gpu' -- one tells of all runs, and has no place
LEFT JOIN place p ON p.source_id = g.source_id AND p.generation = g.generation
    AND g.byte_offset >= p.from_off AND g.byte_offset < p.to_off
UNION ALL
SELECT NULL, (SELECT min(run_id) FROM place WHERE place.source_id = s.source_id), 'unreadable', s.path, s.source_id, s.generation,
    NULL, NULL, s.error, s.host, s.observed_at
FROM b_source s
WHERE s.state = 'unreadable' AND s.kind <> 'wandb_api' -- a reading that failed is in wandb_reads, and hides no byte
UNION ALL
SELECT g.rec_id, NULL, g.kind, g.path, NULL, NULL, g.first_byte, g.last_byte, g.detail, (SELECT host FROM b_store), g.observed_at
FROM b_remote_gap g
UNION ALL
SELECT a.rec_id, a.run_id, 'artifact_' || a.state, a.path, NULL, NULL, NULL, NULL, a.why || '; named in ' || a.manifest, a.host, a.observed_at
FROM artifacts a
WHERE a.state IN ('missing', 'differs', 'changed', 'refused', 'unreadable')
UNION ALL
SELECT g.rec_id, nullif(g.run, ''), g.kind, g.path, NULL, NULL, NULL, NULL,
    g.detail || CASE WHEN g.subject = '' OR contains(g.detail, g.subject) OR g.kind = 'overwritten' THEN '' ELSE ': ' || g.subject END,
    g.host, g.observed_at
FROM (SELECT * FROM b_result_gap QUALIFY row_number() OVER (PARTITION BY host, path, kind, subject ORDER BY rec_id DESC) = 1) g
WHERE g.present AND g.kind <> 'report_unchecked' -- nothing is said against it: record_reports has it
UNION ALL
SELECT q.rec_id, q.run_id, 'comparison_' || q.state, q.side_a, NULL, NULL, NULL, NULL,
    q.why || coalesce('; to be compared with ' || q.side_b, ''), q.host, q.observed_at
FROM comparison_queue q
WHERE q.state IN ('failed', 'refused')
UNION ALL
SELECT c.rec_id, c.run_id, CASE WHEN c.secret THEN 'config_secret' ELSE 'config_unreadable' END, c.path, NULL, NULL, NULL, NULL,
    CASE WHEN c.secret THEN 'this key holds what looks like a secret; a reference belongs there: ' || c.key ELSE c.problem END, c.host, c.observed_at
FROM config_values c
WHERE c.problem <> '' OR (c.secret AND c.kind <> 'meta'); -- of sidecars meta_secret tells
