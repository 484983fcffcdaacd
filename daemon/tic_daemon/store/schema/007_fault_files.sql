-- Files that a fault left beside the logs, and how each one looked when it changed (sources/faultfiles.py). Append-only: of
-- one path the row with the latest `observed_at` counts. Seen by names and `lstat` alone; none of them is opened.
CREATE TABLE fault_file (
    host VARCHAR, root VARCHAR, path VARCHAR,
    kind VARCHAR,           -- core | cuda_core | flight_recorder | compute_sanitizer | py_spy
    pid BIGINT, rank INTEGER, named_host VARCHAR,  -- what its name tells of the process; '' if no host
    bytes_size BIGINT, modified_at TIMESTAMP,
    present BOOLEAN,        -- false: it was there and is gone
    observed_at TIMESTAMP
);
