-- Runs and attempts: what is locked, how much was seen, and whether anything moves.

-- "Now" without a clock: the reader's variable `now`, the as-of time, or the last thing that the daemon observed.
CREATE OR REPLACE VIEW i_now AS
SELECT coalesce(getvariable('now')::TIMESTAMP, getvariable('as_of')::TIMESTAMP,
    greatest((SELECT max(observed_at) FROM b_ingest), (SELECT max(last_growth_at) FROM b_source))) AS now;

-- Sources by run, for every generation and range.
CREATE OR REPLACE VIEW i_run_source AS
SELECT DISTINCT run_id, source_id, run_how FROM i_run_range;

CREATE OR REPLACE VIEW i_run_growth AS
SELECT r.run_id, max(s.last_growth_at) AS grown_at,
    max(s.last_growth_at) FILTER (WHERE NOT s.console) AS worker_at, max(s.last_growth_at) FILTER (WHERE s.console) AS console_at,
    bool_and(s.state = 'unreadable') AS unreadable, bool_and(s.state IN ('vanished', 'rotated')) AS gone, count(*) AS sources
FROM i_run_source r JOIN b_source s ON s.source_id = r.source_id
GROUP BY r.run_id;

-- Records by run and attempt and what they are worth.
CREATE OR REPLACE VIEW i_record_count AS
SELECT coalesce(place_run_id, nullif(run, ''), 'unnamed') AS run_id, coalesce(lo_attempt, 1) AS attempt, count(*) AS records,
    count(*) FILTER (WHERE locked) AS locked, count(*) FILTER (WHERE NOT locked AND (reported_late OR voided)) AS suspect,
    max(step) AS last_step, max(observed_at) AS observed_at, max(CASE WHEN stamp_utc THEN stamp END) AS event_at
FROM i_mismatch GROUP BY ALL;

CREATE OR REPLACE VIEW i_step_seen AS
SELECT g.run_id, CASE WHEN w.ekey IS NOT NULL THEN coalesce(e.attempt, 1) ELSE 1 END AS attempt, v.step, v.edge, v.gpu,
    coalesce(w.console, false) AS console, v.observed_at,
    CASE WHEN v.stamp_utc THEN v.stamp WHEN w.zone_s IS NOT NULL THEN v.stamp - to_seconds(w.zone_s) END AS event_at
FROM b_step_event v
JOIN i_run_range g ON g.source_id = v.source_id AND g.generation = v.generation
    AND v.byte_offset >= g.from_off AND v.byte_offset < g.to_off
LEFT JOIN i_writer w ON w.source_id = v.source_id AND w.generation = v.generation AND w.proc = v.proc
LEFT JOIN i_epoch_attempt e ON e.ekey = w.ekey AND e.run_id = g.run_id
WHERE v.step IS NOT NULL;

CREATE OR REPLACE VIEW attempts AS
WITH record AS MATERIALIZED (SELECT * FROM i_record_count),
known AS (
    SELECT run_id, attempt, id FROM i_attempt
    UNION ALL
    SELECT r.run_id, r.attempt, NULL FROM record r
    WHERE NOT EXISTS (SELECT 1 FROM i_attempt a WHERE a.run_id = r.run_id AND a.attempt = r.attempt)
),
step AS (
    SELECT run_id, attempt, max(step) AS last_step, max(event_at) AS event_at, max(observed_at) AS observed_at
    FROM i_step_seen GROUP BY ALL
),
mark AS MATERIALIZED (
    SELECT DISTINCT run_id, CASE WHEN scope = 'attempt' THEN attempt END AS attempt
    FROM i_mark WHERE scope IN ('run', 'attempt') AND verdict = 'inconclusive' AND NOT retracted
)
SELECT a.run_id, a.attempt, coalesce(f.locking, 0) > 0 AS locked, ff.first_fault_rec_id,
    greatest(s.last_step, r.last_step) AS last_step, greatest(s.event_at, r.event_at) AS last_event_at,
    greatest(s.observed_at, r.observed_at) AS last_observed_at,
    coalesce(r.records, 0) AS mismatches, coalesce(r.records, 0) - coalesce(r.locked, 0) - coalesce(r.suspect, 0) AS admissible,
    coalesce(r.suspect, 0) AS suspect, coalesce(r.locked, 0) AS locked_records, coalesce(f.confirmed, 0) AS faults,
    EXISTS (SELECT 1 FROM mark m WHERE m.run_id = a.run_id AND (m.attempt IS NULL OR m.attempt = a.attempt)) AS marked,
    d.from_kind, d.from_time, d.reason, d.who, d.declared_at
