-- Comparisons of dumps, what they stand on, and what waits to be compared.

-- The newest of each, with its run: who names it; else as artifacts have it.
CREATE OR REPLACE VIEW i_comparison AS
WITH newest AS MATERIALIZED (
    SELECT * FROM b_comparison QUALIFY row_number() OVER (PARTITION BY host, task ORDER BY rec_id DESC) = 1
),
lost AS (SELECT DISTINCT host, root, CASE WHEN manifest <> '' THEN manifest ELSE side_a END AS path FROM newest WHERE run = ''),
-- include near_run.sql
SELECT c.*, CASE WHEN c.run <> '' THEN c.run WHEN n.runs = 1 THEN n.run_id WHEN n.runs IS NULL THEN o.run_id END AS run_id
FROM newest c
LEFT JOIN near n ON n.host = c.host AND n.path = CASE WHEN c.manifest <> '' THEN c.manifest ELSE c.side_a END
CROSS JOIN sole o;

-- Each file as it looks now, if a manifest names it: whether the bytes that were compared are still the verified ones. The tables
-- themselves are read: what a view over them costs to be planned is paid by each question.
CREATE OR REPLACE VIEW i_artifact_now AS
SELECT host, manifest, path, rec_id, state, nullif(sha256, '') AS sha256 FROM (
    SELECT * FROM b_artifact QUALIFY row_number() OVER (PARTITION BY host, manifest, path ORDER BY rec_id DESC) = 1
) WHERE named;

CREATE OR REPLACE VIEW i_comparison_file AS
SELECT host, path, max(rec_id) AS rec_id, arg_max(state, rec_id) AS state, arg_max(sha256, rec_id) AS sha256
FROM i_artifact_now GROUP BY host, path;

-- What is to be compared now. Its content begins with a hash of all files that are read, also tokens and repeats, and one of
-- what is declared and what manifests say of them.
CREATE OR REPLACE VIEW i_comparison_now AS
SELECT host, task, arg_max(content, rec_id) AS content FROM b_comparison_task WHERE content <> '' GROUP BY host, task;

-- What a comparison hangs on besides its sides, and is no more as it was read. A repeat takes the floor of its side away. A
-- manifest that was written anew takes all away that hangs on it until it was looked at; then what it says of other files does not.
CREATE OR REPLACE VIEW i_comparison_beside AS
WITH file AS (SELECT * FROM i_comparison_file),
manifest AS (SELECT host, path, arg_max(digest, rec_id) AS digest, arg_max(present, rec_id) AS present FROM b_result_file GROUP BY host, path),
said AS (SELECT host, path, arg_max(said, rec_id) AS said FROM b_comparison_said GROUP BY host, path),
made AS (SELECT DISTINCT host, id, task, content FROM b_comparison),
looked AS (
    SELECT c.host, f.comparison_id, f.role, f.path,
        CASE WHEN f.role = 'manifest' THEN CASE WHEN NOT m.present THEN 'gone' WHEN m.digest <> f.sha256 AND m.digest IS DISTINCT FROM s.said THEN 'another' END
             WHEN f.role = 'said' THEN CASE WHEN s.said <> f.sha256 THEN 'another' END
             WHEN a.state NOT IN ('verified', 'recorded') THEN a.state WHEN a.sha256 <> f.sha256 THEN 'another' END AS is_now
    FROM b_comparison_file f
    JOIN made c ON c.id = f.comparison_id
    LEFT JOIN file a ON a.host = c.host AND a.path = f.path
    LEFT JOIN manifest m ON m.host = c.host AND m.path = f.path
    LEFT JOIN said s ON s.host = c.host AND s.path = f.path
    UNION ALL
    SELECT c.host, c.id, 'declared', '', 'another' FROM made c JOIN i_comparison_now n ON n.host = c.host AND n.task = c.task
    WHERE split_part(n.content, ':', 2) <> split_part(c.content, ':', 2)
)
SELECT host, comparison_id,
    concat_ws('; ', string_agg(DISTINCT CASE role WHEN 'tokens' THEN 'the file of tokens is ' WHEN 'manifest' THEN 'its manifest is ' END || is_now || ' since', '; ')
        FILTER (WHERE role IN ('tokens', 'manifest')),
        CASE WHEN bool_or(role IN ('said', 'declared')) THEN 'what is said of it is another: it is to be judged anew' END) AS changed,
    coalesce(bool_or(role = 'repeat_a'), false) AS floor_a_gone, coalesce(bool_or(role = 'repeat_b'), false) AS floor_b_gone,
    list(DISTINCT 'repeat ' || path || ' is ' || is_now || ' since: the floor of its side does not count')
        FILTER (WHERE starts_with(role, 'repeat_')) AS noise
