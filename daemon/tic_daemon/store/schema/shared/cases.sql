-- Reads view ledger, of one store or of several united. Of each part the last that was said counts; the ledger keeps all.
SELECT c.name, max(nullif(c.run_id, '')) AS run_id, max(nullif(c.candidate_id, '')) AS candidate_id,
    coalesce(arg_max(nullif(c.said.parts['contract'], ''), (c.said_at, c.id)), 'not shown') AS contract,
    coalesce(arg_max(nullif(c.said.parts['counterexample'], ''), (c.said_at, c.id)), 'not shown') AS counterexample,
    coalesce(arg_max(nullif(c.said.parts['experiment'], ''), (c.said_at, c.id)), 'not shown') AS experiment,
    coalesce(arg_max(nullif(c.said.parts['fix'], ''), (c.said_at, c.id)), 'not shown') AS fix,
    coalesce(arg_max(nullif(c.said.parts['regression'], ''), (c.said_at, c.id)), 'not shown') AS regression,
    coalesce(arg_max(nullif(c.said.parts['scope'], ''), (c.said_at, c.id)), 'not shown') AS scope,
    list_sort(list_distinct(flatten(list(coalesce(c.said.ruled_out, []))))) AS ruled_out,
    min(c.said_at) AS opened_at, max(c.said_at) AS said_at, string_agg(DISTINCT c.who, ', ' ORDER BY c.who) AS who, count(*) AS entries
FROM (
    SELECT *, said.name AS name
    FROM (
        SELECT *, from_json(body, '{"name": "VARCHAR", "parts": "MAP(VARCHAR, VARCHAR)", "ruled_out": ["VARCHAR"]}') AS said
        FROM ledger WHERE kind = 'case'
    )
) c
GROUP BY c.name
