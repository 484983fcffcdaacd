"""The same events in one store, and split over three by the host that they come from: the same answers.

What one store alone cannot know, that a fault of another host locks its records, is not asked here: daemons tell each
other of faults (tests of the exchange).
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cluster.fakes import Cluster, FakeReader
from tests.evidence.oracle import Attempt, Row, Rule, Src, World
from tests.evidence.worldstore import WorldStore
from tic_daemon.store.derive import Derived
from tic_daemon.store.sqlguard import SqlError

SECOND = 1_000_000
NOON = 1_795_953_600 * SECOND
HOSTS, PER_HOST = 3, 2
RULES = {"illegal": Rule("L", "always"), "oom": Rule("E", "never"), "note": Rule("I", "never")}

QUESTIONS = [
    "SELECT run_id, attempt, state, locked, last_step, last_event_at, mismatches, faults, marked, named_by_us, sources,"
    " last_growth_at FROM runs ORDER BY ALL",
    "SELECT run_id, attempt, state, locked, faults, marked, named_by_us, sources FROM run_states ORDER BY ALL",
    "SELECT run_id, attempt, locked, last_step, last_event_at, mismatches, faults, locking_faults, marked, from_kind, reason,"
    " who, declared_at FROM attempts ORDER BY ALL",
    "SELECT run_id, attempt, locked, faults, locking_faults, marked FROM attempt_states ORDER BY ALL",
    "SELECT run_id, attempt, faults FROM locks ORDER BY ALL",
    "SELECT run_id, attempt, count(*), min(step), max(event_at), sum(value) FROM mismatches GROUP BY ALL ORDER BY ALL",
    "SELECT run_id, attempt, severity, kind, verdict, locks, host, step, path, byte_offset FROM faults ORDER BY ALL",
    "SELECT run_id, attempt, step, source_kind, first_event_at, ended FROM steps ORDER BY ALL",
    "SELECT run_id, count(*), sum(value) FROM metrics GROUP BY ALL ORDER BY ALL",
    "SELECT run_id, rank, mentioned, watched, state, sources FROM coverage ORDER BY ALL",
    "SELECT run_id, verdict, last_step FROM liveness ORDER BY ALL",
    "SELECT id, run_id, scope, verdict, retracted, reason FROM marks ORDER BY ALL",
    "SELECT run_id, host, path, state FROM sources ORDER BY ALL",
    # What people ask: joins, a name in another case, a subquery, a name of their own that is a view's.
    "SELECT r.run_id, count(*) FROM RUNS r JOIN mismatches m USING (run_id) WHERE m.step > (SELECT min(step) FROM steps)"
    " GROUP BY ALL ORDER BY ALL",
    "WITH metrics AS (SELECT DISTINCT run_id FROM runs) SELECT count(*) FROM metrics",
    "SELECT count(*) FROM exec_states UNION ALL SELECT count(*) FROM evidence_gaps",
]


class WorldReader(FakeReader):
    """A fake whose tables and views are a real store's."""

    def __init__(self, store: WorldStore) -> None:
        super().__init__()
        self.db = store.con

    def query(self, sql: str, *args: object, **named: object):  # type: ignore[no-untyped-def,override]
        self.db.execute("SET VARIABLE now = ?::TIMESTAMP", [datetime.now(UTC).replace(tzinfo=None)])
        inner, self.db = self.db, _SameVariables(self.db)  # type: ignore[assignment]
        try:
            return super().query(sql, *args, **named)  # type: ignore[arg-type]
        finally:
            self.db = inner


class _SameVariables:
    """A connection that gives itself where a cursor is asked for: variables are of a connection."""

    def __init__(self, con: object) -> None:
        self._con = con

    def cursor(self) -> object:
        return self._con


def world(rng: random.Random) -> World:
    sources: dict[int, Src] = {}
    rows: list[Row] = []
    for host in range(HOSTS):
        for log in range(PER_HOST):
            number = 1 + host * PER_HOST + log
            run = f"run-{rng.randrange(2)}"
            sources[number] = Src(
                number, f"host{host}", f"/host{host}/{run}", f"/host{host}/{run}/worker-{log}.log", stream="stderr",
                console=rng.random() < 0.3, single=True, pid=100 + log, run_hint=run, run_how="configured",
            )  # fmt: skip
            rows.append(Row("process_seen", number, 0, 0))
            for line in range(1, 1 + rng.randrange(8)):
                at = NOON + rng.randrange(100) * SECOND
                table = rng.choice(("mismatch", "mismatch", "step_event", "metric", "fault"))
                kind = rng.choice((*RULES, "unheard-of")) if table == "fault" else ""
                rows.append(Row(
                    table, number, 0, line * 50, stamp=at, res=1, utc=True, step=rng.randrange(5), run=run, kind=kind,
                    verdict=rng.choice(("confirmed", "suspect")), text=kind, edge=rng.choice(("begin", "end")),
                ))  # fmt: skip
    attempts = [Attempt("run-0", "second", NOON + 40 * SECOND, NOON + 40 * SECOND)] if rng.random() < 0.5 else []
    return World(sources, rows, attempts, RULES)


