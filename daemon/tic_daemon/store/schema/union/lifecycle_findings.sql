-- A finding once, though several daemons read its log: one on a shared file system, or the same one again. The row of the
-- store that knows most of it wins: its end, its steps.
SELECT * EXCLUDE (part_store)
FROM part_lifecycle_findings
QUALIFY row_number() OVER (
    -- Of a log that was renamed before one of them came, the numbers of generations differ: its time tells them apart.
    PARTITION BY run_id, kind, log_host, path, line_no, byte_offset, pid, from_at, CASE WHEN from_at IS NULL THEN generation END
    ORDER BY until_offset IS NULL, last_step IS NULL, first_step IS NULL, observed_at, part_store) = 1
