-- What files beside a run say that it was made of: resolved configurations, receipts of workers, sidecars, manifests, and the
-- configuration that a W&B client kept. One row a key, written again whenever the file says anything else; of a path the rows
-- with the last observed_at count. `gone`: the file is no more, or says nothing.
CREATE TABLE config_value (
    rec_id BIGINT, host VARCHAR, root VARCHAR, path VARCHAR, run_hint VARCHAR,
    kind VARCHAR,               -- hydra | config | recipe | receipt | meta | manifest | wandb
    side VARCHAR,               -- launcher | worker
    digest VARCHAR,             -- SHA-256 of all that the file says
    gone BOOLEAN,
    key VARCHAR,                -- as it stands there, levels joined by dots; '' with a problem
    name VARCHAR,               -- what it is matched by: record/flat.py
    value VARCHAR, line_no BIGINT,
    secret BOOLEAN,             -- the value is a reference to the place where the secret stands
    problem VARCHAR,            -- the file could not be read, or not whole
    modified_at TIMESTAMP, observed_at TIMESTAMP
);
