"""Two real daemons in one workspace, as on two nodes with a shared directory, read from a third."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, environment, tui, wait_until
from tic_daemon.store.layout import stores_under
from tic_daemon.store.reach import open_snapshot
from tic_daemon.store.reader import Connection, Reader, open_reader

RECORD = (
    "[mismatch] run=r1 step={step} policy=p input=ab12 phase=decode rank={rank} repeat=0\n"
    "  scope=fixed-input intervention=none\n"
    "  metric=logprob_mae value=0.004 reference=r self_repeat=0.001 report=x classification=unknown\n"
    "step {step} of rank {rank} is done\n"
)
FAULT = (
    "[rank0]: Traceback (most recent call last):\n"
    "[rank0]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
)
LIMIT_S = 60.0


class Node:
    """A daemon over logs of its own; its state lies in the workspace that all share."""

    def __init__(self, root: Path, host: str, rank: int) -> None:
        self.host, self.rank = host, rank
        self.log = root / host / f"worker-{rank}.err"
        self.log.parent.mkdir(parents=True)
        config = root / f"{host}.toml"
        config.write_text("[store]\nsnapshot_s = 0.5\n")
        self.watcher = Watcher(root / "ws" / ".tic", self.log.parent, options=("--config", str(config)), host=host)

    def write(self, *steps: int) -> None:
        with self.log.open("a") as log:
            log.writelines(RECORD.format(step=step, rank=self.rank) for step in steps)

    def signal(self, number: signal.Signals) -> None:
        assert self.watcher.process is not None
        self.watcher.process.send_signal(number)


def login(*words: str) -> subprocess.CompletedProcess[str]:
    """A `tic-daemon` command on a third machine."""
    command = [sys.executable, "-m", "tests.e2e.node", "login", *words]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    (tmp_path / "ws" / ".tic").mkdir(parents=True)
    made = Node(tmp_path, "node1", 0), Node(tmp_path, "node2", 1)
    yield made
    for node in made:
        process = node.watcher.process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(10)


def numbers(reader: Reader) -> dict[int, int]:
    """How many records each rank has."""
    found = reader.query(
        "SELECT rank, count(*) AS n FROM mismatches WHERE run_id = 'r1' GROUP BY ALL",
        gather="SELECT rank, sum(n)::BIGINT FROM part GROUP BY ALL", timeout_s=30,
    )  # fmt: skip
    return {int(rank): int(count) for rank, count in found.rows}


def store(reader: Reader, host: str) -> Connection:
    """How the reader reaches the store of a node."""
    stores = reader.connection().stores
    names = sorted(path.name for path in Path(reader.connection().target).glob(".tic/node*-*"))
    return dict(zip((name.partition("-")[0] for name in names), stores, strict=True))[host]


def published(workspace: Path, host: str) -> dict[int, int]:
    """What the newest snapshot of a node holds, as `numbers`."""
    (layout,) = [layout for layout in stores_under(workspace) if layout.host == host]
    if not (layout.snapshot_dir / "manifest.json").exists():
        return {}
    with closing(open_snapshot(layout)) as reader:
        return numbers(reader)


def ask(reader: Reader, sql: str) -> list[tuple[object, ...]]:
    return reader.query(sql, timeout_s=30).rows


def test_two_nodes_are_read_as_one_and_one_of_them_dies(tmp_path: Path, nodes: tuple[Node, Node]) -> None:
    """The short story; the whole one, with hangs, marks, faults and attempts, is below."""
    one, two = nodes
    one.write(1, 2, 3)
    two.write(1, 2)
    one.watcher.start()
    two.watcher.start()
    reader = open_reader(tmp_path / "ws")
    wait_until(lambda: numbers(reader) == {0: 3, 1: 2}, LIMIT_S, lambda: repr(reader.connection()))
    assert [s.kind for s in reader.connection().stores] == ["live", "live"]
    assert ask(reader, "SELECT run_id, mismatches, locked, sources, last_step FROM runs") == [("r1", 5, False, 2, 3)]
    # One publishes no more, the other goes on; what it published is read, and that is said.
    wait_until(lambda: published(tmp_path / "ws", "node2") == {1: 2}, LIMIT_S)
    two.watcher.kill()
    one.write(4)
    wait_until(lambda: numbers(reader) == {0: 4, 1: 2} and store(reader, "node2").kind == "snapshot", LIMIT_S)
    assert reader.connection().detail.startswith("1 of 2 stores are not read live: node2-")
    reader.close()


@pytest.mark.slow
def test_two_nodes_are_read_as_one_whatever_happens_to_their_daemons(tmp_path: Path, nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    workspace = tmp_path / "ws"
    one.write(1, 2, 3)
    one.watcher.start()
    reader = open_reader(workspace)
    wait_until(lambda: numbers(reader) == {0: 3}, LIMIT_S)
    assert reader.connection().kind == "live"

    # A daemon that starts on another node while somebody looks.
    two.write(1, 2)
    two.watcher.start()
    wait_until(lambda: numbers(reader) == {0: 3, 1: 2}, LIMIT_S, lambda: repr(reader.connection()))
    told = reader.connection()
    assert (told.kind, told.state, told.detail) == ("several", "connected", "")
    assert [s.kind for s in told.stores] == ["live", "live"]
    assert ask(reader, "SELECT run_id, mismatches, locked, sources, last_step FROM runs") == [("r1", 5, False, 2, 3)]
    seen = reader.tail()
    one.write(4)
    rows: list[tuple[object, ...]] = []
    while not any(row[seen.columns.index("provisional")] is False for row in rows):
        seen = reader.tail(seen.position, wait_s=LIMIT_S)
        rows += seen.rows
    assert {row[seen.columns.index("step")] for row in rows} == {4}

    # A mark from a third machine is one mark, though two stores take it in.
    assert login("mark", "r1", "--reason", "tokenizer", "--at", str(workspace), "--note").returncode == 0
    wait_until(lambda: ask(reader, "SELECT reason, host FROM marks") == [("tokenizer", "login")], LIMIT_S)

    # A daemon that hangs: its part comes from what it published last, and that is said, with the way to it.
    assert numbers(reader) == {0: 4, 1: 2}
    wait_until(lambda: any(workspace.glob(".tic/node2-*/snapshot/manifest.json")), LIMIT_S)
    two.signal(signal.SIGSTOP)
    wait_until(lambda: numbers(reader) == {0: 4, 1: 2} and store(reader, "node2").kind == "snapshot", LIMIT_S)
    away = store(reader, "node2")
    assert away.data_at is not None and "node2" in away.detail and away.hint.startswith("ssh -N -L ")
    assert reader.connection().detail.startswith("1 of 2 stores are not read live: node2-")
    refused = login("attempt", "r1", "--from", "now", "--reason", "again", "--at", str(workspace))
    assert refused.returncode == 15 and "cannot be told" in refused.stderr, refused
    status = json.loads(tui("status", "--json", workspace).stdout)
    assert [s["kind"] for s in status["connection"]["stores"]] == ["live", "snapshot"]
    two.signal(signal.SIGCONT)
    wait_until(lambda: bool(numbers(reader)) and store(reader, "node2").kind == "live", LIMIT_S)
    assert reader.connection().detail == ""

    # A daemon that is killed, and started again on the same store.
    one.watcher.kill()
    wait_until(lambda: bool(numbers(reader)) and store(reader, "node1").kind == "snapshot", LIMIT_S)
    one.write(5)
    one.watcher.start()
    wait_until(lambda: numbers(reader) == {0: 5, 1: 2}, LIMIT_S, lambda: repr(reader.connection()))
    assert store(reader, "node1").kind == "live"

    # A fault on one node locks the run, is one fault, and the exit code says so.
    with one.log.open("a") as log:
        log.write(FAULT)
    wait_until(lambda: ask(reader, "SELECT locked, faults FROM runs") == [(True, 1)], LIMIT_S)
    wait_until(
        lambda: ask(reader, "SELECT host, locks, origin_store_id FROM faults") == [("node1", True, None)], LIMIT_S
    )
    two.write(9)
    wait_until(
        lambda: ask(reader, "SELECT rank, admissibility FROM mismatches WHERE step = 9") == [("1", "locked")], LIMIT_S
    )
    checked = login("check", "r1", "--at", str(workspace))
    assert checked.returncode == 13 and "illegal memory access" in checked.stdout, checked

    # A new attempt cuts the logs of both nodes: what was written before stays in the old one.
    declared = login("attempt", "r1", "--from", "now", "--reason", "new allocator", "--at", str(workspace))
    assert declared.returncode == 0, declared
    wait_until(lambda: ask(reader, "SELECT attempt, locked FROM runs") == [(2, False)], LIMIT_S)
    assert ask(reader, "SELECT DISTINCT attempt FROM mismatches") == [(1,)]
    reader.close()
    for node in nodes:
        node.watcher.stop()

    # Afterwards, from the files.
    with_files = open_reader(workspace)
    assert numbers(with_files) == {0: 5, 1: 3}
    assert {s.kind for s in with_files.connection().stores} == {"file"}
    with_files.close()


@pytest.mark.parametrize(("network", "records"), [("true", 3), pytest.param("false", 6, marks=pytest.mark.slow)])
def test_a_shared_log_that_two_jobs_watched_one_after_the_other_counts_once(
    tmp_path: Path, network: str, records: int
) -> None:
    """The same path on another node is the same log only if a network file system shows it there."""
    logs = tmp_path / "ws" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-0.err").write_text("".join(RECORD.format(step=step, rank=0) for step in (1, 2, 3)))
    config = tmp_path / "tic.toml"
    config.write_text(f'[[source]]\npath = "**"\nnetwork = {network}\n')
    for host in ("node1", "node2"):
        command = [
            sys.executable,
            "-m",
            "tests.e2e.node",
            host,
            "watch",
            "--once",
            "--config",
            str(config),
            str(tmp_path / "ws"),
        ]
        subprocess.run(command, env=environment(), check=True, capture_output=True, timeout=120)
    assert len(list((tmp_path / "ws" / ".tic").glob("node*-*/tic.duckdb"))) == 2
    reader = open_reader(tmp_path / "ws")
    assert numbers(reader) == {0: records}
    assert [row[0] for row in ask(reader, "SELECT mismatches FROM runs")] == [records]
    reader.close()
