"""Two real daemons, as on two nodes, in one workspace: a fault that one sees locks the run in the store of the other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, ask, environment, wait_until
from tests.evidence.test_runs_of_faults import FAULT, RECORD
from tic_daemon.store.reader import Reader, open_reader

LIMIT_S = 20.0  # what must take two seconds, on a machine that does other things too
STEP = "step:{step} - actor/grad_norm:0.25 - timing_s/step:1.5\n"


class Node(Watcher):
    """A daemon on a machine of another name, with logs of its own; the state directory is shared."""

    def __init__(self, workspace: Path, host: str) -> None:
        self.host, self.logs = host, workspace.parent / host
        self.logs.mkdir()
        (self.logs / "tic.toml").write_text(f'host = "{host}"\n')
        super().__init__(workspace / ".tic", self.logs)

    def _published(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        found = self.state.glob(f"{self.host}-*/daemon.json")
        return any(json.loads(path.read_text()).get("pid") == self.process.pid for path in found)

    def _spawn(self) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "tests.e2e.node",
            self.host,
            "watch",
            str(self.logs),
            "--state",
            str(self.state),
        ]
        with (self.state / "output.txt").open("ab") as log:
            self.process = subprocess.Popen([*command, *self._options], env=environment(), stdout=log, stderr=log)

    def append(self, name: str, text: str) -> None:
        path = self.logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as log:
            log.write(text)

    def reader(self) -> Reader:
        (directory,) = self.state.glob(f"{self.host}-*")
        return open_reader(directory)

    def told(self) -> list[tuple[object, ...]]:
        """(run, locked, of how many faults, from elsewhere) and the worst state of its records."""
        reader = self.reader()
        try:
            return reader.query(
                "SELECT run_id, locked, faults, remote_faults, (SELECT max(admissibility) FROM mismatches m WHERE m.run_id = r.run_id) "
                "FROM runs r ORDER BY 1"
            ).rows
        finally:
            reader.close()

    def wait_for(self, *rows: tuple[object, ...]) -> None:
        wait_until(lambda: self.told() == list(rows), LIMIT_S, lambda: f"{self.told()}\n{self.log()}")


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[Node, Node]:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return Node(workspace, "node-a"), Node(workspace, "node-b")


def end(*nodes: Node) -> None:
    for node in nodes:
        if node.process is not None and node.process.poll() is None:
            node.kill()


def test_a_fault_on_one_node_locks_the_run_on_the_other(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    a.append("stdout.log", RECORD.format(run="X", step=5))
    b.append("rank3/stderr.log", RECORD.format(run="X", step=5))
    try:
        a.start()
        b.start()
        a.wait_for(("X", False, 0, 0, "admissible"))
        # What only looks like a fault: a worker's own words, in the middle of a line.
        b.append("rank3/stderr.log", "INFO the model said: CUDA error: an illegal memory access was encountered\n")
        b.append("rank3/stderr.log", FAULT.format(rank=3))
        a.wait_for(("X", True, 1, 1, "locked"))
        b.kill()  # at once: what it said stands
        assert a.told() == [("X", True, 1, 1, "locked")]
        a.append("stdout.log", RECORD.format(run="X", step=6))
        a.kill()
        a.start()
        a.wait_for(("X", True, 1, 1, "locked"))
        b.start()
        b.wait_for(("X", True, 1, 0, "locked"))
        a.stop()
        b.stop()
        for node, own in ((a, 0), (b, 1)):
            (store,) = node.state.glob(f"{node.host}-*/tic.duckdb")
            assert ask(
                store, "SELECT count(*) FILTER (origin_store_id IS NULL AND locks), count(*) FILTER (locks) FROM faults"
            ) == [(own, 1)]
            assert ask(store, "SELECT count(*) FROM evidence_gaps") == [(0,)]
        told = [json.loads(line) for path in a.state.glob("faults/X/*.jsonl") for line in path.read_text().splitlines()]
        assert sorted(line["kind"] for line in told) == ["fault", "run", "run"], "told once, by the one that saw it"
    finally:
        end(a, b)


def test_garbage_and_torn_lines_hold_nothing_up_and_are_told(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    a.append("stdout.log", RECORD.format(run="X", step=5))
    b.append("rank3/stderr.log", RECORD.format(run="X", step=5) + FAULT.format(rank=3))
    directory = a.state / "faults" / "X"
    directory.mkdir(parents=True)
    (directory / "node-c-0123456789ab.jsonl").write_bytes(
        b"\x1b]0;owned\x07'; DROP TABLE fault;--\n" * 1000 + b'{"kind":"fault"'
    )
    (directory / "node-d-0123456789ac.jsonl").mkdir()
    (a.state / "faults" / "a file").write_bytes(b"x")
    try:
        a.start()
        b.start()
        a.wait_for(("X", True, 1, 1, "locked"))
        reader = a.reader()
        gaps = reader.query("SELECT kind, path, detail FROM evidence_gaps ORDER BY path").rows
        reader.close()
        assert [(kind, Path(path).name) for kind, path, _ in gaps] == [
            ("exchange", "node-c-0123456789ab.jsonl"), ("unreadable", "node-d-0123456789ac.jsonl"),
        ]  # fmt: skip
        assert gaps[0][2] == "1000 lines are left out; the first: it is no JSON"
    finally:
        end(a, b)


def test_what_was_refuted_locks_nowhere_and_a_new_attempt_starts_clean(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    a.append("stdout.log", RECORD.format(run="X", step=5))
    # Anchored, but not shown to be the runtime's own; then its process ends a step.
    b.append(
        "stderr.log",
        RECORD.format(run="X", step=5) + "CUDA error: an illegal memory access was encountered\n" + STEP.format(step=6),
    )
    try:
        a.start()
        b.start()
        b.wait_for(("X", False, 0, 0, "admissible"))
        a.wait_for(("X", False, 0, 0, "admissible"))
        b.append("rank3/stderr.log", FAULT.format(rank=3))
        a.wait_for(("X", True, 1, 1, "locked"))
        declared = subprocess.run(
            [sys.executable, "-m", "tests.e2e.node", "login", "attempt", "X", "--from", "now", "--reason", "again", "--at", str(a.state.parent)],
            env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert declared.returncode == 0, declared.stderr
        a.append("rank0-again.log", RECORD.format(run="X", step=6))
        for node, faults in ((a, 1), (b, 0)):
            wait_until(
                lambda node=node: node.told()[0][1] is False, LIMIT_S, lambda node=node: f"{node.told()}\n{node.log()}"
            )  # type: ignore[misc]
            assert node.told()[0][3] == faults, "the old attempt keeps its fault"
        reader = a.reader()
        standing = "SELECT attempt, admissibility FROM mismatches ORDER BY attempt"
        # The attempt may be there before the line that was written after it is read.
        wait_until(lambda: len(reader.query(standing).rows) == 2, LIMIT_S)
        assert reader.query(standing).rows == [(1, "locked"), (2, "admissible")]
        reader.close()
    finally:
        end(a, b)
