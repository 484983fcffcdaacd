WITH told AS MATERIALIZED (
    -- One way to write a value: without torch., dtypes and truths by one name.
    SELECT run_id, field, side, value, origin, path, line_no, rec_id, key, observed_at,
        CASE plain WHEN 'bf16' THEN 'bfloat16' WHEN 'fp16' THEN 'float16' WHEN 'half' THEN 'float16' WHEN 'fp32' THEN 'float32'
            WHEN 'float' THEN 'float32' WHEN 'yes' THEN 'true' WHEN 'no' THEN 'false' ELSE plain END AS same
    FROM (SELECT *, regexp_replace(lower(trim(value)), '^torch\.', '') AS plain FROM record_values)
),
known AS (
    SELECT run_id, max(attempt) AS attempt FROM (
        SELECT run_id, attempt FROM i_latest_attempt UNION ALL SELECT DISTINCT run_id, NULL::INTEGER FROM told)
    WHERE run_id IS NOT NULL GROUP BY run_id
),
listed AS MATERIALIZED (SELECT * FROM i_record_field),
-- What one side tells: how many different values, and one of each with the places where it stands.
value AS (
    SELECT run_id, field, side, same, min(value) AS value, max(observed_at) AS observed_at,
        min(CASE WHEN path IS NULL THEN origin || coalesce(' rec_id ' || rec_id, '')
                 ELSE path || CASE WHEN line_no IS NOT NULL THEN ':' || line_no WHEN rec_id IS NOT NULL AND origin IN
                    ('exec_states', 'gpus', 'weight_lifecycle', 'transports') THEN ' rec_id ' || rec_id ELSE '' END || ' ' || key END) AS source
    FROM told GROUP BY run_id, field, side, same
),
side AS MATERIALIZED (
    SELECT run_id, field, side, count(*) AS n, string_agg(value, ', ' ORDER BY same) AS value, string_agg(same, ', ' ORDER BY same) AS same,
        string_agg(source, ', ' ORDER BY same) AS source, string_agg(value || ' (' || source || ')', ', ' ORDER BY same) AS both_of_them,
        max(observed_at) AS observed_at
    FROM value GROUP BY run_id, field, side
),
put AS (
    SELECT k.run_id, k.attempt, f.position, f.heading, f.field, f.item, f.needs, f.in_fingerprint, f.closure, l.value AS launcher, w.value AS worker,
        l.source AS launcher_source, w.source AS worker_source, l.same AS launcher_same, w.same AS worker_same,
        coalesce(l.n > 1 AND NOT f.many, false) AS launchers_differ, coalesce(w.n > 1 AND NOT f.many, false) AS workers_differ,
        l.both_of_them AS launchers, w.both_of_them AS workers, greatest(l.observed_at, w.observed_at) AS observed_at
    FROM known k CROSS JOIN listed f
    LEFT JOIN side l ON l.run_id = k.run_id AND l.field = f.field AND l.side = 'launcher'
    LEFT JOIN side w ON w.run_id = k.run_id AND w.field = f.field AND w.side = 'worker'
)
SELECT run_id, attempt, heading, field, item,
    CASE WHEN workers_differ THEN 'unknown' WHEN worker IS NOT NULL THEN worker
         WHEN needs = 'worker' OR launchers_differ OR launcher IS NULL THEN 'unknown' ELSE launcher END AS value,
    launcher, worker,
    CASE WHEN launcher IS NULL AND worker IS NULL THEN 'unknown'
         WHEN launchers_differ OR workers_differ OR launcher_same <> worker_same THEN 'disagree'
         WHEN worker IS NULL THEN 'launcher only' WHEN launcher IS NULL THEN 'worker only' ELSE 'agree' END AS state,
    launcher_source, worker_source,
    concat_ws('; ',
        CASE WHEN workers_differ THEN 'workers differ: ' || workers END,
        CASE WHEN launchers_differ THEN 'the launcher says several things: ' || launchers END,
        CASE WHEN NOT workers_differ AND NOT launchers_differ AND launcher_same <> worker_same THEN 'the launcher says ' || launcher || ', the worker ' || worker END,
        CASE WHEN worker IS NULL AND launcher IS NOT NULL AND needs = 'worker' THEN 'no worker shows it, and a setting is not what ran' END) AS note,
    needs, in_fingerprint, closure, position,
    CASE WHEN workers_differ THEN 'unknown' WHEN worker IS NOT NULL THEN worker_same
         WHEN needs = 'worker' OR launchers_differ OR launcher IS NULL THEN 'unknown' ELSE launcher_same END AS same_value,
    observed_at
FROM put
