"""Workspaces on disk and what is told of them: verification, gaps, hostile trees; and that nothing of them is touched."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from tic_daemon.config import Config
from tic_daemon.results import shelf
from tic_daemon.results.archive import Archive
from tic_daemon.sources.discover import Discovery
from tic_daemon.store.rows import ArtifactRow, ResultFileRow, ResultGapRow, ResultRow

CORPUS = Path(__file__).parents[1] / "corpus" / "real_results"
NOW = 1_800_000_000.0
OLD = NOW - 86_400
Row = TypeVar("Row", ArtifactRow, ResultFileRow, ResultGapRow)


def put(path: Path, data: bytes | str, at: float = OLD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    os.utime(path, (at, at))
    return path


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest(directory: Path, named: dict[str, bytes | str], at: float = OLD, **heading: object) -> Path:
    """Writes a manifest that names `named` as it says: bytes are hashed, a text is the hash."""
    listed = {
        name: {"path": name, "size": len(data), "sha256": sha(data)} if isinstance(data, bytes) else {"sha256": data}
        for name, data in named.items()
    }
    return put(directory / "manifest.json", json.dumps({**heading, "artifacts": listed}), at)


class World:
    """A root, the archive over it, and all that it told; `again()` is a restart."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = NOW
        self.rows: list[ResultRow] = []
        self.told: list[ResultRow] = []
        self.again()

    def again(self) -> None:
        newest = {(type(row), row.key): row for row in self.rows}
        self.archive = Archive("h", lambda _: "", newest.values(), lambda: self.now)

    def look(self, *, final: bool = False) -> list[ResultRow]:
        """Walk, look and hash as the daemon does; returns what was told."""
        survey = Discovery([self.root], Config(self.root)).survey()
        self.told = []
        self.archive.found(dict(survey.result_files), survey.walked)
        self.archive.look(self.told.append, final=final)
        while self.archive.waiting:
            self.archive.work(1 << 30, self.told.append)
        self.rows += self.told
        return self.told

    def newest(self, cls: type[Row]) -> dict[tuple[str, ...], Row]:
        return {row.key: row for row in self.rows if isinstance(row, cls)}

    def states(self) -> dict[str, str]:
        return {row.name: row.state for row in self.newest(ArtifactRow).values() if row.named}

    def gaps(self) -> set[tuple[str, str, str]]:
        """(kind, path below the root, subject) of all gaps that are."""
        return {
            (row.kind, os.path.relpath(row.path, os.path.realpath(self.root)), row.subject)
            for row in self.newest(ResultGapRow).values()
            if row.present
        }

    def gap(self, kind: str) -> ResultGapRow:
        (row,) = [row for row in self.newest(ResultGapRow).values() if row.present and row.kind == kind]
        return row


@pytest.fixture
def world(tmp_path: Path) -> World:
    root = tmp_path / "ws"
    root.mkdir()
    return World(root)


def names(rows: Iterable[ResultRow]) -> list[str]:
    return [row.name for row in rows if isinstance(row, ArtifactRow)]


# --- verification --------------------------------------------------------------------------------------------------


def test_the_real_run_is_verified_and_a_second_look_reads_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(CORPUS, world.root / "results" / "grpo-tiny-a")
    world.look()
    rows = world.newest(ArtifactRow).values()
    assert len(rows) == 36 and {row.state for row in rows} == {"verified"} and not world.gaps()
    for row in rows:
        assert row.sha256 == sha(Path(row.path).read_bytes()) and row.bytes_size == Path(row.path).stat().st_size
        assert row.run == "grpo-tiny-a" and row.policy == str(row.step)
        assert Path(row.path).parent.name == f"step{row.step:03d}"
    opened: list[str] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(str(path)) or real(path, *rest, **more))
    assert world.look() == [] and not opened
    world.again()  # after a restart manifests are read once, artifacts are not
    assert world.look() == []
    assert len(opened) == 12 and all(path.endswith("manifest.json") for path in opened)


