-- Reads views ledger, criteria and evidence_current, of one store or of several united.
-- A cell's own evidence counts first: FAIL until it is superseded, else the newest by each criterion, and the worst of the criteria.
-- What a person says of a FAIL (a mark, another criterion, another purpose) takes it away and makes no earlier PASS one.
WITH RECURSIVE candidate AS MATERIALIZED (
    SELECT candidate_id, nullif(target, '') AS parent_id, coalesce(lower(trim(body->>'$.fields."rollout.lifecycle"')) = 'none', false) AS screening,
        coalesce(from_json(body->'$.stale', '[["VARCHAR"]]'), []) AS stale
    FROM ledger WHERE kind = 'candidate'
    QUALIFY row_number() OVER (PARTITION BY candidate_id ORDER BY observed_at, seq) = 1
),
above AS (
    SELECT candidate_id, parent_id AS ancestor_id FROM candidate WHERE parent_id IS NOT NULL
    UNION
    SELECT a.candidate_id, c.parent_id FROM above a JOIN candidate c ON c.candidate_id = a.ancestor_id WHERE c.parent_id IS NOT NULL
),
fixed AS (
    SELECT * FROM (VALUES
        (1, 1, 'module', 'repeat', false), (2, 1, 'module', 'forward', false), (3, 1, 'module', 'gradients', false),
        (4, 2, 'proxy', 'batch_invariance', false), (5, 2, 'proxy', 'prefill_decode', false), (6, 2, 'proxy', 'old_logprob', false),
        (7, 2, 'proxy', 'actor_forward', false), (8, 3, 'zero_update', 'replay', true), (9, 4, 'per_version', '*', true),
        (10, 5, 'acceptance', 'module_gradients', false), (11, 5, 'acceptance', 'gradient_coverage', false),
        (12, 5, 'acceptance', 'real_rl', true), (13, 5, 'acceptance', 'quality', false), (14, 5, 'acceptance', 'performance', false),
        (15, 5, 'acceptance', 'clean_exit', true), (16, 5, 'acceptance', 'final_image', true)
    ) f(position, gate_no, gate, cell, lifecycle)
),
-- All that was ever judged, with the cell that it is for.
judged AS MATERIALIZED (
    SELECT l.id, l.candidate_id, coalesce(nullif(l.gate, ''), c.gate) AS gate,
        CASE WHEN l.gate <> '' THEN l.cell WHEN c.gate = 'per_version' THEN l.policy ELSE c.cell END AS cell,
        c.replaced_by IS NOT NULL AS historical, l.observed_at, l.label, l.criterion_id
    FROM ledger l LEFT JOIN criteria c ON c.criterion_id = l.criterion_id
    WHERE l.kind = 'evidence' AND (l.gate <> '' OR (c.gate IS NOT NULL AND (c.gate <> 'per_version' OR l.policy <> '')))
),
-- By the clock of who has the rows: what a person's clock says orders nothing here.
superseded AS (
    SELECT j.candidate_id, j.gate, j.cell, max(greatest(s.observed_at, j.observed_at)) AS last_at, arg_max(s.reason, (s.said_at, s.id)) AS why
    FROM judged j JOIN ledger s ON s.kind = 'supersede' AND s.target = j.id GROUP BY ALL
),
-- When the criterion of a failure was replaced, or it was judged by one that was.
loosened AS (
    SELECT j.candidate_id, j.gate, j.cell, max(greatest(s.observed_at, j.observed_at)) AS last_at
    FROM judged j JOIN ledger s ON s.kind = 'replaced' AND s.criterion_id = j.criterion_id
    WHERE j.label = 'FAIL' AND j.id NOT IN (SELECT target FROM ledger WHERE kind = 'supersede') GROUP BY ALL
),
told AS (
    SELECT *, state = 'inconclusive' AND label = 'FAIL'
        AND (reason = 'marked inconclusive' OR starts_with(reason, 'intervention ') OR starts_with(reason, 'scope ')) AS talked_away
    FROM evidence_current WHERE gate IS NOT NULL AND cell IS NOT NULL
),
item AS (
    SELECT candidate_id, gate, cell, criterion_id, max(observed_at) AS last_at, count(*) AS pieces,
        CASE WHEN bool_or(state = 'fail') THEN 'fail' WHEN bool_or(talked_away) THEN 'inconclusive' ELSE arg_max(state, (said_at, id)) END AS state,
        coalesce(arg_max(id, (said_at, id)) FILTER (WHERE state = 'fail'), arg_max(id, (said_at, id)) FILTER (WHERE talked_away),
            arg_max(id, (said_at, id))) AS evidence_id,
        coalesce(arg_max(reason, (said_at, id)) FILTER (WHERE state = 'fail'), arg_max(reason, (said_at, id)) FILTER (WHERE talked_away),
            arg_max(reason, (said_at, id))) AS reason
    FROM told GROUP BY ALL
),
ranked AS (SELECT *, CASE state WHEN 'fail' THEN 3 WHEN 'inconclusive' THEN 2 ELSE 1 END AS rank FROM item),
own AS (
    SELECT candidate_id, gate, cell, max(last_at) AS last_at, sum(pieces)::BIGINT AS pieces, arg_max(state, (rank, last_at, evidence_id)) AS state,
        arg_max(evidence_id, (rank, last_at, evidence_id)) AS evidence_id, arg_max(reason, (rank, last_at, evidence_id)) AS reason
    FROM ranked GROUP BY ALL
),
place AS MATERIALIZED (
    SELECT c.candidate_id, f.position, f.gate_no, f.gate, f.cell, f.lifecycle FROM candidate c CROSS JOIN fixed f WHERE f.gate <> 'per_version'
    UNION ALL
    SELECT c.candidate_id, f.position, f.gate_no, f.gate, coalesce(v.cell, f.cell), f.lifecycle
    FROM candidate c CROSS JOIN (SELECT * FROM fixed WHERE gate = 'per_version') f
    LEFT JOIN (SELECT DISTINCT candidate_id, cell FROM judged WHERE gate = 'per_version') v ON v.candidate_id = c.candidate_id
),
-- What each cell is by its own evidence; NULL: by none.
stood AS MATERIALIZED (
    SELECT p.*, c.parent_id, o.pieces, o.evidence_id, s.last_at IS NOT NULL AND coalesce(s.last_at >= o.last_at, true) AS replaced, s.why AS replaced_because,
        CASE WHEN s.last_at IS NOT NULL AND coalesce(s.last_at >= o.last_at, true) THEN NULL
             WHEN o.state = 'pass' AND (w.last_at >= o.last_at OR (p.lifecycle AND c.screening)) THEN 'inconclusive' ELSE o.state END AS state,
        CASE WHEN o.state = 'pass' AND w.last_at >= o.last_at THEN 'it failed by a criterion that was replaced, and nothing newer passes'
             WHEN o.state = 'pass' AND p.lifecycle AND c.screening THEN 'for screening only: ' || o.reason ELSE o.reason END AS reason
    FROM place p
    JOIN candidate c ON c.candidate_id = p.candidate_id
    LEFT JOIN own o ON o.candidate_id = p.candidate_id AND o.gate = p.gate AND o.cell = p.cell
    LEFT JOIN superseded s ON s.candidate_id = p.candidate_id AND s.gate = p.gate AND s.cell = p.cell
    LEFT JOIN loosened w ON w.candidate_id = p.candidate_id AND w.gate = p.gate AND w.cell = p.cell
),
-- A pass carries over from a parent, or one above it, that has it by its own evidence and with the lifecycle of a run.
exempted AS (
    SELECT x.candidate_id, p.gate, p.cell, bool_or(coalesce(t.state = 'pass', false)) AS holds,
        arg_max(x.target, (coalesce(t.state = 'pass', false), x.said_at, x.id)) AS from_id,
        arg_max(x.reason, (coalesce(t.state = 'pass', false), x.said_at, x.id)) AS reason
    FROM ledger x
    JOIN place p ON p.candidate_id = x.candidate_id AND p.gate = x.gate AND (x.cell = '' OR x.cell = p.cell)
    LEFT JOIN (
        SELECT a.candidate_id AS heir_id, s.candidate_id, s.gate, s.cell, s.state
        FROM stood s JOIN above a ON a.ancestor_id = s.candidate_id JOIN candidate c ON c.candidate_id = s.candidate_id
        WHERE NOT c.screening
    ) t ON t.heir_id = x.candidate_id AND t.candidate_id = x.target AND t.gate = p.gate AND t.cell = p.cell
    WHERE x.kind = 'exemption' AND x.gate <> 'per_version' GROUP BY ALL
),
stale AS (
    SELECT candidate_id, one[1] AS gate, one[2] AS cell, string_agg(one[3], '; ' ORDER BY one[3]) AS cause
    FROM (SELECT candidate_id, unnest(stale) AS one FROM candidate) GROUP BY ALL
),
-- Gates of which a parent, or one above it, ever had evidence in the cell; of policy versions in any.
reached AS (
    SELECT DISTINCT a.candidate_id, j.gate, CASE WHEN j.gate = 'per_version' THEN '*' ELSE j.cell END AS cell
    FROM above a JOIN (SELECT DISTINCT candidate_id, gate, CASE WHEN gate = 'per_version' THEN '*' ELSE cell END AS cell FROM judged) j
        ON j.candidate_id = a.ancestor_id
),
historical AS (SELECT DISTINCT candidate_id, gate, cell FROM judged WHERE historical),
cells AS MATERIALIZED (
    SELECT s.candidate_id, s.gate_no, s.gate, s.cell, s.position, s.pieces,
        CASE WHEN s.state IS NULL AND NOT s.replaced AND x.holds THEN NULL ELSE s.evidence_id END AS evidence_id,
        CASE WHEN s.state IS NULL AND NOT s.replaced AND x.holds THEN x.from_id END AS carried_from,
        CASE WHEN s.state IS NOT NULL THEN s.state WHEN s.replaced THEN 'not run' WHEN x.holds THEN 'pass' ELSE 'not run' END AS state,
        s.state IS NULL AND (s.replaced OR (NOT coalesce(x.holds, false) AND t.cause IS NOT NULL AND r.cell IS NOT NULL)) AS stale,
        CASE WHEN s.state IS NOT NULL THEN coalesce(s.reason, '')
             WHEN s.replaced THEN 'stale: ' || s.replaced_because
             WHEN x.holds THEN 'carried from ' || x.from_id[:12] || ': ' || x.reason
             WHEN t.cause IS NOT NULL AND r.cell IS NOT NULL THEN 'stale: ' || t.cause
             WHEN h.cell IS NOT NULL THEN 'historical: its criterion was replaced'
             WHEN x.from_id IS NOT NULL THEN 'an exemption names ' || x.from_id[:12] || ', which has no pass here to carry over'
             WHEN b.state IS NOT NULL THEN 'parent ' || s.parent_id[:12] || ': ' || b.state || ', which does not carry over'
             ELSE '' END AS cause
    FROM stood s
    LEFT JOIN exempted x ON x.candidate_id = s.candidate_id AND x.gate = s.gate AND x.cell = s.cell
    LEFT JOIN stale t ON t.candidate_id = s.candidate_id AND t.gate = s.gate AND t.cell = CASE WHEN s.gate = 'per_version' THEN '*' ELSE s.cell END
    LEFT JOIN reached r ON r.candidate_id = s.candidate_id AND r.gate = s.gate AND r.cell = CASE WHEN s.gate = 'per_version' THEN '*' ELSE s.cell END
    LEFT JOIN historical h ON h.candidate_id = s.candidate_id AND h.gate = s.gate AND h.cell = s.cell
    LEFT JOIN stood b ON b.candidate_id = s.parent_id AND b.gate = s.gate AND b.cell = s.cell
),
of_gate AS (
    SELECT candidate_id, gate,
        CASE WHEN bool_or(state = 'fail') THEN 'fail' WHEN bool_or(state = 'inconclusive') THEN 'inconclusive'
             WHEN bool_and(state = 'pass') THEN 'pass' ELSE 'not run' END AS gate_state
    FROM cells GROUP BY ALL
)
SELECT c.candidate_id, c.gate_no, c.gate, c.cell, c.state, c.stale, c.cause, g.gate_state, coalesce(c.pieces, 0) AS pieces, c.evidence_id,
    c.carried_from, c.position
FROM cells c JOIN of_gate g ON g.candidate_id = c.candidate_id AND g.gate = c.gate
