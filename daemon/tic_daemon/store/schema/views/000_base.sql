-- The layer under all public views: b_<table> shows a base table as it was known at the as-of time. Public views read
-- base tables through it and in no other way (tests/store/test_base_views.py forbids it), and name no catalog, so that
-- the file answers under any name that it is attached as.
--
-- Variables of the reader's own connection; unset, they cost nothing:
--   as_of   TIMESTAMP, naive UTC: rows observed later do not exist.
--   spool   JSON text, a list of spool lines: marks and attempts that people made and no daemon has taken in yet.
--           Lines whose id is in the table already are left out here, so that giving too many is harmless.
--   told    JSON text, a list of faults that other stores tell of (exchange_lines.py): what this store's daemon has not
--           heard, because it ended before or cannot be reached. What the store has heard is left out, too.
--
-- Provisional rows (prov not NULL: an open record, or a last line without its newline) count while they equal their
-- cursor's prov. The two halves of the UNION are for speed: on final rows the first is a plain scan, and zone maps skip
-- the second; prov is written as NULL in the first, so that who asks for provisional rows alone reads no final one. Under as-of a provisional row is shown if it still stands today: cursors have no past.

CREATE OR REPLACE VIEW b_mismatch AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM mismatch
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM mismatch
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_fault AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM fault
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM fault
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_step_event AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM step_event
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM step_event
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_metric AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM metric
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM metric
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_exec_state AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM exec_state
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM exec_state
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_weight_phase AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM weight_phase
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM weight_phase
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_device AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM device
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM device
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_timing AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM timing
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM timing
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_source_run AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM source_run
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM source_run
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_process_seen AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM process_seen
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM process_seen
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_stamp_after AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM stamp_after
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM stamp_after
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_source_gap AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM source_gap
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM source_gap
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_transport AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM transport
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM transport
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_compile_event AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM compile_event
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM compile_event
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_bench_mark AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM bench_mark
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM bench_mark
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_wandb_named AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM wandb_named
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM wandb_named
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_env_seen AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM env_seen
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM env_seen
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

CREATE OR REPLACE VIEW b_file_said AS
SELECT * REPLACE (NULL::BIGINT AS prov) FROM file_said
WHERE prov IS NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT * FROM file_said
WHERE prov IS NOT NULL AND observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND (source_id, generation, prov) IN (SELECT source_id, generation, prov FROM cursor WHERE prov IS NOT NULL);

-- Of GPUs nothing is provisional.
CREATE OR REPLACE VIEW b_gpu_info AS
SELECT * FROM gpu_info WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_gpu_sample AS
SELECT * FROM gpu_sample WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_gpu_process AS
SELECT * FROM gpu_process WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_gpu_event AS
SELECT * FROM gpu_event WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

-- Of W&B nothing is provisional.
CREATE OR REPLACE VIEW b_wandb_row AS
SELECT * FROM wandb_row WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_wandb_value AS
SELECT * FROM wandb_value WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_wandb_run AS
SELECT * FROM wandb_run WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_wandb_read AS
SELECT * FROM wandb_read WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_wandb_upload AS
SELECT * FROM wandb_upload WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_store AS SELECT * FROM store;

-- Rules are those of today, also for old rows: a fault that is classed anew is classed anew in the past as well.
CREATE OR REPLACE VIEW b_fault_rule AS SELECT * FROM fault_rule;

CREATE OR REPLACE VIEW b_env_pin AS
SELECT * FROM env_pin
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_config_value AS
SELECT * FROM config_value
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

-- Cursors have no past; they say where the daemon stands now.
CREATE OR REPLACE VIEW b_cursor AS SELECT * FROM cursor;

CREATE OR REPLACE VIEW b_source_change AS
SELECT * FROM source_change
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_checkpoint AS
SELECT * FROM checkpoint
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_fault_file AS
SELECT * FROM fault_file
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_result_file AS
SELECT * FROM result_file
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_artifact AS
SELECT * FROM artifact
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_comparison_task AS
SELECT * FROM comparison_task
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_comparison AS
SELECT * FROM comparison
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_comparison_file AS
SELECT * FROM comparison_file
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_comparison_said AS
SELECT * FROM comparison_said
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_comparison_version AS
SELECT * FROM comparison_version
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_comparison_sequence AS
SELECT * FROM comparison_sequence
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_comparison_token AS
SELECT * FROM comparison_token
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_trace_boundary AS
SELECT * FROM trace_boundary
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_result_gap AS
SELECT * FROM result_gap
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_ledger_row AS
SELECT * FROM ledger_row
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_remote_fault AS
SELECT * FROM remote_fault
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_remote_place AS
SELECT * FROM remote_place
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_remote_gap AS
SELECT * FROM remote_gap
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_ingest AS
SELECT * FROM ingest
WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

