-- What the log of a record said of its own process before it, of all records of some voices: see ../../own_states.py, which does the
-- same for the records of a tick. Reasons: docs/explanation/evidence.md.

-- The voices that are asked: all of them, or, where some are read anew, those (own_states.py).
CREATE OR REPLACE TEMP TABLE t_own_voice_ AS SELECT source_id, generation, proc, voice FROM t_voice WHERE voice <> 'unknown';

-- A record's piece of its log: 64 KiB. No range of t_own_state reaches beyond one, so that a record is held against a few.
CREATE OR REPLACE TEMP TABLE t_own_record_ AS
SELECT m.source_id, m.generation, v.voice, m.byte_offset >> 16 AS piece, m.byte_offset
FROM b_mismatch m JOIN t_own_voice_ v ON v.source_id = m.source_id AND v.generation = m.generation AND v.proc = m.proc;

-- Changes: what was observed. One that only claims leaves in force what was observed before it. Only the last line of a log is
-- provisional, and no record is behind that.
CREATE OR REPLACE TEMP TABLE t_own_change_ AS
SELECT c.source_id, c.generation, v.voice, c.field, c.byte_offset, max(c.value) AS value
FROM (
    SELECT source_id, generation, proc, field, byte_offset, observed AS value FROM b_exec_state
    WHERE prov IS NULL AND observed IS NOT NULL AND field IN ('graph_mode', 'step_kind', 'prefix_cache', 'prefix_hit_rate')
    UNION ALL
    SELECT source_id, generation, proc, 'weight_phase', byte_offset, phase FROM b_weight_phase WHERE prov IS NULL AND track = 'residency'
) c
JOIN t_own_voice_ v ON v.source_id = c.source_id AND v.generation = c.generation AND v.proc = c.proc
WHERE c.source_id IN (SELECT source_id FROM t_own_record_)
GROUP BY c.source_id, c.generation, v.voice, c.field, c.byte_offset;

-- The first record of each piece behind each change, with all that was in force there. The last value of a field by ASOF:
-- `last_value(... IGNORE NULLS)` goes back over every NULL.
CREATE OR REPLACE TEMP TABLE t_own_spot_ AS
WITH spot AS (
    SELECT r.source_id, r.generation, r.voice, r.piece, c.byte_offset AS changed_off, min(r.byte_offset) AS from_off
    FROM t_own_record_ r
    ASOF JOIN (SELECT DISTINCT source_id, generation, voice, byte_offset FROM t_own_change_) c
        ON c.source_id = r.source_id AND c.generation = r.generation AND c.voice = r.voice AND r.byte_offset > c.byte_offset
    GROUP BY r.source_id, r.generation, r.voice, r.piece, c.byte_offset
),
asked AS (SELECT *, unnest(['graph_mode', 'step_kind', 'prefix_cache', 'prefix_hit_rate', 'weight_phase']) AS field FROM spot)
SELECT a.source_id, a.generation, a.voice, a.piece, a.from_off,
    max(c.value) FILTER (WHERE c.field = 'graph_mode') AS graph_mode,
    max(c.value) FILTER (WHERE c.field = 'step_kind') AS step_kind,
    max(c.value) FILTER (WHERE c.field = 'prefix_cache') AS prefix_cache,
    max(c.value) FILTER (WHERE c.field = 'prefix_hit_rate') AS prefix_hit_rate,
    max(c.value) FILTER (WHERE c.field = 'weight_phase') AS weight_phase
FROM asked a
ASOF JOIN t_own_change_ c
    ON c.source_id = a.source_id AND c.generation = a.generation AND c.voice = a.voice AND c.field = a.field AND a.from_off > c.byte_offset
GROUP BY a.source_id, a.generation, a.voice, a.piece, a.from_off;

-- One row a voice, piece and range [from_off, to_off) whose records have one state: as many rows as records at the most.
CREATE OR REPLACE TEMP TABLE t_own_state AS
WITH changed AS (
    SELECT * FROM t_own_spot_
    WINDOW w AS (PARTITION BY source_id, generation, voice, piece ORDER BY from_off)
    QUALIFY row_number() OVER w = 1
        OR graph_mode IS DISTINCT FROM lag(graph_mode) OVER w OR step_kind IS DISTINCT FROM lag(step_kind) OVER w
        OR prefix_cache IS DISTINCT FROM lag(prefix_cache) OVER w OR prefix_hit_rate IS DISTINCT FROM lag(prefix_hit_rate) OVER w
        OR weight_phase IS DISTINCT FROM lag(weight_phase) OVER w
)
SELECT source_id, generation, voice, piece, from_off,
    lead(from_off, 1, (piece + 1) << 16) OVER (PARTITION BY source_id, generation, voice, piece ORDER BY from_off) AS to_off,
    graph_mode, step_kind, prefix_cache, prefix_hit_rate, weight_phase
FROM changed;
