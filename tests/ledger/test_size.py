"""A large workspace: 300 runs, 5,000 comparisons, 100,000 rows of the ledger."""

from __future__ import annotations

import random
import time
import uuid
from pathlib import Path

import pytest

from tests.ledger.made import declared, entry, frozen, sha
from tests.ledger.test_current import TEXTS
from tests.store.samples import source
from tic_daemon.ledger import gates
from tic_daemon.scan.events import At, Mismatch
from tic_daemon.store.comparison_rows import ComparisonRow
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.rows import CursorRow, SourceDelta
from tic_daemon.store.writer import Writer
from tic_daemon.verifying import verify

RUNS, COMPARISONS, ROWS = 300, 5000, 100_000
CPU_S = 0.4
"""Twice of what is promised on a quiet machine, of the thread's own time: machines that test are busy."""


def large(writer: Writer) -> None:
    rng = random.Random(1)
    deltas = []
    for number in range(RUNS):
        run = f"r{number}"
        row = source(f"{run}.log", run_hint=run, run_how="path")
        record = Mismatch(At(0, 40, 1, step=1), run=run, metric="logprob_mae", value=0.1)
        deltas.append(SourceDelta(row, CursorRow(row.source_id, 0, byte_offset=40, path=row.path), (record,), lines=1))
    writer.commit(deltas)
    rows = [frozen(text, number) for number, text in enumerate(TEXTS)]
    parent = ""
    for number in range(RUNS):
        parent = "" if number % 20 == 0 else parent
        stale = [[one.gate, one.cell, one.cause] for one in gates.stale(["rollout.quantization"])] if parent else []
        own = declared(f"c{number}", 10 + number, run=f"r{number}", parent=parent, stale=stale)
        rows.append(own)
        if parent:
            said = {"candidate": own.candidate, "target": parent, "gate": "module", "reason": "r"}
            rows.append(entry("exemption", 400 + number, body={"closure": sha("c")}, **said))
        parent = own.candidate
    writer.commit([], ledger=rows)
    compared = []
    for number in range(COMPARISONS):
        name = uuid.UUID(int=rng.getrandbits(128)).hex[:16]
        criterion = rows[rng.randrange(len(TEXTS))].criterion
        compared.append(
            ComparisonRow(
                "node7", "/jobs", name, name, run=f"r{rng.randrange(RUNS)}", run_how="manifest", step=1,
                policy=str(rng.randrange(6)), manifest="/jobs/m.json", kind="tokens", goal="cross_stack",
                intervention="none", side_a=f"/jobs/a{number}", size_a=1, sha256_a=sha(f"a{number}"),
                side_b=f"/jobs/b{number}", size_b=1, sha256_b=sha(f"b{number}"),
                label="FAIL" if rng.random() < 0.1 else "PASS", reason="x", criterion=criterion,
            )
        )  # fmt: skip
    writer.commit([], compared=compared)
    writer.note_evidence(now=True)
    con = writer.reader_cursor()
    evidence = [row[0] for row in con.execute("SELECT id FROM ledger WHERE kind = 'evidence'").fetchall()]
    assert len(evidence) == COMPARISONS
    (count,) = con.execute("SELECT count(*) FROM ledger").fetchone() or (0,)
    con.close()
    more = [entry("supersede", 1000 + n, id=f"s{n}", target=rng.choice(evidence), reason="r") for n in range(300)]
    body = {"name": "c", "parts": {"fix": "x"}}
    more += [
        entry("case", 2000 + n, id=f"c{n}", body={**body, "name": f"c{n % 500}"}) for n in range(ROWS - count - 300)
    ]
    writer.commit([], ledger=more)


@pytest.mark.slow
def test_gates_of_a_large_workspace(tmp_path: Path) -> None:
    writer = Writer.open(StoreLayout.find(tmp_path))
    large(writer)
    con = writer.reader_cursor()
    assert con.execute("SELECT count(*) FROM ledger").fetchone() == (ROWS,)
    took = []
    for _ in range(5):
        began = time.thread_time()
        rows = con.execute("SELECT * FROM gates").fetchall()
        took.append(time.thread_time() - began)
    assert len(rows) >= RUNS * len(gates.cells())
    assert min(took) < CPU_S, took
    con.close()
    writer.close()
    began = time.process_time()
    (found,) = verify(str(tmp_path))
    assert found.rows == ROWS and found.exit_code == 12, "the chain holds; the files are another machine's"
    assert time.process_time() - began < 20
