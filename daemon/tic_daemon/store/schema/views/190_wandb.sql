-- W&B: runs, readings, uploads; each step of each source, and what is missing where. What follows from the rows is in
-- derive/wandb; here a difference that is old enough stops being pending.

-- What each source of W&B tells of its run, the newest row; the rest is of the run in this workspace.
CREATE OR REPLACE VIEW i_wandb_source AS
SELECT r.*, s.kind, s.path, p.run_id, p.attempt
FROM (SELECT * FROM b_wandb_run QUALIFY row_number() OVER (PARTITION BY source_id ORDER BY rec_id DESC) = 1) r
JOIN b_source s ON s.source_id = r.source_id
JOIN (SELECT source_id, arg_max(run_id, (generation, from_off)) AS run_id, max(lo_attempt) AS attempt FROM i_place GROUP BY source_id) p
    ON p.source_id = r.source_id;

CREATE OR REPLACE VIEW wandb_gaps AS
SELECT g.run_id, g.attempt, k.kind, g.source, g.first_step, g.last_step, nullif(g.key, '') AS key,
    -- Whether a process has ended before its log was written shows when the time for writing it is over.
    CASE WHEN k.kind = 'pending' AND g.cause = 'ended_before_flush' THEN 'under_way' ELSE g.cause END AS cause,
    CASE k.kind
        WHEN 'not_synced' THEN 'an offline run, never synced: nothing can be missing yet'
        WHEN 'not_compared' THEN 'several processes write the run, and these rows tell no training step: they are held against nothing'
        WHEN 'unread' THEN CASE g.cause WHEN 'no_account' THEN 'no W&B account here: the server was not asked'
            WHEN 'read_short' THEN 'our own last reading was short'
            WHEN 'error' THEN 'the last reading failed' WHEN 'timeout' THEN 'the last reading did not end in time'
            WHEN 'short' THEN 'the last reading was short' ELSE 'no reading has come to its end since' END
        WHEN 'pending' THEN CASE g.cause WHEN 'uploader_dead' THEN 'the uploader has ended, and nothing more is sent'
            WHEN 'server_lost_chunk' THEN 'acknowledged, and not in the last reading; a second one must confirm it'
            ELSE CASE WHEN g.confirmed_reads = 1 THEN 'not in the last reading; a second one must confirm it' ELSE 'too new to be missing' END END
        ELSE CASE g.cause
            WHEN 'dropped_by_sdk' THEN 'the client dropped it: its step was behind the current one'
            WHEN 'uploader_dead' THEN 'the uploader had ended while training went on'
            WHEN 'server_lost_chunk' THEN 'the server acknowledged it and does not have it'
            WHEN 'server_lost' THEN 'the server no longer has it: rewound or overwritten'
            WHEN 'server_lost_part' THEN 'the server has a part of the row'
            WHEN 'line_too_long' THEN 'its line was over the size that is uploaded'
            WHEN 'not_uploaded' THEN 'it was never acknowledged'
            WHEN 'another_writer' THEN 'another process wrote the run, or an earlier attempt'
            WHEN 'ended_before_flush' THEN 'the process ended before its log was written'
            WHEN 'log_damaged' THEN 'the log is damaged there'
            WHEN 'no_local_log' THEN 'the client had no local log'
            WHEN 'logged_after_finish' THEN 'it was printed after the run was finished'
            WHEN 'not_printed' THEN 'the trainer''s lines do not have it'
            WHEN 'overwritten' THEN 'a later call of log() for the step took its place, or it was never logged'
            WHEN 'written_twice' THEN 'two rows of one step say different things'
            WHEN 'step_went_back' THEN 'a row of an earlier step stands behind a later one'
            ELSE 'cause not known' END
    END || CASE WHEN g.evidence <> '' THEN ': ' || g.evidence ELSE '' END AS detail,
    g.confirmed_reads, g.first_seen_at, g.evidence, g.axis, g.steps, g.other, g.wandb_id,
    g.counts AND k.kind IN ('missing', 'partial', 'value_differs', 'duplicate') AS confirmed
FROM i_wandb_gap g
CROSS JOIN i_now n
CROSS JOIN LATERAL (SELECT CASE WHEN coalesce(g.due_at > n.now, false) THEN 'pending' ELSE g.kind END AS kind) k;

CREATE OR REPLACE VIEW step_coverage AS
SELECT c.run_id, c.attempt, c.step, c.source, CASE WHEN coalesce(c.due_at > n.now, false) THEN 'pending' ELSE c.state END AS state,
    c.rows, c.keys, c.axis, c.main, c.first_at
FROM i_wandb_step c CROSS JOIN i_now n;

-- Values of each training step of each source, as they are held against each other.
CREATE OR REPLACE VIEW wandb_step_rows AS
SELECT s.run_id, s.attempt, u.step, u.axis, s.kind AS source, v.key, v.value, v.value_text, v.kind, u.wandb_step, s.path, r.line_no,
    r.stamp AS event_at, r.observed_at, r.writer, r.read_id, r.rec_id, r.source_id, r.generation, r.byte_offset, r.byte_length
FROM d_wandb_unit u
JOIN i_wandb_source s ON s.source_id = u.source_id
JOIN b_wandb_row r ON r.rec_id = u.rec_id
JOIN b_wandb_value v ON v.row_id = u.rec_id
WHERE NOT starts_with(v.key, '_');

CREATE OR REPLACE VIEW wandb_reads AS
SELECT p.run_id, p.attempt, d.read_id, d.began_at, d.took_s, d.outcome, d.rows, d.first_step, d.last_step, d.seen, d.page_size, d.client_version,
    d.history_line_count, d.last_history_step, d.detail, d.who, d.run_path, d.observed_at, d.rec_id, d.source_id, d.host