def test_each_way_to_be_wrong_and_right_again(world: World) -> None:
    run = world.root / "results" / "r1"
    files = {name: name.encode() * 100 for name in ("good", "cut", "other", "gone", "later")}
    for name, data in files.items():
        put(run / name, data)
    manifest(run, dict(files), run="r1", step=4)
    put(run / "cut", b"cut")
    put(run / "other", b"x" * 500)
    (run / "gone").unlink()
    world.look()
    assert world.states() == {
        "good": "verified", "cut": "differs", "other": "differs", "gone": "missing", "later": "verified",
    }  # fmt: skip
    put(run / "later", b"y" * 500, OLD + 5)
    put(run / "gone", files["gone"])
    world.look()
    assert world.states()["later"] == "changed" and world.states()["gone"] == "verified"
    (row,) = [row for row in world.newest(ArtifactRow).values() if row.name == "later"]
    assert row.kept_sha256 == sha(files["later"]) and row.sha256 == sha(b"y" * 500) and row.step == 4
    world.again()
    (run / "good").unlink()
    put(run / "later", files["later"], OLD + 9)
    world.look()
    assert world.states()["later"] == "verified" and world.states()["good"] == "missing"


def test_same_size_and_time_but_other_bytes_is_seen(world: World) -> None:
    """An overwrite that puts the time back changes the inode's own time."""
    run = world.root / "results" / "r1"
    put(run / "a.pt", b"1234")
    manifest(run, {"a.pt": b"1234"})
    world.look()
    put(run / "a.pt", b"4321")
    world.look()
    assert world.states() == {"a.pt": "changed"}


def test_touched_and_the_same_is_verified_again_not_gone_through_pending(world: World) -> None:
    run = world.root / "results" / "r1"
    put(run / "a.pt", b"1234")
    manifest(run, {"a.pt": b"1234"})
    world.look()
    os.utime(run / "a.pt", (OLD + 1, OLD + 1))
    (row,) = world.look()
    assert isinstance(row, ArtifactRow) and row.state == "verified"


def test_what_is_still_written_is_waited_for(world: World) -> None:
    run = world.root / "results" / "r1"
    put(run / "a.pt", b"12", NOW - 1)
    manifest(run, {"a.pt": b"1234", "b.pt": b"12"}, NOW - 1)
    world.look()
    assert world.states() == {"a.pt": "pending", "b.pt": "pending"} and world.archive.settling
    put(run / "a.pt", b"1234", NOW)
    put(run / "b.pt", b"12", NOW)
    world.now = NOW + 1
    world.look()
    assert world.states() == {"a.pt": "verified", "b.pt": "verified"} and not world.archive.settling


def test_in_the_end_it_is_judged_as_it_is(world: World) -> None:
    run = world.root / "results" / "r1"
    put(run / "a.pt", b"12", NOW - 1)
    manifest(run, {"a.pt": b"1234", "b.pt": b"12"}, NOW - 1)
    put(world.root / "results" / "r2" / "manifest.json", '{"artifacts": {', NOW - 1)
    world.look()
    assert not world.gaps()
    world.look(final=True)
    assert world.states() == {"a.pt": "differs", "b.pt": "missing"}
    assert world.gaps() == {("manifest_malformed", "results/r2/manifest.json", "")}


def test_a_directory_counts_once_its_manifest_is_there(world: World) -> None:
    run = world.root / "results" / "r1" / "step3"
    put(run / "a.pt", b"1234", NOW - 1)
    assert world.look() == []
    manifest(run, {"a.pt": b"1234"}, NOW)
    world.look()
    (row,) = world.newest(ArtifactRow).values()
    assert (row.state, row.run, row.run_how, row.step) == ("verified", "r1", "path", 3)


