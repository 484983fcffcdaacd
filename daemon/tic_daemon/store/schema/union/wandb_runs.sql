-- One row a run here and at W&B, whichever daemons read it. What the local log tells is of the store that follows it, the
-- rest of the newest that tells anything. Each store counts what it sees itself: the one that has all sources finds most.
WITH told AS (SELECT *, (directories > 0, observed_at) AS near FROM part_wandb_runs),
projects AS (
    SELECT count(DISTINCT (entity, project)) AS n, string_agg(DISTINCT entity || '/' || project, ', ' ORDER BY entity || '/' || project) AS names
    FROM part_wandb_runs WHERE project <> ''
)
SELECT run_id, max(attempt) AS attempt, wandb_id, arg_max(run_path, (run_path <> '', near)) AS run_path,
    arg_max(entity, (entity <> '', near)) AS entity, arg_max(project, (project <> '', near)) AS project,
    arg_max(name, (name <> '', near)) AS name, arg_max(mode, (mode <> '', near)) AS mode, arg_max(state, near) AS state,
    arg_max(exit_code, near) AS exit_code, min(started_at) AS started_at, max(starting_step) AS starting_step,
    arg_max(framework, (framework <> '', near)) AS framework, arg_max(step_key, (framework <> '', near)) AS step_key,
    max(local_steps) AS local_steps, max(server_steps) AS server_steps, max(last_step) AS last_step,
    arg_max(uploader, uploader_at) AS uploader, max(uploader_at) AS uploader_at, max(acknowledged_lines) AS acknowledged_lines,
    max(acknowledged_at) AS acknowledged_at, arg_max(uploader_status, uploader_at) AS uploader_status,
    arg_max(uploader_detail, uploader_at) AS uploader_detail, max(dropped) AS dropped, arg_max(read_outcome, read_at) AS read_outcome,
    max(read_at) AS read_at, max(read_ok_at) AS read_ok_at, sum(reads)::BIGINT AS reads, arg_max(reader_version, read_at) AS reader_version,
    max(gaps) AS gaps, max(findings) AS findings, arg_max(writer_version, (writer_version <> '', near)) AS writer_version,
    max(directories) AS directories, arg_max(git_commit, (git_commit <> '', near)) AS git_commit, arg_max(config, near) AS config,
    arg_max(summary, near) AS summary,
    (SELECT CASE WHEN n > 1 THEN 'runs of this workspace are in ' || n || ' projects: ' || names ELSE '' END FROM projects) AS project_note,
    max(observed_at) AS observed_at
FROM told GROUP BY run_id, wandb_id
