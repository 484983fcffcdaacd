-- Runs and attempts: what is locked, how much was seen, and whether anything moves.

-- "Now" without a clock: the reader's variable `now`, the as-of time, or the last thing that the daemon observed.
CREATE OR REPLACE VIEW i_now AS
SELECT coalesce(getvariable('now')::TIMESTAMP, getvariable('as_of')::TIMESTAMP,
    greatest((SELECT max(observed_at) FROM b_ingest), (SELECT max(last_growth_at) FROM b_source))) AS now;

-- Confirmed gaps of each run's W&B histories, as `wandb_gaps` has them.
CREATE OR REPLACE VIEW i_wandb_count AS
SELECT g.run_id, count(*) AS gaps FROM i_wandb_gap g CROSS JOIN i_now n
WHERE g.counts AND g.kind IN ('missing', 'partial', 'value_differs', 'duplicate') AND NOT coalesce(g.due_at > n.now, false)
GROUP BY g.run_id;

-- What a run's sources did last.
CREATE OR REPLACE VIEW i_run_growth AS
SELECT r.run_id, bool_and(r.named_by_us) AS named_by_us,
    -- The W&B client is a process of its own, and goes on sending what it measures while a trainer hangs.
    coalesce(max(s.last_growth_at) FILTER (WHERE s.kind NOT IN ('wandb_local', 'wandb_api')), max(s.last_growth_at) FILTER (WHERE s.kind <> 'wandb_api'))
        AS grown_at,
    max(s.last_growth_at) FILTER (WHERE NOT s.console AND s.kind NOT IN ('wandb_local', 'wandb_api')) AS worker_at, max(s.last_growth_at) FILTER (WHERE s.console) AS console_at,
    -- What a server has of a run says nothing of whether its logs are there.
    coalesce(bool_and(s.state = 'unreadable') FILTER (WHERE s.kind <> 'wandb_api'), false) AS unreadable,
    coalesce(bool_and(s.state IN ('vanished', 'rotated')) FILTER (WHERE s.kind <> 'wandb_api'), false) AS gone, count(*) AS sources
FROM (SELECT run_id, source_id, bool_and(run_how = 'us') AS named_by_us FROM i_place GROUP BY run_id, source_id) r
JOIN b_source s ON s.source_id = r.source_id
GROUP BY r.run_id;

-- Records by run and attempt and what they are worth.
CREATE OR REPLACE VIEW i_record_count AS
SELECT coalesce(place_run_id, nullif(run, ''), 'unnamed') AS run_id, coalesce(lo_attempt, 1) AS attempt, count(*) AS records,
    count(*) FILTER (WHERE locked) AS locked, count(*) FILTER (WHERE NOT locked AND (reported_late OR voided OR made_in IS NOT NULL)) AS suspect,
    count(*) FILTER (WHERE locked AND after_fault) AS after_fault,
    count(*) FILTER (WHERE locked AND NOT after_fault AND stamp IS NULL) AS unstamped,
    count(*) FILTER (WHERE locked AND NOT after_fault AND stamp IS NOT NULL AND NOT stamp_utc AND zone_s IS NULL) AS zoneless,
    max(step) AS last_step, max(observed_at) AS observed_at, max(event_at) AS event_at
FROM i_mismatch GROUP BY ALL;

-- How the processes of an attempt ended, as the exit records of their W&B runs say: the smallest code that is not 0.
CREATE OR REPLACE VIEW i_wandb_exit AS
SELECT p.run_id, p.lo_attempt AS attempt, coalesce(min(r.exit_code) FILTER (WHERE r.exit_code <> 0), max(r.exit_code)) AS exit_code
FROM (SELECT * FROM b_wandb_run QUALIFY row_number() OVER (PARTITION BY source_id ORDER BY rec_id DESC) = 1) r
JOIN i_place p ON p.source_id = r.source_id AND p.generation = r.generation AND p.proc = r.proc
    AND r.byte_offset >= p.from_off AND r.byte_offset < p.to_off
WHERE r.exit_code IS NOT NULL
GROUP BY ALL;

-- Runs of which there are results: a manifest or sidecar that is there names them, or lies in their directory.
CREATE OR REPLACE VIEW i_result_run AS
SELECT run AS run_id, max(observed_at) AS observed_at
FROM (SELECT * FROM b_result_file QUALIFY row_number() OVER (PARTITION BY host, path ORDER BY rec_id DESC) = 1)
WHERE present AND run <> '' GROUP BY run;