def test_prime_rl_counts_with_stable_and_keeps_the_first_hash(world: World) -> None:
    export = world.root / "out" / "token_exports" / "step_7"
    for rank in range(2):
        put(export / f"rank_{rank}.jsonl", f'{{"rank": {rank}}}\n')
    put(export / "notes.txt", "x")
    assert world.look() == []
    put(export / "STABLE", "")
    world.look()
    assert world.states() == {"rank_0.jsonl": "recorded", "rank_1.jsonl": "recorded"}
    assert {row.step for row in world.newest(ArtifactRow).values()} == {7}
    put(export / "rank_0.jsonl", '{"rank": 9}\n', OLD + 1)  # the step was run again
    (export / "rank_1.jsonl").unlink()
    put(export / "rank_2.jsonl", "{}\n")
    world.again()
    world.look()
    assert world.states() == {"rank_0.jsonl": "changed", "rank_1.jsonl": "missing", "rank_2.jsonl": "recorded"}
    put(world.root / "out" / "broadcasts" / "step_7" / "STABLE", "")
    put(world.root / "out" / "broadcasts" / "step_7" / "model.safetensors", "x")
    assert world.look() == []


def test_a_large_file_is_hashed_in_slices_between_small_ones(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "SLICE", 3 << 20)
    run = world.root / "results" / "r1"
    large = os.urandom(1 << 20) * 20
    put(run / "large.pt", large)
    manifest(run, {"large.pt": large})
    archive, told = world.archive, world.told
    survey = Discovery([world.root], Config(world.root)).survey()
    archive.found(dict(survey.result_files), survey.walked)
    archive.look(told.append)
    assert [row.state for row in told if isinstance(row, ArtifactRow)] == ["pending"]
    archive.work(4 << 20, told.append)
    put(run / "small" / "a.pt", b"1")
    manifest(run / "small", {"a.pt": b"1"})
    survey = Discovery([world.root], Config(world.root)).survey()
    archive.found(dict(survey.result_files), survey.walked)
    archive.look(told.append)
    archive.work(1, told.append)
    assert names(told) == ["large.pt", "a.pt"], "the small one waits for the large one"
    while archive.waiting:
        archive.work(4 << 20, told.append)
    assert [(row.name, row.state, row.sha256) for row in told[-1:] if isinstance(row, ArtifactRow)] == [
        ("large.pt", "verified", sha(large))
    ]


def test_of_two_large_files_one_is_hashed_to_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "SLICE", 3 << 20)
    run = world.root / "results" / "r1"
    large = {name: os.urandom(1 << 20) * 12 for name in ("a.pt", "b.pt")}
    for name, data in large.items():
        put(run / name, data)
    manifest(run, dict(large))
    survey = Discovery([world.root], Config(world.root)).survey()
    world.archive.found(dict(survey.result_files), survey.walked)
    world.archive.look(world.rows.append)
    for _ in range(9):  # 24 MiB, 3 at a time, and one to spare
        world.archive.work(3 << 20, world.rows.append)
    assert world.states() == {"a.pt": "verified", "b.pt": "verified"}


def test_a_file_that_changes_while_it_is_hashed_is_hashed_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "SLICE", 1 << 20)
    run = world.root / "results" / "r1"
    one, two = b"1" * (4 << 20), b"2" * (4 << 20)
    put(run / "a.pt", one)
    manifest(run, {"a.pt": two})
    survey = Discovery([world.root], Config(world.root)).survey()
    archive, told = world.archive, world.told
    archive.found(dict(survey.result_files), survey.walked)
    archive.look(told.append)
    archive.work(1 << 20, told.append)
    put(run / "a.pt", two, OLD + 1)
    while archive.waiting:
        archive.work(1 << 30, told.append)
    assert {row.state for row in told if isinstance(row, ArtifactRow)} == {"pending"}, "half of each was hashed"
    world.look()
    assert world.states() == {"a.pt": "verified"}
    archive.close()


# --- what is written again -----------------------------------------------------------------------------------------


