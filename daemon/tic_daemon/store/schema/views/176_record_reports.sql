-- Reports that records name and that are not there, say otherwise, or cannot be reached from their log; what is well is not here.
CREATE OR REPLACE VIEW record_reports AS
SELECT rec_id, nullif(run, '') AS run_id,
    CASE kind WHEN 'report_missing' THEN 'missing' WHEN 'report_differs' THEN 'differs' ELSE 'not reachable' END AS state,
    subject AS report, path, detail, host, observed_at
FROM (SELECT * FROM b_result_gap QUALIFY row_number() OVER (PARTITION BY host, path, kind, subject ORDER BY rec_id DESC) = 1)
WHERE present AND kind IN ('report_missing', 'report_differs', 'report_unchecked');