CREATE OR REPLACE VIEW attempts AS
WITH record AS MATERIALIZED (SELECT * FROM i_record_count),
declared AS MATERIALIZED (SELECT * FROM i_attempt),
known AS (
    SELECT run_id, attempt, id FROM declared
    UNION ALL
    SELECT run_id, attempt, NULL FROM record WHERE (run_id, attempt) NOT IN (SELECT (run_id, attempt) FROM declared)
    UNION ALL
    SELECT run_id, 1, NULL FROM i_result_run
    WHERE run_id NOT IN (SELECT run_id FROM declared) AND run_id NOT IN (SELECT run_id FROM record)
),
step AS (
    SELECT run_id, attempt, max(step) AS last_step, max(event_at) AS event_at, max(observed_at) AS observed_at
    FROM step_lines GROUP BY ALL
),
mark AS MATERIALIZED (
    SELECT run_id, CASE WHEN scope = 'attempt' THEN attempt END AS attempt
    FROM i_mark WHERE scope IN ('run', 'attempt') AND verdict = 'inconclusive' AND NOT retracted
)
SELECT a.run_id, a.attempt, coalesce(f.locking, 0) + coalesce(u.locking, 0) > 0 AS locked, f.first_fault_rec_id,
    greatest(s.last_step, r.last_step) AS last_step, greatest(s.event_at, r.event_at) AS last_event_at,
    greatest(s.observed_at, r.observed_at) AS last_observed_at, coalesce(r.records, 0) AS mismatches,
    coalesce(r.records, 0) - coalesce(r.locked, 0) - coalesce(r.suspect, 0) AS admissible,
    coalesce(r.suspect, 0) AS suspect, coalesce(r.locked, 0) AS locked_records, coalesce(f.faults, 0) AS faults,
    EXISTS (SELECT 1 FROM mark m WHERE m.run_id = a.run_id AND (m.attempt IS NULL OR m.attempt = a.attempt)) AS marked,
    d.from_kind, d.from_time, d.reason, d.who, d.declared_at,
    coalesce(f.locking, 0) + coalesce(u.locking, 0) AS locking_faults,
    f.candidates AS first_fault_candidates, coalesce(r.after_fault, 0) AS after_fault,
    coalesce(r.locked, 0) - coalesce(r.after_fault, 0) AS order_unknown,
    CASE WHEN coalesce(r.locked, 0) = coalesce(r.after_fault, 0) THEN ''
         WHEN u.locking > 0 THEN 'let this store hear of the fault: tic-daemon watch --once'
         WHEN r.zoneless > 0 THEN 'set the time zone of their source in tic.toml'
         WHEN r.unstamped > 0 THEN 'print a time stamp on the line of each record'
         ELSE 'print a step in each record, and in the step lines of the process that fails' END AS would_help,
    coalesce(f.remote, 0) AS remote_faults, f.first_fault_origin, coalesce(f.why, '') AS first_fault_why, x.exit_code
FROM known a
LEFT JOIN i_wandb_exit x ON x.run_id = a.run_id AND x.attempt = a.attempt
LEFT JOIN i_attempt_fault f ON f.run_id = a.run_id AND f.attempt = a.attempt
LEFT JOIN i_unheard u ON u.run_id = a.run_id AND u.attempt = a.attempt
LEFT JOIN record r ON r.run_id = a.run_id AND r.attempt = a.attempt
LEFT JOIN step s ON s.run_id = a.run_id AND s.attempt = a.attempt
LEFT JOIN b_run_attempt d ON d.id = a.id;

-- Attempts and runs without what is counted from records: cheap whatever the number of records. Those that only a record
-- of no known place names are not here.
CREATE OR REPLACE VIEW attempt_states AS
SELECT a.run_id, a.attempt, coalesce(f.locking, 0) + coalesce(u.locking, 0) > 0 AS locked, f.first_fault_rec_id,
    f.candidates AS first_fault_candidates, coalesce(f.faults, 0) AS faults,
    coalesce(f.locking, 0) + coalesce(u.locking, 0) AS locking_faults,
    EXISTS (
        SELECT 1 FROM i_mark m WHERE m.run_id = a.run_id AND m.verdict = 'inconclusive' AND NOT m.retracted
            AND (m.scope = 'run' OR (m.scope = 'attempt' AND m.attempt = a.attempt))
    ) AS marked,
    coalesce(f.remote, 0) AS remote_faults, f.first_fault_origin, (SELECT min(store_id) FROM b_store) AS store_id,
    coalesce(f.why, '') AS first_fault_why
