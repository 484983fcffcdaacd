-- Checkpoint directories and how each one looked when it changed (sources/checkpoints.py). Append-only: of one path the
-- row with the latest `observed_at` counts. Seen by names and `stat` alone; nothing in a checkpoint is opened.
CREATE TABLE checkpoint (
    host VARCHAR, root VARCHAR, path VARCHAR,
    step BIGINT,            -- from the directory's name
    layout VARCHAR,         -- the form of its name: global_step | checkpoint | iter | step
    bytes_size BIGINT, files BIGINT,  -- of the entries that were looked at, two levels deep
    modified_at TIMESTAMP,  -- of its newest entry
    complete BOOLEAN,
    present BOOLEAN,        -- false: it was there and is gone
    why VARCHAR,            -- what shows that it is complete, or what is waited for
    observed_at TIMESTAMP
);
