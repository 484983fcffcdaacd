"""Two nodes and a login node: each daemon reads logs of its own node, the screen reads both over the shared directory."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import environment, wait_until
from tests.e2e.nodes import Cluster, Node, available
from tests.e2e.terminal import Terminal
from tests.e2e.test_story import FAULT, RECORD, STEP

pytestmark = [pytest.mark.slow, pytest.mark.netns]


class Machine:
    """A node, its local logs, and the daemon on them; the state directory is shared."""

    def __init__(self, node: Node, shared: Path, local: Path, log: str) -> None:
        self.node, self.shared = node, shared
        self.root = local
        self.log = local / log
        self.log.parent.mkdir(parents=True)
        self.log.touch()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        out = (self.root.parent / f"{self.node.name}.txt").open("ab")
        command = self.node.python(
            "tic_daemon", "watch", self.root, "--state", self.shared / ".tic", "--listen", "auto"
        )  # fmt: skip
        self.process = subprocess.Popen(command, env=environment(), stdout=out, stderr=out)
        wait_until(lambda: bool(self.endpoint()), 40, self.told)

    def endpoint(self) -> str:
        """The URL of the endpoint of the daemon that runs now; "" until it has one."""
        assert self.process is not None and self.process.poll() is None, self.told()
        for path in self.shared.glob(f".tic/{self.node.name}-*/daemon.json"):
            found = json.loads(path.read_text())
            if found["pid"] == self.process.pid:
                return str(found["url"])
        return ""

    def told(self) -> str:
        return (self.root.parent / f"{self.node.name}.txt").read_text(errors="replace")[-3000:]

    def write(self, text: str) -> None:
        with self.log.open("a") as log:
            log.write(text)

    def store(self) -> Path:
        (path,) = self.shared.glob(f".tic/{self.node.name}-*")
        return path

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[Cluster, Machine, Machine, Node, Path]]:
    if why := available():
        pytest.skip(why)
    shared = tmp_path / "job"
    shared.mkdir()
    cluster = Cluster("node-a", "node-b", "login")
    with cluster as (a, b, login):
        first = Machine(a, shared, tmp_path / "local-a" / "logs", "none_x1/attempt_0/0/stderr.log")
        second = Machine(b, shared, tmp_path / "local-b" / "logs", "none_x1/attempt_0/3/stderr.log")
        try:
            first.start()
            second.start()
            yield cluster, first, second, login, shared
        finally:
            first.end()
            second.end()


def ask(node: Node, target: Path, sql: str) -> list[list[str]]:
    done = node.run("tic_tui", "sql", "--csv", target, sql)
    assert done.returncode == 0, done.stderr
    return [line.split(",") for line in done.stdout.splitlines()[1:]]


def test_a_cluster(world: tuple[Cluster, Machine, Machine, Node, Path]) -> None:
    cluster, first, second, login, shared = world
    assert first.endpoint().startswith(f"https://{first.node.address}:")
    first.write(RECORD.format(second=1, step=1, value="0.00125") + STEP.format(step=1))
    with Terminal(shared, node=login) as screen:
        screen.wait_for("story", "0.00125")
        screen.press("\r")
        screen.wait_for("0.00125", "not locked")

        # A fault on one node locks the run of the other: on the screen, and in the other's own store.
        second.write(FAULT)
        began = time.monotonic()
        screen.wait_for("LOCKED", "illegal")
        print(f"fault on node-b to lock on the login node's screen: {time.monotonic() - began:.2f} s")
        locked = "SELECT locked FROM runs WHERE run_id = 'story'"
        wait_until(lambda: ask(login, first.store(), locked) == [["true"]], 10)
        assert login.run("tic_daemon", "check", "story", "--at", shared).returncode == 13

        # A third host marks.
        said = login.run("tic_daemon", "mark", "story", "--at", shared, "--reason", "wrong tokenizer")
        assert said.returncode == 0, said.stderr
        marks = "SELECT reason FROM marks WHERE run_id = 'story'"
        for store in (first.store(), second.store(), shared):
            wait_until(lambda store=store: ask(login, store, marks) == [["wrong tokenizer"]], 10)
        screen.wait_for("wrong tokenizer")

        # The port is blocked: the screen goes on from the snapshot, and says so.
        cluster.nodes[0].cut_off()
        first.write(RECORD.format(second=9, step=9, value="0.03125"))
        screen.wait_for("snapshot", "0.03125", limit_s=60)
        cluster.nodes[0].plug_in(cluster)
        first.write(RECORD.format(second=10, step=10, value="0.0155"))
        screen.wait_for("0.0155", limit_s=60)
        screen.wait_for("snapshot", limit_s=60, gone=True)

        # The daemon is killed and started again on the same store: the screen recovers by itself.
        assert first.process is not None
        first.process.kill()
        first.process.wait(10)
        first.start()
        first.write(RECORD.format(second=11, step=11, value="0.0075"))
        screen.wait_for("0.0075", "LOCKED", limit_s=60)
        screen.press("q")
        assert screen.wait_exit() == 0
