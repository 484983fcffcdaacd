-- What the daemon has derived from the events (derive/*.sql), as it was known at the as-of time.

CREATE OR REPLACE VIEW i_place AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_place
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_attempt AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_attempt
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_fault AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_fault
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_kept_stand AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_stand
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_lock_setting AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_lock_setting
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_attempt_fault AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_attempt_fault
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_witness AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_witness
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_device AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_device
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_gpu_use AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_gpu_use
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_began AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_began
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_finding AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_finding
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_finding_zone AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_finding_zone
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_finding_span AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_finding_span
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_finding_line AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_finding_line
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_voice AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_voice
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_own_state AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_own_state
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_in_force AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_in_force
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_wandb_gap AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_wandb_gap
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_wandb_step AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_wandb_step
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));

CREATE OR REPLACE VIEW i_wandb_history AS
SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_wandb_history
WHERE valid_from <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (valid_to IS NULL OR valid_to > coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP));
