"""Receipts of a replay: fixed tokens and weights, one thing changed, and the proofs that nothing else happened.

A manifest that holds `replay` says that its file was scored in a replay. Then four things must be shown on both
sides: the fingerprint of the weights, that nothing was generated, that no optimizer step ran, and the packing in
effect (not the one of the command line). One variable may be named; what else the recorded execution state shows to
differ is a hidden coupling, and the difference cannot be put down to the variable.

Hooks under a Graph run when it is captured and not when it is replayed: a hook count that equals the captures and not
the forward steps is of the capture alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tic_daemon.compare.said import word

PACKING: Final = "packing"


@dataclass(frozen=True, slots=True)
class Replay:
    """What one side's manifest says of its replay. None: nothing is said."""

    weights: str | None = None
    weights_after: str | None = None
    generated: int | None = None
    optimizer_steps: int | None = None
    packing: str | None = None
    packing_declared: str | None = None
    variable: str | None = None


class Told(Protocol):
    """What is needed of a side's claims."""

    @property
    def replay(self) -> Replay | None: ...
    @property
    def execution(self) -> Mapping[str, str] | None: ...
    @property
    def hooks(self) -> int | None: ...
    @property
    def captures(self) -> int | None: ...
    @property
    def forwards(self) -> int | None: ...


def replay_of(value: Any) -> Replay | None:
    """The receipt of a manifest, if it has one."""
    if not isinstance(value, dict):
        return None

    def text(key: str) -> str | None:
        return word(value.get(key))

    def number(key: str) -> int | None:
        own = value.get(key)
        return own if type(own) is int and own >= 0 else None

    return Replay(
        text("weights_sha256"), text("weights_sha256_after"), number("generated_tokens"), number("optimizer_steps"),
        text("packing"), text("packing_declared"), text("variable"),
    )  # fmt: skip


def known(a: Told, b: Told) -> list[str]:
    """What is known to be wrong with a replay or with its hooks, in words."""
    words = [f"side {name}: {word}" for name, own in (("A", a), ("B", b)) for word in _own(own)]
    if a.replay is None or b.replay is None:
        return words
    if _apart(a.replay.weights, b.replay.weights):
        words.append("replays of different weights")
    variables = {own.variable for own in (a.replay, b.replay) if own.variable}
    if len(variables) > 1:
        words.append(f"replays of different variables: {', '.join(sorted(variables))}")
    elif variables:
        words += _coupled(a, b, variables.pop())
    return words


def _own(own: Told) -> list[str]:
    """Of one side."""
    words = []
    if own.replay is not None:
        if own.replay.generated:
            words.append(f"the replay generated {own.replay.generated} tokens")
        if own.replay.optimizer_steps:
            words.append(f"the replay made {own.replay.optimizer_steps} optimizer steps")
        if _apart(own.replay.weights, own.replay.weights_after):
            words.append("the weights changed during the replay")
        if _apart(own.replay.packing, own.replay.packing_declared):
            asked = own.replay.packing_declared
            words.append(f"packing {own.replay.packing!r} was in effect, {asked!r} was asked for")
    return [*words, *captured(own)]


def captured(own: Told) -> list[str]:
    """A word if hooks saw the capture of a Graph and not its steps."""
    if own.hooks is None or own.captures is None or own.forwards is None:
        return []
    if own.hooks != own.captures or own.hooks == own.forwards or not own.captures:
        return []
    return [
        f"hooks ran {own.hooks} times, as often as graphs were captured, in {own.forwards} forward steps: they show "
        "the capture and not the replay"
    ]


def _coupled(a: Told, b: Told, variable: str) -> list[str]:
    """Recorded states that differ besides the variable."""
    names = sorted({*(a.execution or {}), *(b.execution or {})} - {variable})
    words = [
        f"execution state {name} differs too, besides {variable}"
        for name in names
        if _apart((a.execution or {}).get(name), (b.execution or {}).get(name))
    ]
    if variable != PACKING and a.replay and b.replay and _apart(a.replay.packing, b.replay.packing):
        words.append(f"packing differs too, besides {variable}")
    return words


def _apart(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def unshown(a: Told, b: Told) -> tuple[str, ...]:
    """What a replay does not show; nothing where neither side claims to be one."""
    if a.replay is None and b.replay is None:
        return ()
    words = []
    for name, own in (("A", a.replay), ("B", b.replay)):
        receipt = own or Replay()
        words += [
            f"{what} of side {name}"
            for what, value in (
                ("weight fingerprint", receipt.weights), ("no generation", receipt.generated),
                ("no optimizer step", receipt.optimizer_steps), ("packing in effect", receipt.packing),
            )
            if value is None
        ]  # fmt: skip
    variable = _variable(a, b)
    if variable and None in (_value(a, variable), _value(b, variable)):
        words.append(f"variable {variable} in effect")
    return tuple(words)


def unchanged(a: Told, b: Told) -> str:
    """Why a replay exercised nothing: its variable is the same on both sides; or ""."""
    variable = _variable(a, b)
    if not variable or (own := _value(a, variable)) is None or own != _value(b, variable):
        return ""
    return f"replay of {variable}: it is {own!r} on both sides, nothing was changed"


def _variable(a: Told, b: Told) -> str:
    found = {own.replay.variable for own in (a, b) if own.replay and own.replay.variable}
    return found.pop() if len(found) == 1 else ""


def _value(own: Told, variable: str) -> str | None:
    if variable == PACKING:
        return own.replay.packing if own.replay else None
    return (own.execution or {}).get(variable)
