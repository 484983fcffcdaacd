-- The run of what nobody names a run for, in `lost` (host, root, path): that of the logs in the nearest directory above that
-- has any, if they are of one run (`near`); where there are none, the only run of the store (`sole`).
near AS (
    SELECT c.host, c.path, arg_max(f.run_id, c.depth) AS run_id, arg_max(f.runs, c.depth) AS runs
    FROM (SELECT host, path, root, unnest(range(2, len(string_split(path, '/')))) AS depth FROM lost) c
    JOIN i_run_folder f ON f.host = c.host AND f.dir = array_to_string(string_split(c.path, '/')[1:c.depth], '/')
    WHERE len(f.dir) >= len(rtrim(c.root, '/'))
    GROUP BY c.host, c.path
),
sole AS (SELECT CASE WHEN count(DISTINCT run_id) = 1 THEN min(run_id) END AS run_id FROM i_place)