FROM looked WHERE is_now IS NOT NULL GROUP BY host, comparison_id;

CREATE OR REPLACE VIEW comparisons AS
WITH file AS MATERIALIZED (SELECT * FROM i_comparison_file),
-- A step of token exports is compared whole: no single file stands for it.
whole AS (SELECT host, manifest, bool_and(state IN ('verified', 'recorded')) AS whole FROM i_artifact_now GROUP BY host, manifest),
marked_one AS MATERIALIZED (
    SELECT DISTINCT substr(target, 12) AS id FROM i_mark
    WHERE scope = 'record' AND verdict = 'inconclusive' AND NOT retracted AND starts_with(target, 'comparison:')
),
one AS MATERIALIZED (SELECT * FROM i_comparison),
made AS MATERIALIZED (
    SELECT rec_id AS key, run_id, step, produced_a, produced_how_a, producer_host_a, producer_pid_a, produced_b, produced_how_b,
        producer_host_b, producer_pid_b
    FROM one
),
-- include comparison_standing.sql
,
now AS MATERIALIZED (SELECT * FROM i_comparison_now),
told AS (
    SELECT c.* REPLACE (CASE WHEN NOT coalesce(x.floor_a_gone, false) THEN c.floor_a END AS floor_a,
            CASE WHEN NOT coalesce(x.floor_b_gone, false) THEN c.floor_b END AS floor_b,
            CASE WHEN x.noise IS NULL THEN c.noise ELSE list_concat(c.noise, list_sort(x.noise)) END AS noise), s.attempt, s.admissibility, s.why AS admissibility_reason, coalesce(s.known, false) AS known,
        s.marked OR c.id IN (SELECT id FROM marked_one) AS marked, a.rec_id AS artifact_a, b.rec_id AS artifact_b,
        concat_ws('; ', CASE WHEN c.reader_a = 'prime-rl' THEN CASE WHEN NOT coalesce(w.whole, false) THEN 'a file of A is not as verified' END
                WHEN a.path IS NULL AND c.manifest <> '' THEN 'no manifest names file A'
                WHEN a.state NOT IN ('verified', 'recorded') THEN 'file A is ' || a.state || ' since'
                WHEN a.sha256 <> c.sha256_a THEN 'file A is another since' END,
            CASE WHEN c.side_b = c.side_a THEN NULL WHEN b.path IS NULL AND c.manifest <> '' THEN 'no manifest names file B'
                WHEN b.state NOT IN ('verified', 'recorded') THEN 'file B is ' || b.state || ' since'
                WHEN b.sha256 <> c.sha256_b THEN 'file B is another since' END,
            -- One that was not compared is not judged anew.
            CASE WHEN split_part(n.content, ':', 1) <> split_part(c.content, ':', 1) THEN 'its files are to be compared anew' ELSE nullif(x.changed, '') END) AS changed
    FROM one c
    JOIN standing s ON s.key = c.rec_id
    LEFT JOIN file a ON a.host = c.host AND a.path = c.side_a
    LEFT JOIN file b ON b.host = c.host AND b.path = c.side_b
    LEFT JOIN whole w ON w.host = c.host AND w.manifest = c.manifest
    LEFT JOIN now n ON n.host = c.host AND n.task = c.task
    LEFT JOIN i_comparison_beside x ON x.host = c.host AND x.comparison_id = c.id
)
SELECT c.rec_id, c.id AS comparison_id, c.run_id, c.attempt, c.step, c.policy, c.kind, c.goal, nullif(c.control, '') AS control_group,
    nullif(c.variant, '') AS variant, c.how, c.side_a, c.side_b, nullif(c.part_a, '') AS part_a, nullif(c.part_b, '') AS part_b,
    c.valid_tokens, c.mismatched_tokens, c.sequences, c.sequences_differing, c.independent_sequences, c.first_request, c.first_position,
    c.earliest_request, c.earliest_position, c.longest_run, c.longest_run_unbroken, c.longest_run_request,
    c.logprob_mae, c.logprob_max, c.max_request, c.max_position, c.p50, c.p95, c.p99, c.probability_mae, c.kl_k1, c.kl_k2, c.kl_k3,
    nullif(c.kl_is, '') AS kl_is, c.relative_l2, c.cosine, c.non_finite, nullif(c.non_finite_at, '') AS non_finite_at, c.overflow,
    c.undefined, c.magnitude_powers, c.magnitude_counts, c.ulp_lengths, c.ulp_counts, c.classes, c.class_counts,
    c.floor_a, c.floor_b,
    CASE WHEN c.floor_a IS NOT NULL AND c.floor_b IS NOT NULL AND greatest(c.floor_a, c.floor_b) <> 0
         THEN c.logprob_mae / greatest(c.floor_a, c.floor_b) END AS noise_ratio,
    c.noise, c.probes, c.probes_differing, c.dtype_a, c.dtype_b,
    CASE WHEN c.provenance_a = c.provenance_b THEN c.provenance_a ELSE c.provenance_a || ' and ' || c.provenance_b END AS dtype_provenance,
    coalesce(nullif(c.basis_a, ''), 'unknown') AS basis_a, coalesce(nullif(c.basis_b, ''), 'unknown') AS basis_b,
    coalesce(nullif(c.policy_a, ''), 'unknown') AS policy_a, coalesce(nullif(c.policy_b, ''), 'unknown') AS policy_b,
    coalesce(nullif(c.input, ''), 'unknown') AS input, c.phase, c.rank, c.repeat, c.scope, c.intervention,
    nullif(c.label, '') AS label,
    -- A fault, a mark or another file since leaves nothing to pass or fail.
    CASE WHEN c.admissibility <> 'admissible' OR c.marked OR c.changed <> '' OR c.plant <> '' THEN 'inconclusive'
         WHEN c.label = 'PASS' THEN 'pass' WHEN c.label = 'FAIL' THEN 'fail' ELSE 'inconclusive' END AS state,
    c.reason, c.rule, c.exit_code, c.admissibility, c.admissibility_reason, c.marked,
    c.not_evidence_because = '' AS is_evidence, c.not_evidence_because,
    nullif(c.criterion, '') AS criterion_id, nullif(c.criterion_metric, '') AS criterion_metric, c.criterion_at_most, c.criterion_at_least,
    nullif(c.plant, '') AS planted_error, c.standing, c.standing_why, c.differs, c.remarks, c.proved, c.unproven, c.next_step,
    c.produced_a, nullif(c.produced_how_a, '') AS produced_how_a, c.produced_b, nullif(c.produced_how_b, '') AS produced_how_b,
    c.reader_a, c.reader_b, c.sha256_a, c.sha256_b, c.size_a, c.size_b, c.artifact_a, c.artifact_b, c.changed,
    nullif(c.manifest, '') AS manifest, nullif(c.report, '') AS report, c.compare_id, c.comparator, c.program, c.took_s, c.host, c.task,
    c.observed_at
