-- What reconciling remembers between its slices: see ../../../reconcile.py. None of it has a past, and all of it can be
-- made anew from the events; what views show is d_wandb_gap and d_wandb_step.

-- Sources that are held against each other, and how far each is taken in.
--   kind        wandb_local | wandb_api | log (lines of metrics of a run that has W&B sources)
--   framework, shared, main, prefix   how its keys tell training steps: wandb/keys.py. A change takes the source in anew
CREATE TABLE d_wandb_source (
    source_id BIGINT, kind VARCHAR, framework VARCHAR, shared BOOLEAN, main VARCHAR, prefix VARCHAR, upto BIGINT
);

-- What one row of a history, or one line of metrics, says of one training step.
--   rec_id, last_rec_id   of the row, or of the line's metrics
--   axis, step  the training step. `axis` is `_step` for rows that do not tell the number on their own axis
--   holds       the axes whose keys these are
--   keys, content   how many values, and what they are as a set: equal content is equal values
--   at          when it was written, or read if that is not known
CREATE TABLE d_wandb_unit (
    source_id BIGINT, generation INTEGER, proc VARCHAR, byte_offset BIGINT, rec_id BIGINT, last_rec_id BIGINT, axis VARCHAR,
    holds VARCHAR[], step BIGINT, wandb_step BIGINT, row_no BIGINT, read_id VARCHAR, keys BIGINT, content UBIGINT, bytes BIGINT,
    told_at TIMESTAMP
);

-- Keys that a source has; of lines of metrics as W&B calls them.
CREATE TABLE d_wandb_key (source_id BIGINT, key VARCHAR, axis VARCHAR);

-- Steps whose values were held against each other, as they were then, and what came of it: `n` keys, 20 of them named.
CREATE TABLE d_wandb_compared (run_id VARCHAR, axis VARCHAR, step BIGINT, sign UBIGINT);
CREATE TABLE d_wandb_diff (
    run_id VARCHAR, wid VARCHAR, axis VARCHAR, step BIGINT, kind VARCHAR, source VARCHAR, other VARCHAR, n BIGINT, names VARCHAR[],
    detail VARCHAR
);

-- What follows, with validity: the columns of t_<name> in 3_gaps.sql.
CREATE TABLE d_wandb_gap (
    run_id VARCHAR, attempt BIGINT, wandb_id VARCHAR, kind VARCHAR, source VARCHAR, axis VARCHAR, first_step BIGINT, last_step BIGINT,
    steps BIGINT, key VARCHAR, cause VARCHAR, other VARCHAR, evidence VARCHAR, confirmed_reads BIGINT, counts BOOLEAN, due_at TIMESTAMP,
    first_seen_at TIMESTAMP, row_hash UBIGINT, valid_from TIMESTAMP, valid_to TIMESTAMP
);
CREATE TABLE d_wandb_step (
    run_id VARCHAR, attempt BIGINT, source VARCHAR, axis VARCHAR, step BIGINT, state VARCHAR, due_at TIMESTAMP, rows BIGINT, keys BIGINT,
    first_at TIMESTAMP, main BOOLEAN, row_hash UBIGINT, valid_from TIMESTAMP, valid_to TIMESTAMP
);
CREATE TABLE d_wandb_history (
    run_id VARCHAR, wandb_id VARCHAR, attempt BIGINT, logs BIGINT, read BOOLEAN, answered BOOLEAN, closed BOOLEAN, over BOOLEAN, shared BOOLEAN,
    main VARCHAR, local_steps BIGINT, server_steps BIGINT, last_step BIGINT, framework VARCHAR, row_hash UBIGINT, valid_from TIMESTAMP,
    valid_to TIMESTAMP
);
