-- Records with their place and their admissibility. i_mismatch is the lean core that `mismatches` and `attempts` share.
-- Neither has a WITH of its own: a view with a materialized CTE at its top reads every column of the records.
CREATE OR REPLACE VIEW i_mismatch AS
SELECT h.*,
    -- A record without a known place, though there are faults: nothing shows it to be before them.
    CASE WHEN h.place_run_id IS NULL
         THEN (SELECT count(*) > 0 FROM b_fault WHERE verdict = 'confirmed') OR (SELECT count(*) > 0 FROM b_remote_fault)
           OR (SELECT count(*) > 0 FROM b_unheard)
         ELSE coalesce(h.byte_offset >= h.own_off, false)
           OR coalesce((h.x >= h.x1 AND h.shi >= h.s1) OR (h.x >= h.xk AND h.shi >= h.sk), false)
           OR CASE WHEN h.points > 2 AND h.x >= h.x1 AND h.x < h.xk AND h.shi >= h.sk AND h.shi < h.s1
                   THEN h.shi >= string_split(h.ss, ',')[
                       list_position(list_sort(list_append(string_split(h.xs, ',')::BIGINT[], h.x + 1)), h.x + 1)::BIGINT - 1]::BIGINT
                   ELSE false END
           OR CASE WHEN h.u_locks THEN NOT h.shi < h.u_slo AND NOT coalesce(
                CASE WHEN h.stamp_utc OR h.zone_s IS NOT NULL THEN epoch_us(h.stamp) + h.stamp_res_us
                     - CASE WHEN h.stamp_utc THEN 0 ELSE h.naive_shift_us END < h.u_lo_us END, false) ELSE false END END AS locked,
    coalesce(h.shi >= h.lock_slo, false) AS reported_late,
    CASE WHEN h.shi >= h.u_void_lo AND h.slo <= h.u_void_hi THEN true
         WHEN h.shi >= h.void_lo AND h.slo <= h.void_hi
         THEN CASE WHEN h.voids = 1 OR h.slo = -4611686018427387904 OR h.shi = 4611686018427387904 THEN true
                   WHEN h.void_bits IS NOT NULL
                   THEN get_bit(h.void_bits, greatest(h.slo - h.void_lo, 0)::INTEGER) = 1
                     OR get_bit(h.void_bits, least(h.shi - h.void_lo, h.void_hi - h.void_lo)::INTEGER) = 1
                   ELSE h.slo <= string_split(h.void_his, ',')[
                       list_position(list_sort(list_append(string_split(h.void_los, ',')::BIGINT[], h.shi + 1)), h.shi + 1)::BIGINT - 1]::BIGINT
                   END
         ELSE false END AS voided,
    -- Of a locked record: something shows that it was made after a locking fault.
    coalesce(h.byte_offset > h.own_late, false) OR coalesce(h.slo > h.late_s, false)
        OR coalesce(CASE WHEN h.stamp IS NOT NULL
                THEN epoch_us(h.stamp) > CASE WHEN h.stamp_utc THEN h.late_utc ELSE h.late_naive + h.naive_shift_us END
                WHEN h.after_stamp IS NOT NULL
                THEN epoch_us(h.after_stamp) > CASE WHEN h.after_utc THEN h.late_utc ELSE h.late_naive + h.naive_shift_us END
                END, false) AS after_fault,
    -- Most logs are in UTC, and a subtraction for each of millions of rows costs more than all else of a time.
    CASE WHEN h.stamp_utc OR h.zone_s = 0 THEN h.stamp WHEN h.zone_s IS NOT NULL THEN h.stamp - to_seconds(h.zone_s) END AS event_at,
    CASE WHEN h.told_zone IS NOT NULL THEN epoch_us(event_at) END AS told_us,
    -- What was wrong with an engine's weights then, as derive/3_state.sql bounds it, in words and by finding; NULL: nothing. By position in the engine's
    -- log; else by the step; without one, or where a finding tells none, by time. What tells neither is cleared by nothing
    -- but a line before it or a step on one side.
    CASE WHEN fp.words IS NOT NULL THEN 1
         WHEN NOT coalesce(z.findings > 0, false) THEN 0
         WHEN fs.words IS NOT NULL AND NOT coalesce(h.at_us < fs.since_us, false) THEN 2
         WHEN h.has_step AND NOT z.stepless THEN 0
         WHEN ft.words IS NOT NULL THEN 3
         WHEN h.at_us IS NOT NULL AND NOT z.timeless THEN 0
         WHEN NOT z.stepless AND (h.slo > z.step_hi OR h.shi < z.step_lo) THEN 0
         WHEN h.at_us IS NULL AND coalesce(h.after_us > z.last_us, false) THEN 0
         ELSE 4 END AS made_how,
    CASE made_how WHEN 1 THEN fp.words WHEN 2 THEN fs.words WHEN 3 THEN ft.words WHEN 4 THEN z.words END AS made_in,
    CASE made_how WHEN 1 THEN fp.ids WHEN 2 THEN fs.ids WHEN 3 THEN ft.ids WHEN 4 THEN z.ids END AS made_by