def part_of(whole: World, host: str) -> World:
    """What the daemon of one host sees: its logs, and what people declared."""
    sources = {number: source for number, source in whole.sources.items() if source.host == host}
    return World(sources, [row for row in whole.rows if row.src in sources], whole.attempts, whole.rules)


def fill(store: WorldStore, filling: World, seed: int, first_rec_id: int, now: datetime) -> None:
    store.fill([filling], random.Random(seed + first_rec_id))
    con = store.con
    con.execute("DELETE FROM mark")
    for number, (mark, run, verdict, target) in enumerate(
        (("m1", "run-0", "inconclusive", ""), ("m2", "run-1", "inconclusive", ""), ("m3", "run-1", "retract", "m2"))
    ):
        con.execute(
            "INSERT INTO mark VALUES (?, ?, ?, NULL, 'run', ?, ?, 'why', 'ada', ?, 'login', ?)",
            [first_rec_id + number, mark, run, target, verdict, now, now],
        )
    for number, source in filling.sources.items():
        age = timedelta(seconds=(0, 300, 7200)[number % 3])
        state = "vanished" if number % 5 == 4 else "growing"
        con.execute(
            "UPDATE source SET rank = ?, last_growth_at = ?, state = ? WHERE source_id = ?",
            [None if source.console else number, now - age, state, number],
        )
        con.execute("UPDATE process_seen SET proc_rank = ? WHERE source_id = ?", [number, number])
    Derived().rebuild(con, now)


@pytest.fixture(scope="module")
def stores() -> list[WorldStore]:
    return [WorldStore() for _ in range(HOSTS + 1)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_stores_united_answer_as_one_that_holds_all(tmp_path: Path, stores: list[WorldStore], seed: int) -> None:
    cluster = Cluster(tmp_path, "a", "b", "c")
    now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    whole = world(random.Random(seed))
    fill(stores[0], whole, seed, 1000, now)
    for number, name in enumerate("abc"):
        fill(stores[number + 1], part_of(whole, f"host{number}"), seed, 2000 + 100 * number, now)
        cluster.readers[cluster.names[name]] = WorldReader(stores[number + 1])
    cluster.reader.close()
    again = type(cluster.reader)(tmp_path, cluster.open)
    one = WorldReader(stores[0])
    for question in QUESTIONS:
        expected, found = one.query(question), again.query(question, timeout_s=60)
        assert (found.columns, found.rows) == (expected.columns, expected.rows), (seed, question)
        assert found.types == expected.types, question
    # The first fault is named with its store. (A world of contradicting clocks and steps may have none in one store.)
    firsts = again.query(
        "SELECT a.run_id, a.attempt, f.host, f.byte_offset FROM attempts a JOIN faults f"
        " ON f.rec_id = a.first_fault_rec_id AND f.store_id = 's' AND f.run_id = a.run_id ORDER BY ALL", timeout_s=60,
    ).rows  # fmt: skip
    locked = one.query("SELECT DISTINCT run_id, attempt FROM attempts WHERE first_fault_rec_id IS NOT NULL").rows
    assert {row[:2] for row in firsts} >= set(locked)
    again.close()


def test_a_view_larger_than_the_bound_is_refused_and_not_cut(
    tmp_path: Path, stores: list[WorldStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path, "a", "b")
    now, whole = datetime.now(UTC).replace(tzinfo=None, microsecond=0), world(random.Random(1))
    for number, name in enumerate("ab"):
        fill(stores[number + 1], whole, 1, 2000 + 100 * number, now)
        cluster.readers[cluster.names[name]] = WorldReader(stores[number + 1])
    again = type(cluster.reader)(tmp_path, cluster.open)
    monkeypatch.setattr("tic_daemon.store.union.WHOLE_ROWS", 1)
    with pytest.raises(SqlError, match=r"view sources of a-.* larger than the 1 rows"):
        again.query("SELECT count(*) FROM sources")
    again.close()
