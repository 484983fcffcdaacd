SELECT run_id, max(attempt) AS attempt FROM part_attempt_states GROUP BY run_id