FROM (
    SELECT t.*, CASE WHEN t.admissibility <> 'admissible' THEN t.admissibility || ': ' || t.admissibility_reason
             WHEN t.marked THEN 'marked inconclusive'
             WHEN t.kind = 'trace' THEN 'a trace is a diagnosis'
             WHEN t.plant <> '' THEN 'a planted error'
             WHEN t.label IN ('INVALID', 'VACUOUS') THEN t.label || ': ' || t.reason
             WHEN t.changed <> '' THEN t.changed
             WHEN t.manifest = '' THEN 'no manifest names its files'
             WHEN t.label <> 'FAIL' AND t.rule = 8 THEN t.reason
             WHEN NOT t.known THEN 'no log of its run was read'
             WHEN t.intervention IS NULL THEN 'intervention not stated'
             WHEN t.intervention <> 'none' THEN 'intervention ' || t.intervention
             WHEN t.scope IS NOT NULL AND t.scope <> 'fixed-input' THEN 'scope ' || t.scope
             ELSE '' END AS not_evidence_because
    FROM told t
) c;

CREATE OR REPLACE VIEW comparison_sequences AS
SELECT c.run_id, c.step, s.comparison_id, s.request, s.valid_tokens, s.mismatched_tokens, s.first_position, s.longest_run, s.longest_run_unbroken,
    s.max_abs, s.max_position, s.mean_abs, s.p50, s.p95, s.p99, s.non_finite, s.prompt_length, s.response_length,
    nullif(s.sample_group, '') AS sample_group, nullif(s.policy, '') AS policy, CASE WHEN len(s.strip) > 0 THEN s.strip END AS strip, s.strip_valid, s.rec_id, s.observed_at
