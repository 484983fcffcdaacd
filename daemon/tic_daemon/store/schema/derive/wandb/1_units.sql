-- New rows and lines, as units: see ../../../reconcile.py. At most `tic_wandb_budget` values at a time, behind
-- `tic_wandb_after`, the least that any source is taken in up to.

CREATE OR REPLACE TEMP TABLE t_wandb_new_ AS
SELECT * EXCLUDE (so_far) FROM (
    SELECT r.rec_id, r.source_id, r.generation, r.proc, r.byte_offset, r.byte_length, r.wandb_step, r.row_no, r.read_id,
        r.keys AS row_keys, least(CASE WHEN r.stamp_utc THEN r.stamp END, r.observed_at) AS told_at, l.framework, l.shared,
        sum(r.keys + 1) OVER (ORDER BY r.rec_id) AS so_far
    FROM b_wandb_row r JOIN d_wandb_source l ON l.source_id = r.source_id
    WHERE l.kind <> 'log' AND r.rec_id > l.upto AND r.rec_id > getvariable('tic_wandb_after')::BIGINT
)
WHERE so_far <= getvariable('tic_wandb_budget')::BIGINT OR so_far = row_keys + 1;

CREATE OR REPLACE TEMP TABLE t_wandb_line_ AS
SELECT m.rec_id, m.source_id, m.generation, m.proc, m.byte_offset, m.byte_length, m.key, m.value,
    CASE WHEN NOT coalesce(m.step_carried, false) THEN m.step END AS step,
    least(CASE WHEN m.stamp_utc THEN m.stamp END, m.observed_at) AS told_at, l.framework
FROM b_metric m JOIN d_wandb_source l ON l.source_id = m.source_id
WHERE l.kind = 'log' AND m.prov IS NULL AND m.rec_id > l.upto AND m.rec_id > getvariable('tic_wandb_after')::BIGINT
ORDER BY m.rec_id LIMIT getvariable('tic_wandb_budget')::BIGINT;

-- Names that no earlier row of their source had.
CREATE OR REPLACE TEMP TABLE t_wandb_named_ AS
SELECT DISTINCT n.source_id, n.framework, false AS log, v.key
FROM t_wandb_new_ n JOIN b_wandb_value v ON v.row_id = n.rec_id
ANTI JOIN d_wandb_key k ON k.source_id = n.source_id AND k.key = v.key
UNION ALL
SELECT DISTINCT n.source_id, n.framework, true, n.key FROM t_wandb_line_ n
ANTI JOIN t_wandb_axis_ a ON a.framework = n.framework AND a.log AND a.key = n.key;

-- Here reconcile.py says which axis the new names have: t_wandb_axis_ (framework, log, key, wkey, axis).

-- Hashed twice, as two keys that both go from 0 to 1 are other content: see statements.py.
CREATE OR REPLACE TEMP TABLE t_wandb_part_ AS
SELECT n.rec_id, a.axis, count(*) FILTER (v.key <> a.axis AND v.kind <> 'null') AS keys,
    bit_xor(CASE WHEN v.key <> a.axis AND v.kind <> 'null' THEN hash(hash(v.key,
-- include wandb_norm.sql
    )) END) AS content,
    max(CASE WHEN v.key = a.axis AND v.kind IN ('int', 'number') AND v.value_text IS NULL AND v.value = floor(v.value) AND abs(v.value) <= 9007199254740992
             THEN v.value::BIGINT END) AS step
FROM t_wandb_new_ n
JOIN b_wandb_value v ON v.row_id = n.rec_id
JOIN t_wandb_axis_ a ON a.framework = n.framework AND NOT a.log AND a.key = v.key
WHERE a.axis IS NOT NULL
GROUP BY n.rec_id, a.axis;

CREATE OR REPLACE TEMP TABLE t_wandb_unit_ AS
SELECT n.source_id, n.generation, n.proc, n.byte_offset, n.rec_id, n.rec_id AS last_rec_id, p.axis, list_sort(list(p.own_axis)) AS holds,
    max(p.step) AS step, n.wandb_step, n.row_no, n.read_id, sum(p.keys)::BIGINT AS keys, bit_xor(p.content) AS content,
    n.byte_length AS bytes, n.told_at
FROM t_wandb_new_ n
JOIN (
    SELECT p.rec_id, p.axis AS own_axis, p.keys, p.content,
        CASE WHEN p.step IS NULL AND NOT n.shared THEN '_step' ELSE p.axis END AS axis,
        CASE WHEN p.axis = '_step' OR (p.step IS NULL AND NOT n.shared) THEN n.wandb_step ELSE p.step END AS step
    FROM t_wandb_part_ p JOIN t_wandb_new_ n ON n.rec_id = p.rec_id
    WHERE p.keys > 0
) p ON p.rec_id = n.rec_id
GROUP BY ALL
UNION ALL
SELECT n.source_id, n.generation, n.proc, n.byte_offset, min(n.rec_id), max(n.rec_id), a.axis, [a.axis],
    coalesce(max(CASE WHEN a.wkey = a.axis AND n.value = floor(n.value) AND abs(n.value) <= 9007199254740992 THEN n.value::BIGINT END),
        min(n.step)) AS step,
    NULL, NULL, NULL, count(*) FILTER (a.wkey <> a.axis) AS keys, bit_xor(hash(hash(a.wkey, n.value))), any_value(n.byte_length), min(n.told_at)
FROM t_wandb_line_ n
JOIN t_wandb_axis_ a ON a.framework = n.framework AND a.log AND a.key = n.key AND a.axis IS NOT NULL
GROUP BY n.source_id, n.generation, n.proc, n.byte_offset, a.axis
HAVING step IS NOT NULL AND count(*) FILTER (a.wkey <> a.axis) > 0;
