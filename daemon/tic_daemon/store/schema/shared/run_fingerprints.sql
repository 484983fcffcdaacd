SELECT run_id, max(attempt) AS attempt,
    sha256(string_agg(to_json(field)::VARCHAR || ':' || to_json(same_value)::VARCHAR, chr(10) ORDER BY field) FILTER (value <> 'unknown')) AS fingerprint,
    count(*) FILTER (value <> 'unknown') AS known, count(*) FILTER (value = 'unknown') AS unknown,
    coalesce(list(field ORDER BY position) FILTER (value = 'unknown'), []) AS unknown_fields,
    coalesce(list(field ORDER BY position) FILTER (state = 'disagree'), []) AS disagreeing_fields, max(observed_at) AS observed_at
FROM run_records WHERE in_fingerprint GROUP BY run_id
