"""What shows a criterion to be older than the first number, and to be able to fail; and what does not."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.ledger.made import BITWISE, sha
from tests.ledger.test_gates import World
from tic_daemon.ledger import criterion
from tic_daemon.scan.events import At, EnvSeen, Mismatch
from tic_daemon.store.comparison_rows import ComparisonRow
from tic_daemon.store.proofs import ONE, Proofs, Through, proofs
from tic_daemon.store.rows import ConfigRow, ResultFileRow

LATER = datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=1)
BITS = criterion.parse(BITWISE.encode()).sha256


def through(run: str, made: tuple[datetime | None, datetime | None] = (LATER, LATER), **changes: Any) -> Through:
    values = {
        "criterion": BITS,
        "metric": "bitwise",
        "readers": ("torch", "torch"),
        "dtypes": ("float32", "float32"),
        "comparator": 1,
    }
    return Through(run, made=made, **{**values, **changes})


def shown(world: World, asked: Through) -> Proofs:
    (row,) = world.ask(ONE, asked.params())
    return proofs(row, asked)


def number(run: str, stamp: datetime | None = None, after: datetime | None = None, *, utc: bool = True) -> Any:
    def made(at: At) -> Mismatch:
        place = At(
            at.byte_offset, at.byte_length, at.line_no, step=1, stamp=stamp, stamp_utc=utc and stamp is not None,
            after_stamp=after, after_utc=utc and after is not None,
        )  # fmt: skip
        return Mismatch(place, run=run, metric="logprob_mae", value=0.1)

    return made


def test_a_row_before_every_number_is_a_proof(world: World) -> None:
    run = f"r{uuid.uuid4().hex[:6]}"
    assert shown(world, through(run)).order, "nothing else was made yet"
    world.run(number(run, LATER), number(run, None, LATER), run=run)
    order = shown(world, through(run)).order
    assert order.startswith("it was in the ledger 3") and order.endswith("s before the run's first number")


@pytest.mark.parametrize(
    "make",
    [
        number,
        lambda run: number(run, LATER - timedelta(hours=2)),
        lambda run: number(run, None, LATER - timedelta(hours=2)),
        lambda run: number(run, LATER, utc=False),
    ],
    ids=["a number without a time", "an older number", "a number that may be older", "a time without a zone"],
)
def test_a_number_that_is_not_shown_to_be_younger(world: World, make: Any) -> None:
    run = f"r{uuid.uuid4().hex[:6]}"
    world.run(number(run, LATER), make(run), run=run)
    assert shown(world, through(run)).order == ""


@pytest.mark.parametrize(
    "asked",
    [
        through("r", (None, LATER)),
        through("r", (LATER, None)),
        through("r", (LATER, LATER - timedelta(hours=2))),
        through("r", criterion=sha("one that is not in the ledger")),
        through(""),
    ],
    ids=["no receipt of A", "no receipt of B", "B is older", "another criterion", "no run"],
)
def test_what_is_judged_must_itself_be_younger(world: World, asked: Through) -> None:
    assert shown(world, asked).order == ""


def start(name: str, value: str, stamp: datetime | None = LATER, *, utc: bool = True) -> Any:
    """A line of the start record, and when it was printed."""
    place = {"stamp": stamp, "stamp_utc": utc and stamp is not None}
    return lambda at: EnvSeen(At(at.byte_offset, at.byte_length, at.line_no, **place), name, value, "tic.start")


NEXT = LATER + timedelta(seconds=10)


def test_a_start_record_that_names_the_hash_is_a_proof(world: World) -> None:
    late = criterion.parse(f'{BITWISE}note = "never frozen"\n'.encode()).sha256
    run = world.run(start("criterion_sha256", late), number("x", NEXT), run=f"r{uuid.uuid4().hex[:6]}")
    order = shown(world, through(run, (NEXT, NEXT), criterion=late)).order
    assert order == "the start record named it 10 s before the run's first number"
    assert shown(world, through(run, (NEXT, NEXT), criterion=sha("another"))).order == ""
    assert shown(world, through(run, (LATER, NEXT), criterion=late)).order == "", "a side was made before it"
    assert shown(world, through("another run", (NEXT, NEXT), criterion=late)).order == ""


def test_a_start_record_may_name_the_manifest_that_names_it(world: World) -> None:
    late = criterion.parse(f'{BITWISE}note = "by the manifest"\n'.encode()).sha256
    run = world.run(start("manifest_sha256", sha("m")), number("x", NEXT), run=f"r{uuid.uuid4().hex[:6]}")
    asked = through(run, (NEXT, NEXT), criterion=late)
    place = {"host": "node7", "root": "/jobs", "path": f"/jobs/{run}/manifest.json"}
    row = ConfigRow(
        **place,
        run_hint=run,
        kind="manifest",
        side="launcher",
        digest="d",
        key="criterion_sha256",
        name="criterion_sha256",
        value=late,
    )
    world.writer.commit([], configs=[row])
    assert shown(world, asked).order == "", "nothing shows that it is that manifest"
    world.writer.commit([], results=[ResultFileRow(**place, kind="manifest", run=run, digest=sha("m"))])
    assert shown(world, asked).order.startswith("the start record named it 10 s before")


@pytest.mark.parametrize(
    "line",
    [
        start("criterion_sha256", BITS, None), start("criterion_sha256", BITS, utc=False),
        start("criterion_sha256", BITS, NEXT), start("criterion_sha256", BITS, NEXT - timedelta(seconds=1)),
    ],
    ids=["without a time", "without a zone", "at the first number", "within the clocks' margin"],
)  # fmt: skip
def test_a_start_record_that_is_not_shown_to_be_older(world: World, line: Any) -> None:
    never = criterion.parse(f'{BITWISE}note = "never frozen, too"\n'.encode()).sha256
    made = lambda at: replace(line(at), value=never)  # noqa: E731
    run = world.run(made, number("x", NEXT), run=f"r{uuid.uuid4().hex[:6]}")
    assert shown(world, through(run, (NEXT, NEXT), criterion=never)).order == ""


def test_within_the_clocks_margin_nothing_is_shown(world: World) -> None:
    ((frozen_at,),) = world.ask("SELECT frozen_at FROM criteria WHERE criterion_id = ?", [BITS])
    for seconds, proved in ((1.9, False), (2.1, True)):
        made = frozen_at + timedelta(seconds=seconds)
        assert bool(shown(world, through("r", (made, made))).order) == proved


def test_when_a_file_was_written_shows_nothing(world: World) -> None:
    run = world.run(number("x", LATER), run=f"r{uuid.uuid4().hex[:6]}")
    row = ComparisonRow(
        "n",
        "/j",
        "c1",
        "c1",
        run=run,
        kind="tokens",
        produced_a=LATER,
        produced_how_a="file",
        produced_b=LATER,
        produced_how_b="receipt",
    )
    world.writer.commit([], compared=[row])
    assert shown(world, through(run)).order == ""


def test_a_replaced_criterion_governs_no_run_that_begins_afterwards(world: World) -> None:
    text = BITWISE + 'note = "old"\n'
    old = world.freeze(text)
    assert shown(world, through("r", criterion=old)).order
    world.say("replaced", criterion=old, target=BITS, reason="r")
    assert shown(world, through("r", criterion=old)).order == ""


def test_a_planted_error_counts_through_the_same_parts_alone(world: World) -> None:
    def planted(**changes: Any) -> None:
        name = uuid.uuid4().hex[:8]
        values = {
            "kind": "tokens", "plant": "one bit", "label": "FAIL", "rule": 11, "criterion": BITS, "criterion_metric": "bitwise",
            "reader_a": "torch", "reader_b": "torch", "dtype_a": "float32", "dtype_b": "float32", "comparator": 1,
            "produced_a": LATER, "produced_how_a": "receipt", "produced_b": LATER, "produced_how_b": "receipt",
        }  # fmt: skip
        world.writer.commit([], compared=[ComparisonRow("n", "/j", name, name, **{**values, **changes})])

    for changes in (
        {"plant": ""}, {"label": "PASS"}, {"rule": 5}, {"criterion": sha("x")}, {"criterion_metric": "logprob_mae"},
        {"reader_b": "numpy"}, {"dtype_a": "bfloat16"}, {"comparator": 2}, {"label": "INVALID"},
    ):  # fmt: skip
        planted(**changes)
    assert shown(world, through("r")).planted == ""
    planted()
    assert "a planted error, was judged FAIL by it" in shown(world, through("r")).planted
    assert shown(world, through("r", comparator=2)).planted != "", "by another one, that was judged with it"
    assert shown(world, through("r", comparator=3)).planted == ""
