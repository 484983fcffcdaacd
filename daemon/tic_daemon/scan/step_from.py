"""Step numbers that do not stand on the line itself: in the heading of its block, or on the progress bar around it.

NeMo-RL heads each step with a line and prints metrics below it, where numbers begin anew with each epoch. Hugging
Face's Trainer prints its metrics without a step, through its progress bar: the bar is wiped, the line is written, and
the bar is drawn again, so that the number stands in front of the line and, exact, behind it. A file that buffers its
output has metrics of many steps between two bars; then none of them has a step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from tic_daemon.scan.events import Metric, StepEvent
from tic_daemon.scan.values import at_from_json, at_to_json, integer

MAX_WRITERS: Final = 1000
# A bar without a description, as the Trainer's: ` 12%|#2        | 12/100 [00:31<03:50,  2.62s/it]`
_BAR: Final = re.compile(r" {0,4}\d{1,3}%\|[^|]{0,300}\| {0,12}(\d{1,12})/(\d{1,12}) \[[^\]]{0,100}\] {0,300}")

Stepped = StepEvent | Metric


class Bar(NamedTuple):
    """Where a progress bar stands."""

    done: int
    total: int


def bar_of(text: str) -> Bar | None:
    """The bar that a piece shows, or None if it is anything else."""
    hit = _BAR.fullmatch(text)
    return Bar(int(hit[1]), int(hit[2])) if hit else None


@dataclass(slots=True)
class Held:
    """Events of a line that stood behind a bar: the next line says whether the bar's number is theirs.

    Attributes:
        key: of the line's writer. `before`: the bar in front of the line.
        carried: the step that the events have otherwise, as in `At`.
        behind: begin of the line behind, where that comes in parts.
    """

    key: str
    before: Bar
    carried: int | None
    events: list[Stepped] = field(default_factory=list)
    behind: bytes = b""

    def settled(self, bar: Bar | None) -> list[Stepped]:
        """The events, now that the bar behind the line is known; None if there is none of this writer."""
        if bar is not None and bar.total == self.before.total and bar.done >= self.before.done:
            return [replace(event, at=replace(event.at, step=bar.done, step_carried=False)) for event in self.events]
        step = self.carried
        return [
            replace(event, at=replace(event.at, step=step, step_carried=step is not None))
            for event in self.events
            if isinstance(event, Metric)
        ]

    def to_json(self) -> list[Any]:
        rows = [
            [at_to_json(event.at), event.key, event.value, event.value_text, event.raw]
            if isinstance(event, Metric)
            else [at_to_json(event.at), event.edge, event.gpu, event.rule, event.raw]
            for event in self.events
        ]
        kinds = "".join("m" if isinstance(event, Metric) else "s" for event in self.events)
        return [self.key, list(self.before), self.carried, kinds, rows, self.behind.decode("latin-1")]

    @classmethod
    def from_json(cls, value: list[Any]) -> Held:
        key, before, carried, kinds, rows, behind = value
        held = cls(key, Bar(*before), carried, behind=behind.encode("latin-1"))
        for kind, (at, *fields) in zip(kinds, rows, strict=True):
            held.events.append((Metric if kind == "m" else StepEvent)(at_from_json(at), *fields))
        return held


@dataclass(slots=True)
class Blocks:
    """Headings by writer: the step that was begun last, and the epoch. A writer without a name has the key ""."""

    begun: dict[str, int] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)

    def heading(self, key: str, groups: dict[str, str | None]) -> None:
        """A heading of an epoch."""
        epoch = integer(groups.get("epoch") or "")
        if epoch is not None and 0 < epoch < 2**31 and (key in self.epochs or len(self.epochs) < MAX_WRITERS):
            self.epochs[key] = epoch

    def begin(self, key: str, step: int) -> None:
        """A heading of a step."""
        if key in self.begun or len(self.begun) < MAX_WRITERS:
            self.begun[key] = step

    def steps_before(self, key: str, groups: dict[str, str | None]) -> int:
        """Steps of the epochs before this one, for a line that says how many an epoch has (group `of`)."""
        length = integer(groups.get("of") or "") if key in self.epochs else None
        return (self.epochs[key] - 1) * length if length is not None and 0 < length < 2**31 else 0

    def to_json(self) -> list[Any]:
        return [self.begun, self.epochs] if self.begun or self.epochs else []