FROM b_comparison_sequence s JOIN i_comparison c ON c.id = s.comparison_id;

-- Figures of each version of the policy, of comparisons that know versions: of requests that one version sampled, and of segments.
CREATE OR REPLACE VIEW comparison_versions AS
SELECT c.run_id, c.step, v.comparison_id, v.policy, v.valid_tokens, v.mismatched_tokens, v.logprob_mae, v.rec_id, v.observed_at
FROM b_comparison_version v JOIN i_comparison c ON c.id = v.comparison_id;

CREATE OR REPLACE VIEW comparison_tokens AS
SELECT c.run_id, c.step, t.comparison_id, t.request, t.position, t.why, t.value_a, t.value_b, t.bits_a, t.bits_b, t.difference, t.token_id,
    t.rec_id, t.observed_at
FROM b_comparison_token t JOIN i_comparison c ON c.id = t.comparison_id;

CREATE OR REPLACE VIEW trace_boundaries AS
SELECT c.run_id, c.step, t.comparison_id, t.execution_order, t.request, t.boundary, t.slice, t.state, t.operator, t.dtype, t.shape,
    t.sha256_a, t.sha256_b, t.input_state, t.discrete, t.elements, t.mismatched, t.first_index, t.finite, t.max_abs, t.mean_abs,
    t.relative_l2, t.cosine, t.vocab_tv_mean, t.vocab_tv_max, t.vocab_argmax, t.vocab_logsoftmax_max, t.rec_id, t.observed_at
FROM b_trace_boundary t JOIN i_comparison c ON c.id = t.comparison_id;

-- The first probe that differs in execution order, and the last of its request that agrees before it.
CREATE OR REPLACE VIEW trace_first_divergence AS
WITH first AS MATERIALIZED (
    SELECT * FROM trace_boundaries WHERE state = 'differs'
    QUALIFY row_number() OVER (PARTITION BY comparison_id ORDER BY execution_order) = 1
),
last_equal AS (
    SELECT t.comparison_id, arg_max(t.boundary, t.execution_order) AS boundary, arg_max(t.slice, t.execution_order) AS slice
    FROM trace_boundaries t JOIN first f ON f.comparison_id = t.comparison_id AND f.request = t.request
    WHERE t.state = 'equal' AND t.execution_order < f.execution_order GROUP BY t.comparison_id
)
SELECT c.comparison_id, c.run_id, c.attempt, c.step, c.side_a, c.side_b, c.probes, c.probes_differing, f.request, f.boundary, f.slice,
    f.execution_order, f.operator, f.input_state, f.mismatched, f.first_index, f.max_abs, f.relative_l2, f.cosine,
    l.boundary AS last_equal_boundary, l.slice AS last_equal_slice, c.label, c.reason, c.admissibility, c.next_step, c.observed_at
FROM comparisons c
LEFT JOIN first f ON f.comparison_id = c.comparison_id
LEFT JOIN last_equal l ON l.comparison_id = c.comparison_id
WHERE c.kind = 'trace';

-- The four control groups of each run and step: whichever two are equal rule out that side (evidence/controls.py is the plain twin).
CREATE OR REPLACE VIEW control_groups AS
-- include control_groups.sql
;

-- What waits, is being compared, or could not be.
CREATE OR REPLACE VIEW comparison_queue AS
WITH newest AS MATERIALIZED (
    SELECT * FROM b_comparison_task QUALIFY row_number() OVER (PARTITION BY host, task ORDER BY rec_id DESC) = 1
),
lost AS (SELECT DISTINCT host, root, CASE WHEN manifest <> '' THEN manifest ELSE side_a END AS path FROM newest WHERE run = ''),
-- include near_run.sql
SELECT t.rec_id, CASE WHEN t.run <> '' THEN t.run WHEN n.runs = 1 THEN n.run_id WHEN n.runs IS NULL THEN o.run_id END AS run_id, t.step,
    t.how, t.side_a, nullif(t.side_b, '') AS side_b, t.state, t.why, t.tokens_done, t.tokens_total, nullif(t.manifest, '') AS manifest, t.host,
    t.task, t.observed_at
FROM newest t
LEFT JOIN near n ON n.host = t.host AND n.path = CASE WHEN t.manifest <> '' THEN t.manifest ELSE t.side_a END
CROSS JOIN sole o
WHERE t.state IN ('waiting', 'running', 'failed', 'refused');
