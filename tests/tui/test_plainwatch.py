"""`tic-tui watch --plain`: what it says of stores that a daemon wrote, and while one writes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Watcher, environment, here, wait_until
from tic_daemon.store.reader import open_reader
from tic_tui import cli

RECORD = (
    "[2026-11-29 20:00:{second:02}] trainer.py:231 - [mismatch] run={run} step={step} policy={step} input=abc "
    "phase=decode rank=3 repeat=0\n  scope=fixed-input intervention=none\n  metric=logprob_mae value={value} "
    "reference=trainer/old\n  self_repeat=0.0002 report=r.json classification=unknown\n"
)
FAULT = "[rank3]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
HOSTILE = "\x1b]0;owned\x07\u202e"


class Watch:
    """The command as a process whose lines are read from a file."""

    def __init__(self, place: Path, *options: str) -> None:
        self.out = place.parent / "said.txt"
        command = [sys.executable, "-m", "tic_tui", "watch", *options, str(place)]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(command, env=environment(), stdout=out, stderr=subprocess.PIPE)

    def lines(self) -> list[str]:
        return self.out.read_text().splitlines()

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=20)
        assert (self.process.returncode, errors) == (0, b"")


def told(capfd: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert cli.main(["watch", *words]) == 0
    return capfd.readouterr().out.splitlines()


def words(lines: list[str]) -> list[str]:
    """The word of each line, after its time."""
    return [re.sub(r"^\S+ \S+Z (\w+).*", r"\1", line) for line in lines]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A run with evidence, then a fault, then a number behind it."""
    place = tmp_path / "job"
    log = place / "t_x" / "attempt_0" / "3" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text(RECORD.format(run="story", step=1, second=1, value="0.00125") + FAULT)
    with log.open("a") as more:
        more.write(RECORD.format(run="story", step=9, second=9, value="0.5"))
    return place


def test_what_a_finished_store_says(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    here("watch", "--once", workspace)
    here("mark", "story", "--at", workspace, "--reason", f"odd {HOSTILE}")
    here("attempt", "story", "--at", workspace, "--from", "now", "--reason", "restarted")
    lines = told(capfd, "--plain", "--since", "start", "--for", "0.5", str(workspace))
    assert words(lines) == ["connection", "attempt", "fault", "LOCKED", "mark", "mismatch", "mismatch", "state"]
    said = dict(zip(words(lines), lines, strict=True))
    assert "story attempt 2: a new attempt begins" in said["attempt"] and "(now): restarted" in said["attempt"]
    assert "cuda.illegal_address [L] confirmed, rank 3" in said["fault"] and "it locks" in said["fault"]
    assert "story attempt 1: 1 fault locks it, first cuda.illegal_address" in said["LOCKED"]
    assert "inconclusive (run): odd ^[]0;owned^G<U+202E>; by" in said["mark"]
    first, second = (line for line in lines if " mismatch " in line)
    assert "story attempt 1: logprob_mae 0.00125, step 1, rank 3, phase decode, 6.25 x noise; suspect" in first
    assert "not evidence: locked: after the fault" in second
    assert all(char.isprintable() for line in lines for char in line)
    assert told(capfd, "--plain", "--run", "other", "--since", "start", "--for", "0.1", str(workspace))[1:] == []
    assert words(told(capfd, "--plain", "--for", "0.1", str(workspace))) == ["connection"], "now: nothing is new"
    three = told(capfd, "--json", "--since", "start", "--count", "3", str(workspace))
    data: list[dict[str, Any]] = [json.loads(line) for line in three]
    assert [one["event"] for one in data] == ["connection", "attempt", "fault"]
    assert data[2]["kind"] == "cuda.illegal_address" and data[2]["locks"] is True


def test_what_cannot_be_asked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["watch", str(tmp_path)]) == 2
    assert cli.main(["watch", "--plain", "--count", "0", str(tmp_path)]) == 2
    assert cli.main(["watch", "--plain", "--for", "nan", str(tmp_path)]) == 2
    assert cli.main(["watch", "--plain", str(tmp_path)]) == 15
    assert "Traceback" not in capfd.readouterr().err


