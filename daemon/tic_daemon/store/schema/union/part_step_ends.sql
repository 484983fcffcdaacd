-- step_lines: when each step of a run first ended, as far as one store knows (views/160_sources.sql, i_step_end).
SELECT run_id, step, min(coalesce(least(event_at, observed_at), observed_at)) AS observed_at
FROM step_lines WHERE edge = 'end' GROUP BY run_id, step
