-- One row a run: what run_states says of it, with the records of all stores. Records of no known place name a run that
-- nothing else does.
WITH counted AS (
    SELECT run_id, max(attempt) AS attempt, max(last_step) AS last_step, max(last_event_at) AS last_event_at,
        max(last_observed_at) AS last_observed_at, sum(mismatches)::BIGINT AS mismatches, max(wandb_gaps) AS wandb_gaps,
        bool_or(locked) AS locked, bool_or(marked) AS marked
    FROM part_runs GROUP BY run_id
)
SELECT c.run_id, coalesce(s.attempt, c.attempt) AS attempt, coalesce(s.state, 'silent') AS state,
    coalesce(s.locked, c.locked) AS locked, s.first_fault_rec_id, c.last_step, c.last_event_at, c.last_observed_at, c.mismatches,
    coalesce(s.faults, 0) AS faults, c.wandb_gaps, coalesce(s.marked, c.marked) AS marked,
    coalesce(s.named_by_us, false) AS named_by_us, coalesce(s.sources, 0) AS sources, s.last_growth_at,
    coalesce(s.remote_faults, 0) AS remote_faults, s.first_fault_origin
FROM counted c LEFT JOIN run_states s ON s.run_id = c.run_id
