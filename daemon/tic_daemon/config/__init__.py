"""tic.toml: what a person says about a workspace. It overrides everything that discovery decides.

    state_dir = ".tic"                 # where the daemon writes; relative paths lie beside tic.toml
    who = "mkl"                        # name put into marks
    host = "node17"                    # host name recorded with every row
    include = ["**/*.log.txt"]         # file names that discovery would not take for logs
    exclude = ["**/tensorboard/**"]
    rules = ["my-rules"]               # directories with more rule packs

    [poll]                             # seconds; see `PollConfig`
    [lock]                             # margin_s, staleness; see `LockConfig`
    [endpoint]                         # listen = "auto"; see listen.py
    [store]                            # local_dir, snapshot_s; see `StoreConfig`
    [gpu]                              # watch, every_s; see `GpuConfig`
    [wandb]                            # read, every_s, ...; see `WandbConfig`

    [[source]]                         # decides for all files that `path` matches; the last to speak wins
    path = "logs/trainer*.log"
    role = "trainer"
    zone = "Asia/Tokyo"

    [[run]]
    name = "grpo-a"
    path = "jobs/4711/**"              # sources under it belong to the run

    [compare]                          # watch, criterion, ...; see `CompareConfig`

    [[comparison]]                     # dumps that are to be compared; see `ComparisonConfig`
    a = "rollout/step_{step}/logprobs.pt"
    b = "trainer/step_{step}/logprobs.pt"

    [[pair]]
    name = "bi-on-off"                 # two arms of runs, and what is compared of them; see `PairConfig`
    a = ["bi0-1", "bi0-2"]
    b = ["bi1-1", "bi1-2"]

    [[step_key]], [[metric_key]]       # W&B keys of your own trainer; see wandb/keys.py

    [[wandb_run]]
    path = "entity/project/id"         # a W&B run whose history is read, where no log names it
    run = "grpo-a"

Globs: see `globs`. An unknown key, a wrong type or a value out of range is a `ConfigError` with file, line (where it
can be told) and what is allowed: a setting that is misspelt must never be ignored in silence.
"""

from __future__ import annotations

from tic_daemon.config.file import CONFIG_NAME, load_config, parse_config
from tic_daemon.config.globs import glob_match
from tic_daemon.config.settings import (
    CONTROLS,
    GOALS,
    PLACE,
    ROLES,
    STREAMS,
    CompareConfig,
    ComparisonConfig,
    Config,
    EndpointConfig,
    GpuConfig,
    LockConfig,
    PairConfig,
    PollConfig,
    ResultsConfig,
    RunConfig,
    SourceConfig,
    StoreConfig,
    WandbConfig,
    WandbRunConfig,
)
from tic_daemon.config.texts import is_run_path, zone_offset

__all__ = [
    "CONFIG_NAME",
    "CONTROLS",
    "GOALS",
    "PLACE",
    "ROLES",
    "STREAMS",
    "CompareConfig",
    "ComparisonConfig",
    "Config",
    "EndpointConfig",
    "GpuConfig",
    "LockConfig",
    "PairConfig",
    "PollConfig",
    "ResultsConfig",
    "RunConfig",
    "SourceConfig",
    "StoreConfig",
    "WandbConfig",
    "WandbRunConfig",
    "glob_match",
    "is_run_path",
    "load_config",
    "parse_config",
    "zone_offset",
]
