"""Step keys and metric keys: facts of the frameworks, each cited by file and revision; what tic.toml may say of them."""

from __future__ import annotations

import pytest

from tic_daemon.errors import ConfigError
from tic_daemon.scan.records import METRICS
from tic_daemon.wandb import keys as wandb_keys

KEYS = wandb_keys.load()

# (framework, key, its axis, file and revision where the call was read)
AXES = [
    ("verl", "actor/pg_loss", "_step", "verl/utils/tracking.py 1dda039: log(data, step=step)"),
    ("areal", "ppo_actor/update/loss/avg", "_step", "areal/utils/stats_logger.py 4aef98d: log(item, step=...)"),
    ("skyrl", "policy/policy_loss", "_step", "skyrl/train/utils/tracking.py a956457: log(data, step=global_step, commit=True)"),
    ("nemo_rl", "train/loss", "_step", "nemo_rl/utils/logger.py 7ea279a: log(metrics, step=step)"),
    ("slime", "train/loss", "train/step", "slime/utils/wandb_utils.py 094e096: define_metric('train/*', step_metric='train/step')"),
    ("slime", "perf/step_time", "rollout/step", "slime/utils/wandb_utils.py 094e096: define_metric('perf/*', step_metric='rollout/step')"),
    ("slime", "passrate/8", "rollout/step", "slime/utils/wandb_utils.py 094e096"),
    ("slime", "eval/aime", "eval/step", "slime/utils/wandb_utils.py 094e096: define_metric('eval/*', step_metric='eval/step')"),
    ("miles", "multi_turn/turns", "rollout/step", "miles/utils/wandb_utils.py 31f1ca9"),
    ("openrlhf", "train/vllm_kl", "train/global_step", "openrlhf/utils/logging_utils.py 013525a: log_train"),
    ("openrlhf", "eval/acc", "eval/global_step", "openrlhf/utils/logging_utils.py 013525a: log_eval"),
    ("prime_rl", "mismatch_kl/all/mean", "step", "src/prime_rl/utils/monitor/wandb.py 0166c65: log({**metrics, 'step': step})"),
    ("trl", "train/loss", "train/global_step", "src/transformers/integrations/integration_utils.py 23b2354: on_log"),
]  # fmt: skip

# (framework, key, canonical name, file and revision where the formula was read)
METRIC = [
    ("verl", "training/rollout_probs_diff_mean", "probability_mae", "verl/utils/debug/metrics.py 0c2766b: exp of both, then abs, then mean"),
    ("verl", "training/rollout_probs_diff_max", "", "verl/utils/debug/metrics.py 0c2766b: max of probabilities, no logprob_max"),
    ("slime", "train/train_rollout_logprob_abs_diff", "logprob_mae", "slime/backends/megatron_utils/loss.py 624b824"),
    ("miles", "train/train_rollout_kl", "kl_k3", "miles/backends/training_utils/loss_hub/losses.py 31f1ca9"),
    ("openrlhf", "train/vllm_kl", "kl_k1", "openrlhf/models/loss.py 3c3be62"),
    ("openrlhf", "train/kl", "", "openrlhf/trainer/ppo_utils/experience_maker.py 3c3be62: to the reference model"),
    ("prime_rl", "mismatch_kl/all/mean", "kl_k3", "src/prime_rl/trainer/rl/loss.py 559b447"),
    ("prime_rl", "mismatch_kl/math/mean", "", "src/prime_rl/trainer/rl/train.py 559b447: one environment's tokens"),
    ("trl", "train/sampling/sampling_logp_difference/mean", "logprob_mae", "trl/trainer/grpo_trainer.py f2cd577"),
    ("areal", "ppo_actor/update/compute_logp/kl_div_taylor/avg", "kl_k2", "areal/trainer/ppo/actor.py 4aef98d"),
    ("skyrl", "policy/rollout_train_logprobs_abs_diff_max", "logprob_max", "skyrl/train/trainer.py a956457"),
    ("nemo_rl", "train/token_mult_prob_error", "", "nemo_rl/algorithms/loss/loss_functions.py 7ea279a: exp(abs(Delta)), perfect is 1"),
]  # fmt: skip


@pytest.mark.parametrize(("framework", "key", "axis", "read_in"), AXES)
def test_the_training_step_stands_where_the_framework_logs_it(framework, key, axis, read_in):
    assert KEYS.axis(framework, key) == axis, read_in


@pytest.mark.parametrize(("framework", "key", "name", "read_in"), METRIC)
def test_what_a_key_measures(framework, key, name, read_in):
    found = KEYS.metric(framework, key)
    assert found is not None and found.metric == name, read_in


