-- Records with their place and their admissibility. i_mismatch is the lean core that `mismatches`, `runs` and `locks` share.
CREATE OR REPLACE VIEW i_mismatch AS
WITH lock AS MATERIALIZED (SELECT * FROM i_lock),
place AS MATERIALIZED (
    SELECT wid, source_id, generation, proc, from_off, to_off, run_id, lo_attempt, zone_s, path FROM i_place
),
placed AS (
    SELECT m.*, p.run_id AS place_run_id, p.lo_attempt, p.zone_s, p.path,
        coalesce(p.wid * 16 + CASE m.stream WHEN 'stdout' THEN 3 WHEN 'stderr' THEN 6 ELSE 0 END
            + CASE WHEN m.stamp IS NULL THEN 0 WHEN m.stamp_utc THEN 1 ELSE 2 END, -1) AS cid,
        CASE WHEN m.step IS NULL THEN -4611686018427387904
             ELSE least(greatest(m.step, -2305843009213693952), 2305843009213693952) END AS slo,
        CASE WHEN m.step IS NULL THEN 4611686018427387904
             ELSE least(greatest(m.step, -2305843009213693952), 2305843009213693952)
                  + CASE WHEN m.step_carried THEN 1 ELSE 0 END END AS shi
    FROM b_mismatch m
    LEFT JOIN place p ON p.source_id = m.source_id AND p.generation = m.generation AND p.proc = m.proc
        AND m.byte_offset >= p.from_off AND m.byte_offset < p.to_off
),
held AS (
    SELECT p.*, k.* EXCLUDE (item, id, from_x, to_x),
        CASE WHEN p.stamp IS NULL THEN p.byte_offset ELSE epoch_us(p.stamp) + p.stamp_res_us - k.shift_us END AS x
    FROM placed p
    LEFT JOIN lock k ON k.item = 'variant' AND k.id = p.cid
)
SELECT h.*,
    CASE WHEN h.own_off IS NULL THEN false
         ELSE h.byte_offset >= h.own_off OR (h.x >= h.x1 AND h.shi >= h.s1) OR (h.x >= h.xk AND h.shi >= h.sk)
              OR coalesce(h.shi >= t.s1, false) END AS locked,
    h.own_off IS NOT NULL AND (h.shi >= h.lock_slo) AS reported_late,
    coalesce(h.shi >= h.void_lo AND h.slo <= h.void_hi
        AND (h.voids = 1 OR h.step IS NULL OR v.s1 >= h.slo), false) AS voided,
    -- Of a locked record: something shows that it was made after a locking fault.
    coalesce(h.byte_offset > h.own_late OR h.slo > h.late_s
        OR CASE WHEN h.stamp IS NOT NULL
                THEN epoch_us(h.stamp) > CASE WHEN h.stamp_utc THEN h.late_utc ELSE h.late_naive + h.naive_shift_us END
                WHEN h.after_stamp IS NOT NULL
                THEN epoch_us(h.after_stamp) > CASE WHEN h.after_utc THEN h.late_utc ELSE h.late_naive + h.naive_shift_us END
                ELSE false END, false) AS after_fault,
    CASE WHEN h.stamp_utc THEN h.stamp WHEN h.zone_s IS NOT NULL THEN h.stamp - to_seconds(h.zone_s) END AS event_at
FROM held h
LEFT JOIN lock t ON t.item = 'point' AND t.id = CASE WHEN h.points > 2 AND h.x >= h.x1 AND h.x < h.xk
        AND h.shi >= h.sk AND h.shi < h.s1 THEN h.sid END
    AND h.x >= t.from_x AND h.x < t.to_x
LEFT JOIN lock v ON v.item = 'void' AND v.id = CASE WHEN h.voids > 1 AND h.step IS NOT NULL
        AND h.shi >= h.void_lo AND h.slo <= h.void_hi THEN h.zid END
    AND h.shi >= v.from_x AND h.shi < v.to_x;

-- What a person's marks say now: a mark stands unless a later row retracts its id.
CREATE OR REPLACE VIEW i_mark AS
SELECT m.rec_id, m.id, m.run_id, m.attempt, m.scope, m.target, m.verdict, m.reason, m.who, m.marked_at, m.host, m.observed_at,
    EXISTS (SELECT 1 FROM b_mark r WHERE r.verdict = 'retract' AND r.target = m.id) AS retracted
FROM b_mark m;

CREATE OR REPLACE VIEW marks AS
SELECT m.rec_id, m.id, m.run_id, m.attempt, m.scope, m.target, m.verdict, m.reason, m.who, m.marked_at, m.retracted, m.host
FROM i_mark m;

