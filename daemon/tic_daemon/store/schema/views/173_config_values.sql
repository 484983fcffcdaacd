-- Values of configurations, receipts, sidecars and manifests, as they were read last. The run: who names it (tic.toml, the path,
-- the file itself); else that of the logs in the nearest directory above that has any, if they are of one run. A configuration
-- that a W&B client kept is of the run of its log.
CREATE OR REPLACE VIEW config_values AS
WITH newest AS MATERIALIZED (
    SELECT * FROM b_config_value QUALIFY observed_at = max(observed_at) OVER (PARTITION BY host, path)
),
lost AS (SELECT DISTINCT host, root, path FROM newest WHERE run_hint = '' AND NOT gone),
named AS MATERIALIZED (SELECT host, path, min(run_id) AS run_id, count(DISTINCT run_id) AS runs FROM i_place GROUP BY host, path),
-- include near_run.sql
SELECT v.rec_id, CASE WHEN v.kind = 'pairs' THEN NULL WHEN v.run_hint <> '' THEN v.run_hint WHEN n.runs = 1 THEN n.run_id WHEN n.runs IS NULL AND e.runs = 1 THEN e.run_id END AS run_id,
    v.host, v.path, v.line_no, v.kind, v.side, v.key, v.name, v.value, v.secret, v.problem, v.digest, v.modified_at, v.observed_at
FROM newest v
LEFT JOIN named n ON n.host = v.host AND n.path = v.path AND v.run_hint = ''
LEFT JOIN near e ON e.host = v.host AND e.path = v.path AND v.run_hint = ''
WHERE NOT v.gone;
