"""One story from end to end, in a real terminal, and the same told by status, check and sql."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, environment, tic, tui, wait_until
from tests.e2e.terminal import Terminal
from tic_daemon.cli import main
from tic_daemon.store.check import check
from tic_daemon.store.reader import open_reader

RECORD = (
    "[2026-11-29 20:00:{second:02}] trainer.py:231 - [mismatch] run=story step={step} policy={step} input=abc phase=decode "
    "rank=3 repeat=0\n  scope=fixed-input intervention=none\n  metric=logprob_mae value={value} reference=trainer/old\n"
    "  self_repeat=0.0002 report=r.json classification=unknown\n"
)
STEP = "step:{step} - actor/grad_norm:0.25 - timing_s/step:1.5\n"
FAULT = (
    "[rank3]: Traceback (most recent call last):\n"
    '[rank3]:   File "train.py", line 402, in <module>\n'
    "[rank3]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
)


def did(*words: str | Path) -> tuple[int, str]:
    """One `tic-daemon` command in this process: its exit status and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        return main([*map(str, words)]), said.getvalue()


class Story:
    """A workspace with one torchrun worker, and a daemon on it."""

    def __init__(self, tmp_path: Path) -> None:
        self.workspace = tmp_path / "job"
        self.log = self.workspace / "none_a1b2c3d4" / "attempt_0" / "3" / "stderr.log"
        self.log.parent.mkdir(parents=True)
        self.watcher = Watcher(self.workspace / ".tic", self.workspace)

    def append(self, text: str) -> None:
        with self.log.open("a") as log:
            log.write(text)


def test_in_a_terminal(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.append(RECORD.format(second=1, step=1, value="0.00125"))
    story.watcher.start()
    with Terminal(story.workspace) as screen:
        screen.wait_for("story", "0.00125")
        screen.press("\r")  # Enter: the run
        screen.wait_for("story", "0.00125", "✓ evidence")
        story.append(RECORD.format(second=2, step=2, value="0.00375") + STEP.format(step=2))
        screen.wait_for("0.00375")
        story.append(FAULT)
        screen.wait_for("LOCKED", "illegal")
        story.append(RECORD.format(second=9, step=9, value="0.5"))
        screen.wait_for("0.5", "after the fault")
        screen.press("i")
        screen.wait_for("reason")
        screen.press("wrong tokenizer\r")
        screen.wait_for("inconclusive")
        marked = "SELECT reason FROM marks WHERE run_id = 'story'"
        wait_until(lambda: "wrong tokenizer" in tui("sql", "--csv", story.workspace, marked).stdout, 10)
        before = story_told(story.workspace)
        story.watcher.kill()
        screen.pump(2.0)
        assert screen.process.poll() is None, "the screen must outlive the daemon"
        story.watcher.start()
        story.append(RECORD.format(second=10, step=10, value="0.0625"))
        screen.wait_for("0.0625", "LOCKED")
        screen.press("q")
        assert screen.wait_exit() == 0
    after = story_told(story.workspace)
    assert after[:3] == before
    assert len(after) == 4
    assert before == [
        {"step": 1, "admissibility": "admissible", "marked": True},
        {"step": 2, "admissibility": "suspect", "marked": True},
        {"step": 9, "admissibility": "locked", "marked": True},
    ]
    story.watcher.stop()
    assert story_told(story.workspace) == after, "the file says what the endpoint said"


def story_told(workspace: Path) -> list[dict[str, object]]:
    done = tui("sql", "--json", workspace, "SELECT step, admissibility, marked FROM mismatches ORDER BY step")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_as_commands(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.watcher.start()
    assert tic("check", "story", "--at", story.workspace, check=False).returncode == 15
    story.append(RECORD.format(second=1, step=1, value="0.00125"))

    def code() -> int:
        return did("check", "story", "--at", story.workspace)[0]

    def becomes(wanted: int) -> None:
        """Until the command says so; before that, what it calls is asked, since a process a poll takes most of the time."""

        def now() -> int:
            with contextlib.closing(open_reader(story.workspace)) as reader:
                return check(reader, "story")[0]

        wait_until(lambda: now() == wanted, 15, lambda: f"check gives {now()}\n{story.watcher.log()}")
        assert code() == wanted

    becomes(0)
    marked = tic("mark", "story", "--at", story.workspace, "--reason", "looks odd")
    assert code() == 12
    (mark_id,) = (word for word in marked.stdout.split() if len(word) == 32)
    assert did("mark", "story", "--at", story.workspace, "--retract", mark_id, "--reason", "was fine")[0] == 0
    assert code() == 0
    story.append(FAULT)
    becomes(13)
    status = tui("status", story.workspace)
    assert status.returncode == 13
    assert "illegal" in status.stdout
    assert json.loads(tui("status", "--json", story.workspace).stdout)
    refused = tic("watch", story.workspace, check=False)
    assert refused.returncode == 15
    assert str(story.watcher.process.pid) in refused.stderr  # type: ignore[union-attr]
    tic("attempt", "story", "--at", story.workspace, "--from", "now", "--reason", "restarted")
    becomes(15)  # nothing is in the new attempt yet: the old process stays in the old one
    second = story.workspace / "none_ffff0000" / "attempt_0" / "3" / "stderr.log"
    second.parent.mkdir(parents=True)
    second.write_text(RECORD.format(second=30, step=3, value="0.001"))
    becomes(0)
    story.watcher.stop()
    assert code() == 0
    assert did("mark", "story", "--at", story.workspace, "--attempt", "2", "--reason", "without a daemon")[0] == 0
    assert code() == 12
    attempt = ("attempt", "story", "--at", story.workspace, "--from", "now", "--reason")
    assert did(*attempt, "a third, without a daemon")[0] == 0
    assert code() == 15, "the third attempt has no evidence yet"
    assert did("mark", "story", "--at", story.workspace, "--attempt", "3", "--reason", "known at once")[0] == 0


@pytest.mark.tmux
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_in_tmux(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.append(RECORD.format(second=1, step=1, value="0.00125") + FAULT)
    story.watcher.start()
    socket = str(tmp_path / "tmux")

    def tmux(*args: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", socket, *args], env=environment(), capture_output=True, text=True, check=False
        )
        return done.stdout

    command = f"{sys.executable} -m tic_tui {story.workspace}"
    tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", command)
    try:
        listed = re.compile(r"locked +\S+ story")
        wait_until(lambda: bool(listed.search(tmux("capture-pane", "-p"))), 20, lambda: tmux("capture-pane", "-p"))
        tmux("send-keys", "Enter")
        wait_until(lambda: "illegal" in tmux("capture-pane", "-p"), 10, lambda: tmux("capture-pane", "-p"))
        tmux("send-keys", "q")
        wait_until(lambda: tmux("list-sessions") == "", 20, lambda: tmux("capture-pane", "-p"))
    finally:
        tmux("kill-server")
    story.watcher.stop()
