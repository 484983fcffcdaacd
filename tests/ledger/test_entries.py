"""What may be said in the ledger, whoever writes the line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ledger.made import BITWISE, SHOWN, declared, entry, frozen, sha
from tic_daemon import cli
from tic_daemon.compare import criteria
from tic_daemon.errors import CompareError
from tic_daemon.ledger import closure, criterion, entries
from tic_daemon.ledger.canon import canonical
from tic_daemon.ledger.entries import Entry
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.spool import Spool, SpoolError, SpoolReader

CASE = entry("case", body={"name": "c", "parts": {"contract": "x"}})
OK = [
    CASE,
    frozen(),
    declared("a"),
    declared("b", parent=sha("p"), stale=[["module", "forward", "why"]]),
    entry("replaced", criterion=sha("1"), target=sha("2"), reason="the user said so"),
    entry("supersede", target="abc", reason="other image"),
    entry("plane", target="abc", plane="control", reason="the wrapper's parser"),
    entry(
        "exemption",
        candidate=sha("a"),
        target=sha("b"),
        gate="module",
        reason="r",
        body={"closure": sha("c")},
        artifacts=SHOWN,
    ),
    entry("baseline", candidate=sha("a"), body={"name": "b"}),
]


@pytest.mark.parametrize("row", OK, ids=lambda row: row.kind)
def test_what_people_may_say(row: Entry) -> None:
    assert entries.complaint(row) == ""
    assert entries.parse(json.loads(json.dumps(entries.as_json(row)))) == row


@pytest.mark.parametrize(
    ("row", "changes", "complaint"),
    [
        (CASE, {"kind": "evidence"}, "kind is none of"),
        (CASE, {"kind": "verdict"}, "kind is none of"),
        (CASE, {"id": ""}, "no id"),
        (CASE, {"reason": "x" * 4001}, "too long"),
        (CASE, {"reason": "\ud800"}, "surrogate"),
        (CASE, {"attempt": "1"}, "no whole number"),
        (CASE, {"step": 1 << 70}, "in range"),
        (CASE, {"candidate": "abc"}, "no SHA-256"),
        (CASE, {"receipt_sha256": "ABC"}, "no SHA-256"),
        (CASE, {"body": '{"name": "c"}'}, "canonical"),
        (CASE, {"body": "{"}, "no JSON"),
        (CASE, {"body": "[]"}, "canonical"),
        (CASE, {"body": '{"name":"","parts":{"contract":"x"}}'}, "has a name"),
        (CASE, {"body": '{"name":"c","parts":{"guess":"x"}}'}, "parts of a case"),
        (CASE, {"body": '{"name":"c"}'}, "nothing is said"),
        (CASE, {"artifacts": '[{"path":"/x"}]'}, "other fields"),
        (CASE, {"artifacts": canonical([entries.artifact("/x", -1, sha("x"), "h")])}, "number of bytes"),
        (CASE, {"artifacts": canonical([entries.artifact("/x", 1, "x", "h")])}, "no SHA-256"),
        (CASE, {"artifacts": canonical([entries.artifact("", 1, sha("x"), "h")])}, "no path"),
        (CASE, {"gate": "hope"}, "is none of"),
        (CASE, {"gate": "module", "cell": "hope"}, "no cell"),
        (CASE, {"cell": "forward"}, "without its gate"),
        (frozen(), {"criterion": sha("other")}, "not that of its text"),
        (OK[4], {"target": OK[4].criterion}, "another one"),
        (OK[4], {"reason": " "}, "reason is required"),
        (OK[5], {"target": ""}, "not named"),
        (OK[6], {"plane": "hope"}, "plane is none of"),
        (OK[7], {"target": OK[7].candidate}, "names a candidate"),
        (OK[7], {"gate": ""}, "names a gate"),
        (OK[7], {"gate": "per_version"}, "policy versions"),
        (OK[7], {"body": "{}"}, "hash of the dependency closure"),
        (OK[7], {"artifacts": "[]"}, "names the file"),
        (OK[7], {"artifacts": canonical([{**SHOWN[0], "sha256": sha("d")}])}, "names the file"),
        (OK[7], {"artifacts": canonical([{**SHOWN[0], "size": 0}])}, "not empty"),
        (OK[7], {"reason": ""}, "reason is required"),
        (OK[2], {"candidate": sha("other")}, "not that of its closure"),
        (OK[2], {"target": OK[2].candidate}, "its own parent"),
        (OK[2], {"body": "{}"}, "needs the fields"),
        (OK[3], {"body": OK[3].body.replace('"why"', "7")}, "gate, cell and cause"),
        (OK[8], {"body": "{}"}, "has a name"),
    ],
)
def test_what_is_not_accepted(row: Entry, changes: dict[str, object], complaint: str) -> None:
    changed = replace(row, **changes)  # type: ignore[arg-type]
    assert complaint in entries.complaint(changed, entries.DECLARED)
    assert isinstance(entries.parse(entries.as_json(changed)), str), "nor if someone else writes the line"


def test_what_is_said_of_a_criterion_must_be_what_its_text_says() -> None:
    row = frozen()
    body = {**json.loads(row.body), "at_most": 5.0}
    assert "not what its text says" in entries.complaint(replace(row, body=canonical(body)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = " + "[" * 5000, "nested too deeply"),
        ('metric = "bitwise"\nexecution = ' + "{ a = " * 3000 + "1" + " }" * 3000, "nested too deeply"),
        ('metric = "logprob_mae"\nat_most = 1' + "0" * 400, "finite"),
        ('metric = "bitwise"\nsteps = [0, 1' + "0" * 30 + "]", "two integers"),
    ],
)
def test_a_criterion_that_cannot_be_read_ends_no_daemon(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=why):
        criterion.parse(text.encode())
    layout = StoreLayout.find(tmp_path)
    spool = Spool.at(layout.directory)
    spool.declare("case", body=CASE.body)
    row = entry("criterion", criterion=sha(text), body={"text": text, "path": "/c.toml"})
    with spool.path.open("a") as file:
        file.write(json.dumps({"kind": "ledger", "entry": entries.as_json(row)}) + "\n")
    reader = SpoolReader(layout)
    assert [one.kind for one in reader.pending().ledger] == ["case"] and reader.rejected == 1
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(CompareError, match="is no criterion"):
        criteria.criterion(path)
    assert cli.main(["criterion", "freeze", str(path), "--at", str(tmp_path)]) == 2


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "x",
        {},
        {"kind": "case"},
        {**entries.as_json(CASE), "more": 1},
        {**entries.as_json(CASE), "said_at": 7},
        {**entries.as_json(CASE), "id": "ev-" + sha("a row that a FAIL would have")[:32]},
    ],
)
def test_lines_that_are_no_entries(value: object) -> None:
    assert isinstance(entries.parse(value), str)


def test_nobody_spools_evidence(tmp_path: Path) -> None:
    layout = StoreLayout.find(tmp_path)
    spool = Spool.at(layout.directory)
    said = {"candidate": sha("a"), "target": "c1", "label": "PASS"}
    with pytest.raises(SpoolError, match="kind is none of"):
        spool.declare("evidence", **said)
    assert not spool.path.exists()
    forged = entries.as_json(entry("evidence", **said))
    spool.declare("case", body=CASE.body)
    with spool.path.open("a") as file:
        file.write(json.dumps({"kind": "ledger", "entry": forged}) + "\n")
    reader = SpoolReader(layout)
    assert [row.kind for row in reader.pending().ledger] == ["case"]
    assert reader.rejected == 1


def test_a_criterion_for_a_cell_needs_the_goal_of_the_cell() -> None:
    from tic_daemon.ledger import criterion

    assert criterion.parse(BITWISE.encode()).gate == "zero_update"
    for text, complaint in (
        (BITWISE.replace("cross_stack", "repeatability"), "needs goal cross_stack"),
        (BITWISE.replace('goal = "cross_stack"\n', ""), "needs goal cross_stack"),
        (BITWISE.replace("replay", "quality"), "cell of zero_update is one of replay"),
        (BITWISE.replace('cell = "replay"\n', ""), "cell of zero_update"),
        (BITWISE.replace("zero_update", "per_version"), "leave cell out"),
        (BITWISE.replace('gate = "zero_update"\n', ""), "without gate"),
        (
            BITWISE.replace('gate = "zero_update"\ncell = "replay"', 'gate = "acceptance"\ncell = "quality"'),
            "other evidence",
        ),
    ):
        with pytest.raises(ValueError, match=complaint):
            criterion.parse(text.encode())


def test_one_closure_one_name() -> None:
    assert declared("a").candidate == closure.of({"object.layers": "a"}).sha256
