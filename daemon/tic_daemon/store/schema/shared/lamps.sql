-- The lamps of consistency and quality, beside `execution`. Reads views comparisons, criteria and ledger, of one store
-- or of several united, `store` with its id, and `run`: what run_states says.
--
-- Consistency: what comparisons for evidence of the latest attempt say. A diagnosis (a trace, a planted error, an intervention,
-- another scope) is none of them. Any failure counts, a pass only between the two stacks: no other goal stands for that.
-- Where a failure was superseded, or its criterion replaced, an earlier pass does not take its place.
judged AS MATERIALIZED (
    SELECT c.run_id, c.attempt, c.comparison_id, c.goal, c.label, c.criterion_id, c.observed_at, c.not_evidence_because,
        CASE WHEN c.admissibility <> 'admissible' THEN c.admissibility || ': ' || c.admissibility_reason
             WHEN c.marked OR coalesce(r.marked, false) THEN 'marked inconclusive'
             WHEN c.label = 'FAIL' THEN '' -- also of files that changed since
             WHEN c.not_evidence_because <> '' THEN c.not_evidence_because
             WHEN c.label = 'PASS' THEN '' ELSE c.reason END AS lowered,
        c.reason, r.attempt AS latest
    FROM comparisons c LEFT JOIN run r ON r.run_id = c.run_id
    WHERE c.kind = 'tokens' AND c.planted_error IS NULL AND c.run_id IS NOT NULL AND coalesce(c.intervention, 'none') = 'none'
      AND coalesce(c.scope, 'fixed-input') = 'fixed-input' AND (c.label = 'FAIL' OR c.goal IS NULL OR c.goal IN ('', 'unknown', 'cross_stack'))
),
criterion AS MATERIALIZED (
    SELECT c.criterion_id, c.gate, c.cell, c.state, r.replaced_at FROM criteria c
    LEFT JOIN (SELECT criterion_id, max(observed_at) AS replaced_at FROM ledger WHERE kind = 'replaced' GROUP BY ALL) r USING (criterion_id)
),
answered AS MATERIALIZED (
    SELECT e.id AS evidence_id, e.target, s.reason, s.said_at, s.id, s.observed_at
    FROM ledger s JOIN ledger e ON e.id = s.target AND e.kind = 'evidence' WHERE s.kind = 'supersede'
),
gone AS (
    SELECT target AS comparison_id, arg_max(reason, (said_at, id)) AS why, max(observed_at) AS gone_at FROM answered GROUP BY target
),
-- From what a run stood on last to how it stands: what was superseded, and whose criterion was replaced, is no longer current.
weighed AS (
    SELECT j.*, g.why AS superseded, coalesce(k.state = 'historical', false) AS historical, greatest(g.gone_at, k.replaced_at, j.observed_at) AS left_at,
        CASE WHEN j.lowered <> '' THEN 'inconclusive' WHEN j.label = 'FAIL' THEN 'fail' WHEN j.goal = 'cross_stack' THEN 'pass'
             ELSE 'inconclusive' END AS state,
        CASE WHEN j.lowered <> '' THEN j.lowered WHEN j.label = 'FAIL' AND coalesce(j.goal, '') NOT IN ('', 'unknown', 'cross_stack')
             THEN j.goal || ': ' || j.reason WHEN j.label = 'PASS' AND j.goal IS DISTINCT FROM 'cross_stack' THEN 'its goal is not stated' ELSE j.reason END AS why
    FROM judged j
    LEFT JOIN gone g ON g.comparison_id = j.comparison_id
    LEFT JOIN criterion k ON k.criterion_id = j.criterion_id
),
consistency AS MATERIALIZED (
    SELECT run_id, coalesce(max(latest), max(attempt)) AS attempt,
        count(*) FILTER (current AND state = 'fail') AS failed, count(*) FILTER (current AND state = 'inconclusive') AS open,
        count(*) FILTER (current AND state = 'pass') AS passed,
        arg_max(why, (observed_at, comparison_id)) FILTER (current AND state = 'fail') AS why_failed,
        arg_max(why, (observed_at, comparison_id)) FILTER (current AND state = 'inconclusive') AS why_open,
        arg_max(why, (observed_at, comparison_id)) FILTER (current AND state = 'pass') AS why_passed,
        arg_max(superseded, (observed_at, comparison_id)) FILTER (superseded IS NOT NULL AND NOT older) AS why_gone,
        bool_or(older AND superseded IS NULL AND NOT historical) AS before, bool_or(historical) AS historical,
        coalesce(max(left_at) FILTER (state = 'fail' AND NOT current AND NOT older) >= max(observed_at) FILTER (current AND state = 'pass'), false) AS washed
    FROM (SELECT *, coalesce(attempt < latest, false) AS older, superseded IS NULL AND NOT historical AND NOT older AS current FROM weighed)
    GROUP BY run_id
),
-- Quality: held-out scores that a criterion of that cell judged, of this run: any failure, else the newest by each criterion.
score_told AS MATERIALIZED (
    SELECT e.id, e.criterion_id, e.label, e.reason, e.observed_at, coalesce(from_json(e.body->'$.of', '["VARCHAR"]'), [e.run_id]) AS runs,
        coalesce(from_json(e.body->'$.runs', '["VARCHAR"]'), [e.run_id]) AS arms, k.state = 'historical' AS historical, k.replaced_at
    FROM ledger e JOIN criterion k ON k.criterion_id = e.criterion_id AND k.gate = 'acceptance' AND k.cell = 'quality'
    WHERE e.kind = 'evidence'
    QUALIFY e.gate = '' OR row_number() OVER (PARTITION BY e.candidate_id, e.target, e.criterion_id ORDER BY e.observed_at DESC, e.said_at DESC, e.id DESC) = 1
),
scored AS (
    SELECT unnest(e.runs) AS run_id, e.criterion_id, e.label, e.reason, e.observed_at, e.id, a.reason AS superseded, e.historical, d.why AS lowered,
        greatest(a.gone_at, e.replaced_at, e.observed_at) AS left_at
    FROM score_told e
    LEFT JOIN (SELECT evidence_id, arg_max(reason, (said_at, id)) AS reason, max(observed_at) AS gone_at FROM answered GROUP BY evidence_id) a ON a.evidence_id = e.id
    -- A fault or a mark of any run of either arm.
    LEFT JOIN (
        SELECT t.id, CASE WHEN bool_or(r.locked) THEN 'locked: a fault stands before it' ELSE 'marked inconclusive' END AS why
        FROM (SELECT id, unnest(arms) AS run_id FROM score_told) t JOIN run r ON r.run_id = t.run_id AND (r.locked OR r.marked) GROUP BY t.id
    ) d ON d.id = e.id
),
score AS (
    SELECT run_id, criterion_id,
        CASE WHEN bool_or(label = 'FAIL' AND lowered IS NULL) FILTER (current) THEN 3
             WHEN bool_or(label = 'FAIL' AND lowered = 'marked inconclusive') FILTER (current) THEN 2 -- a mark makes no earlier pass one
             WHEN arg_max(CASE WHEN lowered IS NULL THEN label ELSE '' END, (observed_at, id)) FILTER (current) = 'PASS' THEN 1 WHEN bool_or(current) THEN 2 ELSE 0 END AS rank,
        coalesce(arg_max(reason, (observed_at, id)) FILTER (current AND label = 'FAIL' AND lowered IS NULL),
            arg_max(lowered, (observed_at, id)) FILTER (current AND label = 'FAIL' AND lowered = 'marked inconclusive'), arg_max(coalesce(lowered, reason), (observed_at, id)) FILTER (current)) AS why,
        arg_max(superseded, (observed_at, id)) FILTER (superseded IS NOT NULL) AS why_gone, bool_or(historical) AS historical,
        max(left_at) FILTER (label = 'FAIL' AND lowered IS NULL AND NOT current) AS failed_until, max(observed_at) FILTER (current AND label = 'PASS') AS passed_at
    FROM (SELECT *, superseded IS NULL AND NOT historical AS current FROM scored) GROUP BY run_id, criterion_id
),
quality AS (
    SELECT run_id, max(rank) AS rank, arg_max(why, rank) AS why, max(why_gone) AS why_gone, bool_or(historical) AS historical,
        coalesce(max(rank) = 1 AND max(failed_until) >= max(passed_at), false) AS washed
    FROM score GROUP BY run_id
),
known AS MATERIALIZED (
    SELECT run_id, attempt FROM run
    UNION ALL SELECT run_id, attempt FROM consistency WHERE run_id NOT IN (SELECT run_id FROM run)
)
SELECT s.store, k.run_id, 'execution' AS lamp, coalesce(e.state, 'not run') AS state, coalesce(e.stale, false) AS stale,
    coalesce(e.because, 'no log of it was read') AS because, k.attempt
