-- Reads view ledger, of one store or of several united.
SELECT c.criterion_id, c.said.metric AS metric, c.said.at_most AS at_most, c.said.at_least AS at_least, c.said.goal AS goal,
    nullif(c.said.gate, '') AS gate, nullif(c.said.cell, '') AS cell, c.said.first_step AS first_step, c.said.last_step AS last_step,
    nullif(c.said.target, '') AS target_path, nullif(c.said.planted, '') AS planted, nullif(c.said.key, '') AS key, nullif(c.said.path, '') AS path, c.said.text AS text,
    c.said_at AS declared_at, c.observed_at AS frozen_at, c.who, c.host, r.replaced_by, r.replaced_at, r.replaced_because,
    CASE WHEN r.replaced_by IS NULL THEN 'in force' ELSE 'historical' END AS state, c.id
FROM (
    SELECT *, from_json(body, '{"metric": "VARCHAR", "at_most": "DOUBLE", "at_least": "DOUBLE", "goal": "VARCHAR", "gate": "VARCHAR",
        "cell": "VARCHAR", "first_step": "BIGINT", "last_step": "BIGINT", "target": "VARCHAR", "planted": "VARCHAR", "key": "VARCHAR", "path": "VARCHAR",
        "text": "VARCHAR"}') AS said
    FROM ledger WHERE kind = 'criterion'
    QUALIFY row_number() OVER (PARTITION BY criterion_id ORDER BY observed_at, id) = 1
) c
LEFT JOIN (
    SELECT criterion_id, arg_min(target, (said_at, id)) AS replaced_by, min(said_at) AS replaced_at,
        arg_min(reason || ' (' || who || ')', (said_at, id)) AS replaced_because
    FROM ledger WHERE kind = 'replaced' GROUP BY criterion_id
) r ON r.criterion_id = c.criterion_id