def test_a_manifest_that_grows_is_no_overwrite(world: World) -> None:
    run = world.root / "results" / "r1"
    put(run / "a.pt", b"1")
    put(run / "b.pt", b"2")
    manifest(run, {"a.pt": b"1"}, run="r1")
    world.look()
    manifest(run, {"a.pt": b"1", "b.pt": b"2"}, OLD + 1, run="r1")
    assert names(world.look()) == ["b.pt"] and not world.gaps()


@pytest.mark.parametrize("restart", [False, True])
def test_an_id_that_is_used_again_is_shown_for_good(world: World, restart: bool) -> None:
    run = world.root / "results" / "r1"
    put(run / "a.pt", b"1")
    put(run / "b.pt", b"2")
    manifest(run, {"a.pt": b"1", "b.pt": b"2"}, run="r1", step=3)
    world.look()
    if restart:
        world.again()
    put(run / "a.pt", b"9", OLD + 1)
    manifest(run, {"a.pt": b"9"}, OLD + 1, run="r1", step=4)
    world.look()
    assert world.states() == {"a.pt": "verified"}
    gap = world.gap("overwritten")
    for words in ("a.pt with another size or hash", "b.pt no longer named", "step 3 before, 4 now"):
        assert words in gap.detail
    assert gap.run == "r1"
    world.look()
    world.again()
    world.look()
    assert world.gap("overwritten") == gap


@pytest.mark.parametrize("restart", [False, True])
def test_an_id_that_was_deleted_and_used_again_is_shown(world: World, restart: bool) -> None:
    run = world.root / "results" / "r1"
    put(run / "a.pt", b"1")
    manifest(run, {"a.pt": b"1"}, run="r1")
    world.look()
    shutil.rmtree(run)
    world.look()
    assert world.gaps() == {("manifest_missing", "results/r1/manifest.json", "")} and world.states() == {}
    if restart:
        world.again()
    put(run / "a.pt", b"2", OLD + 1)
    manifest(run, {"a.pt": b"2"}, OLD + 1, run="r1")
    world.look()
    assert {kind for kind, _, _ in world.gaps()} == {"overwritten"} and world.states() == {"a.pt": "verified"}
    assert "a.pt with another size or hash" in world.gap("overwritten").detail


def test_a_manifest_that_says_another_hash_of_the_same_file(world: World) -> None:
    run = world.root / "results" / "r1"
    put(run / "a.pt", b"1")
    manifest(run, {"a.pt": b"1"})
    world.look()
    manifest(run, {"a.pt": b"2"}, OLD + 1)
    world.look()
    (row,) = world.newest(ArtifactRow).values()
    assert row.state == "differs" and "as before, where the manifest now says" in row.why
    assert world.gap("overwritten")


def test_manifests_that_go_and_come_back(world: World) -> None:
    run = world.root / "results" / "r1"
    put(run / "a.pt", b"1")
    path = manifest(run, {"a.pt": b"1"}, run="r1")
    world.look()
    path.rename(run / "hidden")
    world.again()
    world.look()
    assert world.gaps() == {
        ("manifest_missing", "results/r1/manifest.json", ""), ("no_manifest", "results/r1", ""),
    }  # fmt: skip
    assert not world.newest(ResultFileRow)["h", str(path)].present
    assert world.states() == {}, "what a manifest named that is gone still counts"
    put(run / "a.pt", b"2", OLD + 1)
    assert world.look() == []
    put(run / "a.pt", b"1", OLD + 2)
    (run / "hidden").rename(path)
    world.look()
    assert not world.gaps() and world.states() == {"a.pt": "verified"}


# --- whose it is ---------------------------------------------------------------------------------------------------


