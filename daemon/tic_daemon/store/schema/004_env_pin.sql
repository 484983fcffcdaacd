-- Pins of the environment in files beside the run: one row a name and line, written again whenever the file changes; of a
-- path the rows with the last observed_at count. `gone`: the file holds none any more, or is no more.
CREATE TABLE env_pin (
    rec_id BIGINT, host VARCHAR, root VARCHAR, path VARCHAR, run_hint VARCHAR, digest VARCHAR, gone BOOLEAN,
    line_no BIGINT, name VARCHAR, value VARCHAR,
    form VARCHAR,               -- export | assign | default | argument
    hard BOOLEAN, modified_at TIMESTAMP, observed_at TIMESTAMP
);
