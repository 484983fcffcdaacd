"""Names and places of a results directory.

manifest   manifest.json, NAME.manifest.json, manifest-NAME.json, manifest_NAME.json
stable     STABLE in token_exports/step_N/ (prime-rl writes it after all ranks have written)
meta       .meta.json, NAME.meta.json
index      INDEX.md below steps/
summary    steps/NN-name/RUN/summary.md

steps/NN-name/RUN/{config,scripts,results,summary.md}   and results/RUN/ belong to run RUN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MANIFEST: Final = "manifest"
STABLE: Final = "stable"
META: Final = "meta"
INDEX: Final = "index"
SUMMARY: Final = "summary"

_MANIFEST = re.compile(r"(?i)manifest\.json|.+\.manifest\.json|manifest[-_].+\.json")
_META = re.compile(r"(?i)(?:.*)\.meta\.json")
_STEP_DIR = re.compile(r"step[-_]\d{1,12}")
_RUN_PART = frozenset({"config", "scripts", "results"})
_DATA = re.compile(r"(?i)\.(?:pt|pth|bin|safetensors|npy|npz|pkl|parquet)\Z")
_ELSE = re.compile(r"global_step_?\d+|iter_\d+|checkpoint-\d+|checkpoints?|ckpts?|wandb|weights|broadcasts")
RANK_EXPORT: Final = re.compile(r"rank_\d{1,9}\.jsonl")


def kind_of(path: str) -> str:
    """What a file of this path is to a results directory; "": nothing."""
    above, _, name = path.rpartition("/")
    if _META.fullmatch(name):
        return META
    if _MANIFEST.fullmatch(name):
        return MANIFEST
    parts = above.split("/")
    if name == "STABLE" and len(parts) > 1 and parts[-2] == "token_exports" and _STEP_DIR.fullmatch(parts[-1]):
        return STABLE
    if name == "INDEX.md" and "steps" in parts[-3:]:
        return INDEX
    if name == "summary.md" and len(parts) > 2 and parts[-3] == "steps":
        return SUMMARY
    return ""


def may_be(name: str) -> bool:
    """Whether a file of this name may be one of those, wherever it lies."""
    return name in ("STABLE", "INDEX.md", "summary.md") or bool(_META.fullmatch(name) or _MANIFEST.fullmatch(name))


def is_data(path: str) -> bool:
    """Whether a file of this path is one that a manifest should name: tensors and tables, but those of checkpoints."""
    return _DATA.search(path) is not None and not any(_ELSE.fullmatch(part) for part in path.split("/")[:-1])


def run_of(path: str) -> str:
    """The run that the path of a file or directory tells; ""."""
    return run_dir_of(path).rpartition("/")[2]


def run_dir_of(path: str) -> str:
    """The directory `results/RUN` or `steps/NN-name/RUN` that the path is or lies in, the innermost; ""."""
    parts = path.split("/")
    last = len(parts) - 1
    of_steps = [i for i in range(last, 1, -1) if parts[i - 2] == "steps"]
    # What lies in config/, scripts/ or results/ of a step's run is that run's, whatever directories are below.
    places = [i for i in of_steps if i + 1 >= last or parts[i + 1] in _RUN_PART]
    places += [i for i in range(last, 0, -1) if parts[i - 1] == "results"] + of_steps
    if not places or (places[0] == last and may_be(parts[last])):
        return ""
    return "/".join(parts[: places[0] + 1])


def workspace_of(path: str) -> str:
    """The directory that holds the innermost `steps/` or `results/` above the path; ""."""
    parts = path.split("/")
    for i in range(len(parts) - 2, 0, -1):
        if parts[i] == "steps" or (parts[i] == "results" and not (i >= 3 and parts[i - 3] == "steps")):
            return "/".join(parts[:i])
    return ""


def step_of(path: str) -> int | None:
    """The step that the directories name, nearest first: step_12, step-12, step012, global_step_12; None."""
    for part in reversed(path.split("/")[:-1]):
        if match := re.fullmatch(r"(?:global_)?step[-_]?(\d{1,12})", part):
            return int(match[1])
    return None


def step_runs(directories: Iterable[str], files: Iterable[str]) -> list[str]:
    """Those of the directories that are steps/NN-name/RUN: they hold config/, scripts/, results/ or summary.md."""
    below = {path.rpartition("/")[0] for path in directories if path.rpartition("/")[2] in _RUN_PART}
    below |= {path.rpartition("/")[0] for path in files if kind_of(path) == SUMMARY}
    return sorted(path for path in below if len(parts := path.split("/")) > 2 and parts[-3] == "steps")
