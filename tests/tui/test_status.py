"""The status report on a real store: what it says, that it is clean, and its exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tic_daemon.errors import StoreError
from tic_daemon.scan.events import At, Fault, Gap, GpuInfo, Mismatch, ProcessSeen, SourceRun, StepEvent
from tic_daemon.scan.rules import RuleSet
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import open_reader
from tic_daemon.store.rows import CursorRow, MarkRow, SourceDelta, SourceRow, source_id
from tic_daemon.store.writer import Writer
from tic_tui.glyphs import ASCII
from tic_tui.status import Report, report

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "wrong\x1b]0;owned\x07 \u202etokenizer [bold]'); DROP TABLE mark; --\nsecond line"
BEGAN = datetime(2026, 11, 29, 12, 0, 0)


def mismatch(offset: int, step: int, value: float) -> Mismatch:
    at = BEGAN + timedelta(seconds=offset)
    return Mismatch(
        At(offset, 50, offset // 50 + 1, step=step, stamp=at, stamp_res_us=1, stamp_utc=True),
        run="grpo-a", rank_text="0", repeat="0", input="ab", phase="decode", scope="fixed-input", intervention="none",
        metric="logprob_mae", value=value, value_text=str(value), self_repeat=0.001, self_repeat_text="0.001",
        classification="unknown", reference="r", report="x", parse_state="ok", raw="[mismatch] ...",
    )  # fmt: skip


def write(workspace: Path, *, fault: bool, mark: bool) -> None:
    path = "/jobs/worker-0.log"
    row = SourceRow(
        source_id("node7", "file", path), kind="file", host="node7", root="/jobs", path=path, single_process=True,
        run_hint="grpo-a", stream="stderr", state="growing", bytes_size=1000, last_growth_at=BEGAN, first_seen_at=BEGAN,
    )  # fmt: skip
    events: list[Any] = [mismatch(50 * i, i, 0.004) for i in range(4)]
    events += [StepEvent(At(50 * i + 10, 5, 1, step=i), "end", True, "step") for i in range(4)]
    events += [ProcessSeen(At(0, 50, 1)), SourceRun(At(0, 50, 1), "grpo-a", "record")]
    events.append(Gap(At(0, 0, 1), "truncated", 500, 700, "cut \x1b[2Jwhile no daemon ran"))
    if fault:
        at = At(
            300, 40, 9, pid=4524, rank=3, stamp=BEGAN + timedelta(seconds=300), stamp_res_us=1, stamp_utc=True, step=4
        )
        kind = next(rule.kind for rule in RuleSet.load().fault_rules() if rule.locks == "always")
        events.append(Fault(at, kind, "confirmed", text="CUDA error: \x1b]52;c;AAAA\x07an illegal memory access"))
        events += [mismatch(400 + 50 * i, 5 + i, 0.9) for i in range(2)]
    marks = [MarkRow("m1", "grpo-a", None, "run", "", "inconclusive", HOSTILE, "ada", BEGAN, "node7")] if mark else []
    writer = Writer.open(StoreLayout.find(workspace))
    try:
        writer.put_fault_rules(RuleSet.load().fault_rules())
        cursor = CursorRow(row.source_id, 0, byte_offset=1000, path=path)
        delta = SourceDelta(row, cursor, tuple(events), (), bytes=1000, lines=20)
        writer.commit([delta], marks=marks, began_at=BEGAN, lag_us=0)
    finally:
        writer.close()


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = tmp_path_factory.mktemp("locked")
    write(workspace, fault=True, mark=True)
    return workspace


def told(workspace: Path, **options: Any) -> Report:
    reader = open_reader(workspace)
    try:
        return report(reader, glyphs=ASCII, **options)
    finally:
        reader.close()


@pytest.fixture(scope="module")
def locked_report(locked: Path) -> Iterator[Report]:
    yield told(locked, now=datetime.now(UTC) + timedelta(minutes=7))


def test_a_locked_run_is_named_with_its_first_fault(locked_report: Report) -> None:
    text = locked_report.text
    assert re.search(r"run grpo-a  attempt 1  X locked ", text)
    assert "rank 3, pid 4524, host node7, step 4" in text
    assert "at 2026-11-29 12:05:00Z" in text
    assert "/jobs/worker-0.log:9" in text
    assert "| CUDA error: ^[]52;c;AAAA^Gan illegal memory access" in text


def test_the_counts_are_those_of_the_records_written(locked_report: Report) -> None:
    assert "attempt 1: 6 mismatch records: 4 admissible, 0 suspect, 2 locked (2 after the fault, 0 order unknown)" in (
        locked_report.text
    )
    (run,) = locked_report.data["runs"]
    (attempt,) = run["attempts"]
    assert (attempt["mismatches"], attempt["admissible"], attempt["suspect"], attempt["locked"]) == (6, 4, 0, 2)


def test_the_newest_number_stands_with_its_noise_and_why_it_is_no_evidence(locked_report: Report) -> None:
    (line,) = [line for line in locked_report.text.splitlines() if line.startswith("  newest")]
    assert "logprob_mae 0.9 (900 x noise), step 6, rank 0; locked, not evidence: " in line


def test_every_number_has_its_age(locked_report: Report) -> None:
    lines = locked_report.text.splitlines()
    for start in ("  records", "  newest", "  faults", "  gaps", "  marks", "  last step", "sources"):
        (line,) = [line for line in lines if line.startswith(start)]
        assert re.search(r"(5 min|\d+ d|\d y|\d h|\d+ min) ago$|now$", line), line


def test_gaps_and_marks(locked_report: Report) -> None:
    assert "truncated /jobs/worker-0.log bytes 500 to 700: cut ^[[2Jwhile no daemon ran" in locked_report.text
    assert (
        "inconclusive (run): wrong^[]0;owned^G <U+202E>tokenizer [bold]'); DROP TABLE mark; --^Jsecond line - ada"
        in (locked_report.text)
    )


def test_nothing_from_outside_reaches_the_terminal_raw(locked_report: Report) -> None:
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", locked_report.text)


def test_the_run_is_judged_as_check_does(tmp_path: Path, locked_report: Report) -> None:
    assert "  check       13, locked by a fault\n" in locked_report.text
    writer = Writer.open(StoreLayout.find(tmp_path))
    path = "/jobs/worker-0.log"
    row = SourceRow(source_id("node7", "file", path), kind="file", host="node7", root="/jobs", path=path, run_hint="r")
    try:
        events = (ProcessSeen(At(0, 5, 1)), StepEvent(At(0, 5, 1, step=1), "end", True, "step"))
        delta = SourceDelta(row, CursorRow(row.source_id, 0, byte_offset=5, path=path), events, bytes=5, lines=1)
        writer.commit([delta], began_at=BEGAN, lag_us=0)
    finally:
        writer.close()
    nothing = told(tmp_path)
    assert nothing.code == 15
    assert "  check       15, no evidence\n              attempt 1 has no mismatch record\n" in nothing.text


def test_exit_codes(tmp_path: Path, locked_report: Report) -> None:
    assert locked_report.code == 13
    for name, mark, expected in (("well", False, 14), ("marked", True, 12)):
        workspace = tmp_path / name
        workspace.mkdir()
        write(workspace, fault=False, mark=mark)
        assert told(workspace).code == expected, name  # 14: the gap
    empty = tmp_path / "empty"
    empty.mkdir()
    Writer.open(StoreLayout.find(empty)).close()
    nothing = told(empty)
    assert nothing.code == 15
    assert "no run yet" in nothing.text and "none watched" in nothing.text


PYTHONPATH = os.pathsep.join([str(ROOT), str(ROOT / "daemon")])


def run_tui(*words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, **env}
    return subprocess.run(
        [sys.executable, "-m", "tic_tui", *words], env=environment, cwd=cwd, capture_output=True, check=False,
        stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip


def gpu_info(host: str, kind: str, path: str, uuid: str, unread: str) -> SourceDelta:
    row = SourceRow(source_id(host, "gpu", path), "gpu", host, "/jobs", path, framework=kind)
    at = At(0, 1, 1, stamp=BEGAN, stamp_res_us=1, stamp_utc=kind == "nvml")
    info = GpuInfo(at, kind, uuid, 0, "0:0:0.0", "H100", "575", "", None, "", "", "", "", None, unread)
    return SourceDelta(row, events=(info,))


def test_gpus_are_told_in_a_line(tmp_path: Path) -> None:
    writer = Writer.open(StoreLayout.find(tmp_path))
    writer.commit([gpu_info("", "nvidia-smi", "/jobs/smi.txt", "GPU-2", "fabric, \x1b[2JECC")])
    writer.close()
    assert (
        "gpus  none watched; 1 told of by files; 1 with something unknown, as not told: fabric, "
        in asked(tmp_path).text
    )
    writer = Writer.open(StoreLayout.find(tmp_path))
    writer.commit([gpu_info("node7", "nvml", "nvml", "GPU-1", "")])
    writer.close()
    told = asked(tmp_path)
    assert "gpus  1 watched on node7; 1 told of by files; 1 with something unknown, as not told: fabric, " in told.text
    assert "\x1b" not in told.text
    assert [(row["host"], row["origin"]) for row in told.data["gpus"]] == [("node7", "nvml"), (None, "nvidia-smi")]


def test_that_no_gpu_is_known_is_told(locked_report: Report) -> None:
    assert "gpus  none watched, and no file tells of any" in locked_report.text
    assert locked_report.data["gpus"] == []


def asked(workspace: Path) -> Report:
    reader = open_reader(workspace)
    try:
        return report(reader, glyphs=ASCII)
    finally:
        reader.close()


def test_json_is_the_same_report(locked: Path) -> None:
    done = run_tui("status", "--json", str(locked))
    assert done.returncode == 13, done.stderr
    data = json.loads(done.stdout)
    assert data["exit_code"] == 13
    assert data["connection"]["kind"] == "file"
    (run,) = data["runs"]
    assert (run["run_id"], run["locked"], run["last_step"]) == ("grpo-a", True, 6)
    assert run["exit_code"] == 13
    assert run["findings"][0] == "grpo-a: locked by a fault (exit code 13)"
    assert run["marks"][0]["reason"] == HOSTILE  # exact, as it is for programs
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize("words", [["status"], []], ids=["status", "no terminal"])
def test_without_a_terminal_the_screen_is_the_report(locked: Path, words: list[str]) -> None:
    done = run_tui(*words, cwd=locked, LC_ALL="C", TERM="dumb")
    assert done.returncode == 13, done.stderr
    assert b"run grpo-a  attempt 1" in done.stdout
    assert b"\x1b" not in done.stdout


def test_a_reader_that_leaves_early_changes_no_exit_code(locked: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tic_tui", "status", str(locked)], env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()  # before it has written anything, as `| true` does
        said = process.stderr.read()
        assert (process.wait(60), said) == (13, b"")


def test_no_store_says_what_to_do(tmp_path: Path) -> None:
    done = run_tui("status", str(tmp_path))
    assert (done.returncode, done.stdout) == (StoreError.exit_code, b"")
    assert b"tic-daemon watch" in done.stderr
    hostile = run_tui("status", str(tmp_path / "\x1b]0;x\x07"))
    assert b"\x1b" not in hostile.stderr


def test_version_and_help() -> None:
    from tic_daemon import __version__

    assert run_tui("--version").stdout.decode().strip() == f"tic-tui {__version__}"
    for words in (["--help"], ["status", "--help"], ["sql", "--help"], ["demo", "--help"]):
        done = run_tui(*words)
        assert done.returncode == 0 and b"usage: tic-tui" in done.stdout
    assert run_tui("--no-such-option").returncode == 2


def test_ranks_that_no_daemon_watches(tmp_path: Path) -> None:
    """Rank 5 is named by a line of the log of rank 0; ranks 0 and 1 have logs here, 2 and 3 in the store of another node."""
    for host, ranks in (("a", (0, 1)), ("b", (2, 3))):
        for rank in ranks:
            log = tmp_path / host / f"rank_{rank}.log"
            log.parent.mkdir(exist_ok=True)
            log.write_text(f"[mismatch] run=r step=1 rank={rank} metric=kl_k3 value=0.5\n")
    with (tmp_path / "a" / "driver.log").open("w") as log:
        log.write("[rank5]: [mismatch] run=r step=1 metric=kl_k3 value=0.5\n")
    for host in "ab":
        script = (
            f"import socket, sys; socket.gethostname = lambda: {host!r}\n"
            "from tic_daemon.cli import entry\n"
            f"sys.argv = ['tic-daemon', 'watch', '--once', {str(tmp_path / host)!r}, '--state', {str(tmp_path / '.tic')!r}]\n"
            "entry()\n"
        )
        env = {**os.environ, "PYTHONPATH": PYTHONPATH}
        subprocess.run([sys.executable, "-c", script], env=env, check=True, capture_output=True)
    found = told(tmp_path)
    assert found.data["runs"][0]["ranks"] == {
        "expected": 6,
        "watched": [{"host": "a", "ranks": [0, 1]}, {"host": "b", "ranks": [2, 3]}],
        "not_watched": [4, 5],
    }
    assert "ranks       0-5 expected; watched: 0-1 on a, 2-3 on b; not watched: 4-5 (a log on" in found.text
