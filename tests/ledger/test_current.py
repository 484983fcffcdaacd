"""Over random histories the views say what the slow reference says: what is current, and how the gates stand."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.examples import examples
from tests.ledger import oracle
from tests.ledger.made import SHOWN, sha
from tests.store.samples import source
from tic_daemon.ledger import closure, criterion, gates
from tic_daemon.ledger.canon import canonical, named
from tic_daemon.ledger.entries import EVIDENCE, Entry, complaint
from tic_daemon.scan.events import At, Mismatch
from tic_daemon.store.comparison_rows import ComparisonRow
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.rows import CursorRow, MarkRow, SourceDelta
from tic_daemon.store.writer import Writer

RUNS = [f"r{number}" for number in range(6)]
TEXTS = [
    'metric = "bitwise"\ngoal = "cross_stack"\ngate = "zero_update"\ncell = "replay"\n',
    'metric = "logprob_mae"\nat_most = 0.1\ngoal = "cross_stack"\ngate = "zero_update"\ncell = "replay"\n',
    'metric = "bitwise"\ngoal = "cross_stack"\ngate = "per_version"\n',
    'metric = "bitwise"\ngoal = "cross_stack"\ngate = "module"\ncell = "forward"\n',
    'metric = "bitwise"\n',
]
CRITERIA = [criterion.parse(text.encode()) for text in TEXTS]
FIELDS = ["object.layers", "rollout.quantization", "update.optimizer", "image.digest", "object.tokenizer"]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    """A store with a log of each run."""
    opened = Writer.open(StoreLayout.find(tmp_path_factory.mktemp("ws")))
    for run in RUNS:
        row = source(f"{run}.log", run_hint=run, run_how="path")
        record = Mismatch(At(0, 40, 1, step=1), run=run, metric="logprob_mae", value=0.1)
        opened.commit(
            [SourceDelta(row, CursorRow(row.source_id, 0, byte_offset=40, path=row.path), (record,), lines=1)]
        )
    yield opened
    opened.close()


def now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


class Ledger(RuleBasedStateMachine):
    """A history, in the store and in the reference."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self.writer = writer
        self.history = oracle.History()
        self.compared: list[tuple[str, str, str, str, str, str, int]] = []
        self.bound: dict[str, str] = {}
        self.steps = 0

    @initialize()
    def empty(self) -> None:
        con = self.writer._engine.con
        for table in ("ledger_row", "comparison", "mark"):
            con.execute(f"DELETE FROM {table}")

    # --- what is done ----------------------------------------------------------------------------------------------

    def say(self, kind: str, **said: Any) -> None:
        body = canonical(said.pop("body", {}))
        entry = Entry(uuid.uuid4().hex, kind, now(), "ann", "h", body=body, **said)
        assert complaint(entry) == ""
        self.writer.commit([], ledger=[entry])
        self.settle()

    def settle(self) -> None:
        """What the daemon does by itself, and what the reference expects of it."""
        self.writer.note_evidence(now=True)
        there = {one.id for _, one in self.history.evidence()}
        for comparison, run, sha_, policy, label, files, acceptor in self.compared:
            candidate = self.bound.get(run)
            if candidate is None:
                continue
            evidence = oracle.Evidence(
                EVIDENCE + named("evidence", comparison, candidate),
                candidate,
                run,
                sha_,
                policy,
                label,
                files,
                acceptor,
            )
            if evidence.id not in there:
                self.history.done.append(("evidence", evidence))

    @rule(
        name=st.sampled_from("abcd"), run=st.sampled_from(["", *RUNS[:5]]), screening=st.booleans(),
        changed=st.lists(st.sampled_from(FIELDS), max_size=2, unique=True), parent=st.integers(0, 9),
    )  # fmt: skip
    def declare(self, name: str, run: str, screening: bool, changed: list[str], parent: int) -> None:
        fields = {"object.model": name, **({"rollout.lifecycle": "none"} if screening else {})}
        found = closure.of(fields)
        known = sorted(set(self.history.candidates()) - {found.sha256})
        above = known[parent % len(known)] if known and parent < 8 else ""
        stale = [[one.gate, one.cell, one.cause] for one in gates.stale(changed)] if above else []
        body = {"name": name, "fields": dict(found.fields), "changed": changed, "stale": stale}
        places = frozenset((gate, cell) for gate, cell, _ in stale)
        self.history.done.append(("candidate", oracle.Candidate(found.sha256, above, screening, places), run))
        if run:
            self.bound.setdefault(run, found.sha256)
        self.say("candidate", candidate=found.sha256, run_id=run, target=above, body=body)

    @rule(number=st.integers(0, len(TEXTS) - 1))
    def freeze(self, number: int) -> None:
        found = CRITERIA[number]
        self.history.done.append(("criterion", oracle.Criterion(found.sha256, found.gate, found.cell)))
        self.say("criterion", criterion=found.sha256, body={"text": TEXTS[number], "path": "/c", **found.as_json()})

    @rule(old=st.integers(0, len(TEXTS) - 1), new=st.integers(0, len(TEXTS) - 1))
    def replace(self, old: int, new: int) -> None:
        if old != new:
            self.history.done.append(("replaced", CRITERIA[old].sha256, CRITERIA[new].sha256))
            self.say("replaced", criterion=CRITERIA[old].sha256, target=CRITERIA[new].sha256, reason="r")

    @rule(
        run=st.sampled_from(RUNS[:5]), number=st.integers(0, len(TEXTS) - 1), policy=st.sampled_from(["", "1", "2"]),
        label=st.sampled_from(["PASS", "PASS", "PASS", "FAIL", "INVALID", ""]), files=st.sampled_from("xy"),
        acceptor=st.sampled_from([1, 2]),
    )  # fmt: skip
    def compare(self, run: str, number: int, policy: str, label: str, files: str, acceptor: int) -> None:
        comparison = uuid.uuid4().hex[:16]
        row = ComparisonRow(
            "node7", "/jobs", comparison, comparison, run=run, run_how="manifest", step=1, policy=policy or None,
            manifest="/jobs/manifest.json", kind="tokens", goal="cross_stack", intervention="none", side_a="/jobs/a",
            size_a=1, sha256_a=sha(files + "a"), side_b="/jobs/b", size_b=1, sha256_b=sha(files + "b"), label=label,
            reason="because", criterion=CRITERIA[number].sha256, comparator=acceptor,
        )  # fmt: skip
        self.compared.append((comparison, run, CRITERIA[number].sha256, policy, label, files, acceptor))
        self.writer.commit([], compared=[row])
        self.settle()

    @precondition(lambda self: self.history.evidence())
    @rule(pick=st.integers(0, 99))
    def supersede(self, pick: int) -> None:
        rows = self.history.evidence()
        target = rows[pick % len(rows)][1].id
        self.history.done.append(("supersede", target))
        self.say("supersede", target=target, reason="another image")

    @precondition(lambda self: self.history.evidence())
    @rule(pick=st.integers(0, 99), plane=st.sampled_from(["control", "numerical"]))
    def plane(self, pick: int, plane: str) -> None:
        rows = self.history.evidence()
        target = rows[pick % len(rows)][1].id
        self.history.done.append(("plane", target, plane))
        self.say("plane", target=target, plane=plane, reason="looked at")

    @precondition(lambda self: len(self.history.candidates()) > 1)
    @rule(pick=st.integers(0, 99), place=st.sampled_from(["module", "module/forward", "zero_update", "acceptance"]))
    def exempt(self, pick: int, place: str) -> None:
        known = sorted(self.history.candidates())
        heir, target = known[pick % len(known)], known[(pick // 7) % len(known)]
        if heir == target:
            return
        gate, _, cell = place.partition("/")
        self.history.done.append(("exemption", heir, target, gate, cell))
        self.say(
            "exemption",
            candidate=heir,
            target=target,
            gate=gate,
            cell=cell,
            reason="r",
            body={"closure": sha("c")},
            artifacts=canonical(SHOWN),
        )

    @rule(run=st.sampled_from(RUNS[:5]))
    def mark(self, run: str) -> None:
        row = MarkRow(uuid.uuid4().hex, run, None, "run", "", "inconclusive", "doubt", "eve", now(), "h")
        self.history.done.append(("mark", row.id, run))
        self.writer.commit([], marks=[row])

    @precondition(lambda self: self.history.of("mark"))
    @rule(pick=st.integers(0, 99))
    def retract(self, pick: int) -> None:
        marks = self.history.of("mark")
        mark, run = marks[pick % len(marks)][1]
        row = MarkRow(uuid.uuid4().hex, str(run), None, "run", str(mark), "retract", "no", "eve", now(), "h")
        self.history.done.append(("retract", mark))
        self.writer.commit([], marks=[row])

    # --- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def now_and_then(self) -> None:
        self.steps += 1
        if self.steps % 5 == 0:
            self.the_views_say_what_the_reference_says()

    def teardown(self) -> None:
        self.the_views_say_what_the_reference_says()

    def the_views_say_what_the_reference_says(self) -> None:
        con = self.writer.reader_cursor()
        found = {
            row[:3]: (row[3], row[4], row[5])
            for row in con.execute("SELECT candidate_id, gate, cell, state, stale, carried_from FROM gates").fetchall()
        }
        assert found == self.history.gates()
        current = dict(con.execute("SELECT id, state FROM evidence_current").fetchall())
        assert current == {one.id: self.history.state(one) for _, one in self.history.current()}
        kept = con.execute("SELECT count(*) FROM ledger WHERE kind = 'evidence'").fetchone()
        assert kept == (len(self.history.evidence()),), "the ledger keeps all"
        con.close()


def ask(writer: Writer, histories: int, steps: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        lambda: Ledger(writer),
        settings=settings(
            max_examples=histories, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_random_histories(writer: Writer) -> None:
    ask(writer, examples(12), 16)


@pytest.mark.slow
def test_many_random_histories(writer: Writer) -> None:
    ask(writer, 150, 40)
