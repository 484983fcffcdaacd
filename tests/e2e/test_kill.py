"""kill -9 at random moments: nothing lost, nothing doubled.

Two daemons watch the same files. One is left alone, the other is killed again and again. In the end their tables must
be equal, row for row, in all columns but rec_id, store_id and observed_at.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, ask, rows, wait_until
from tic_daemon.store.reader import open_reader

FILES = 20


class Writer(threading.Thread):
    """Writes records, steps, faults and noise into 20 files, in pieces that end anywhere, and rotates and truncates them.

    Truncation waits until both daemons have read the file, and holds `gate` meanwhile, so that nothing is killed:
    what is truncated unread is lost by nature, and has a test of its own.
    """

    def __init__(self, root: Path, seed: int, gate: threading.Lock, *watchers: Watcher) -> None:
        super().__init__(daemon=True)
        self.random, self.watchers = random.Random(seed), watchers
        self.halt = threading.Event()
        self.paths = [root / f"d{number % 4}" / f"worker-{number}.log" for number in range(FILES)]
        self.counts = [0] * FILES
        self.rotations = [0] * FILES
        self.generations = [0] * FILES
        self.truncations = 0
        self.gate = gate

    def run(self) -> None:
        while not self.halt.is_set():
            number = self.random.randrange(FILES)
            action = self.random.random()
            if action < 0.93:
                self._append(number)
            elif action < 0.985:
                self._rotate(number)
            else:
                self._truncate(number)
            time.sleep(self.random.random() * 0.01)
        for number in range(FILES):
            self._append(number)
            with self.paths[number].open("a") as log:
                log.write("the end\n")

    def _text(self, number: int) -> str:
        self.counts[number] += 1
        count = self.counts[number]
        kind = self.random.random()
        stamp = f"[2026-11-29 20:{count // 60 % 60:02}:{count % 60:02} TP{number % 4}]"
        if kind < 0.25:
            return (
                f"[mismatch] run=r{number % 3} step={count} policy={count} input=abc{count} phase=decode rank={number}\n"
                f"  repeat=0 scope=fixed-input intervention=none metric=logprob_mae\n"
                f"  value=0.00{count} reference=x self_repeat=0.0001 report=r classification=unknown\n"
            )
        if kind < 0.35:
            return f"[mismatch] run=r{number % 3} step={count} metric=kl_k3 value=0.5\n"
        if kind < 0.5:
            return f"step:{count} - actor/pg_loss:0.5 - actor/grad_norm:{count}.25\n"
        if kind < 0.53:
            return f"[rank{number}]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
        if kind < 0.6:
            return f"bar:  50%|###  | {count}/9 [00:01]\rbar: 100%|#####| 9/9 [00:02]\n"
        return f"{stamp} scheduler loop {count}: nothing to see\n"

    def _append(self, number: int) -> None:
        path = self.paths[number]
        path.parent.mkdir(exist_ok=True)
        text = self._text(number).encode()
        with path.open("ab", buffering=0) as log:
            cut = self.random.randrange(len(text) + 1)
            log.write(text[:cut])
            if self.random.random() < 0.3:
                time.sleep(0.02)
            log.write(text[cut:])

    def _rotate(self, number: int) -> None:
        path = self.paths[number]
        if not path.exists() or path.stat().st_size == 0:
            return
        for old in range(self.rotations[number], 0, -1):
            path.with_name(f"{path.name}.{old}").rename(path.with_name(f"{path.name}.{old + 1}"))
        path.rename(path.with_name(path.name + ".1"))
        self.rotations[number] += 1
        self.generations[number] += 1

    def _truncate(self, number: int) -> None:
        path = self.paths[number]
        if not path.exists() or path.stat().st_size < 2000:
            return
        with self.gate:  # the killer waits meanwhile, so that the daemon is up and can catch up
            # What a life before the last kill had read says nothing of what the new one has seen: give it a line to read.
            self._append(number)
            self._await(number)
            with path.open("r+b") as log:
                log.truncate(0)
            self.truncations += 1
            self.generations[number] += 1
            # Shorter than what was there, and read before more comes: so the truncation is seen for what it is.
            self._append(number)
            self._await(number)

    def _await(self, number: int) -> None:
        """Until both daemons have read the file to its end."""
        path = self.paths[number]
        wanted = (self.generations[number], path.stat().st_size)
        for watcher in self.watchers:
            wait_until(
                lambda w=watcher: read_so_far(w, path) == wanted, 60, lambda: f"{path} is not read up to {wanted}"
            )


def read_so_far(watcher: Watcher, path: Path) -> tuple[int, int]:
    """Generation of `path` that is read, and how far."""
    reader = open_reader(watcher.state)
    try:
        found = reader.query("SELECT generation, bytes_read FROM sources WHERE path = ?", [str(path)]).rows
        return (int(found[0][0]), int(found[0][1])) if found else (-1, -1)
    finally:
        reader.close()


def story(tmp_path: Path, kills: int, seed: int) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    undisturbed = Watcher(tmp_path / "undisturbed", root)
    killed = Watcher(tmp_path / "killed", root)
    undisturbed.start()
    killed.start()
    rng = random.Random(seed)
    gate = threading.Lock()
    writer = Writer(root, seed, gate, undisturbed, killed)
    writer.start()
    try:
        for _ in range(kills):
            time.sleep(0.02 + rng.random() * 0.8)
            with gate:
                killed.kill()
                time.sleep(rng.random() * 0.1)
                killed.start()
    finally:
        writer.halt.set()
        writer.join(120)
    assert not writer.is_alive()
    for watcher in (undisturbed, killed):
        watcher.stop()
    left, right = rows(undisturbed.store()), rows(killed.store())
    assert len(left["mismatch"]) > 10 * kills / 2
    assert writer.truncations or kills < 10
    for lost in (left, right):
        assert not [row for row in lost["source_gap"] if "truncated" in row], (
            "the test let bytes be truncated away unread"
        )
    for table, expected in left.items():
        missing = set(expected) - set(right[table])
        doubled = set(right[table]) - set(expected)
        assert right[table] == expected, f"{table}: missing {list(missing)[:3]}, too many {list(doubled)[:3]}"
    ends = "SELECT count(*) FROM (SELECT source_id FROM cursor GROUP BY ALL)"
    assert ask(killed.store(), ends) == ask(undisturbed.store(), ends) == [(FILES,)]


@pytest.mark.timeout(280)
def test_three_kills(tmp_path: Path) -> None:
    story(tmp_path, kills=3, seed=20261129)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_hundred_kills(tmp_path: Path) -> None:
    story(tmp_path, kills=100, seed=7)


def test_bytes_truncated_away_while_no_daemon_ran_are_a_gap(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    log = root / "worker.log"
    watcher = Watcher(tmp_path / "state", root)
    first = b"".join(b"step:%d - actor/pg_loss:0.5\n" % number for number in range(50))
    log.write_bytes(first)
    watcher.start()
    reader = open_reader(watcher.state)
    wait_until(lambda: reader.query("SELECT count(*) FROM metrics").rows[0][0] == 50, 20, watcher.log)
    reader.close()
    watcher.kill()
    with log.open("ab") as more:
        more.write(b"step:50 - actor/pg_loss:0.5\n" * 3)
    log.write_bytes(b"step:60 - actor/pg_loss:0.5\n")  # truncates and starts again: shorter than what was read
    watcher.start()
    reader = open_reader(watcher.state)
    wait_until(lambda: reader.query("SELECT count(*) FROM metrics").rows[0][0] == 51, 20, watcher.log)
    reader.close()
    watcher.stop()
    gaps = ask(watcher.store(), "SELECT kind, first_byte, generation FROM source_gap")
    assert gaps == [("truncated", len(first), 0)]
    assert ask(watcher.store(), "SELECT step, generation FROM metric ORDER BY step DESC LIMIT 2") == [(60, 1), (49, 0)]