FROM known a
LEFT JOIN i_fault_count f ON f.run_id = a.run_id AND f.attempt = a.attempt
LEFT JOIN i_first_fault ff ON ff.run_id = a.run_id AND ff.attempt = a.attempt
LEFT JOIN record r ON r.run_id = a.run_id AND r.attempt = a.attempt
LEFT JOIN step s ON s.run_id = a.run_id AND s.attempt = a.attempt
LEFT JOIN b_run_attempt d ON d.id = a.id;

-- One row a run: its latest attempt, with the records and faults of all.
CREATE OR REPLACE VIEW runs AS
WITH attempt AS MATERIALIZED (SELECT * FROM attempts),
whole AS (
    SELECT run_id, max(attempt) AS attempt, max(last_step) AS last_step, max(last_event_at) AS last_event_at,
        max(last_observed_at) AS last_observed_at, sum(mismatches)::BIGINT AS mismatches
    FROM attempt GROUP BY run_id
),
fault AS (SELECT run_id, count(DISTINCT rec_id) FILTER (WHERE acts AND severity <> 'I') AS faults FROM i_fault GROUP BY run_id),
named AS (SELECT run_id, bool_and(run_how = 'us') AS named_by_us FROM i_run_range GROUP BY run_id),
measured AS (
    SELECT DISTINCT g.run_id FROM i_run_range g
    SEMI JOIN (SELECT DISTINCT source_id, generation FROM b_metric) m ON m.source_id = g.source_id AND m.generation = g.generation
    WHERE g.run_how = 'us'
)
SELECT w.run_id, w.attempt,
    CASE WHEN g.unreadable THEN 'unreadable' WHEN g.gone THEN 'ended'
         WHEN g.grown_at IS NULL OR n.now - g.grown_at > INTERVAL 15 MINUTE THEN 'silent'
         WHEN n.now - g.grown_at > INTERVAL 60 SECOND THEN 'quiet' ELSE 'moving' END AS state,
    a.locked, a.first_fault_rec_id, w.last_step, w.last_event_at,
    greatest(w.last_observed_at, g.grown_at) AS last_observed_at, w.mismatches, coalesce(f.faults, 0) AS faults,
    0::BIGINT AS wandb_gaps, a.marked, coalesce(d.named_by_us, false) AS named_by_us, coalesce(g.sources, 0) AS sources,
    g.grown_at AS last_growth_at
FROM whole w
JOIN attempt a ON a.run_id = w.run_id AND a.attempt = w.attempt
LEFT JOIN i_run_growth g ON g.run_id = w.run_id
LEFT JOIN fault f ON f.run_id = w.run_id
LEFT JOIN named d ON d.run_id = w.run_id
LEFT JOIN measured m ON m.run_id = w.run_id
CROSS JOIN i_now n
-- A run that we named ourselves is shown once it has something to show.
WHERE NOT coalesce(d.named_by_us, false) OR w.mismatches > 0 OR coalesce(f.faults, 0) > 0 OR w.last_step IS NOT NULL
   OR m.run_id IS NOT NULL;

CREATE OR REPLACE VIEW locks AS
SELECT c.run_id, c.attempt, f.first_fault_rec_id, f.candidates, c.locking AS faults,
    coalesce(r.locked, 0) AS locked_records, coalesce(o.after_fault, 0) AS after_fault, coalesce(o.order_unknown, 0) AS order_unknown,
    CASE WHEN coalesce(o.order_unknown, 0) = 0 THEN ''
         WHEN coalesce(o.local, 0) > 0 THEN 'name the time zone of their source in tic.toml'
         WHEN coalesce(o.unstamped, 0) > 0 THEN 'print a time stamp in the record''s line, or its step'
         ELSE 'print the step in the record' END AS would_help,
    c.locked_since
FROM i_fault_count c
LEFT JOIN i_first_fault f ON f.run_id = c.run_id AND f.attempt = c.attempt
LEFT JOIN i_record_count r ON r.run_id = c.run_id AND r.attempt = c.attempt
LEFT JOIN (
    SELECT run_id, attempt, count(*) FILTER (WHERE reason = 'after the fault') AS after_fault,
        count(*) FILTER (WHERE reason = 'order unknown') AS order_unknown,
        count(*) FILTER (WHERE reason = 'order unknown' AND event_local IS NULL) AS unstamped,
        count(*) FILTER (WHERE reason = 'order unknown' AND event_local IS NOT NULL AND event_at IS NULL) AS local
    FROM mismatches WHERE admissibility = 'locked' GROUP BY run_id, attempt
) o ON o.run_id = c.run_id AND o.attempt = c.attempt
WHERE c.locking > 0;
