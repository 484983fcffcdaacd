"""Which W&B directories are found under what is watched, and what is told of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tic_daemon.config import Config, RunConfig, SourceConfig
from tic_daemon.sources import doctor
from tic_daemon.sources.discover import Discovery


def run_dir(root: Path, name: str, wandb_id: str) -> Path:
    directory = root / name
    (directory / "logs").mkdir(parents=True)
    (directory / "files").mkdir()
    log = directory / f"run-{wandb_id}.wandb"
    log.write_bytes(b":W&B\xe1\xbe\x00")
    (directory / "logs" / "debug-internal.log").write_text('{"msg":"wandb-core"}\n')
    (directory / "files" / "output.log").write_text("step 1\n")
    return log


def test_every_log_once_under_its_real_name(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path)) / "job"
    wandb = root / "wandb"
    online = run_dir(wandb, "run-20261130_120000-abc", "abc")
    taken = run_dir(wandb, "run-20261130_120000-abc-1", "abc")
    offline = run_dir(wandb, "offline-run-20261130_130000-o-1", "o-1")
    elsewhere = run_dir(tmp_path / "scratch" / "wandb", "run-20261130_140000-far", "far")
    skipped = run_dir(root / "old" / "wandb", "run-20250101_000000-x", "x")
    (wandb / "latest-run").symlink_to(offline.parent, target_is_directory=True)
    (root / "linked").symlink_to(elsewhere.parent.parent, target_is_directory=True)
    (online.parent / "run-abc.wandb.syncstate").write_text("{}")
    cache = tmp_path / ".cache" / "wandb" / "logs"
    cache.mkdir(parents=True)
    (cache / "core-debug-20261130_120000.log").write_text("x\n")
    (online.parent / "logs" / "debug-core.log").symlink_to(cache / "core-debug-20261130_120000.log")
    config = Config(
        base=root, host="h", sources=(SourceConfig(path="old/**", line=1, skip=True),),
        runs=(RunConfig(name="mine", path="linked/**", line=2),),
    )  # fmt: skip
    discovery = Discovery([root], config)
    survey = discovery.survey()
    found = dict(survey.wandb_files)
    assert set(found) == {str(path) for path in (online, taken, offline, Path(os.path.realpath(elsewhere)))}
    assert set(found.values()) == {str(root)}
    assert "tic.toml line 1: skip" in next(one.why for one in survey.left_out if one.path == str(skipped))
    # Logs of W&B about itself are no logs of the run, whatever link leads to them; its copy of the console is one.
    names = [one.path for one in survey.candidates]
    assert sorted(name for name in names if str(root) in name) == sorted(
        str(path.parent / "files" / "output.log") for path in (online, taken, offline)
    )
    assert not [name for name in names if "debug" in name]
    # A log that is known says by its growth nothing about names; a new one does.
    assert discovery.is_left_out(str(online))
    assert not discovery.is_left_out(str(wandb / "run-20261130_150000-new" / "run-new.wandb"))
    text = doctor.as_text(doctor.examine([root], config))
    assert f"{online}: run abc (W&B's id, unless a log names another)" in text
    assert {
        row["path"]: row["run"] for row in json.loads(doctor.as_json(doctor.examine([root], config)))["wandb_logs"]
    }[str(offline)] == "o-1"
