-- Whose execution state speaks for whom: see ../../derive.py. Reasons: docs/explanation/evidence.md.

-- The voice of each process in its log: lines of one voice tell of one execution state, the last of them counts.
-- A file of one process has one. So have the processes of one server, known by the names that engines give them or by what they
-- printed of a rollout; '' then. Where such a name, or DP rank, comes with several processes, there are several servers, and
-- each process speaks for itself, a Ray actor or a container for what runs within it. Lines of a log that is all one server's are its, too: those
-- that name no process, or a rank alone, as a record does.
CREATE OR REPLACE TEMP TABLE t_voice AS
WITH told AS (
    SELECT DISTINCT source_id, generation, proc, actor FROM b_exec_state WHERE role = 'rollout'
    UNION SELECT DISTINCT source_id, generation, proc, actor FROM b_weight_phase WHERE role = 'rollout'
),
member AS MATERIALIZED (
    SELECT *, CASE WHEN proc LIKE 'pid:%' OR proc LIKE 'in:%' THEN split_part(proc, ' ', 1) ELSE proc END AS outer_proc FROM told
    UNION
    SELECT source_id, generation, proc, actor, CASE WHEN proc LIKE 'pid:%' OR proc LIKE 'in:%' THEN split_part(proc, ' ', 1) ELSE proc END FROM b_process_seen
    WHERE regexp_matches(actor, '^(APIServer|ApiServer|EngineCore|Worker_|VllmWorker|(DP|PP|TP|EP)\d)')
),
several AS MATERIALIZED (
    SELECT source_id, generation FROM member WHERE proc <> ''
    GROUP BY source_id, generation, CASE WHEN proc LIKE 'rank:%' OR proc LIKE 'actor:default%' THEN 'rank' ELSE actor END
    HAVING count(DISTINCT outer_proc) > 1
    UNION
    SELECT source_id, generation FROM member
    GROUP BY source_id, generation HAVING count(DISTINCT nullif(regexp_extract(actor, 'DP\d+'), '')) > 1
),
-- Of logs that tell of a state alone: of any other there is none to take.
telling AS MATERIALIZED (
    SELECT DISTINCT source_id, generation FROM b_exec_state UNION SELECT DISTINCT source_id, generation FROM b_weight_phase
),
place AS (
    SELECT DISTINCT p.source_id, p.generation, p.proc, p.declared_single AS single
    FROM t_place p JOIN telling t ON t.source_id = p.source_id AND t.generation = p.generation
),
counted AS (
    SELECT p.source_id, p.generation, p.proc, p.single, m.proc IS NOT NULL AS is_member, s.source_id IS NOT NULL AS several,
        count(*) FILTER (WHERE p.proc <> '') OVER log AS procs,
        count(*) FILTER (WHERE p.proc <> '' AND p.proc NOT LIKE 'rank:%' AND m.proc IS NULL) OVER log AS others,
        count(m.proc) OVER log AS members
    FROM place p
    LEFT JOIN (SELECT DISTINCT source_id, generation, proc FROM member) m
        ON m.source_id = p.source_id AND m.generation = p.generation AND m.proc = p.proc
    LEFT JOIN several s ON s.source_id = p.source_id AND s.generation = p.generation
    WINDOW log AS (PARTITION BY p.source_id, p.generation)
),
spoken AS (
    SELECT source_id, generation, proc,
        CASE WHEN single OR procs <= 1 THEN ''
             WHEN several THEN CASE WHEN proc LIKE 'pid:%' OR proc LIKE 'in:%' THEN split_part(proc, ' ', 1) WHEN proc = '' THEN 'unknown' ELSE proc END
             WHEN is_member OR ((proc = '' OR proc LIKE 'rank:%') AND others = 0 AND members > 0) THEN ''
             WHEN proc = '' THEN 'unknown'
             ELSE proc END AS voice
    FROM counted
)
SELECT source_id, generation, proc, voice FROM spoken;

