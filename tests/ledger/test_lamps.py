"""The three lamps of a run, against a slow and plain reference over random runs; and each rule by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.made import entry, frozen, sha
from tests.store.samples import source
from tic_daemon.ledger import criterion
from tic_daemon.ledger.entries import Entry
from tic_daemon.scan.events import At, Fault, Mismatch
from tic_daemon.scan.rules import RuleSet
from tic_daemon.store.comparison_rows import ComparisonRow
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import open_reader
from tic_daemon.store.rows import ArtifactRow, AttemptRow, CursorRow, MarkRow, SourceDelta
from tic_daemon.store.writer import Writer
from tic_daemon.wandb.events import WandbRun

NOW = datetime.now(UTC).replace(tzinfo=None)
OLD, NEW = NOW - timedelta(hours=3), NOW - timedelta(hours=1)
DECLARED = NOW - timedelta(hours=2)
"""Made in the first attempt, in the second, and when that was declared to begin."""
TEXTS = [
    'metric = "bitwise"\ngoal = "cross_stack"\ngate = "zero_update"\ncell = "replay"\n',
    'metric = "bitwise"\ngoal = "cross_stack"\n',
]
CRITERIA = [criterion.parse(text.encode()).sha256 for text in TEXTS]
REPLACED, SCORE = CRITERIA[1], sha("a criterion of scores")


@dataclass
class Compared:
    label: str = "PASS"
    goal: str = "cross_stack"
    attempt: int = 2
    criterion: str = CRITERIA[0]
    plant: str = ""
    intervention: str = "none"
    scope: str = ""
    kind: str = "tokens"
    superseded: bool = False
    marked: bool = False
    changed: bool = False


@dataclass
class Score:
    label: str = "PASS"
    superseded: bool = False


@dataclass
class Run:
    """What happened to a run. `exits` and `faults` (cuda, died, nan) by attempt."""

    name: str
    attempts: int = 1
    exits: dict[int, int] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    marked: bool = False
    compared: list[Compared] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)


# --- the reference -------------------------------------------------------------------------------------------------

Lamp = tuple[str, bool]


def locked(run: Run) -> bool:
    return run.faults.get(run.attempts) == "cuda"


def execution(run: Run, *, moving: bool) -> Lamp:
    code = run.exits.get(run.attempts)
    if run.faults.get(run.attempts) in ("cuda", "died"):
        return "inconclusive", False
    if code is None:
        return "not run", any(attempt < run.attempts for attempt in run.exits)
    if run.marked:
        return "inconclusive", False
    if code:
        return "fail", False
    return ("not run" if moving else "pass"), False


def weight(run: Run, one: Compared) -> str:
    """pass, fail or inconclusive; "": it is no evidence of how the two stacks agree."""
    if one.kind == "trace" or one.plant or one.intervention not in ("", "none") or one.scope not in ("", "fixed-input"):
        return ""
    if one.goal not in ("cross_stack", "unknown") and one.label != "FAIL":
        return ""
    if one.marked or run.marked or any(attempt <= one.attempt for attempt in run.faults):
        return "inconclusive"
    if one.label == "FAIL":
        return "fail"
    if one.label != "PASS" or one.goal == "unknown" or not one.intervention or one.changed:
        return "inconclusive"
    return "pass"


def consistency(run: Run) -> Lamp:
    states, stale, washed = [], False, False
    for one in run.compared:
        state = weight(run, one)
        if state == "fail" and one.attempt == run.attempts and (one.superseded or one.criterion == REPLACED):
            washed = True
        if not state or (one.criterion == REPLACED and not one.superseded):
            continue
        if one.superseded:
            stale = stale or one.attempt == run.attempts
        elif one.attempt < run.attempts:
            stale = True
        else:
            states.append(state)
    for state in ("fail", "inconclusive", "pass"):
        if state in states:
            # Nothing of a run here is newer than what people said of it: no pass takes the place of a failure.
            return ("not run", True) if state == "pass" and washed else (state, False)
    return "not run", stale


def quality(run: Run) -> Lamp:
    current = [one for one in run.scores if not one.superseded]
    if not current:
        return "not run", bool(run.scores)
    if locked(run) or run.marked:
        return "inconclusive", False
    if any(one.label == "FAIL" for one in current):
        return "fail", False
    if current[-1].label == "PASS" and any(one.label == "FAIL" and one.superseded for one in run.scores):
        return "not run", True
    return ("pass" if current[-1].label == "PASS" else "inconclusive"), False


def reference(runs: list[Run], *, moving: bool = False) -> dict[tuple[str, str], Lamp]:
    found = {}
    for run in runs:
        found[run.name, "execution"] = execution(run, moving=moving)
        found[run.name, "consistency"] = consistency(run)
        found[run.name, "quality"] = quality(run)
    return found


# --- the store -----------------------------------------------------------------------------------------------------

KINDS = {"cuda": "cuda-illegal-access", "died": "proc.fatal_python", "nan": "ep.deepep_masked"}


def put(writer: Writer, runs: list[Run]) -> None:
    """Writes the runs, attempt by attempt, in a few commits."""
    for attempt in (1, 2):
        deltas, attempts = [], []
        for run in runs:
            if attempt > run.attempts:
                continue
            log = logged(run, attempt)
            if attempt == 2:
                cut = ((logged(run, 1).source_id, 0, 1000), (wandb(run, 1).source_id, 0, 1000))
                attempts.append(AttemptRow(f"a-{run.name}", run.name, "now", None, "again", "me", DECLARED, "h", cut))
            events: list[Any] = [Mismatch(stamped(0, attempt), run=run.name, metric="logprob_mae", value=0.1)]
            if attempt in run.faults:
                events.append(Fault(stamped(40, attempt), KINDS[run.faults[attempt]], "confirmed", text="it failed"))
            deltas.append(
                SourceDelta(log, CursorRow(log.source_id, 0, byte_offset=1000, path=log.path), tuple(events), lines=2)
            )
            if attempt in run.exits:
                told = wandb(run, attempt)
                ended = WandbRun(
                    At(0, 40, 1), f"e/p/{run.name}", run.name, state="finished", exit_code=run.exits[attempt]
                )
                deltas.append(
                    SourceDelta(told, CursorRow(told.source_id, 0, byte_offset=40, path=told.path), (ended,), lines=1)
                )
        writer.commit(deltas, attempts=attempts)
    marks = [
        MarkRow(f"m-{run.name}", run.name, None, "run", "", "inconclusive", "r", "me", NOW, "h")
        for run in runs
        if run.marked
    ]
    compared, later, entries, files = [], [], [], []
    for run in runs:
        for number, one in enumerate(run.compared):
            row = comparison(run, number, one)
            compared.append(row)
            for path, digest in ((row.side_a, row.sha256_a), (row.side_b, sha("x") if one.changed else row.sha256_b)):
                files.append(
                    ArtifactRow(
                        "node7",
                        "/jobs",
                        "/m.json",
                        path,
                        run=run.name,
                        run_how="manifest",
                        sha256=digest,
                        state="verified",
                    )
                )
            if one.marked:
                marks.append(
                    MarkRow(
                        f"m-{row.id}",
                        run.name,
                        None,
                        "record",
                        f"comparison:{row.id}",
                        "inconclusive",
                        "r",
                        "me",
                        NOW,
                        "h",
                    )
                )
            if one.superseded:
                later.append((row.id, run.name))
    writer.commit([], compared=compared, marks=marks, results=files)
    for row_id, run_name in later:
        told = entry(
            "evidence",
            id=f"ev-{row_id}",
            candidate=sha("c"),
            run_id=run_name,
            target=row_id,
            label="FAIL",
            criterion=CRITERIA[0],
        )
        entries += [told, entry("supersede", id=f"s-{row_id}", target=told.id, reason="another image")]
    for run in runs:
        for number, score in enumerate(run.scores):
            told = entry(
                "evidence",
                number,
                id=f"ev-{run.name}-{number}",
                candidate=sha("c"),
                run_id=run.name,
                target="pair",
                label=score.label,
                reason="said",
                criterion=SCORE,
            )
            entries.append(told)
            if score.superseded:
                entries.append(entry("supersede", id=f"s-{told.id}", target=told.id, reason="another seed"))
    writer.commit([], ledger=entries)


def stamped(at: int, attempt: int) -> At:
    return At(at, 40, at // 40 + 1, step=attempt, stamp=OLD if attempt == 1 else NEW, stamp_utc=True)


def logged(run: Run, attempt: int) -> Any:
    return source(
        f"{run.name}/{attempt}.log", run_hint=run.name, run_how="path", single_process=True, last_growth_at=NOW
    )


def wandb(run: Run, attempt: int) -> Any:
    name = f"{run.name}/run-{attempt}.wandb"
    return source(name, kind="wandb_local", run_hint=run.name, run_how="path", single_process=True)


def comparison(run: Run, number: int, one: Compared) -> ComparisonRow:
    name = f"c-{run.name}-{number}"
    made = OLD if one.attempt == 1 else NEW
    return ComparisonRow(
        "node7", "/jobs", name, name, run=run.name, run_how="manifest", kind=one.kind, goal=one.goal, manifest="/m.json",
        step=None, policy="1", intervention=one.intervention or None, scope=one.scope or None, plant=one.plant,
        side_a=f"/a{name}", side_b=f"/b{name}", sha256_a=sha(name), sha256_b=sha(name), produced_a=made, produced_b=made,
        produced_how_a="receipt", produced_how_b="receipt", label=one.label, reason=f"said {one.label}", criterion=one.criterion,
    )  # fmt: skip


def laws() -> list[Entry]:
    """The criteria; the second was replaced. That of scores stands as its row in the ledger says."""
    rows = [frozen(text, number) for number, text in enumerate(TEXTS)]
    body = {"text": "", "metric": "score", "gate": "acceptance", "cell": "quality", "goal": "unknown"}
    rows.append(entry("criterion", 5, criterion=SCORE, body=body))
    rows.append(entry("replaced", 6, criterion=REPLACED, target=CRITERIA[0], reason="r"))
    return rows


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    opened = Writer.open(StoreLayout.find(tmp_path_factory.mktemp("ws")))
    opened.put_fault_rules(RuleSet.load([]).fault_rules())
    opened._noting.unjudged = False
    opened.commit([], ledger=laws())
    yield opened
    opened.close()


def lamps(writer: Writer, runs: list[Run], *, hours: int = 1) -> dict[tuple[str, str], Lamp]:
    """What the view says, so many hours from now."""
    con = writer.reader_cursor()
    con.execute("SET VARIABLE now = ?::TIMESTAMP", [NOW + timedelta(hours=hours)])
    asked = "SELECT run_id, lamp, state, stale, because FROM lamps WHERE run_id IN (SELECT unnest(?))"
    rows = con.execute(asked, [[run.name for run in runs]]).fetchall()
    con.close()
    assert all(because for *_, because in rows), "never without a reason"
    found = {(row[0], row[1]): (row[2], row[3]) for row in rows}
    assert len(found) == len(rows), "each once"
    return found


# --- what must hold ------------------------------------------------------------------------------------------------


def at_random(rng: random.Random, name: str) -> Run:
    """Any run."""
    run = Run(name, rng.choice([1, 1, 2]), marked=rng.random() < 0.15)
    for attempt in range(1, run.attempts + 1):
        if rng.random() < 0.6:
            run.exits[attempt] = rng.choice([0, 0, 1])
        if rng.random() < 0.25:
            run.faults[attempt] = rng.choice(list(KINDS))
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        run.compared.append(
            Compared(
                rng.choice(["PASS", "PASS", "PASS", "FAIL", "INVALID", ""]), rng.choice(["cross_stack", "cross_stack", "repeatability", "unknown"]),
                rng.randint(1, run.attempts), rng.choice([CRITERIA[0], CRITERIA[0], REPLACED, ""]), rng.choice(["", "", "", "one bit"]),
                rng.choice(["none", "none", "none", "", "eager"]), rng.choice(["", "", "fixed-input", "replay"]), rng.choice(["tokens", "tokens", "trace"]),
                rng.random() < 0.15, rng.random() < 0.1, rng.random() < 0.1,
            )
        )  # fmt: skip
    for _ in range(rng.choice([0, 0, 1, 2])):
        run.scores.append(Score(rng.choice(["PASS", "PASS", "FAIL", "INVALID", ""]), rng.random() < 0.25))
    return run


def test_random_runs(writer: Writer) -> None:
    rng = random.Random(7)
    runs = [at_random(rng, f"r{number}") for number in range(150)]
    put(writer, runs)
    found, expected = lamps(writer, runs), reference(runs)
    wrong = {key: (found.get(key), lamp) for key, lamp in expected.items() if found.get(key) != lamp}
    assert wrong == {}
    assert {state for state, _ in expected.values()} == {"pass", "fail", "inconclusive", "not run"}
    assert lamps(writer, runs, hours=0) == reference(runs, moving=True), "what still writes has not ended"


def test_one_lamp_stands_for_no_other(writer: Writer) -> None:
    ended, agreed, scored = (
        Run("ended", exits={1: 0}),
        Run("agreed", compared=[Compared(attempt=1)]),
        Run("scored", scores=[Score()]),
    )
    put(writer, [ended, agreed, scored])
    found = lamps(writer, [ended, agreed, scored])
    for run, own in (("ended", "execution"), ("agreed", "consistency"), ("scored", "quality")):
        for lamp in ("execution", "consistency", "quality"):
            assert found[run, lamp] == ("pass" if lamp == own else "not run", False)


def test_a_word_about_a_failure_makes_no_earlier_pass_of_it(writer: Writer) -> None:
    """What was superseded, or judged by a criterion that was replaced; newer evidence passes. A mark of the other arm likewise."""
    runs = [
        Run("washed", compared=[Compared("FAIL", attempt=1, superseded=True), Compared(attempt=1)]),
        Run("eased", compared=[Compared("FAIL", attempt=1, criterion=REPLACED), Compared(attempt=1)]),
        Run("rescored", scores=[Score("FAIL", superseded=True), Score()]),
    ]
    put(writer, [*runs, Run("arm")])
    found = lamps(writer, runs)
    assert (
        found["washed", "consistency"]
        == found["eased", "consistency"]
        == found["rescored", "quality"]
        == ("not run", True)
    )
    for run in runs[:2]:
        row = comparison(run, 7, Compared(attempt=1))
        place: dict[str, Any] = {
            "host": "node7",
            "root": "/jobs",
            "manifest": "/m.json",
            "run": run.name,
            "state": "verified",
        }
        files = [ArtifactRow(path=path, sha256=row.sha256_a, **place) for path in (row.side_a, row.side_b)]
        writer.commit([], compared=[row], results=files)
    told = [
        entry(
            "evidence",
            9,
            id="ev-rescored-9",
            candidate=sha("c"),
            run_id="rescored",
            target="p",
            label="PASS",
            reason="said",
            criterion=SCORE,
        )
    ]
    for number, label in enumerate(("FAIL", "PASS")):
        body = {"of": ["scored-b"], "runs": ["scored-b", *(["arm"] if label == "FAIL" else [])]}
        told.append(
            entry(
                "evidence",
                number,
                id=f"ev-b-{number}",
                candidate=sha("c"),
                run_id="scored-b",
                target=f"p{number}",
                label=label,
                reason="said",
                criterion=SCORE,
                body=body,
            )
        )
    put(writer, [Run("scored-b")])
    writer.commit([], ledger=told)
    found = lamps(writer, [*runs, Run("scored-b")])
    assert (
        found["washed", "consistency"]
        == found["eased", "consistency"]
        == found["rescored", "quality"]
        == ("pass", False)
    )
    assert found["scored-b", "quality"] == ("fail", False)
    writer.commit([], marks=[MarkRow("m-arm", "arm", None, "run", "", "inconclusive", "r", "me", NOW, "h")])
    assert lamps(writer, [Run("scored-b")])["scored-b", "quality"] == ("inconclusive", False)


def test_what_was_not_known_then_is_not_there(writer: Writer) -> None:
    run = Run("then", exits={1: 0})
    put(writer, [run])
    con = writer.reader_cursor()
    con.execute("SET VARIABLE as_of = (SELECT max(observed_at) FROM ingest)")
    con.execute("SET VARIABLE now = ?::TIMESTAMP", [NOW + timedelta(hours=1)])
    run.compared, run.scores, run.marked = [Compared(attempt=1)], [Score()], True
    put(writer, [Run(run.name, compared=run.compared, scores=run.scores, marked=True)])
    asked = "SELECT lamp, state FROM lamps WHERE run_id = 'then' ORDER BY lamp"
    assert con.execute(asked).fetchall() == [("consistency", "not run"), ("execution", "pass"), ("quality", "not run")]
    con.execute("RESET VARIABLE as_of")
    assert {state for _, state in con.execute(asked).fetchall()} == {"inconclusive"}
    con.close()


def test_reasons(writer: Writer) -> None:
    runs = [
        Run("crashed", exits={1: 1}, faults={1: "cuda"}), Run("failed", exits={1: 3}), Run("again", 2, exits={1: 0}), Run("silent"),
        Run("drift", compared=[Compared("FAIL", "repeatability", 1), Compared(attempt=1)]),
        Run("gone", compared=[Compared("FAIL", attempt=1, superseded=True)]),
    ]  # fmt: skip
    put(writer, runs)
    con = writer.reader_cursor()
    con.execute("SET VARIABLE now = ?::TIMESTAMP", [NOW + timedelta(hours=1)])
    said = {(run, lamp): why for run, lamp, why in con.execute("SELECT run_id, lamp, because FROM lamps").fetchall()}
    con.close()
    assert said["crashed", "execution"] == "locked: cuda-illegal-access"
    assert said["failed", "execution"] == "exit code 3"
    assert said["again", "execution"] == "stale: attempt 1 ended, attempt 2 has not"
    assert said["silent", "execution"] == "nothing shows how it ended"
    assert said["drift", "consistency"] == "repeatability: said FAIL"
    assert said["gone", "consistency"] == "stale: another image"


def test_several_stores_stand_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault, a mark or a word of one store counts for what another one saw; an attempt that one knows is the newest of all."""
    writers = []
    for host in ("n1", "n2"):
        monkeypatch.setattr("tic_daemon.store.layout.local_host", lambda host=host: host)
        opened = Writer.open(StoreLayout.find(tmp_path))
        opened.put_fault_rules(RuleSet.load([]).fault_rules())
        opened._noting.unjudged = False
        opened.commit([], ledger=laws())
        writers.append(opened)
    names = ("well", "faulty", "doubted", "answered", "later")
    runs = [Run(name, exits={1: 0}, compared=[Compared(attempt=1)], scores=[Score()]) for name in names]
    monkeypatch.setattr(f"{__name__}.logged", still("n1"))
    put(writers[0], runs)
    asked = "SELECT run_id, lamp, state, stale FROM lamps"
    con = writers[0].reader_cursor()
    evidence = con.execute("SELECT id FROM ledger WHERE kind = 'evidence' AND run_id = 'answered'").fetchall()
    con.close()
    other = [Run("faulty", faults={1: "cuda"}), Run("doubted", marked=True), Run("later", 2)]
    monkeypatch.setattr(f"{__name__}.logged", still("n2"))
    put(writers[1], other)
    words = [entry("supersede", number, target=one, reason="another seed") for number, (one,) in enumerate(evidence)]
    writers[1].commit([], ledger=words)
    for opened in writers:
        opened.close()
    reader = open_reader(tmp_path)
    try:
        found = {row[:2]: row[2:] for row in reader.query(asked).rows}
    finally:
        reader.close()
    assert len(found) == 3 * len(names)
    lamps_of = {run: [found[run, lamp] for lamp in ("execution", "consistency", "quality")] for run in names}
    assert lamps_of["well"] == [("pass", False)] * 3
    assert lamps_of["doubted"] == [("inconclusive", False)] * 3
    assert lamps_of["faulty"][0] == ("inconclusive", False) and lamps_of["faulty"][2] == ("inconclusive", False)
    assert lamps_of["answered"] == [("pass", False), ("pass", False), ("not run", True)]
    assert lamps_of["later"][0] == ("not run", True)


def still(host: str) -> Any:
    """Logs of a host that have not grown for hours."""
    return lambda run, attempt: source(
        f"{host}/{run.name}-{attempt}.log",
        host=host,
        run_hint=run.name,
        run_how="path",
        single_process=True,
        last_growth_at=OLD,
    )
