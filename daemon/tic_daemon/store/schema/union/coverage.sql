-- Ranks that any store names. A rank is watched if one daemon watches it.
SELECT run_id, rank, bool_or(mentioned) AS mentioned, bool_or(watched) AS watched,
    CASE WHEN bool_or(state = 'watched') THEN 'watched' WHEN bool_or(state = 'in a shared log') THEN 'in a shared log'
         ELSE 'not watched' END AS state,
    sum(sources)::BIGINT AS sources, max(last_growth_at) AS last_growth_at, min(path) AS path
FROM part_coverage GROUP BY run_id, rank