-- What voices of the rollout observed, by time: one row where one's value changes. Settings that last, and the weights: what kind
-- a batch was, and a hit rate over a window, say nothing about another process' moment.
CREATE OR REPLACE TEMP TABLE t_voiced_ AS
WITH told AS (
    SELECT source_id, generation, proc, host, byte_offset, stamp, stamp_utc, stamp_res_us, field, observed AS value FROM b_exec_state
    WHERE role = 'rollout' AND observed IS NOT NULL AND field IN ('graph_mode', 'prefix_cache') AND stamp IS NOT NULL
    UNION ALL
    SELECT source_id, generation, proc, host, byte_offset, stamp, stamp_utc, stamp_res_us, 'weight_phase', phase FROM b_weight_phase
    WHERE role = 'rollout' AND track = 'residency' AND stamp IS NOT NULL
),
timed AS (
    SELECT p.run_id, p.lo_attempt AS attempt, t.field, t.source_id || ' ' || v.voice AS voice, t.host, p.console,
        epoch_us(t.stamp) - CASE WHEN t.stamp_utc THEN 0 ELSE p.zone_s::BIGINT * 1000000 END AS us,
        max(t.stamp_res_us) AS res_us, arg_max(t.value, (t.generation, t.byte_offset)) AS value
    FROM told t
    JOIN t_voice v ON v.source_id = t.source_id AND v.generation = t.generation AND v.proc = t.proc AND v.voice <> 'unknown'
    JOIN t_place p ON p.source_id = t.source_id AND p.generation = t.generation AND p.proc = t.proc
        AND t.byte_offset >= p.from_off AND t.byte_offset < p.to_off
    WHERE t.stamp_utc OR p.zone_s IS NOT NULL
    GROUP BY p.run_id, p.lo_attempt, t.field, t.source_id, v.voice, t.host, p.console, us
),
-- A console's copies come late and under other names: it counts where no log of the engines' own tells.
own AS (SELECT * FROM timed QUALIFY NOT console OR bool_and(console) OVER (PARTITION BY run_id, attempt, field)),
changed AS (
    SELECT *, lag(value) OVER (PARTITION BY run_id, attempt, field, voice ORDER BY us) AS before FROM own
    QUALIFY value IS DISTINCT FROM before
)
SELECT * FROM changed;

