-- What was compiled while the program ran, and whether a measurement had begun by then.

-- Where measurements begin, by a line of a log; [event_at, until_at) bounds the moment.
CREATE OR REPLACE VIEW bench_marks AS
WITH place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, console, path, rank, pid, zone_s FROM i_place
)
SELECT v.rec_id, p.run_id, p.lo_attempt AS attempt, v.what, p.path, v.line_no, v.source_id, v.generation, v.byte_offset,
    CASE WHEN v.stamp_utc THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END AS event_at,
    CASE WHEN v.stamp_utc THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END + to_microseconds(v.stamp_res_us) AS until_at,
    v.observed_at
FROM b_bench_mark v
JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off;

-- `after_bench`: true if some mark of the run surely came before: in the same log, or by the clocks. False: all came later.
-- NULL: no mark, or the order is not known.
CREATE OR REPLACE VIEW compiles AS
WITH place AS MATERIALIZED (
    SELECT source_id, generation, proc, from_off, to_off, run_id, lo_attempt, console, path, rank, pid, zone_s FROM i_place
),
line AS (
    SELECT v.rec_id, p.run_id, p.lo_attempt AS attempt, coalesce(v.proc_rank, p.rank) AS rank, v.host, coalesce(v.pid, p.pid) AS pid,
        v.compiler, v.what, v.seconds, v.stage, v.step, v.rule, p.console, p.path, v.line_no, v.source_id, v.generation, v.byte_offset,
        v.byte_length, CASE WHEN v.stamp_utc THEN v.stamp WHEN p.zone_s IS NOT NULL THEN v.stamp - to_seconds(p.zone_s) END AS event_at, v.stamp_res_us, v.observed_at
    FROM b_compile_event v
    JOIN place p ON p.source_id = v.source_id AND p.generation = v.generation AND p.proc = v.proc
    AND v.byte_offset >= p.from_off AND v.byte_offset < p.to_off
),
mark AS MATERIALIZED (SELECT run_id, attempt, source_id, generation, byte_offset, event_at, until_at FROM bench_marks),
judged AS (
    SELECT l.rec_id, l.run_id,
        bool_or(CASE WHEN m.source_id = l.source_id AND m.generation = l.generation THEN m.byte_offset < l.byte_offset
                     WHEN m.until_at <= l.event_at THEN true
                     WHEN m.event_at >= l.event_at + to_microseconds(greatest(l.stamp_res_us, 1)) THEN false END) AS some_before,
        bool_and(coalesce(CASE WHEN m.source_id = l.source_id AND m.generation = l.generation THEN m.byte_offset > l.byte_offset
                      ELSE m.event_at >= l.event_at + to_microseconds(greatest(l.stamp_res_us, 1)) END, false)) AS all_after
    FROM line l JOIN mark m ON m.run_id = l.run_id AND m.attempt = l.attempt
    GROUP BY l.rec_id, l.run_id
)
SELECT l.rec_id, l.run_id, l.attempt, l.rank, l.host, l.pid, l.compiler, l.what, l.seconds, l.stage,
    CASE WHEN j.some_before THEN true WHEN j.all_after THEN false END AS after_bench,
    l.step, l.rule, l.console, l.path, l.line_no, l.source_id, l.generation, l.byte_offset, l.byte_length, l.event_at, l.observed_at
FROM line l LEFT JOIN judged j ON j.rec_id = l.rec_id AND j.run_id = l.run_id;

CREATE OR REPLACE VIEW compile_after_bench AS SELECT * FROM compiles WHERE after_bench;
