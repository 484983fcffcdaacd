"""The five entry gates with their cells, and which of them a change makes stale. The data is gates.toml.

    GATES, cells()                the gates in order, and all (gate, cell) that are fixed beforehand
    class_of(field)               what a change of a field of the closure is called
    stale(changed)                cells that must be run again after these fields changed, each with its cause
    regressions(changed)          what to run at least, in words

`per_version` has a cell for each policy version: VERSION stands for those that are not known beforehand.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

VERSION: Final = "*"
UNCLASSED: Final = "unclassed"
_EVERYTHING: Final = "a change of no class: every gate"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. `goals`: what a comparison must be made for to fill it. `lifecycle`: see gates.toml."""

    name: str
    goals: tuple[str, ...] = ()
    lifecycle: bool = False


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate. `versions`: it has a cell for each policy version, and `cells` holds the one that stands for them."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    versions: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A class of change: which fields of a closure it is of, what it makes stale, and the minimum regression in
    words."""

    name: str
    title: str
    fields: tuple[str, ...]
    stale: tuple[tuple[str, str], ...]
    regression: str


@dataclass(frozen=True, slots=True)
class Stale:
    """A cell that must be run again, and why."""

    gate: str
    cell: str
    cause: str


@dataclass(frozen=True, slots=True)
class _Table:
    gates: tuple[Gate, ...]
    changes: tuple[Change, ...]
    by_field: dict[str, Change] = field(default_factory=dict)


def _load() -> _Table:
    with Path(__file__).with_name("gates.toml").open("rb") as file:
        said = tomllib.load(file)
    found = tuple(_gate(one) for one in said["gate"])
    changes = tuple(
        Change(
            one["name"], one["title"], tuple(one["fields"]),
            tuple(place for text in one["stale"] for place in _places(found, text)), one["regression"],
        )
        for one in said["class"]
    )  # fmt: skip
    return _Table(found, changes, {name: change for change in changes for name in change.fields})


def _gate(said: dict[str, object]) -> Gate:
    name, title = str(said["name"]), str(said["title"])
    if said.get("versions"):
        return Gate(name, title, (_cell({**said, "name": VERSION}),), versions=True)
    listed = said["cells"]
    assert isinstance(listed, list)  # noqa: S101  our own data
    return Gate(name, title, tuple(_cell(one) for one in listed))


def _cell(said: dict[str, object]) -> Cell:
    goals = said.get("goals", [])
    assert isinstance(goals, list)  # noqa: S101  our own data
    return Cell(str(said["name"]), tuple(map(str, goals)), bool(said.get("lifecycle")))


def _places(found: Sequence[Gate], text: str) -> list[tuple[str, str]]:
    name, _, cell = text.partition("/")
    gate = next(one for one in found if one.name == name)
    places = [(name, one.name) for one in gate.cells if cell in ("", one.name)]
    assert places, text  # noqa: S101  our own data
    return places


_TABLE: Final = _load()
GATES: Final = {gate.name: gate for gate in _TABLE.gates}
CHANGES: Final = {change.name: change for change in _TABLE.changes}


def cells() -> list[tuple[str, str]]:
    """All cells that are fixed beforehand, in order."""
    return [(gate.name, cell.name) for gate in _TABLE.gates for cell in gate.cells]


def has_cell(gate: str, cell: str) -> bool:
    """Whether a gate has such a cell; of policy versions any."""
    found = GATES.get(gate)
    return found is not None and bool(cell) and (found.versions or any(one.name == cell for one in found.cells))


def cell_of(gate: str, cell: str) -> Cell:
    """The cell's rules. Raises KeyError: there is no such cell."""
    found = GATES[gate]
    if found.versions:
        return found.cells[0]
    return next((one for one in found.cells if one.name == cell), None) or _no_cell(gate, cell)


def _no_cell(gate: str, cell: str) -> Cell:
    raise KeyError(f"{gate}/{cell}")


def class_of(name: str) -> str:
    """What a change of this field of a closure is called: a class of gates.toml, or UNCLASSED."""
    change = _TABLE.by_field.get(name)
    return change.name if change else UNCLASSED


def stale(changed: Iterable[str]) -> list[Stale]:
    """The cells that must be run again after these fields changed, in order; each with all of its causes."""
    causes: dict[tuple[str, str], list[str]] = {place: [] for place in cells()}
    for name in changed:
        change = _TABLE.by_field.get(name)
        cause = f"{name} changed: {change.title}" if change else f"{name} changed: of no class"
        for place in change.stale if change else cells():
            causes[place].append(cause)
    return [Stale(gate, cell, "; ".join(why)) for (gate, cell), why in causes.items() if why]


def regressions(changed: Iterable[str]) -> list[str]:
    """What must be run again at least after these fields changed, in words, each once."""
    named = [_TABLE.by_field.get(name) for name in changed]
    found = [f"{change.title}: {change.regression}" if change else _EVERYTHING for change in named]
    return list(dict.fromkeys(found))
