"""`tic-daemon wandb RUN` on one machine, and the daemon that takes in what it read on another."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import needs
from tests.e2e.harness import environment
from tests.wandb_server import Fault, WandbServer, only_rows
from tic_daemon.config import WandbConfig
from tic_daemon.sources.wandb_api import WandbApi
from tic_daemon.store.rows import SourceDelta
from tic_daemon.wandb.events import WandbRead, WandbRow
from tic_daemon.wandb.spooled import SpoolFile, waiting
from tic_daemon.wandb.wire import Begun, Ended, Hello
from tic_daemon.wandb_command import run_path_of

needs.wandb_client()


def tic(env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tic_daemon", *args],
        env=environment() | env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


class Taker:
    """A source without a way to W&B that takes in what lies in a spool."""

    def __init__(self, spool: Path, hand: tuple[str, ...] = (), *, first: bool = True) -> None:
        config = WandbConfig(read=False)
        self.api = WandbApi("node1", "/ws", config, lambda: None, hand=hand, spool=spool, first=lambda: first)
        self.api.start()
        self.deltas: list[SourceDelta] = []

    def settle(self) -> list[WandbRead]:
        self.api.hasten()
        until = time.monotonic() + 60
        while not self.api.settled:
            assert time.monotonic() < until
            self.deltas += self.api.take()
            time.sleep(0.01)
        return [event for delta in self.deltas for event in delta.events if isinstance(event, WandbRead)]

    def rows(self) -> list[WandbRow]:
        return [event for delta in self.deltas for event in delta.events if isinstance(event, WandbRow)]


def test_a_history_read_by_hand_comes_into_the_store(tmp_path: Path) -> None:
    state = tmp_path / "ws" / ".tic"
    state.mkdir(parents=True)
    with WandbServer() as server:
        run = server.add_run("lab/grpo/r1", [{"_step": n, "loss": 1 / (n + 1)} for n in range(60) if n not in (20, 21)])
        env = server.env(tmp_path / "home")
        done = tic(env, "wandb", f"{server.url}/lab/grpo/runs/r1?nw=x", "--at", str(tmp_path / "ws"), "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["run"] == run.path and told["rows"] == told["history_line_count"] == 58
        assert (told["seen"], told["holes"], told["last_step"]) == ("0-19 22-59", "20-21", 59)
        assert [read["outcome"] for read in told["readings"]] == ["ok", "ok"]
        assert told["readings"][0]["page_size"] != told["readings"][1]["page_size"]
        [path] = waiting(state / "spool")
        assert str(path) == told["spooled"] and path.stat().st_mode & 0o077 == 0
        assert env["WANDB_API_KEY"] not in gzip.decompress(path.read_bytes()).decode()
        server.faults.append(Fault("HistoryPage", only_rows(5), times=1))
        text = tic(env, "wandb", run.path, "--dry-run").stdout
        assert "reading 1: short" in text and "reading 2: ok" in text and "between them not 20-21" in text
        done = tic(env, "wandb", "lab/grpo/typo", "--at", str(tmp_path / "ws"), "--json")
        told = json.loads(done.stdout)
        assert (done.returncode, told["outcome"], told["spooled"], done.stderr) == (15, "error", None, "")
    assert waiting(state / "spool") == [path], "a name that the server does not know becomes no run of the workspace"
    assert [file for file in path.parent.iterdir() if file != path] == []

    other = Taker(state / "spool", first=False)
    assert not other.settle() and path.exists(), "of several daemons one takes in what no source names"
    other.api.stop()
    taker = Taker(state / "spool")
    reads = taker.settle()
    assert [(read.outcome, read.who, read.seen) for read in reads] == [("ok", "hand", "0-19 22-59")] * 2
    assert [row.wandb_step for row in taker.rows()] == [n for n in range(60) if n not in (20, 21)]
    assert {row.read_id for row in taker.rows()} == {reads[0].read_id}
    assert taker.deltas[-1].source.path == run.path and taker.deltas[-1].source.kind == "wandb_api"
    assert path.exists(), "until it is committed"
    taker.api.stop()
    again = Taker(state / "spool", hand=(reads[0].read_id, reads[1].read_id))
    assert not again.settle() and not path.exists(), "a daemon that ended between commit and removal"
    again.api.stop()


def test_a_file_goes_when_its_rows_are_committed(tmp_path: Path) -> None:
    with SpoolFile(tmp_path, "lab/grpo/r1", "me") as file:
        file.begin(0)
        for message in (Hello("0.31.0", "http://x"), Begun(0, 10), Ended("ok", "", 0)):
            file.say(message)
        file.end("ok", "", 1.5)
    taker = Taker(tmp_path)
    [read] = taker.settle()
    assert (read.outcome, read.took_s, read.client_version) == ("short", 1.5, "0.31.0"), "no last step, no count"
    taker.api.kept()
    taker.settle()
    assert not file.path.exists()
    taker.api.stop()


def test_what_is_damaged_or_foreign_stays_and_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError), SpoolFile(tmp_path, "lab/grpo/r1", "me") as file:
        raise RuntimeError
    folder = file.path.parent
    assert not list(folder.iterdir()), "what is not finished is not there"
    with SpoolFile(tmp_path, "lab/grpo/r1", "me") as file:
        file.begin(0)
        file.say(Hello("0.31.0", "http://x"))
        file.end("ok", "", 1.0)
    good = file.path.read_bytes()
    file.path.unlink()
    head = {"format": 1, "id": "0" * 32, "run_path": "a/b/c"}
    bad = {
        "cut": good[:-9], "flipped": good[:40] + bytes([good[40] ^ 1]) + good[41:], "plain": b"hello", "empty": b"",
        "head": gzip.compress(b'{"format": 1}\n'), "path": gzip.compress(json.dumps({**head, "run_path": "../../x"}).encode()),
        "outside": gzip.compress(json.dumps(head).encode() + b'\n{"m": "PageTold", "to": 1}\n'),
        "within": gzip.compress(json.dumps(head).encode() + b'\n{"begin": 0, "at": "2026-01-01"}\n'),
        "line": gzip.compress(json.dumps(head).encode() + b'\n{"begin": 0, "at": "2026-01-01"}\n{"r": 1}\n'),
    }  # fmt: skip
    for name, data in bad.items():
        (folder / f"{name}.readings.gz").write_bytes(data)
    (folder / "link.readings.gz").symlink_to("/etc/passwd")
    taker = Taker(tmp_path)
    assert not taker.settle() and not taker.rows() and not taker.settle()
    taker.api.stop()
    said = [record.message for record in caplog.records if "left out" in record.message]
    assert sorted(message.partition(".readings")[0].rpartition("/")[2] for message in said) == sorted(bad)
    assert len(list(folder.iterdir())) == len(bad) + 1


def test_what_the_command_refuses(tmp_path: Path) -> None:
    with WandbServer() as server:
        env = server.env(tmp_path / "home")
        for args, code, why in (
            (("nothing", "--dry-run"), 2, "entity/project/id"),
            (("lab/grpo/r1", "--at", str(tmp_path)), 2, "no workspace"),
        ):
            done = tic(env, "wandb", *args)
            assert done.returncode == code and why in done.stderr
        done = tic({**env, "WANDB_API_KEY": ""}, "wandb", "lab/grpo/r1", "--dry-run")
        assert done.returncode == 15 and "wandb login" in done.stderr
    assert run_path_of("https://w.example/a/b%20c/runs/d") == "a/b c/d"
