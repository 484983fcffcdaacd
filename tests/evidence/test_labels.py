"""Labels of evidence and states of tables: the evidence rules' section 1, line by line."""

from __future__ import annotations

import pytest

from tic_daemon.evidence.labels import Cell, Label, State, cell, gate_cell


def test_pass_and_fail_are_shown_as_they_are() -> None:
    assert cell(Label.PASS, "0 of 12 differ") == Cell(State.PASS, "0 of 12 differ")
    assert cell(Label.FAIL, "3 of 12 differ") == Cell(State.FAIL, "3 of 12 differ")


@pytest.mark.parametrize("label", [Label.INVALID, Label.VACUOUS])
def test_invalid_and_vacuous_are_inconclusive_and_never_without_a_reason(label: Label) -> None:
    assert cell(label, " zero hits ") == Cell(State.INCONCLUSIVE, "zero hits")
    for empty in ("", "  \n"):
        with pytest.raises(ValueError, match="needs a reason"):
            cell(label, empty)


@pytest.mark.parametrize("label", [Label.SUPERSEDED, Label.HISTORICAL])
def test_superseded_and_historical_leave_the_current_table(label: Label) -> None:
    assert cell(label, "new image") is None


def test_one_superseded_piece_makes_its_gate_stale() -> None:
    assert gate_cell([(Label.PASS, "ok"), (Label.SUPERSEDED, "new image"), (Label.PASS, "ok")]) == Cell(
        State.NOT_RUN, "stale: new image"
    )
    assert gate_cell([(Label.SUPERSEDED, "")]).cause == "stale: superseded"


def test_a_gate_shows_the_newest_that_counts() -> None:
    assert gate_cell([]) == Cell(State.NOT_RUN)
    assert gate_cell([(Label.HISTORICAL, "old threshold")]) == Cell(State.NOT_RUN)
    assert gate_cell([(Label.FAIL, "3 differ"), (Label.PASS, "0 differ"), (Label.HISTORICAL, "")]).state is State.PASS


def test_there_are_six_labels_and_four_states() -> None:
    assert [label.value for label in Label] == ["PASS", "FAIL", "INVALID", "VACUOUS", "SUPERSEDED", "HISTORICAL"]
    assert [state.value for state in State] == ["pass", "fail", "inconclusive", "not run"]
