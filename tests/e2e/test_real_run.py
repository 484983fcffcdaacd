"""The captured run through the real daemon: every number equal to the log's own text."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

from tests.e2e.harness import ROOT, Watcher, ask, tic, tui, wait_until
from tic_daemon.store.reader import open_reader

LOG = ROOT / "samples" / "grpo-tiny-a" / "worker_raw.log"
FIELDS = (
    "run", "step", "policy", "input", "phase", "rank", "repeat", "scope", "intervention", "metric", "value", "reference",
    "self_repeat", "report", "classification",
)  # fmt: skip


def expected() -> tuple[list[dict[str, str]], dict[int, dict[str, float]]]:
    """Records and step metrics, read from the log's text by two short expressions that share nothing with the product."""
    text = LOG.read_text()
    records = [
        dict(re.findall(r"(\w+)=(\S+)", block))
        for block in re.findall(r"\[mismatch\] (.*?classification=\w+)", text, flags=re.DOTALL)
    ]
    steps = {}
    for line in re.findall(r"^step:\d+ - .*$", text, flags=re.MULTILINE):
        first, *pairs = line.split(" - ")
        steps[int(first.split(":")[1])] = {key: float(value) for key, value in (pair.rsplit(":", 1) for pair in pairs)}
    return records, steps


def check(store: Path) -> None:
    records, steps = expected()
    assert len(records) == 12
    assert len(steps) == 12
    columns = ", ".join(f'"{"run_id" if name == "run" else name}"' for name in FIELDS)
    got = ask(store, f"SELECT {columns} FROM mismatches ORDER BY step")
    for row, record in zip(got, records, strict=True):
        for name, value in zip(FIELDS, row, strict=True):
            if name in ("value", "self_repeat"):
                assert value == float(record[name]), (name, value)
            else:
                assert str(value) == record[name], (name, value)
    found: dict[int, dict[str, float]] = {}
    rows = ask(store, "SELECT step, key, value FROM metrics WHERE key NOT LIKE 'training/global%'")
    for step, key, value in rows:
        assert key not in found.setdefault(step, {}), f"{key} of step {step} twice"  # type: ignore[arg-type]
        found[step][key] = value  # type: ignore[index, assignment]
    assert found == steps
    assert all(len(values) == 8 for values in found.values())
    assert ask(store, "SELECT count(*) FROM faults WHERE verdict <> 'mention'") == [(0,)]
    assert ask(store, "SELECT run_id, locked, mismatches FROM runs") == [("grpo-tiny-a", False, 12)]
    admissible = "SELECT count(*) FROM mismatches WHERE admissibility = 'admissible' AND is_evidence"
    assert ask(store, admissible) == [(12,)]
    lifecycle = "SELECT phase, count(*) FROM weight_lifecycle WHERE phase IN ('reloaded', 'reset', 'cold_load') GROUP BY 1 ORDER BY 1"
    reloads = LOG.read_text().count("Reloading and processing weights took")
    resets = LOG.read_text().count("Successfully reset prefix cache")
    assert ask(store, lifecycle) == [("cold_load", 1), ("reloaded", reloads), ("reset", resets)]
    assert ask(store, "SELECT kind, line_no FROM lifecycle_findings") == []  # each reload is followed by its reset
    assert ask(store, "SELECT DISTINCT graph_mode FROM mismatches") == [("NONE",)]


def test_once(tmp_path: Path) -> None:
    (tmp_path / "worker_raw.log").write_bytes(LOG.read_bytes())
    tic("watch", "--once", tmp_path)
    (store,) = tmp_path.glob(".tic/*/tic.duckdb")
    check(store)
    again = tic("watch", "--once", tmp_path)  # reads nothing twice
    assert again.returncode == 0
    check(store)
    assert tic("check", "grpo-tiny-a", "--at", tmp_path, check=False).returncode in (0, 12)


def test_live_one_byte_at_a_time_and_in_odd_pieces(tmp_path: Path) -> None:
    """The last kilobyte byte by byte, what stands before it in pieces that end anywhere."""
    watcher = Watcher(tmp_path / "state", tmp_path / "logs")
    (tmp_path / "logs").mkdir()
    watcher.start()
    rng = random.Random(3)
    data = LOG.read_bytes()
    with (tmp_path / "logs" / "worker_raw.log").open("ab", buffering=0) as log:
        position = 0
        while position < len(data):
            size = 1 if position < 400 or position > len(data) - 1000 else rng.randrange(1, 700)
            log.write(data[position : position + size])
            position += size
            if rng.random() < 0.1:
                time.sleep(0.005)
    reader = open_reader(watcher.state)
    wait_until(lambda: reader.query("SELECT min(bytes_read) FROM sources").rows[0][0] == len(data), 30, watcher.log)
    reader.close()
    watcher.stop()
    check(watcher.store())


def test_status_and_sql_answer_while_it_runs_and_after(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / ".tic", tmp_path)
    (tmp_path / "worker_raw.log").write_bytes(LOG.read_bytes())
    watcher.start()
    count = "SELECT count(*) FROM mismatches"
    wait_until(lambda: tui("sql", "--csv", tmp_path, count).stdout.split() == ["count_star()", "12"], 30, watcher.log)
    live = tui("status", tmp_path)
    assert "grpo-tiny-a" in live.stdout, live.stderr
    watcher.stop()
    after = tui("sql", "--csv", tmp_path, count)
    assert after.stdout.split() == ["count_star()", "12"], after.stderr
    assert "grpo-tiny-a" in tui("status", tmp_path).stdout