FROM b_wandb_read d
JOIN (SELECT source_id, arg_max(run_id, (generation, from_off)) AS run_id, max(lo_attempt) AS attempt FROM i_place GROUP BY source_id) p
    ON p.source_id = d.source_id;

CREATE OR REPLACE VIEW wandb_uploads AS
SELECT p.run_id, p.attempt, u.directory, u.wandb_id, u.state, u.history_offset, u.history_lines, u.status, u.dropped_step, u.current_step,
    coalesce(CASE WHEN u.stamp_utc THEN u.stamp END, u.observed_at) AS event_at, u.detail, s.path, u.line_no, u.observed_at, u.rec_id, u.source_id,
    u.generation, u.byte_offset, u.byte_length, u.host
FROM b_wandb_upload u
JOIN b_source s ON s.source_id = u.source_id
JOIN (SELECT source_id, arg_max(run_id, (generation, from_off)) AS run_id, max(lo_attempt) AS attempt FROM i_place GROUP BY source_id) p
    ON p.source_id = u.source_id;

-- One row a run here and at W&B. Runs of one workspace are compared with each other: they belong into one project.
CREATE OR REPLACE VIEW wandb_runs AS
WITH told AS MATERIALIZED (SELECT * FROM i_wandb_source),
projects AS (SELECT count(DISTINCT (entity, project)) AS n, string_agg(DISTINCT entity || '/' || project, ', ' ORDER BY entity || '/' || project) AS names
    FROM told WHERE project <> ''),
upload AS (
    SELECT run_id, wandb_id, arg_max(state, (event_at, rec_id)) FILTER (state IN ('sending', 'acknowledged', 'retrying', 'dead', 'finished')) AS state,
        max(event_at) FILTER (state IN ('sending', 'acknowledged', 'retrying', 'dead', 'finished')) AS event_at, max(event_at) FILTER (state = 'acknowledged') AS acknowledged_at,
        arg_max(status, (event_at, rec_id)) FILTER (state = 'dead') AS status, arg_max(detail, (event_at, rec_id)) FILTER (state = 'dead') AS detail,
        max(history_offset + history_lines) FILTER (state = 'acknowledged') AS acknowledged_lines, count(*) FILTER (state = 'dropped') AS dropped
    -- An uploader that has died closes itself at the end like any other; nothing was sent in between.
    FROM (SELECT *, bool_or(state = 'dead') OVER (PARTITION BY source_id, generation) AS died FROM wandb_uploads)
    WHERE NOT (died AND state = 'finished') GROUP BY run_id, wandb_id
),
read AS (
    SELECT run_id, arg_max(outcome, (began_at, rec_id)) AS outcome, max(began_at) AS event_at, max(began_at) FILTER (outcome = 'ok') AS ok_at,
        arg_max(client_version, (began_at, rec_id)) AS client_version, count(*) AS reads
    FROM wandb_reads GROUP BY run_id
),
one AS (
    SELECT run_id, wandb_id, max(attempt) AS attempt, arg_max(run_path, run_path <> '') AS run_path, arg_max(entity, entity <> '') AS entity,
        arg_max(project, project <> '') AS project, arg_max(name, name <> '') AS name,
        coalesce(arg_max(mode, rec_id) FILTER (mode <> ''), '') AS mode, arg_max(state, (kind = 'wandb_local', rec_id)) AS state,
        max(exit_code) AS exit_code, min(started_at) AS started_at, max(starting_step) AS starting_step,
        count(DISTINCT directory) FILTER (directory <> '') AS directories,
        coalesce(arg_max(client_version, rec_id) FILTER (kind = 'wandb_local'), '') AS writer_version,
        arg_max(config, rec_id) AS config, arg_max(summary, rec_id) AS summary, arg_max(git_commit, git_commit <> '') AS git_commit,
        max(observed_at) AS observed_at
    FROM told GROUP BY run_id, wandb_id
),
gaps AS (SELECT run_id, wandb_id, count(*) FILTER (confirmed) AS confirmed, count(*) AS all_of_them FROM wandb_gaps GROUP BY run_id, wandb_id)
SELECT o.run_id, o.attempt, o.wandb_id, o.run_path, o.entity, o.project, o.name, o.mode, o.state, o.exit_code, o.started_at, o.starting_step,
    coalesce(h.framework, '') AS framework, h.main AS step_key, h.local_steps, h.server_steps, h.last_step, u.state AS uploader, u.event_at AS uploader_at,
    u.acknowledged_lines, u.acknowledged_at, u.status AS uploader_status, u.detail AS uploader_detail, coalesce(u.dropped, 0) AS dropped,
    r.outcome AS read_outcome, r.event_at AS read_at, r.ok_at AS read_ok_at, coalesce(r.reads, 0) AS reads, r.client_version AS reader_version,
    coalesce(g.confirmed, 0) AS gaps, coalesce(g.all_of_them, 0) AS findings, o.writer_version, o.directories, o.git_commit, o.config, o.summary,
    CASE WHEN p.n > 1 THEN 'runs of this workspace are in ' || p.n || ' projects: ' || p.names ELSE '' END AS project_note, o.observed_at
FROM one o
LEFT JOIN i_wandb_history h ON h.run_id = o.run_id AND h.wandb_id = o.wandb_id
LEFT JOIN upload u ON u.run_id = o.run_id AND u.wandb_id = o.wandb_id
LEFT JOIN read r ON r.run_id = o.run_id
LEFT JOIN gaps g ON g.run_id = o.run_id AND g.wandb_id = o.wandb_id
CROSS JOIN projects p;