FROM (
  SELECT r.*, r.slo <> -4611686018427387904 AND r.shi <> 4611686018427387904 AS has_step,
    CASE WHEN r.f_zone IS NOT NULL AND (r.stamp_utc OR r.zone_s IS NOT NULL)
         THEN epoch_us(r.stamp) - CASE WHEN r.stamp_utc THEN 0 ELSE r.naive_shift_us END END AS at_us,
    CASE WHEN r.f_zone IS NOT NULL AND r.not_held AND (r.after_utc OR r.zone_s IS NOT NULL)
         THEN epoch_us(r.after_stamp) - CASE WHEN r.after_utc THEN 0 ELSE r.naive_shift_us END END AS after_us
  FROM (
    SELECT m.*, k.run_id AS place_run_id, k.* EXCLUDE (source_id, generation, proc, code, from_off, to_off, run_id, lock_slo),
        least(k.lock_slo, u.lock_slo) AS lock_slo, coalesce(u.locking > 0, false) AS u_locks, u.lo_us AS u_lo_us, u.slo AS u_slo,
        u.void_lo AS u_void_lo, u.void_hi AS u_void_hi,
        -- A carried step bounds from below what was not held in a buffer, from above what shared one with its step line.
        CASE WHEN m.step IS NULL OR (m.step_carried AND NOT coalesce(k.not_held, false)) THEN -4611686018427387904
             ELSE least(greatest(m.step, -2305843009213693952), 2305843009213693952) END AS slo,
        CASE WHEN m.step IS NULL OR (m.step_carried AND NOT coalesce(k.one_pipe, false)) THEN 4611686018427387904
             ELSE least(greatest(m.step, -2305843009213693952), 2305843009213693952)
                  + CASE WHEN m.step_carried THEN 1 ELSE 0 END END AS shi,
        CASE WHEN m.stamp IS NULL THEN m.byte_offset ELSE epoch_us(m.stamp) + m.stamp_res_us - k.shift_us END AS x
    FROM b_mismatch m
    LEFT JOIN i_stand k ON k.source_id = m.source_id AND k.generation = m.generation AND k.proc = m.proc
        AND k.code = CASE m.stream WHEN 'stdout' THEN 3 WHEN 'stderr' THEN 6 ELSE 0 END
                   + CASE WHEN m.stamp IS NULL THEN 0 WHEN m.stamp_utc THEN 1 ELSE 2 END
        AND m.byte_offset >= k.from_off AND m.byte_offset < k.to_off
    LEFT JOIN i_unheard u ON u.run_id = k.run_id AND u.attempt = k.lo_attempt
  ) r
) h
LEFT JOIN i_finding_zone z ON z.zone = h.f_zone
LEFT JOIN i_finding_span fp ON fp.axis = 'pos' AND fp.key = h.source_id
    AND h.generation::BIGINT * 17592186044416 + h.byte_offset BETWEEN fp.lo AND fp.hi
LEFT JOIN i_finding_span fs ON fs.axis = 'step' AND fs.key = h.f_zone AND h.has_step AND h.slo <= fs.hi AND h.shi >= fs.lo
LEFT JOIN i_finding_span ft ON ft.axis = 'time' AND ft.key = h.f_zone AND h.at_us BETWEEN ft.lo AND ft.hi;