-- Table source is updated in place. Under as-of, what changes comes from the last row of source_change before it, and a
-- source without one did not exist yet. A growth after the as-of time is not known then: the time at which it was last
-- seen to have become `growing` stands for it, or NULL. The first half answers without as-of, the second with it.
CREATE OR REPLACE VIEW b_source AS
SELECT * FROM source WHERE getvariable('as_of') IS NULL
UNION ALL
SELECT s.* REPLACE (
    c.state AS state, c.error AS error, c.zone_s AS zone_s, c.generation AS generation, c.bytes_size AS bytes_size,
    CASE WHEN s.last_growth_at <= getvariable('as_of')::TIMESTAMP THEN s.last_growth_at
         WHEN c.state = 'growing' THEN c.observed_at END AS last_growth_at,
    c.observed_at AS observed_at
)
FROM source s
JOIN (
    SELECT source_id AS changed_id, state, error, zone_s, generation, bytes_size, observed_at
    FROM source_change
    WHERE getvariable('as_of') IS NOT NULL AND observed_at <= getvariable('as_of')::TIMESTAMP
    QUALIFY row_number() OVER (PARTITION BY source_id ORDER BY observed_at DESC) = 1
) c ON c.changed_id = s.source_id
WHERE getvariable('as_of') IS NOT NULL;

-- One row for each spool line that the reader gave. Fields that do not fit their type are NULL.
CREATE OR REPLACE VIEW b_spool AS
SELECT line.* FROM (
    SELECT unnest(from_json(
        coalesce(getvariable('spool')::VARCHAR, '[]'),
        '[{"id": "VARCHAR", "kind": "VARCHAR", "run_id": "VARCHAR", "attempt": "INTEGER", "scope": "VARCHAR",
           "target": "VARCHAR", "verdict": "VARCHAR", "reason": "VARCHAR", "who": "VARCHAR", "marked_at": "TIMESTAMP",
           "from_kind": "VARCHAR", "from_time": "TIMESTAMP", "declared_at": "TIMESTAMP", "host": "VARCHAR",
           "cut": [["BIGINT"]]}]'
    )) AS line
    WHERE getvariable('spool') IS NOT NULL -- without it, nothing of this is planned
);

-- rec_id is NULL for what no daemon has taken in yet. Order by (rec_id NULLS LAST, time, id).
CREATE OR REPLACE VIEW b_mark AS
SELECT * FROM mark WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT NULL::BIGINT, id, run_id, attempt, scope, target, verdict, reason, who, marked_at, host, marked_at
FROM b_spool
WHERE kind = 'mark' AND id NOT IN (SELECT id FROM mark WHERE id IS NOT NULL)
  AND marked_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_run_attempt AS
SELECT * FROM run_attempt WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT NULL::BIGINT, id, run_id, from_kind, from_time, reason, who, declared_at, host, declared_at
FROM b_spool
WHERE kind = 'attempt' AND id NOT IN (SELECT id FROM run_attempt WHERE id IS NOT NULL)
  AND declared_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

CREATE OR REPLACE VIEW b_attempt_cut AS
SELECT * FROM attempt_cut WHERE observed_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
UNION ALL
SELECT id, piece[1], piece[2]::INTEGER, piece[3], declared_at
FROM (SELECT id, declared_at, unnest(cut) AS piece FROM b_spool WHERE kind = 'attempt')
WHERE id NOT IN (SELECT id FROM run_attempt WHERE id IS NOT NULL)
  AND declared_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP);

-- One row for each fault that the reader gave and the store has not heard. One that was heard counts anew if it locks only
-- since then: its process went on computing.
CREATE OR REPLACE VIEW b_unheard AS
SELECT line.* FROM (
    SELECT unnest(from_json(
        coalesce(getvariable('told')::VARCHAR, '[]'),
        '[{"origin_store_id": "VARCHAR", "origin_rec_id": "BIGINT", "run_id": "VARCHAR", "run_how": "VARCHAR",
           "lo_attempt": "BIGINT", "hi_attempt": "BIGINT", "path": "VARCHAR", "byte_offset": "BIGINT", "byte_length": "BIGINT",
           "network": "BOOLEAN", "kind": "VARCHAR", "severity": "VARCHAR", "locks": "VARCHAR", "locking": "BOOLEAN",
           "lo_us": "BIGINT", "slo": "BIGINT", "shi": "BIGINT", "told_at": "TIMESTAMP"}]'
    )) AS line
    WHERE getvariable('told') IS NOT NULL
)
WHERE line.told_at <= coalesce(getvariable('as_of')::TIMESTAMP, 'infinity'::TIMESTAMP)
  AND NOT EXISTS (
    SELECT 1 FROM remote_fault h
    WHERE h.origin_store_id = line.origin_store_id AND h.origin_rec_id = line.origin_rec_id AND h.run_id = line.run_id
      AND h.lo_attempt = line.lo_attempt AND (h.locking OR NOT line.locking));
