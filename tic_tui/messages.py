"""What the feed tells the app. Each carries whole state, so that a newer one may replace one that still waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from textual.message import Message

from tic_daemon.errors import ConfigError
from tic_tui.model import FaultsView, MismatchesView, RunsView, RunView
from tic_tui.neighbours import Neighbours
from tic_tui.safe import NOTHING, Safe
from tic_tui.theming import Look

if TYPE_CHECKING:
    from tic_tui.comparison_model import ComparisonsView, ComparisonView
    from tic_tui.evidence_model import EvidenceView, Page
    from tic_tui.execution import Finding
    from tic_tui.histories import Side
    from tic_tui.lanes import StateView


@dataclass(frozen=True, slots=True)
class Link:
    """The connection to a store, or to several.

    Attributes:
        state: pending | connected | disconnected. kind: live | file | snapshot | several | "".
        since: when `state` began. data_at: the moment that a snapshot shows, naive UTC; None: now.
        retry_s: it is tried again after so many seconds.
        detail: what is wrong; hint: what a person can do about it.
        stores: of kind `several`: how each store is reached. target: where it is.
    """

    state: str = "pending"
    kind: str = ""
    since: datetime | None = None
    retry_s: int = 0
    detail: Safe = NOTHING
    hint: Safe = NOTHING
    target: Safe = NOTHING
    data_at: datetime | None = None
    stores: tuple[Link, ...] = ()


class Arrived(Message):
    """Something lies in the mailbox."""


class _Latest(Message):
    """A message of which only the newest counts: free coalescing in the pump."""

    def can_replace(self, message: Message) -> bool:
        return type(message) is type(self)


class LinkChanged(_Latest):
    """The connection changed."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link


class RunsFetched(_Latest):
    """A reading of screen 1."""

    def __init__(self, view: RunsView) -> None:
        super().__init__()
        self.view = view


class RunFetched(_Latest):
    """A reading of screen 2; `view` is None where the run is not there."""

    def __init__(self, run_id: str, view: RunView | None) -> None:
        super().__init__()
        self.run_id = run_id
        self.view = view


class MismatchesFetched(_Latest):
    """A reading of screen 3."""

    def __init__(self, view: MismatchesView) -> None:
        super().__init__()
        self.view = view


class FaultsFetched(_Latest):
    """A reading of screen 5; `view` is None where the run is not there."""

    def __init__(self, run_id: str, view: FaultsView | None) -> None:
        super().__init__()
        self.run_id = run_id
        self.view = view


class StateFetched(_Latest):
    """A reading of screen 4; `view` is None where the run is not there."""

    def __init__(self, run_id: str, view: StateView | None) -> None:
        super().__init__()
        self.run_id = run_id
        self.view = view


class ComparisonsFetched(_Latest):
    """A reading of the list of comparisons."""

    def __init__(self, view: ComparisonsView) -> None:
        super().__init__()
        self.view = view


class ComparisonFetched(_Latest):
    """A reading of one comparison."""

    def __init__(self, view: ComparisonView) -> None:
        super().__init__()
        self.view = view


class EvidenceFetched(_Latest):
    """A reading of a page of screen 6."""

    def __init__(self, page: Page, view: EvidenceView) -> None:
        super().__init__()
        self.page = page
        self.view = view


class MarksSeen(_Latest):
    """Marks that were looked for and that the store shows: all since the feed began."""

    def __init__(self, ids: frozenset[str]) -> None:
        super().__init__()
        self.ids = ids


class FindingsFetched(_Latest):
    """Findings that were asked for by name, of one run."""

    def __init__(self, ids: tuple[str, ...], rows: tuple[Finding, ...]) -> None:
        super().__init__()
        self.ids = ids
        self.rows = rows


class SidesFetched(_Latest):
    """One step of a run in all sources, as it was asked for."""

    def __init__(self, step: int, sides: tuple[Side, ...]) -> None:
        super().__init__()
        self.step = step
        self.sides = sides


class QueryFailed(_Latest):
    """A query failed while the connection holds: the screen keeps what it shows, and says so."""

    def __init__(self, detail: Safe) -> None:
        super().__init__()
        self.detail = detail


class NeighboursFound(Message):
    """The lines round a record, out of its file or not."""

    def __init__(self, found: Neighbours) -> None:
        super().__init__()
        self.found = found


class ThemesRead(Message):
    """The user's themes were read anew, or one of them is wrong."""

    def __init__(self, found: dict[str, Look] | ConfigError) -> None:
        super().__init__()
        self.found = found
