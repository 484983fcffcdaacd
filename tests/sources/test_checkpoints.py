"""Checkpoints by names and stat: which directories are some, when they are whole, and that only changes are told."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path

import pytest

from tic_daemon.sources import checkpoints
from tic_daemon.sources.checkpoints import Checkpoints, named
from tic_daemon.store.rows import CheckpointRow

NOW = 1_800_000_000.0
FIVE_AGO = datetime(2027, 1, 15, 7, 59, 55)


def write(path: Path, size: int = 10, age: float = 0.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (NOW - age, NOW - age))


class Watch:
    def __init__(self, root: Path, known: list[CheckpointRow] | None = None) -> None:
        self.root, self.now = root, NOW
        self.watch = Checkpoints("node7", known or [], lambda: self.now)

    def look(self, seconds: float = checkpoints.EVERY_S) -> list[CheckpointRow]:
        """A walk and a look, and what they told."""
        self.now += seconds
        self.watch.found([str(path) for path in self.root.rglob("*") if path.is_dir()], lambda _: str(self.root))
        told = self.watch.poll()
        until = time.monotonic() + 60
        while self.watch.busy() and time.monotonic() < until:
            time.sleep(0.005)
            told += self.watch.poll()
        return told


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("global_step_40", ("global_step", 40)), ("iter_0000123", ("iter", 123)), ("checkpoint-500", ("checkpoint", 500)),
        ("step-1000", ("step", 1000)), ("step_7", ("step", 7)), ("step_seven", None), ("checkpoint-best", None),
        ("step_7_old", None), ("global_step_" + "9" * 40, None), ("tmp-checkpoint-5", None),
    ],
)  # fmt: skip
def test_names(name: str, expected: tuple[str, int] | None) -> None:
    assert named(name) == expected


@pytest.mark.parametrize(
    ("weights", "marker"),
    [
        ("global_step_40/actor/model_world_size_8_rank_0.pt", "latest_checkpointed_iteration.txt"),
        ("global_step_40/policy/model_state.pt", "latest_ckpt_global_step.txt"),
        ("iter_0000040/mp_rank_00/model_optim_rng.pt", "latest_checkpointed_iteration.txt"),
        ("checkpoint-40/model.safetensors", "checkpoint-40/trainer_state.json"),
        ("step-40/__0_0.distcp", "step-40/.metadata"),
        ("step_40/model.safetensors", "step_40/STABLE"),
    ],
)
def test_one_is_whole_with_its_marker(tmp_path: Path, weights: str, marker: str) -> None:
    write(tmp_path / weights, 100, age=5)
    watch = Watch(tmp_path)
    (first,) = watch.look(0)
    assert (first.step, first.complete, first.present, first.bytes_size, first.files) == (40, False, True, 100, 1)
    assert (first.host, first.root, first.modified_at) == ("node7", str(tmp_path), FIVE_AGO)
    assert watch.look() == [], "nothing changed"
    write(tmp_path / marker, 1)
    (second,) = watch.look()
    assert second.complete and second.path == first.path and Path(marker).name in second.why
    assert watch.look(1000) == []


def test_an_older_marker_is_of_another_checkpoint(tmp_path: Path) -> None:
    write(tmp_path / "latest_checkpointed_iteration.txt", age=100)
    write(tmp_path / "iter_0000002/mp_rank_00/model_optim_rng.pt", age=5)
    watch = Watch(tmp_path)
    assert [row.complete for row in watch.look(0)] == [False]
    assert [(row.complete, row.why) for row in watch.look(130)] == [(True, "nothing in it was written for 2 min")]


def test_one_that_grows_is_told_as_it_grows_and_when_it_goes(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    (tmp_path / "step_3" / "rollouts").mkdir(parents=True)
    write(tmp_path / "step_3" / "notes.txt")
    assert watch.look(0) == [], "no weights: not known to be a checkpoint"
    write(tmp_path / "step_3" / "model.bin", 50)
    assert [row.bytes_size for row in watch.look()] == [60]
    write(tmp_path / "step_3" / "optimizer.pt", 70)
    assert [row.bytes_size for row in watch.look()] == [130]
    for path in sorted((tmp_path / "step_3").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "step_3").rmdir()
    (gone,) = watch.look()
    assert (gone.present, gone.complete, gone.bytes_size) == (False, False, 130)
    assert watch.look() == []


def test_one_that_went_while_no_daemon_ran_is_told(tmp_path: Path) -> None:
    write(tmp_path / "checkpoint-5" / "model.safetensors")
    (row,) = Watch(tmp_path).look(0)
    (tmp_path / "checkpoint-5" / "model.safetensors").unlink()
    (tmp_path / "checkpoint-5").rmdir()
    (gone,) = Watch(tmp_path, [row]).look(0)
    assert (gone.path, gone.present) == (row.path, False)


def test_no_more_than_so_many_entries_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_ENTRIES", 20)
    for number in range(30):
        write(tmp_path / "step-9" / f"__{number}_0.distcp", 1)
    (row,) = Watch(tmp_path).look(0)
    assert row.files == 20


def test_a_whole_one_is_not_walked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[str] = []
    entries = checkpoints._entries
    monkeypatch.setattr(checkpoints, "_entries", lambda path: (walked.append(path), entries(path))[1])
    write(tmp_path / "step_40" / "model.safetensors", 100)
    write(tmp_path / "step_40" / "STABLE", 1)
    watch = Watch(tmp_path)
    assert [row.complete for row in watch.look(0)] == [True]
    watch.look()
    assert walked == [str(tmp_path / "step_40")]
    write(tmp_path / "step_40" / "optimizer.pt", 50)
    assert [row.bytes_size for row in watch.look()] == [151]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "huge.pt", 1000)
    write(tmp_path / "checkpoint-1" / "model.safetensors", 10)
    (tmp_path / "checkpoint-1" / "more").symlink_to(tmp_path / "elsewhere")
    (row,) = Watch(tmp_path).look(0)
    assert row.bytes_size < 1000