def test_who_names_the_run(world: World) -> None:
    put(world.root / "x" / "a.pt", b"1")
    manifest(world.root / "x", {"a.pt": b"1"})
    put(world.root / "x" / ".meta.json", json.dumps({"run": "from-meta"}))
    put(world.root / "y" / "a.pt", b"1")
    manifest(world.root / "y", {"a.pt": b"1"}, run="from-manifest")
    put(world.root / "y" / ".meta.json", json.dumps({"run": "from-meta"}))
    put(world.root / "z" / "a.pt", b"1")
    manifest(world.root / "z", {"a.pt": b"1"})
    world.look()
    found = {Path(row.manifest).parent.name: (row.run, row.run_how) for row in world.newest(ArtifactRow).values()}
    assert found == {"x": ("from-meta", "meta"), "y": ("from-manifest", "manifest"), "z": ("", "")}
    world.archive = Archive("h", lambda _: "from-config", clock=lambda: NOW)
    world.look()
    assert {(row.run, row.run_how) for row in world.newest(ArtifactRow).values()} == {("from-config", "config")}


def test_a_sidecar_of_one_file_is_its_manifest(world: World) -> None:
    run = world.root / "results" / "r1"
    for name in ("a.pt", "b.pt", "c.pt"):
        put(run / name, b"1")
    meta = put(run / "a.pt.meta.json", json.dumps({"size": 1, "sha256": sha(b"1"), "policy_version": 3, "step": 5}))
    put(run / "b.pt.meta.json", json.dumps({"basis": "raw"}))
    put(run / "c.pt.meta.json", json.dumps({"size": "1"}))
    put(run / "d.pt.meta.json", json.dumps({"sha256": sha(b"1"), "token": "hf_x"}))
    world.look()
    assert world.states() == {"a.pt": "verified", "d.pt": "missing"}
    row = world.newest(ArtifactRow)["h", str(meta), str(run / "a.pt")]
    assert (row.run, row.step, row.policy) == ("r1", 5, "3")
    assert {(kind, path) for kind, path, _ in world.gaps()} == {
        ("meta_malformed", "results/r1/c.pt.meta.json"), ("meta_secret", "results/r1/d.pt.meta.json"),
    }  # fmt: skip
    put(run / "a.pt", b"2", OLD + 1)
    world.again()
    world.look()
    assert world.states()["a.pt"] == "changed"
    meta.unlink()
    world.look()
    assert ("manifest_missing", "results/r1/a.pt.meta.json", "") in world.gaps()


def test_another_run_than_its_place_says(world: World) -> None:
    run = world.root / "results" / "r1"
    put(run / "a.pt", b"1")
    manifest(run, {"a.pt": b"1"}, run="r2")
    put(run / ".meta.json", json.dumps({"run_id": "r3"}))
    world.look()
    assert {gap for gap in world.gaps() if gap[0] == "identity"} == {
        ("identity", "results/r1/manifest.json", ""), ("identity", "results/r1/.meta.json", ""),
    }  # fmt: skip


# --- pages ---------------------------------------------------------------------------------------------------------


def workspace(root: Path) -> Path:
    """Layout of the archive by step, whole."""
    put(
        root / "steps" / "INDEX.md",
        "| run id | state | evidence |\n|---|---|---|\n| r1 | pass | [s](01-base/r1/summary.md) |\n",
    )
    run = root / "steps" / "01-base" / "r1"
    put(run / "config" / "env.txt", "x")
    put(run / "scripts" / "bench.py", "x")
    put(run / "summary.md", "# r1\nEqual at every token, see [numbers](results/manifest.json).\n")
    put(run / "results" / "report.json", b"{}")
    manifest(run / "results", {"report.json": b"{}"}, run="r1")
    return run


def test_a_whole_workspace_has_no_gap(world: World) -> None:
    workspace(world.root)
    world.look()
    assert not world.gaps()
    (row,) = world.newest(ArtifactRow).values()
    assert (row.run, row.state) == ("r1", "verified")