FROM known k CROSS JOIN store s LEFT JOIN execution e ON e.run_id = k.run_id
UNION ALL
SELECT s.store, k.run_id, 'consistency',
    CASE WHEN c.failed > 0 THEN 'fail' WHEN c.open > 0 THEN 'inconclusive' WHEN c.passed > 0 AND NOT c.washed THEN 'pass' ELSE 'not run' END,
    coalesce(c.failed = 0 AND c.open = 0 AND (c.washed OR (c.passed = 0 AND (c.why_gone IS NOT NULL OR c.before))), false),
    CASE WHEN c.failed > 0 THEN c.why_failed || CASE WHEN c.failed > 1 THEN ' (' || c.failed || ' comparisons fail)' ELSE '' END
         WHEN c.open > 0 THEN c.why_open || CASE WHEN c.open > 1 THEN ' (' || c.open || ' comparisons are inconclusive)' ELSE '' END
         WHEN c.washed THEN 'stale: ' || coalesce(c.why_gone, 'it failed by a criterion that was replaced') || ', and nothing newer passes'
         WHEN c.passed > 0 THEN c.why_passed || CASE WHEN c.passed > 1 THEN ' (the last of ' || c.passed || ' comparisons that pass)' ELSE '' END
         WHEN c.why_gone IS NOT NULL THEN 'stale: ' || c.why_gone
         WHEN c.before THEN 'stale: an earlier attempt was compared, attempt ' || k.attempt || ' was not'
         WHEN c.historical THEN 'historical: its criterion was replaced'
         ELSE 'nothing of it was compared' END,
    k.attempt
FROM known k CROSS JOIN store s LEFT JOIN consistency c ON c.run_id = k.run_id
UNION ALL
SELECT s.store, k.run_id, 'quality',
    CASE WHEN coalesce(q.rank, 0) = 0 OR q.washed THEN 'not run' WHEN q.rank = 2 THEN 'inconclusive' WHEN q.rank = 3 THEN 'fail' ELSE 'pass' END,
    coalesce(q.washed OR (q.rank = 0 AND q.why_gone IS NOT NULL), false),
    CASE WHEN q.washed THEN 'stale: ' || coalesce(q.why_gone, 'it failed by a criterion that was replaced') || ', and nothing newer passes'
         WHEN q.rank > 0 THEN q.why
         WHEN q.why_gone IS NOT NULL THEN 'stale: ' || q.why_gone
         WHEN q.historical THEN 'historical: its criterion was replaced'
         ELSE 'no held-out score of it was judged' END,
    k.attempt
FROM known k CROSS JOIN store s LEFT JOIN quality q ON q.run_id = k.run_id