def test_every_entry_says_where_it_was_read_and_every_framework_has_one_main_axis():
    for entry in (*KEYS.steps, *KEYS.metrics):
        assert entry.file and entry.revision, entry
    for name in KEYS.frameworks:
        assert sum(entry.main for entry in KEYS.steps if entry.framework == name) == 1, name
    assert {entry.framework for entry in KEYS.metrics} <= KEYS.frameworks
    assert {entry.metric for entry in KEYS.metrics} <= METRICS | {"", "unknown"}


def test_a_key_that_revisions_use_differently_is_unknown_until_the_revision_is_known():
    # verl b178a3c (2026-01): the actor's current policy; 1dda039 (2026-08): the trainer's old policy.
    entry = KEYS.metric("verl", "rollout_corr/kl")
    assert entry is not None
    assert entry.name_at("") == "unknown"
    assert entry.name_at("b178a3c") == "unknown"
    assert entry.name_at("1dda0391ab") == entry.name_at("1dda039") == "kl_k1"
    # TRL f2cd577: GRPO's and AsyncGRPO's `train/kl` are not of the same pair of policies.
    assert KEYS.metric("trl", "train/kl").name_at("f2cd577") == "unknown"


def test_five_rows_of_one_step_are_one_step():
    rows = [
        {"_step": 40, "step": 8, "loss/mean": 0.1},
        {"_step": 41, "step": 8, "mismatch_kl/all/mean": 0.002, "_runtime": 3.0},
        {"_step": 42, "step": 8.0, "perf/mfu": None},
        {"_step": 43, "step": 8, "time/step": 31.0},
        {"_step": 44, "step": 8, "reward/all/mean": 0.5},
        {"_step": 45, "step": 9, "loss/mean": 0.2},
    ]
    assert KEYS.merged("prime_rl", rows) == {
        ("step", 8): {"loss/mean": 0.1, "mismatch_kl/all/mean": 0.002, "time/step": 31.0, "reward/all/mean": 0.5},
        ("step", 9): {"loss/mean": 0.2},
    }


def test_one_row_may_have_steps_on_two_axes_and_a_row_without_its_step_has_none():
    row = {"_step": 3, "train/step": 12, "train/loss": 0.1, "rollout/step": 3, "perf/step_time": 31.0}
    assert KEYS.step_of("slime", row) == {"train/step": 12, "rollout/step": 3}
    assert KEYS.step_of("slime", {"_step": 4, "perf/step_time": 30.0}) == {}
    assert KEYS.step_of("slime", {"train/step": 1.5, "train/loss": 1.0}) == {}
    assert KEYS.step_of("", {"_step": 4, "anything": 1}) == {"_step": 4}
    assert KEYS.step_of("verl", {"_step": 4}) == {"_step": 4}


def test_keys_of_a_history_show_the_framework():
    assert KEYS.framework(["_step", "train/step", "train/train_rollout_logprob_abs_diff"]) == "slime"
    assert (
        KEYS.framework(["train/train_rollout_logprob_abs_diff", "train/train_rollout_kl"]) == ""
    )  # as many signs each
    assert KEYS.framework(["training/global_step", "actor/pg_loss"]) == "verl"
    assert KEYS.framework(["loss", "lr"]) == ""


def test_tic_toml_replaces_what_is_known_of_a_framework():
    said = {
        "step_key": [{"framework": "slime", "keys": ["*"], "step": "n", "main": True}],
        "metric_key": [{"framework": "slime", "key": "train/mine", "metric": "logprob_mae", "space": "log"}],
    }
    keys = wandb_keys.load(said)
    assert keys.axis("slime", "perf/x") == "n"
    assert keys.metric("slime", "train/mine").metric == "logprob_mae"
    assert keys.metric("slime", "train/train_rollout_logprob_abs_diff").metric == "logprob_mae"
    assert keys.axis("verl", "x") == "_step"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"step_key": {}}, "must be a list"),
        ({"step_key": [{"framework": "a", "keys": ["*"]}]}, "step is missing"),
        ({"step_key": [{"framework": "a", "keys": "*", "step": "n"}]}, "keys has the wrong type"),
        ({"step_key": [{"framework": "a", "keys": ["a*b"], "step": "n"}]}, "at the end alone"),
        ({"step_key": [{"framework": "a", "keys": ["*"], "step": "n", "colour": "red"}]}, "unknown key 'colour'"),
        ({"metric_key": [{"framework": "a", "key": "k", "metric": "probabillity_mae"}]}, "no metric is called"),
        ({"metric_key": [{"framework": "a", "key": "k", "metric": "", "space": "lin"}]}, "none of those allowed"),
        ({"metric_key": [{"framework": "a", "key": "k", "metric": "", "when": [{"revision": "x"}]}]}, "`when`"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(said, words):
    with pytest.raises(ConfigError) as refused:
        wandb_keys.load(said, "here.toml")
    assert words in str(refused.value) and "here.toml" in str(refused.value)
    assert refused.value.hint