def test_an_index_that_names_what_is_not_there(world: World) -> None:
    run = workspace(world.root)
    put(
        world.root / "steps" / "INDEX.md",
        "[a](01-base/r1/gone.json) [b](../results/r9/manifest.json) [c](../../away/x.json) [d](01-base/r1/config)\n"
        "[e](results/r1) [f](/etc/passwd) `results/r9/x.pt`\n\n"
        "| run | verdict |\n|---|---|\n| r1 | PASS |\n| r7 | PASS |\n| n/a | FAIL |\n",
    )  # fmt: skip
    world.look()
    assert world.gaps() == {
        ("index_missing", "steps/INDEX.md", "01-base/r1/gone.json"),
        ("index_missing", "steps/INDEX.md", "../results/r9/manifest.json"),
        ("index_missing", "steps/INDEX.md", "results/r1"),
        ("index_missing", "steps/INDEX.md", "results/r9/x.pt"),
        ("index_missing", "steps/INDEX.md", "r7"),
        ("index_unchecked", "steps/INDEX.md", "../../away/x.json"),
        ("index_unchecked", "steps/INDEX.md", "/etc/passwd"),
        ("chat_only", "steps/INDEX.md", "line 8"),
    }
    assert world.look() == [], "what stays wrong is told again and again"
    runs = {row.subject: row.run for row in world.newest(ResultGapRow).values()}
    assert runs["01-base/r1/gone.json"] == "r1" and runs["r7"] == "r7" and runs["../results/r9/manifest.json"] == "r9"
    put(world.root / "results" / "r1" / "notes.txt", "x")
    put(run / "gone.json", "{}")
    world.look()
    assert ("index_missing", "steps/INDEX.md", "results/r1") not in world.gaps()
    assert ("index_missing", "steps/INDEX.md", "01-base/r1/gone.json") not in world.gaps()
    (world.root / "steps" / "INDEX.md").unlink()
    world.look()
    assert not world.gaps()


def test_a_page_that_is_being_written_is_read_a_little_later(world: World) -> None:
    workspace(world.root)
    put(world.root / "steps" / "INDEX.md", "[soon](../results/r9/manifest.json)\n", NOW - 1)
    world.look()
    assert not world.gaps()
    world.now = NOW + 60
    world.look()
    assert world.gaps() == {("index_missing", "steps/INDEX.md", "../results/r9/manifest.json")}


def test_words_without_results(world: World) -> None:
    run = world.root / "steps" / "02-x" / "r2"
    put(run / "summary.md", "# r2\n\nIt passed, trust me.\n")
    put(world.root / "steps" / "02-x" / "r3" / "summary.md", "# r3\n<!-- nothing yet -->\n")
    world.look()
    assert world.gaps() == {("chat_only", "steps/02-x/r2/summary.md", "")} and world.gap("chat_only").run == "r2"
    put(run / "results" / "raw.log", "0 of 1152 differ\n")
    world.look()
    assert not world.gaps()


def test_one_id_under_two_steps(world: World) -> None:
    workspace(world.root)
    other = world.root / "steps" / "05-forward"
    put(other / "r1" / "summary.md", "see [it](../../01-base/r1/summary.md)\n")
    (other / "config").mkdir()
    (world.root / "steps" / "01-base" / "config").mkdir()
    (other / "r9").symlink_to(world.root / "steps" / "01-base" / "r1")
    world.look()
    assert world.gaps() == {("same_id", "steps/01-base/r1", ""), ("same_id", "steps/05-forward/r1", "")}
    shutil.rmtree(other / "r1")
    world.look()
    assert not world.gaps()


def test_tensors_that_no_manifest_names(world: World) -> None:
    put(world.root / "results" / "r1" / "step0" / "a.pt", b"1")
    put(world.root / "results" / "r2" / "run.log", b"1")
    put(world.root / "results" / "r3" / "global_step_5" / "model.pt", b"1")
    put(world.root / "results" / "r4" / "a.pt", b"1", NOW - 60)
    world.look()
    assert world.gaps() == {("no_manifest", "results/r1", "")}
    manifest(world.root / "results" / "r1" / "step0", {"a.pt": b"1"})
    world.look()
    assert not world.gaps()


