-- Comparisons of dumps (tic_daemon/comparisons). Append-only.

-- What is to be compared, and how far it is. Of one key (host and task) the row with the greatest rec_id counts.
CREATE TABLE comparison_task (
    rec_id BIGINT, host VARCHAR, root VARCHAR,
    task VARCHAR,               -- 16 hex digits: which files, and how it was declared
    how VARCHAR,                -- manifest | alone | declared
    run VARCHAR, run_how VARCHAR, step BIGINT,
    manifest VARCHAR,           -- that names the files; '' none does
    side_a VARCHAR, side_b VARCHAR, -- paths; side_b '': side_a holds both sides
    content VARCHAR,            -- hash of all that the result hangs on: bytes, declaration, criterion, comparator
    state VARCHAR,              -- waiting | running | done | judged (by a criterion) | failed | refused | gone
    why VARCHAR,
    tokens_done BIGINT, tokens_total BIGINT,
    observed_at TIMESTAMP
);

-- One judged comparison. Of one key (host and task) the row with the greatest rec_id counts. Figures that have no value are NULL.
CREATE TABLE comparison (
    rec_id BIGINT, host VARCHAR, root VARCHAR,
    id VARCHAR,                 -- 16 hex digits: of the task and its result, the same in every store
    task VARCHAR, how VARCHAR, run VARCHAR, run_how VARCHAR, step BIGINT, policy VARCHAR, manifest VARCHAR,
    kind VARCHAR,               -- tokens | trace
    control VARCHAR,            -- control group: inference_alone | training_alone | cross_stack | score_layer | ''
    variant VARCHAR,            -- what of the group: A/A, packing, ... as declared
    goal VARCHAR, phase VARCHAR, rank BIGINT, repeat VARCHAR, scope VARCHAR, intervention VARCHAR,
    side_a VARCHAR, part_a VARCHAR, reader_a VARCHAR, sha256_a VARCHAR, size_a BIGINT,
    side_b VARCHAR, part_b VARCHAR, reader_b VARCHAR, sha256_b VARCHAR, size_b BIGINT,
    -- When and by whom each side was made: a receipt of the manifest, else the file's time.
    produced_a TIMESTAMP, produced_how_a VARCHAR, -- receipt | file | ''
    producer_host_a VARCHAR, producer_pid_a BIGINT,
    produced_b TIMESTAMP, produced_how_b VARCHAR, producer_host_b VARCHAR, producer_pid_b BIGINT,
    dtype_a VARCHAR, dtype_b VARCHAR, provenance_a VARCHAR, provenance_b VARCHAR,
    basis_a VARCHAR, basis_b VARCHAR, policy_a VARCHAR, policy_b VARCHAR, input VARCHAR,
    sequences BIGINT, sequences_differing BIGINT, independent_sequences BIGINT, valid_tokens BIGINT, mismatched_tokens BIGINT,
    first_request VARCHAR, first_position BIGINT,       -- in the order of ids
    earliest_request VARCHAR, earliest_position BIGINT, -- the smallest position of any
    longest_run BIGINT, longest_run_unbroken BIGINT, longest_run_request VARCHAR,
    logprob_mae DOUBLE, logprob_max DOUBLE, max_request VARCHAR, max_position BIGINT,
    p50 DOUBLE, p95 DOUBLE, p99 DOUBLE, probability_mae DOUBLE, kl_k1 DOUBLE, kl_k2 DOUBLE, kl_k3 DOUBLE, kl_is VARCHAR,
    relative_l2 DOUBLE, cosine DOUBLE, non_finite BIGINT, non_finite_at VARCHAR, overflow BIGINT,
    undefined VARCHAR[],        -- "name: reason" of figures without a value
    magnitude_powers INTEGER[], magnitude_counts BIGINT[], -- tokens with 2^(power - 1) <= abs(d) < 2^power
    ulp_lengths INTEGER[], ulp_counts BIGINT[],            -- differing tokens by binary length of their distance
    classes VARCHAR[], class_counts BIGINT[],              -- why they differ
    floor_a DOUBLE, floor_b DOUBLE, noise VARCHAR[],       -- of logprob_mae, where repeats show it; and in words
    probes BIGINT, probes_differing BIGINT,                -- of a trace
    label VARCHAR,              -- PASS | FAIL | INVALID | VACUOUS; '': a measurement that nothing judges
    reason VARCHAR, rule BIGINT, exit_code BIGINT,
    standing VARCHAR, standing_why VARCHAR,                -- towards faults, as it was known when it was judged
    criterion VARCHAR,          -- SHA-256 of its file; '' none
    criterion_metric VARCHAR, criterion_at_most DOUBLE, criterion_at_least DOUBLE,
    plant VARCHAR,              -- the planted error that it is to find; '' none
    differs VARCHAR[], remarks VARCHAR[], proved VARCHAR[], unproven VARCHAR[], next_step VARCHAR,
    comparator BIGINT, program VARCHAR,
    compare_id VARCHAR,         -- what its report and `tic-daemon compare` call it
    content VARCHAR, report VARCHAR, took_s DOUBLE,
    observed_at TIMESTAMP
);

-- Its sequences: those that differ first.
CREATE TABLE comparison_sequence (
    rec_id BIGINT, comparison_id VARCHAR, request VARCHAR, valid_tokens BIGINT, mismatched_tokens BIGINT, first_position BIGINT,
    longest_run BIGINT, longest_run_unbroken BIGINT, max_abs DOUBLE, max_position BIGINT, mean_abs DOUBLE,
    p50 DOUBLE, p95 DOUBLE, p99 DOUBLE, non_finite BIGINT, prompt_length BIGINT, response_length BIGINT,
    sample_group VARCHAR, policy VARCHAR,
    strip INTEGER[],            -- differing valid tokens in each of up to 128 equal pieces of the response
    strip_valid INTEGER[],      -- valid tokens of each
    observed_at TIMESTAMP
);

-- A choice of its tokens: of each sequence the first that differs and the first that is not finite, and the largest differences.
CREATE TABLE comparison_token (
    rec_id BIGINT, comparison_id VARCHAR, request VARCHAR, position BIGINT,
    why VARCHAR,                -- first, not finite, largest: as many as hold
    value_a DOUBLE, value_b DOUBLE, bits_a VARCHAR, bits_b VARCHAR, difference DOUBLE, token_id BIGINT, observed_at TIMESTAMP
);

-- Probes of a comparison of traces: those that differ, and what stands around the first of them.
CREATE TABLE trace_boundary (
    rec_id BIGINT, comparison_id VARCHAR, execution_order BIGINT, request VARCHAR, boundary VARCHAR, slice VARCHAR,
    state VARCHAR,              -- equal | differs | downstream | missing
    operator VARCHAR, dtype VARCHAR, shape BIGINT[], sha256_a VARCHAR, sha256_b VARCHAR, input_state VARCHAR, discrete BOOLEAN,
    elements BIGINT, mismatched BIGINT, first_index BIGINT[], finite DOUBLE, max_abs DOUBLE, mean_abs DOUBLE, relative_l2 DOUBLE,
    cosine DOUBLE, vocab_tv_mean DOUBLE, vocab_tv_max DOUBLE, vocab_argmax DOUBLE, vocab_logsoftmax_max DOUBLE,
    observed_at TIMESTAMP
);