-- Execution state as a change log by place, all fields at once: one row a change, with the values in force after it.
-- Only observed values count. A change that only claims leaves what was observed before it in force.
CREATE OR REPLACE VIEW i_state_at AS
WITH change AS (
    SELECT source_id, generation, byte_offset, field, observed AS value FROM b_exec_state
    WHERE observed IS NOT NULL AND field IN ('graph_mode', 'step_kind', 'prefix_cache', 'prefix_hit_rate')
    UNION ALL
    SELECT source_id, generation, byte_offset, 'weight_phase', phase FROM b_weight_phase WHERE track = 'residency'
),
wide AS (
    SELECT source_id, generation, byte_offset,
        max(value) FILTER (WHERE field = 'graph_mode') AS graph_mode,
        max(value) FILTER (WHERE field = 'step_kind') AS step_kind,
        max(value) FILTER (WHERE field = 'prefix_cache') AS prefix_cache,
        max(value) FILTER (WHERE field = 'prefix_hit_rate') AS prefix_hit_rate,
        max(value) FILTER (WHERE field = 'weight_phase') AS weight_phase
    FROM change GROUP BY source_id, generation, byte_offset
)
SELECT source_id, generation, byte_offset AS from_off,
    lead(byte_offset, 1, 4611686018427387904) OVER w AS to_off,
    last_value(graph_mode IGNORE NULLS) OVER w AS graph_mode, last_value(step_kind IGNORE NULLS) OVER w AS step_kind,
    last_value(prefix_cache IGNORE NULLS) OVER w AS prefix_cache,
    last_value(prefix_hit_rate IGNORE NULLS) OVER w AS prefix_hit_rate,
    last_value(weight_phase IGNORE NULLS) OVER w AS weight_phase
FROM wide
WINDOW w AS (PARTITION BY source_id, generation ORDER BY byte_offset);

CREATE OR REPLACE VIEW mismatches AS
WITH record_mark AS MATERIALIZED (
    SELECT DISTINCT try_cast(split_part(target, ':', 1) AS BIGINT) AS source_id,
        try_cast(split_part(target, ':', 2) AS INTEGER) AS generation, try_cast(split_part(target, ':', 3) AS BIGINT) AS byte_offset
    FROM i_mark WHERE scope = 'record' AND verdict = 'inconclusive' AND NOT retracted
),
wide_mark AS MATERIALIZED (
    SELECT DISTINCT run_id, CASE WHEN scope = 'attempt' THEN attempt END AS attempt
    FROM i_mark WHERE scope IN ('run', 'attempt') AND verdict = 'inconclusive' AND NOT retracted
),
judged AS (
    SELECT m.*, coalesce(m.place_run_id, nullif(m.run, ''), 'unnamed') AS run_id, coalesce(m.lo_attempt, 1) AS attempt,
        CASE WHEN m.locked THEN 'locked' WHEN m.reported_late OR m.voided THEN 'suspect' ELSE 'admissible' END AS admissibility,
        CASE WHEN m.locked THEN CASE WHEN m.after_fault THEN 'after the fault' ELSE 'order unknown' END
             WHEN m.reported_late THEN 'fault reported in or before this step'
             WHEN m.voided THEN 'step voided by a fault'
             ELSE '' END AS reason,
        r.source_id IS NOT NULL
            OR EXISTS (SELECT 1 FROM wide_mark w WHERE w.run_id = coalesce(m.place_run_id, nullif(m.run, ''), 'unnamed')
                       AND (w.attempt IS NULL OR w.attempt = coalesce(m.lo_attempt, 1))) AS marked
    FROM i_mismatch m
    LEFT JOIN record_mark r
        ON r.source_id = m.source_id AND r.generation = m.generation AND r.byte_offset = m.byte_offset
),
claimed AS (
    SELECT j.*,
        CASE WHEN j.admissibility <> 'admissible' THEN j.admissibility || ': ' || j.reason
             WHEN j.marked THEN 'marked inconclusive'
             WHEN j.parse_state <> 'ok' THEN 'parse state ' || j.parse_state
             WHEN j.value IS NULL THEN 'value is no number'
             WHEN isnan(j.value) OR isinf(j.value) THEN 'value is not finite'
             WHEN j.intervention = '' THEN 'intervention not stated'
             WHEN j.intervention <> 'none' THEN 'intervention ' || j.intervention
             WHEN j.scope = '' THEN 'scope not stated'
             WHEN j.scope <> 'fixed-input' THEN 'scope ' || j.scope
             ELSE '' END AS not_evidence_because
    FROM judged j
)
SELECT c.rec_id, c.run_id, c.attempt, c.step, c.step_carried, c.policy, c.input, c.phase, c.rank_text AS rank, c.repeat,
    c.scope, c.intervention, c.metric, c.value, c.reference, c.self_repeat,
    CASE WHEN c.self_repeat IS NOT NULL AND c.self_repeat <> 0 THEN c.value / c.self_repeat END AS noise_ratio,
    c.report, c.classification, c.parse_state, c.admissibility, c.reason, c.marked,
    c.not_evidence_because = '' AS is_evidence, c.not_evidence_because,
    coalesce(e.graph_mode, 'unknown') AS graph_mode, coalesce(e.step_kind, 'unknown') AS step_kind,
    coalesce(e.prefix_cache, 'unknown') AS prefix_cache, coalesce(e.prefix_hit_rate, 'unknown') AS prefix_hit_rate,
    coalesce(e.weight_phase, 'unknown') AS weight_phase,
    c.host, c.pid, c.path, c.line_no, c.byte_offset, c.byte_length,
    c.event_at,
    c.stamp AS event_local, c.observed_at, c.raw,
    c.value_text, c.self_repeat_text, c.run AS printed_run, c.proc, c.actor, c.proc_rank, c.source_id, c.generation, c.extra
FROM claimed c
LEFT JOIN i_state_at e ON e.source_id = c.source_id AND e.generation = c.generation
    AND c.byte_offset > e.from_off AND c.byte_offset <= e.to_off;