# --- hostile trees -------------------------------------------------------------------------------------------------


def test_nothing_outside_is_read_and_nothing_special_is_opened(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = put(tmp_path / "secret.pt", b"top secret")
    run = world.root / "results" / "r1"
    run.mkdir(parents=True)
    (run / "link.pt").symlink_to(secret)
    (run / "up").symlink_to(tmp_path)
    (run / "loop.pt").symlink_to("loop.pt")
    os.mkfifo(run / "fifo.pt")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(run / "socket.pt"))
    (run / "dir.pt").mkdir()
    (run / "zero.pt").symlink_to("/dev/zero")
    put(run / "in.pt", b"1")
    (run / "inner.pt").symlink_to(run / "in.pt")
    escapes = [
        "link.pt",
        "up/secret.pt",
        "../../../secret.pt",
        "../../../not/there",
        "/not/there",
        str(secret),
        "zero.pt",
    ]
    manifest(run, dict.fromkeys([*escapes, "loop.pt", "fifo.pt", "socket.pt", "dir.pt", "a" * 300, "\ud800.pt"], sha(b"top secret"))
             | {"in.pt": b"1", "inner.pt": b"1", "./x/../in.pt": b"1"})  # fmt: skip
    opened: list[str] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(str(path)) or real(path, *rest, **more))
    world.look()
    assert {Path(path).name for path in opened} == {"manifest.json", "in.pt"}
    states = world.states()
    assert {name: states[name] for name in escapes} == dict.fromkeys(escapes, "refused")
    assert {states[name] for name in ("fifo.pt", "socket.pt", "dir.pt", "\\ud800.pt")} == {"refused"}
    assert states["loop.pt"] == states["a" * 300] == "unreadable"
    assert states["in.pt"] == states["inner.pt"] == "verified"
    why = {row.name: row.why for row in world.newest(ArtifactRow).values()}
    assert "FIFO" in why["fifo.pt"] and "out of the watched directory" in why["link.pt"]
    assert all(not row.sha256 for row in world.newest(ArtifactRow).values() if row.state == "refused")
    assert world.look() == [], "what is refused is told again and again"


def test_a_link_that_is_turned_later_is_refused_then(world: World, tmp_path: Path) -> None:
    put(tmp_path / "out" / "a.pt", b"1234")
    run = world.root / "results" / "r1"
    put(run / "d" / "a.pt", b"1234")
    manifest(run, {"d/a.pt": b"1234"})
    world.look()
    assert world.states() == {"d/a.pt": "verified"}
    shutil.rmtree(run / "d")
    (run / "d").symlink_to(tmp_path / "out")
    world.look()
    assert world.states() == {"d/a.pt": "refused"}


def test_names_of_any_bytes(world: World) -> None:
    run = world.root / "results" / "r\x1b[31m\n"
    odd = os.fsdecode(b"\xff\xfe \x1b[2J'; DROP TABLE artifact; --.pt")
    put(run / odd, b"1")
    manifest(run, {odd: b"1"})
    world.look()
    (row,) = world.newest(ArtifactRow).values()
    assert row.state == "verified" and "\\udcff" in row.path
    row.path.encode()
    world.again()
    assert world.look() == []