def test_while_a_daemon_writes(workspace: Path) -> None:
    log = next(workspace.rglob("stderr.log"))
    log.write_text(RECORD.format(run="story", step=1, second=1, value="0.00125"))
    watcher = Watcher(workspace / ".tic", workspace)
    watcher.start()
    reader = open_reader(workspace)
    wait_until(lambda: reader.query("SELECT value FROM mismatches").rows == [(0.00125,)], 20, watcher.log)
    reader.close()
    watch = Watch(workspace, "--plain")
    wait_until(lambda: words(watch.lines())[:1] == ["connection"], 20)
    with log.open("a") as more:
        more.write(RECORD.format(run="story", step=2, second=2, value="0.25").rstrip("\n"))
    wait_until(lambda: any("0.25" in line for line in watch.lines()), 20, lambda: "\n".join(watch.lines()))
    with log.open("a") as more:  # the record is at its end: that is no news
        more.write("\n" + FAULT)
    wait_until(lambda: "LOCKED" in words(watch.lines()), 20, lambda: "\n".join(watch.lines()))
    here("mark", "story", "--at", workspace, "--reason", "why")
    wait_until(lambda: "mark" in words(watch.lines()), 20)
    watcher.kill()
    watcher.start()
    with log.open("a") as more:
        more.write(RECORD.format(run="story", step=3, second=30, value="0.75"))
    wait_until(lambda: any("0.75" in line for line in watch.lines()), 30, lambda: "\n".join(watch.lines()))
    watch.end()
    watcher.stop()
    lines = watch.lines()
    assert not any("0.00125" in line for line in lines), "now: it was there before"
    for value in ("0.25", "0.75"):
        assert sum(value in line for line in lines) == 1, lines
    assert words(lines).count("LOCKED") == words(lines).count("mark") == 1, "\n".join(lines)


def test_a_reader_that_goes_away_ends_it(workspace: Path) -> None:
    here("watch", "--once", workspace)
    command = f"{sys.executable} -m tic_tui watch --plain --since start '{workspace}' | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr, words(done.stdout.splitlines())) == (0, "", ["connection"])


def test_stores_of_two_nodes_are_named(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for host in "ab":
        script = (
            f"import socket, sys; socket.gethostname = lambda: {host!r}\n"
            "from tic_daemon.cli import entry\n"
            f"sys.argv = ['tic-daemon', 'watch', '--once', {str(workspace)!r}]\nentry()\n"
        )
        assert subprocess.run([sys.executable, "-c", script], env=environment(), check=False).returncode == 0
    lines = told(capfd, "--plain", "--since", "start", "--for", "0.5", str(workspace))
    if lines[0].split()[3] != "several":
        pytest.skip(f"stores of other hosts are not read as several: {lines[0]}")
    named = {match[1] for line in lines if (match := re.search(r"mismatch .*\[host (\w+), store \w+\]$", line))}
    assert named == {"a", "b"}
    assert words(lines).count("LOCKED") == 1


def test_findings_are_told_once_each_and_by_status(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A captured log of a vLLM server; that these three are in it is said beside it, in expected.json."""
    place = tmp_path / "job"
    place.mkdir()
    samples = Path(__file__).parents[1] / "corpus" / "samples"
    shutil.copy(samples / "01_vllm_v1_server_sleep_wake.log", place / "rollout.log")
    here("watch", "--once", place)
    lines = told(capfd, "--plain", "--since", "start", "--for", "0.5", str(place))
    found = [line for line in lines if re.match(r"\S+ \S+Z finding ", line)]
    expected = {"reset_refused", "update_without_reset", "wake_without_weights"}
    assert {kind for kind in expected for line in found if f": {kind}, rank" in line} == expected
    assert len(found) == len(expected)
    cli.main(["status", "--json", str(place)])
    (run,) = json.loads(capfd.readouterr().out)["runs"]
    assert {row["kind"] for row in run["lifecycle_findings"]} == expected
