SELECT s.pair, s.baseline, CASE WHEN s.baseline = '' THEN '' ELSE coalesce(any_value(n.state), 'unknown') END AS baseline_state, any_value(n.candidate_id) AS baseline_candidate,
    any_value(s.plant) AS plant, CASE WHEN count(*) FILTER (r.state <> 'met') = 0 THEN 'comparable' ELSE 'pending re-check' END AS state,
    coalesce(string_agg(r.title || CASE r.state WHEN 'unknown' THEN ' unknown' ELSE '' END || CASE WHEN r.why <> '' THEN ' (' || r.why || ')' ELSE '' END, '; ' ORDER BY r.number)
        FILTER (r.state <> 'met'), '') AS reason,
    count(*) FILTER (r.state = 'met') AS met, count(*) FILTER (r.state = 'unmet') AS unmet, count(*) FILTER (r.state = 'unknown') AS unknown,
    any_value(s.a) AS runs_a, any_value(s.b) AS runs_b, any_value(s.excluded) AS excluded, any_value(s.switch) AS switch,
    any_value(r.confounders) AS confounders, any_value(s.scores_a) AS scores_a, any_value(s.scores_b) AS scores_b, any_value(s.path) AS path,
    any_value(s.observed_at) AS observed_at
FROM pair_declarations s JOIN pair_rules r ON r.pair = s.pair LEFT JOIN baselines n ON n.name = s.baseline
GROUP BY s.pair, s.baseline