FROM i_attempt a
LEFT JOIN i_attempt_fault f ON f.run_id = a.run_id AND f.attempt = a.attempt
LEFT JOIN i_unheard u ON u.run_id = a.run_id AND u.attempt = a.attempt;

CREATE OR REPLACE VIEW run_states AS
WITH latest AS (
    SELECT run_id, max(attempt) AS attempt, sum(faults)::BIGINT AS faults, sum(remote_faults)::BIGINT AS remote_faults
    FROM attempt_states GROUP BY run_id
)
SELECT l.run_id, l.attempt,
    CASE WHEN g.unreadable THEN 'unreadable' WHEN g.gone THEN 'ended'
         WHEN g.grown_at IS NULL OR n.now - g.grown_at > INTERVAL 15 MINUTE THEN 'silent'
         WHEN n.now - g.grown_at > INTERVAL 60 SECOND THEN 'quiet' ELSE 'moving' END AS state,
    a.locked, a.first_fault_rec_id, l.faults, a.marked,
    coalesce(g.named_by_us, false) AS named_by_us, coalesce(g.sources, 0) AS sources, g.grown_at AS last_growth_at,
    l.remote_faults, a.first_fault_origin, a.store_id
FROM latest l
JOIN attempt_states a ON a.run_id = l.run_id AND a.attempt = l.attempt
LEFT JOIN i_run_growth g ON g.run_id = l.run_id
CROSS JOIN i_now n;

-- One row a run: its latest attempt, with the records and faults of all. Records are only counted here: what each is worth
-- costs several times as much, and no column says it.
CREATE OR REPLACE VIEW runs AS
WITH seen AS (
    SELECT coalesce(place_run_id, nullif(run, ''), 'unnamed') AS run_id, max(coalesce(lo_attempt, 1)) AS attempt,
        max(step) AS last_step, max(event_at) AS last_event_at, max(observed_at) AS last_observed_at, count(*) AS mismatches
    FROM i_mismatch GROUP BY ALL
    UNION ALL
    SELECT run_id, max(attempt), max(step), max(event_at), max(observed_at), 0 FROM step_lines GROUP BY run_id
    UNION ALL
    SELECT run_id, 1, NULL, NULL, observed_at, 0 FROM i_result_run
),
whole AS MATERIALIZED (
    SELECT run_id, max(attempt) AS attempt, max(last_step) AS last_step, max(last_event_at) AS last_event_at,
        max(last_observed_at) AS last_observed_at, sum(mismatches)::BIGINT AS mismatches
    FROM seen GROUP BY run_id
),
known AS (
    SELECT run_id, attempt, state, locked, first_fault_rec_id, faults, marked, named_by_us, sources, last_growth_at,
        remote_faults, first_fault_origin
    FROM run_states
    UNION ALL
    -- Records of no known place, and results, name a run that nothing else does.
    SELECT run_id, attempt, 'silent', false, NULL, 0, EXISTS (
            SELECT 1 FROM i_mark m WHERE m.run_id = w.run_id AND m.verdict = 'inconclusive' AND NOT m.retracted
                AND (m.scope = 'run' OR (m.scope = 'attempt' AND m.attempt = w.attempt))
        ), false, 0, NULL, 0, NULL
    FROM whole w
    WHERE (mismatches > 0 OR run_id IN (SELECT run_id FROM i_result_run)) AND run_id NOT IN (SELECT run_id FROM i_attempt)
)
SELECT k.run_id, k.attempt, k.state, k.locked, k.first_fault_rec_id, w.last_step, w.last_event_at,
    greatest(w.last_observed_at, k.last_growth_at) AS last_observed_at, coalesce(w.mismatches, 0) AS mismatches, k.faults,
    coalesce(g.gaps, 0) AS wandb_gaps, k.marked, k.named_by_us, k.sources, k.last_growth_at,
    k.remote_faults, k.first_fault_origin
FROM known k
LEFT JOIN whole w ON w.run_id = k.run_id
LEFT JOIN i_wandb_count g ON g.run_id = k.run_id
-- A run that we named ourselves is shown once it has something to show.
WHERE NOT k.named_by_us OR w.mismatches > 0 OR k.faults > 0 OR w.last_step IS NOT NULL OR EXISTS (SELECT 1 FROM b_metric)
    OR k.run_id IN (SELECT run_id FROM i_finding);

CREATE OR REPLACE VIEW locks AS
SELECT run_id, attempt, first_fault_rec_id, first_fault_candidates AS candidates, locking_faults AS faults, locked_records,
    after_fault, order_unknown, would_help, first_fault_why
FROM attempts WHERE locked;