def test_a_manifest_that_cannot_be_read_is_tried_again_when_it_changes(world: World) -> None:
    path = put(world.root / "results" / "r1" / "manifest.json", "{")
    world.look()
    assert world.gap("manifest_malformed").run == "r1"
    assert world.look() == []
    put(path.parent / "a.pt", b"1")
    manifest(path.parent, {"a.pt": b"1"}, OLD + 1)
    world.look()
    assert not world.gaps() and world.states() == {"a.pt": "verified"}
    put(path, "{", OLD + 2)  # it was whole: what it named is still watched
    put(path.parent / "a.pt", b"2", OLD + 2)
    world.look()
    assert ("manifest_malformed", "results/r1/manifest.json", "") in world.gaps()
    assert world.states() == {"a.pt": "changed"}
    world.again()
    odd = os.fsdecode(b"\xff.pt")
    put(path.parent / odd, b"1")
    manifest(path.parent, {"a.pt": b"2", odd: b"1"}, OLD + 3)
    world.look()
    put(path, "{", OLD + 4)
    world.again()
    world.look()
    assert world.states() == {"a.pt": "verified", "\\udcff.pt": "verified"}
    put(path.parent / odd, b"9", OLD + 4)
    world.again()
    world.look()
    assert world.states() == {"a.pt": "verified", "\\udcff.pt": "changed"}


def test_a_manifest_that_became_something_else_is_no_stranger(world: World) -> None:
    put(world.root / "x" / "a.pt", b"1")
    path = manifest(world.root / "x", {"a.pt": b"1"})
    world.look()
    world.again()
    put(path, '{"name": "an extension"}', OLD + 1)
    world.look()
    assert {kind for kind, _, _ in world.gaps()} == {"manifest_empty", "overwritten"}


def test_a_huge_manifest_is_refused_and_many_artifacts_are_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.root / "results" / "r1" / "manifest.json"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(33 << 20)
    os.utime(path, (OLD, OLD))
    world.look()
    assert "longer than 32 MiB" in world.gap("manifest_malformed").detail
    monkeypatch.setattr(shelf, "MAX_ARTIFACTS", 3)
    for name in ("a", "b", "c", "d", "e"):
        put(world.root / "results" / "r2" / name, b"1")
    manifest(world.root / "results" / "r2", dict.fromkeys("abcde", b"1"))
    world.look()
    assert world.states() == dict.fromkeys("abc", "verified")
    assert ("too_many", "results/r2/manifest.json", "") in world.gaps()


def test_nothing_that_is_watched_is_changed(world: World) -> None:
    workspace(world.root)
    shutil.copytree(CORPUS / "step000", world.root / "results" / "grpo-tiny-a" / "step000")
    (world.root / "results" / "grpo-tiny-a" / "step000" / "token_ids.pt").unlink()

    def everything() -> dict[str, tuple[int, int, int, bytes]]:
        return {
            str(path): (info.st_mtime_ns, info.st_ino, info.st_mode, path.read_bytes() if path.is_file() else b"")
            for path in sorted(world.root.rglob("*"))
            if (info := path.lstat())
        }

    before = everything()
    for _ in range(2):
        world.look()
    world.look(final=True)
    assert everything() == before and world.states()["token_ids.pt"] == "missing"


def test_what_a_walk_takes(world: World, tmp_path: Path) -> None:
    root = world.root
    away = put(tmp_path / "away" / "manifest.json", "{}")
    for name in (
        "a/manifest.json",
        "b/.meta.json",
        "c/manifest.json",
        ".tic/manifest.json",
        "skip/manifest.json",
        "steps/INDEX.md",
    ):
        put(root / name, "{}")
    (root / "out").mkdir()
    (root / "out" / "manifest.json").symlink_to(away)
    (root / "in").symlink_to(root / "a")
    put(root / "c" / "run.log", "x\n")
    discovery = Discovery([root], Config(root, exclude=("**/skip/**",)))
    found = discovery.survey()
    real = os.path.realpath(root)
    assert sorted(found.result_files) == [
        (f"{real}/{name}", real) for name in ("a/manifest.json", "b/.meta.json", "c/manifest.json", "steps/INDEX.md")
    ]
    assert [Path(one.path).name for one in found.candidates] == ["run.log"]
    assert not discovery.is_left_out(f"{real}/new/manifest.json"), "a new manifest is not worth a walk"
    assert discovery.is_left_out(f"{real}/new/model.safetensors")