-- Which values are in force at once, as the bits of a number: each change takes its voice from one value and gives it to another.
CREATE OR REPLACE TEMP TABLE t_forces_ AS
WITH named AS MATERIALIZED (
    SELECT run_id, attempt, field, value, least(row_number() OVER (PARTITION BY run_id, attempt, field ORDER BY value) - 1, 60) AS bit
    FROM (SELECT DISTINCT run_id, attempt, field, value FROM t_voiced_)
),
step AS (
    SELECT run_id, attempt, field, us, bit, sum(d)::BIGINT AS d FROM (
        SELECT run_id, attempt, field, us, value, 1 AS d FROM t_voiced_
        UNION ALL SELECT run_id, attempt, field, us, before, -1 FROM t_voiced_ WHERE before IS NOT NULL
    ) JOIN named USING (run_id, attempt, field, value)
    GROUP BY run_id, attempt, field, us, bit
),
held AS (
    SELECT *, sum(d) OVER (PARTITION BY run_id, attempt, field, bit ORDER BY us) > 0 AS here FROM step
),
turned AS (
    SELECT *, here::INTEGER - lag(here::INTEGER, 1, 0) OVER (PARTITION BY run_id, attempt, field, bit ORDER BY us) AS turn FROM held
),
at_once AS (
    SELECT run_id, attempt, field, us, sum(sum(turn * (1::BIGINT << bit::INTEGER))) OVER w AS bits, sum(sum(d)) OVER w AS voices
    FROM turned GROUP BY run_id, attempt, field, us
    WINDOW w AS (PARTITION BY run_id, attempt, field ORDER BY us)
),
res AS (SELECT run_id, attempt, field, us, max(res_us) AS res_us FROM t_voiced_ GROUP BY run_id, attempt, field, us),
sized AS (
    SELECT o.run_id, o.attempt, o.field, o.us, o.bits::BIGINT AS bits, CASE WHEN bit_count(o.bits::BIGINT) > 1 THEN o.voices END AS voices, r.res_us
    FROM at_once o JOIN res r ON r.run_id = o.run_id AND r.attempt = o.attempt AND r.field = o.field AND r.us = o.us
),
collapsed AS (
    SELECT * FROM sized
    WINDOW w AS (PARTITION BY run_id, attempt, field ORDER BY us)
    QUALIFY row_number() OVER w = 1 OR bits IS DISTINCT FROM lag(bits) OVER w OR voices IS DISTINCT FROM lag(voices) OVER w
),
-- At most some 1,000 rows each: where more changes than that came, those that share a slice of the time are one row
-- without a value. Slices double, so that rows of the past stay as they are.
sliced AS (
    SELECT *, CASE WHEN n > 1000 THEN us // (1::BIGINT << ceil(log2((hi - lo) / 500.0))::INTEGER) ELSE us END AS slice
    FROM (SELECT *, count(*) OVER w AS n, min(us) OVER w AS lo, max(us) OVER w AS hi FROM collapsed
          WINDOW w AS (PARTITION BY run_id, attempt, field))
),
kept AS (
    SELECT run_id, attempt, field, us, bits, voices, res_us, false AS blur FROM sliced
    QUALIFY row_number() OVER (PARTITION BY run_id, attempt, field, slice ORDER BY us DESC) = 1
    UNION ALL
    SELECT run_id, attempt, field, min(us), 0, NULL, 0, true FROM sliced
    GROUP BY run_id, attempt, field, slice HAVING count(*) > 1
)
SELECT k.*, list_sort(list(n.value) FILTER (WHERE n.value IS NOT NULL)) AS vals, bool_or(coalesce(n.bit = 60, false)) AS many
FROM kept k
LEFT JOIN named n ON n.run_id = k.run_id AND n.attempt = k.attempt AND n.field = k.field AND (k.bits >> n.bit::INTEGER) & 1 = 1
GROUP BY ALL;

-- The state in force by time, one row a run, attempt, field and range [from_us, to_us) of UTC microseconds.
--   zone     of the run and attempt, a number
--   sure_us  the change that begins it is over: its stamp's last moment
--   value    NULL: not one value, see note
--   host     of all that told of the field; NULL: several
CREATE OR REPLACE TEMP TABLE t_in_force AS
SELECT f.run_id, f.attempt, (hash(f.run_id, f.attempt) >> 1)::BIGINT AS zone, f.field, f.us AS from_us, f.us + f.res_us AS sure_us,
    lead(f.us, 1, 4611686018427387904) OVER (PARTITION BY f.run_id, f.attempt, f.field ORDER BY f.us) AS to_us,
    CASE WHEN len(f.vals) = 1 AND NOT f.many AND NOT f.blur THEN f.vals[1] END AS value,
    CASE WHEN f.blur THEN 'it changes too often'
         WHEN len(f.vals) = 1 AND NOT f.many THEN ''
         WHEN len(f.vals) > 8 THEN f.voices || ' rollout processes differ'
         ELSE f.voices || ' rollout processes differ: ' || array_to_string(f.vals, ', ') END AS note,
    h.host
FROM t_forces_ f
JOIN (SELECT run_id, attempt, field, CASE WHEN count(DISTINCT host) = 1 THEN min(host) END AS host
      FROM t_voiced_ GROUP BY run_id, attempt, field) h
    ON h.run_id = f.run_id AND h.attempt = f.attempt AND h.field = f.field;
