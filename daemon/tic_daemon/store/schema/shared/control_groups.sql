-- Of the comparisons of control groups (view `comparisons`): how each group came out, which side that rules out, and where to look.
-- A trace is a diagnosis of no group.
WITH one AS MATERIALIZED (
    SELECT run_id, attempt, step, control_group,
        CASE WHEN admissibility <> 'admissible' OR marked OR label IN ('INVALID', 'VACUOUS') OR changed <> '' OR planted_error IS NOT NULL
             THEN 'inconclusive'
             WHEN coalesce(mismatched_tokens > 0, logprob_max > 0, true) THEN 'differs'
             -- A copy is equal, too, and so are two dumps of NaN: what is not shown or fails rules out nothing.
             WHEN rule = 8 OR label = 'FAIL' THEN 'inconclusive'
             ELSE 'equal' END AS state
    FROM comparisons WHERE control_group IS NOT NULL AND kind = 'tokens'
),
side AS (
    SELECT run_id, attempt, step, control_group, count(*) AS comparisons,
        CASE WHEN bool_or(state = 'differs') THEN 'differs' WHEN bool_or(state = 'inconclusive') THEN 'inconclusive' ELSE 'equal' END AS state
    FROM one GROUP BY ALL
),
wide AS (
    SELECT run_id, attempt, step, sum(comparisons)::BIGINT AS comparisons,
        coalesce(max(state) FILTER (WHERE control_group = 'inference_alone'), 'not run') AS inference_alone,
        coalesce(max(state) FILTER (WHERE control_group = 'training_alone'), 'not run') AS training_alone,
        coalesce(max(state) FILTER (WHERE control_group = 'cross_stack'), 'not run') AS cross_stack,
        coalesce(max(state) FILTER (WHERE control_group = 'score_layer'), 'not run') AS score_layer
    FROM side GROUP BY ALL
)
SELECT run_id, attempt, step, inference_alone, training_alone, cross_stack, score_layer,
    concat_ws(', ', CASE WHEN inference_alone = 'equal' THEN 'inference' END, CASE WHEN training_alone = 'equal' THEN 'training' END,
        CASE WHEN score_layer = 'equal' THEN 'score layer' END) AS rules_out,
    CASE WHEN inference_alone = 'differs' AND training_alone = 'differs' THEN 'each side by itself: make each repeatable first'
         WHEN inference_alone = 'differs' THEN 'the inference side'
         WHEN training_alone = 'differs' THEN 'the training side: its layout and packing'
         WHEN score_layer = 'differs' THEN 'the score layer: dtype, temperature, logsumexp, vocabulary shards'
         WHEN cross_stack = 'equal' THEN 'nothing: both stacks agree on these tokens'
         WHEN cross_stack = 'differs' AND inference_alone = 'equal' AND training_alone = 'equal'
         THEN 'weights, arithmetic semantics and the scoring path'
         WHEN cross_stack = 'differs' THEN 'the sides are not told apart: run ' || concat_ws(' and ',
             CASE WHEN inference_alone <> 'equal' THEN 'inference alone' END, CASE WHEN training_alone <> 'equal' THEN 'training alone' END)
         ELSE 'the stacks are not compared' END AS look_at,
    comparisons
FROM wide