CREATE OR REPLACE VIEW i_told_at AS
SELECT *, (SELECT max(margin_us) FROM i_lock_setting) AS margin_us FROM i_in_force;

CREATE OR REPLACE VIEW i_record_mark AS
SELECT DISTINCT try_cast(split_part(target, ':', 1) AS BIGINT) AS source_id,
    try_cast(split_part(target, ':', 2) AS INTEGER) AS generation, try_cast(split_part(target, ':', 3) AS BIGINT) AS byte_offset
FROM i_mark WHERE scope = 'record' AND verdict = 'inconclusive' AND NOT retracted;

CREATE OR REPLACE VIEW mismatches AS
SELECT c.rec_id, c.run_id, c.attempt, c.step, c.step_carried, c.policy, c.input, c.phase, c.rank_text AS rank, c.repeat,
    c.scope, c.intervention, c.metric, c.value, c.reference, c.self_repeat,
    CASE WHEN c.self_repeat IS NOT NULL AND c.self_repeat <> 0 THEN c.value / c.self_repeat END AS noise_ratio,
    c.report, c.classification, c.parse_state, c.admissibility, c.reason, c.marked,
    c.not_evidence_because = '' AS is_evidence, c.not_evidence_because,
    coalesce(c.own_graph_mode, c.told_graph_mode, 'unknown') AS graph_mode, coalesce(c.own_step_kind, 'unknown') AS step_kind,
    coalesce(c.own_prefix_cache, c.told_prefix_cache, 'unknown') AS prefix_cache,
    coalesce(c.own_prefix_hit_rate, 'unknown') AS prefix_hit_rate,
    coalesce(c.own_weight_phase, c.told_weight_phase, 'unknown') AS weight_phase,
    CASE WHEN coalesce(c.told_graph_mode, c.told_prefix_cache, c.told_weight_phase) IS NOT NULL THEN 'by time'
         WHEN coalesce(c.own_graph_mode, c.own_step_kind, c.own_prefix_cache, c.own_prefix_hit_rate, c.own_weight_phase) IS NOT NULL
         THEN 'own log' ELSE '' END AS state_source,
    CASE WHEN c.event_at IS NOT NULL OR (c.own_graph_mode IS NOT NULL AND c.own_prefix_cache IS NOT NULL AND c.own_weight_phase IS NOT NULL)
         THEN concat_ws('; ', CASE WHEN c.told_graph_mode IS NULL THEN c.graph_note END,
             CASE WHEN c.told_prefix_cache IS NULL THEN c.cache_note END, CASE WHEN c.told_weight_phase IS NULL THEN c.weight_note END)
         WHEN c.told_of_run THEN 'others told of their state, and the time of this record is not known'
         ELSE '' END AS state_note,
    concat_ws(', ', CASE WHEN c.told_graph_mode IS NOT NULL THEN 'graph_mode' END,
        CASE WHEN c.told_prefix_cache IS NOT NULL THEN 'prefix_cache' END,
        CASE WHEN c.told_weight_phase IS NOT NULL THEN 'weight_phase' END) AS state_by_time,
    coalesce(c.made_by, '') AS finding_ids,
    c.host, c.pid, c.path, c.line_no, c.byte_offset, c.byte_length,
    c.event_at,
    c.stamp AS event_local, c.observed_at, c.raw,
    c.value_text, c.self_repeat_text, c.run AS printed_run, c.proc, c.actor, c.proc_rank, c.source_id, c.generation, c.extra,
    c.store_id, c.prov IS NOT NULL AS provisional,
    coalesce(c.source_kind, 'file') AS source_kind
