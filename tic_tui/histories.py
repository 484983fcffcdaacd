"""What the screen holds of W&B histories: how each stands, what it lacks, and which steps each source has.

The models are light; what asks for them is loaded with the feed, after the first paint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tic_tui.safe import Safe, safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

SOURCES: Final = ("console", "file", "wandb_local", "wandb_api", "results")
STATES: Final = ("ok", "pending", "unread", "out_of_order", "value_differs", "duplicate", "partial", "missing")
"""As in view `step_coverage`, the best first."""
LACKS: Final = 200
PIECES: Final = 480
"""Spans of steps that are asked for, more than any terminal has cells."""


@dataclass(frozen=True, slots=True)
class History:
    """A line of view `wandb_runs`."""

    wandb_id: Safe
    run_path: Safe | None
    mode: Safe | None
    state: Safe | None
    local_steps: int | None
    server_steps: int | None
    uploader: Safe | None
    uploader_at: datetime | None
    uploader_status: int | None
    dropped: int
    read_outcome: Safe | None
    read_at: datetime | None
    read_ok_at: datetime | None
    gaps: int
    findings: int
    project_note: Safe


@dataclass(frozen=True, slots=True)
class Lack:
    """A line of view `wandb_gaps`."""

    run_id: str
    attempt: int | None
    wandb_id: Safe | None
    kind: Safe
    source: Safe
    first_step: int | None
    last_step: int | None
    axis: Safe
    key: Safe | None
    detail: Safe
    confirmed: bool

    @property
    def place(self) -> tuple[object, ...]:
        """What stays of it while it grows."""
        return (self.kind, self.source, self.axis, self.first_step, self.key)


@dataclass(frozen=True, slots=True)
class Piece:
    """A span of steps of one source that are in one state: view `step_coverage`, summed up."""

    source: Safe
    state: Safe
    span: int
    steps: int


@dataclass(frozen=True, slots=True)
class Wandb:
    """Histories of one run. `first`, `last`: the steps that `pieces` span, `size` steps each."""

    histories: tuple[History, ...] = ()
    lacks: tuple[Lack, ...] = ()
    pieces: tuple[Piece, ...] = ()
    first: int = 0
    last: int = -1
    size: int = 1


@dataclass(frozen=True, slots=True)
class Side:
    """A value of one step in one source."""

    source: Safe
    key: Safe
    shown: Safe


def read(reader: Reader, run_id: str) -> Wandb:
    """Histories of a run. Raises TicError."""
    from tic_tui import queries  # noqa: PLC0415  not before the first paint

    told = queries.rows_of(reader, History, "wandb_runs WHERE run_id = ?", (run_id,), "ORDER BY wandb_id")
    if not told:
        return Wandb()
    order = f"ORDER BY confirmed DESC, first_step NULLS LAST, source, key NULLS FIRST LIMIT {LACKS}"
    lacks = queries.rows_of(reader, Lack, "wandb_gaps WHERE run_id = ?", (run_id,), order)
    spans = queries.everything(
        reader, "SELECT min(step) AS a, max(step) AS b FROM step_coverage WHERE run_id = ? AND main", [run_id]
    )
    first = min((row[0] for row in spans if row[0] is not None), default=None)
    if first is None:
        return Wandb(tuple(told), tuple(dict.fromkeys(lacks)))
    last = max(row[1] for row in spans if row[1] is not None)
    size = max(1, -(-(last - first + 1) // PIECES))
    rows = queries.everything(
        reader,
        "SELECT source, state, (step - ?) // ? AS span, count(*) AS steps FROM step_coverage WHERE run_id = ? AND main"
        " GROUP BY ALL",
        [first, size, run_id],
        "SELECT source, state, span, max(steps) AS steps FROM part GROUP BY ALL",
    )
    pieces = tuple(Piece(safe(source), safe(state), span, steps) for source, state, span, steps in sorted(rows))
    return Wandb(tuple(told), tuple(dict.fromkeys(lacks)), pieces, first, last, size)


def uploads(reader: Reader) -> Mapping[str, tuple[int, str, datetime | None]]:
    """By run: confirmed gaps, what its uploader told last, and when; of several histories the one told of last."""
    from tic_tui import queries  # noqa: PLC0415  not before the first paint

    found: dict[str, tuple[int, str, datetime | None]] = {}
    rows = queries.everything(
        reader, "SELECT run_id, gaps, coalesce(uploader, '') AS uploader, uploader_at FROM wandb_runs"
    )
    for run_id, gaps, uploader, told_at in sorted(rows, key=lambda row: row[3] or datetime.min):
        before = found.get(run_id, (0, "", None))
        found[run_id] = (before[0] + gaps, uploader or before[1], told_at or before[2])
    return found


def sides(reader: Reader, run_id: str, axis: str, step: int) -> tuple[Side, ...]:
    """Values of one step: what was printed, the local log's, the server's. Raises TicError."""
    from tic_daemon.store import plain  # noqa: PLC0415  not before the first paint
    from tic_tui import queries  # noqa: PLC0415  not before the first paint

    rows = queries.everything(
        reader,
        "SELECT source, key, value, value_text, kind FROM wandb_step_rows WHERE run_id = ? AND axis = ? AND step = ?"
        " ORDER BY ALL LIMIT 20000",
        [run_id, axis, step],
    )
    rows += queries.everything(
        reader,
        "SELECT source_kind AS source, key, value, value_text, 'number' AS kind FROM metrics WHERE run_id = ?"
        " AND step = ? AND source_kind IN ('console', 'file') ORDER BY ALL LIMIT 20000",
        [run_id, step],
    )
    found: dict[Side, None] = {}
    for source, key, value, text, kind in rows:
        whole = kind == "int" and value is not None and value == value // 1
        shown = text if text is not None else str(int(value)) if whole else plain.cell(value)
        found[Side(safe(source), safe(key), safe(str(shown)[:200]))] = None
    return tuple(found)


def worst(states: Sequence[str]) -> str:
    """The worst of some states; "" of none."""
    return max(states, key=lambda state: STATES.index(state) if state in STATES else len(STATES), default="")
