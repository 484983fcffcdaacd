"""Random ticks, restarts and kills: the tables are as if one undisturbed daemon had written them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.store.samples import KINDS, source
from tic_daemon.scan.events import At, Event
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import open_reader
from tic_daemon.store.rows import CursorRow, SourceDelta
from tic_daemon.store.writer import Writer

# One step: of source s, generation g, so many final events and so many provisional ones; or a restart.
step = st.tuples(
    st.integers(0, 2), st.integers(0, 1), st.lists(st.sampled_from(range(3)), max_size=4),
    st.lists(st.sampled_from(range(3)), max_size=2),
)  # fmt: skip
tick = st.lists(step, min_size=1, max_size=4)


@dataclass
class Model:
    """What must be in the store, kept in plain Python."""

    offsets: dict[tuple[int, int], int] = field(default_factory=dict)
    final: list[tuple[str, int, int, int]] = field(default_factory=list)
    provisional: dict[tuple[int, int], list[tuple[str, int, int, int]]] = field(default_factory=dict)

    def delta(self, number: int, generation: int, final: list[int], provisional: list[int]) -> SourceDelta:
        row = source(f"{number}.log", generation=generation)
        key = (row.source_id, generation)
        offset = self.offsets.get(key, 0)

        def make(kind: int) -> Event:
            nonlocal offset
            event = KINDS[kind](At(offset, 10, offset // 10 + 1))
            offset += 10
            return event

        done = tuple(make(kind) for kind in final)
        self.offsets[key] = offset
        open_ones = tuple(make(kind) for kind in provisional)
        self.final += [(event.table, *key, event.at.byte_offset) for event in done]
        self.provisional[key] = [(event.table, *key, event.at.byte_offset) for event in open_ones]
        return SourceDelta(row, CursorRow(*key, byte_offset=self.offsets[key]), done, open_ones, lines=len(done))

    def rows(self) -> list[tuple[str, int, int, int]]:
        return sorted(self.final + [row for rows in self.provisional.values() for row in rows])


def stored(writer: Writer) -> list[tuple[str, int, int, int]]:
    cursor = writer.reader_cursor()
    tables = ("mismatch", "fault", "metric")
    sql = " UNION ALL ".join(f"SELECT '{t}', source_id, generation, byte_offset FROM b_{t}" for t in tables)
    rows = cursor.execute(sql).fetchall()
    (ids,) = cursor.execute(
        "SELECT [count(*), count(DISTINCT rec_id), max(rec_id)] FROM ("
        + " UNION ALL ".join(f"SELECT rec_id FROM {t}" for t in tables)
        + ")"
    ).fetchone() or ([0, 0, 0],)
    cursor.close()
    assert ids[0] == ids[1] and (ids[2] or 0) == ids[0], "rec_id is dense and unique"
    return sorted(rows)


@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(tick, st.just("restart")), max_size=8))
def test_random_ticks_equal_the_model(base_schema: Path, ticks: list[object]) -> None:
    model = Model()
    with tempfile.TemporaryDirectory() as directory:
        workspace = Path(directory)
        writer = Writer.open(StoreLayout.find(workspace))
        try:
            for one in ticks:
                if one == "restart":
                    writer.close()
                    writer = Writer.open(StoreLayout.find(workspace))
                else:
                    assert isinstance(one, list)
                    writer.commit([model.delta(*item) for item in one])
                assert stored(writer) == model.rows()
                cursors = writer.cursors()
                assert {key: row.byte_offset for key, row in cursors.items()} == model.offsets
                live = {key for key, rows in model.provisional.items() if rows}
                assert {key for key, row in cursors.items() if row.prov is not None} == live
        finally:
            writer.close()


CHILD = """
import sys
from pathlib import Path
from tests.store.samples import next_tick
from tic_daemon.store import migrate, writer as module
from tic_daemon.store.layout import StoreLayout
migrate.SCHEMA = Path(sys.argv[2])
module.WAL_BYTES = 200_000  # so that kills fall into checkpoints as well
writer = module.Writer.open(StoreLayout.find(Path(sys.argv[1])))
while True:
    deltas, marks = next_tick(writer.cursors())
    writer.commit(deltas, marks=marks)
    writer.checkpoint_if_due()
    print("tick", flush=True)
"""


def check_after_kill(workspace: Path) -> int:
    reader = open_reader(workspace)
    cursors = dict(reader.query("SELECT source_id, byte_offset FROM b_cursor").rows)
    assert len(set(cursors.values())) <= 1, "all five sources move in one transaction"
    union = " UNION ALL ".join(
        f"SELECT source_id, byte_offset, rec_id FROM b_{t}" for t in ("mismatch", "fault", "metric")
    )
    sql = f"SELECT source_id, count(*), count(DISTINCT byte_offset), max(byte_offset) FROM ({union}) GROUP BY 1"
    for source_id, rows, distinct, last in reader.query(sql).rows:
        assert rows == distinct == last // 10 + 1 == cursors[source_id] // 10
    ((all_rows, ids),) = reader.query(f"SELECT count(*), count(DISTINCT rec_id) FROM ({union})").rows
    assert all_rows == ids
    ((ticks,),) = reader.query("SELECT count(*) FROM b_ingest").rows
    assert reader.query("SELECT count(*), count(DISTINCT id) FROM b_mark").rows == [(ticks, ticks)]
    reader.close()
    return int(ticks)


@pytest.mark.parametrize("kills", [5, pytest.param(60, marks=pytest.mark.slow)])
def test_kill_9_at_any_moment_loses_and_doubles_nothing(workspace: Path, base_schema: Path, kills: int) -> None:
    seen = 0
    for number in range(kills):
        argv = [sys.executable, "-c", CHILD, str(workspace), str(base_schema)]
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None and child.stdout.readline() == "tick\n"
        time.sleep(0.12 * ((number * 0.618) % 1))
        child.kill()
        child.communicate()
        ticks = check_after_kill(workspace)
        assert ticks > seen
        seen = ticks
