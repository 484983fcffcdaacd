-- Numbers about agreement in new rows of histories, as records like those that logs print: see ../../../reconcile.py. One
-- number is one record, whichever source told it: what a log printed, or another source of the history has, is left out.

CREATE OR REPLACE TEMP TABLE t_wandb_told_number_ AS
SELECT DISTINCT ON (p.run_id, a.metric, u.step, v.value, CASE WHEN a.metric = 'unknown' THEN v.key END) p.run_id, a.metric, a.said, u.axis, u.step, v.key, v.value, v.value_text, v.kind, n.rec_id AS row_id,
    r.kind AS source_kind
FROM t_wandb_new_ n
JOIN d_wandb_source r ON r.source_id = n.source_id
JOIN (SELECT source_id, arg_max(run_id, (generation, from_off)) AS run_id FROM t_place GROUP BY source_id) p ON p.source_id = n.source_id
JOIN b_wandb_value v ON v.row_id = n.rec_id
JOIN t_wandb_axis_ a ON a.framework = n.framework AND NOT a.log AND a.key = v.key AND a.metric IS NOT NULL
JOIN t_wandb_unit_ u ON u.rec_id = n.rec_id AND u.row_no IS NOT NULL AND list_contains(u.holds, a.axis)
WHERE v.kind IN ('int', 'number', 'nan', 'inf', '-inf')
ORDER BY p.run_id, a.metric, u.step, v.value, r.kind DESC, n.rec_id;

CREATE OR REPLACE TEMP TABLE t_wandb_number_ AS
WITH known AS (
    SELECT p.run_id, m.metric, m.step, m.value, m.extra,
        CASE WHEN p.kind IN ('wandb_local', 'wandb_api') THEN 0
             ELSE 0.50001 * pow(10, coalesce(try_cast(nullif(regexp_extract(m.value_text, '[eE]([+-]?[0-9]{1,3})', 1), '') AS INTEGER), 0)
                - length(regexp_extract(m.value_text, '\.([0-9]+)', 1))) END AS tolerance
    FROM b_mismatch m
    JOIN t_place p ON p.source_id = m.source_id AND p.generation = m.generation AND p.proc = m.proc
        AND m.byte_offset >= p.from_off AND m.byte_offset < p.to_off
    WHERE (m.metric, m.step) IN (SELECT (metric, step) FROM t_wandb_told_number_)
)
SELECT row_number() OVER (ORDER BY r.rec_id, t.key) AS rec_id, r.store_id, r.host, r.source_id, r.generation, r.byte_offset, r.byte_length, r.line_no,
    NULL::BIGINT AS prov, r.proc, r.pid, r.proc_rank, r.actor, r.stream, r.stamp, r.stamp_res_us, r.stamp_utc, r.after_stamp, r.after_utc,
    t.step, false AS step_carried, r.policy, '' AS run, '' AS input, '' AS phase, '' AS rank_text, '' AS repeat, '' AS scope, '' AS intervention,
    t.metric, t.value, coalesce(t.value_text, t.value::VARCHAR) AS value_text, '' AS reference, NULL::DOUBLE AS self_repeat, '' AS self_repeat_text,
    '' AS report, '' AS classification, t.said AS extra, CASE WHEN t.metric = 'unknown' THEN 'unknown_metric' ELSE 'ok' END AS parse_state,
    t.key || ' = ' || coalesce(t.value_text, t.value::VARCHAR) AS raw
FROM t_wandb_told_number_ t
JOIN b_wandb_row r ON r.rec_id = t.row_id
WHERE NOT EXISTS (
    SELECT 1 FROM known k WHERE k.run_id = t.run_id AND k.metric = t.metric AND k.step IS NOT DISTINCT FROM t.step
        AND (t.metric <> 'unknown' OR k.extra = t.said)
        AND (k.value = t.value OR abs(k.value - t.value) <= k.tolerance OR (isnan(k.value) AND isnan(t.value))));