FROM (
-- What its own log says, and for what that does not, what the processes of the rollout say by time.
SELECT c.*, e.graph_mode AS own_graph_mode, e.step_kind AS own_step_kind, e.prefix_cache AS own_prefix_cache,
    e.prefix_hit_rate AS own_prefix_hit_rate, e.weight_phase AS own_weight_phase,
    CASE WHEN e.graph_mode IS NULL AND g.value IS NOT NULL
         THEN CASE WHEN c.told_us >= g.sure_us + CASE WHEN g.host = c.host THEN 0 ELSE g.margin_us END
                    AND c.told_us + c.stamp_res_us <= g.to_us - CASE WHEN g.host = c.host THEN 0 ELSE g.margin_us END
              THEN g.value END END AS told_graph_mode,
    CASE WHEN e.graph_mode IS NULL AND g.from_us IS NOT NULL
         THEN 'graph_mode: ' || CASE WHEN g.note <> '' THEN g.note WHEN g.host = c.host THEN 'it changed in the same moment'
                                  ELSE 'it changed too near in time for the clocks of two hosts' END END AS graph_note,
    CASE WHEN e.prefix_cache IS NULL AND p.value IS NOT NULL
         THEN CASE WHEN c.told_us >= p.sure_us + CASE WHEN p.host = c.host THEN 0 ELSE p.margin_us END
                    AND c.told_us + c.stamp_res_us <= p.to_us - CASE WHEN p.host = c.host THEN 0 ELSE p.margin_us END
              THEN p.value END END AS told_prefix_cache,
    CASE WHEN e.prefix_cache IS NULL AND p.from_us IS NOT NULL
         THEN 'prefix_cache: ' || CASE WHEN p.note <> '' THEN p.note WHEN p.host = c.host THEN 'it changed in the same moment'
                                  ELSE 'it changed too near in time for the clocks of two hosts' END END AS cache_note,
    CASE WHEN e.weight_phase IS NULL AND w.value IS NOT NULL
         THEN CASE WHEN c.told_us >= w.sure_us + CASE WHEN w.host = c.host THEN 0 ELSE w.margin_us END
                    AND c.told_us + c.stamp_res_us <= w.to_us - CASE WHEN w.host = c.host THEN 0 ELSE w.margin_us END
              THEN w.value END END AS told_weight_phase,
    CASE WHEN e.weight_phase IS NULL AND w.from_us IS NOT NULL
         THEN 'weight_phase: ' || CASE WHEN w.note <> '' THEN w.note WHEN w.host = c.host THEN 'it changed in the same moment'
                                  ELSE 'it changed too near in time for the clocks of two hosts' END END AS weight_note
FROM (
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
    FROM (
        SELECT m.*, coalesce(m.place_run_id, nullif(m.run, ''), 'unnamed') AS run_id, coalesce(m.lo_attempt, 1) AS attempt,
            CASE WHEN m.locked THEN 'locked' WHEN m.reported_late OR m.voided OR m.made_in IS NOT NULL THEN 'suspect' ELSE 'admissible' END AS admissibility,
            CASE WHEN m.locked THEN CASE WHEN m.after_fault THEN 'after the fault' ELSE 'order unknown' END
                 WHEN m.reported_late THEN 'fault reported in or before this step'
                 WHEN m.voided THEN 'step voided by a fault'
                 ELSE coalesce(m.made_in, '') END AS reason,
            r.source_id IS NOT NULL OR coalesce(m.place_marked, EXISTS (
                SELECT 1 FROM i_mark w WHERE w.scope <> 'record' AND w.verdict = 'inconclusive' AND NOT w.retracted)) AS marked
        FROM i_mismatch m
        LEFT JOIN i_record_mark r
            ON r.source_id = m.source_id AND r.generation = m.generation AND r.byte_offset = m.byte_offset
    ) j
) c
LEFT JOIN i_own_state e ON e.source_id = c.source_id AND e.generation = c.generation AND e.voice = c.voice
    AND e.piece = c.byte_offset >> 16 AND c.byte_offset >= e.from_off AND c.byte_offset < e.to_off
LEFT JOIN i_told_at g ON g.field = 'graph_mode' AND g.zone = c.told_zone
    AND c.told_us >= g.from_us AND c.told_us < g.to_us
LEFT JOIN i_told_at p ON p.field = 'prefix_cache' AND p.zone = c.told_zone
    AND c.told_us >= p.from_us AND c.told_us < p.to_us
LEFT JOIN i_told_at w ON w.field = 'weight_phase' AND w.zone = c.told_zone
    AND c.told_us >= w.from_us AND c.told_us < w.to_us
) c;
