"""Whether a reading can be trusted, and how far a history has been read for good.

A scan that comes back short raises nothing (a null page, a short one, no last step), so each reading is held against
what the server says of itself and against what came before. What seems missing is read a second time, with other
borders of pages: two readings that agree are believed, and of two that do not the one that saw less was short.

    Reading           what one reading saw
    why_doubted       why one alone is not believed; "" if it is
    settle            two readings of one range: which of them were short, and what is gone
    confirmed         up to which step nothing is to be read again before the next full reading
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tic_daemon.wandb.ranges import Ranges


@dataclass(slots=True)
class Reading:
    """One reading of the steps from `first` on.

    Attributes:
        end: the last step that was asked for: the server's last one, or the one before the border that it stopped at.
        whole: it went to the server's last step.
        rows: how many rows came, repeated ones too. seen: their steps.
        line_count, last_step: what the server said before it began; last_step -1: none.
        began: seconds since the epoch.
    """

    first: int
    page_size: int
    end: int = -1
    whole: bool = False
    rows: int = 0
    line_count: int | None = None
    last_step: int = -1
    seen: Ranges = field(default_factory=Ranges)
    began: float = 0.0


def why_doubted(reading: Reading, known: Ranges) -> str:
    """Why a reading that came to its end may be short; "" if nothing speaks for it.

    Args:
        known: steps that came in earlier readings.
    """
    counted = reading.line_count
    if why := why_blind(reading):
        return why
    if reading.whole and reading.seen.last < reading.last_step and reading.first <= reading.last_step:
        return f"the server's last step is {reading.last_step}, the last that came is {_step(reading.seen.last)}"
    missed = known.within(reading.first, reading.end).minus(reading.seen)
    if missed:
        return f"steps that came before did not come: {missed.words()}"
    if reading.first == 0 and reading.whole and counted is not None and reading.rows < counted:
        return f"{reading.rows} rows came, the server counts {counted}"
    return ""


def why_blind(reading: Reading) -> str:
    """Why a reading says nothing of any step, however many others agree; "" if it does.

    Without a last step the client asks for no page at all. That a run has no row is believed of a server that counts
    none.
    """
    if not reading.whole or reading.last_step >= 0 or reading.line_count == 0:
        return ""
    counted = "does not say how many rows" if reading.line_count is None else f"counts {reading.line_count} rows"
    return f"the server names no last step and {counted}"


def _step(step: int) -> str:
    return "none" if step < 0 else str(step)


@dataclass(frozen=True, slots=True)
class Settled:
    """`short`: what the first and the second reading lack of each other, in words; "" if nothing.

    `gone`: steps that came earlier and that both lack: the server does not have them any more.
    """

    short: tuple[str, str]
    gone: Ranges

    @property
    def agreed(self) -> bool:
        """Neither was short."""
        return self.short == ("", "")


def settle(one: Reading, two: Reading, known: Ranges) -> Settled:
    """Two readings of one range. Steps beyond the end of either are not compared: the run went on."""
    first, end = max(one.first, two.first), min(one.end, two.end)
    if one.last_step < 0 or two.last_step < 0:
        end = max(one.end, two.end)  # one of them was told of no steps at all
    ours, theirs = one.seen.within(first, end), two.seen.within(first, end)
    lacks = (theirs.minus(ours), ours.minus(theirs))
    words = tuple(f"another reading saw steps {lack.words()}" if lack else "" for lack in lacks)
    gone = known.within(first, end).minus(ours.union(theirs))
    return Settled((words[0], words[1]), gone)


def confirmed(now: Reading, before: Reading | None, upto: int, aged: int) -> int:
    """The step from which on the next reading has to begin.

    A step is read for good when two readings with other borders agree on all steps up to it, both made when it was no
    longer late; or when it is in a stretch without a hole of a whole history with as many rows as the server counts.

    Args:
        before: the reading before this one, if both came to their ends. upto: what was confirmed before.
        aged: the last step that was there long enough before `before` began: what then was missing was not late.
    """
    if now.first == 0 and now.whole and now.line_count is not None and now.rows >= now.line_count and now.seen:
        hole = now.seen.holes().first
        start = hole if hole >= 0 else now.seen.last + 1
        if now.seen.first == 0:
            upto = max(upto, start)
    if before is not None and before.page_size != now.page_size:
        first, end = max(now.first, before.first), min(now.end, before.end, aged)
        if first <= upto <= end and now.seen.within(first, end) == before.seen.within(first, end):
            upto = max(upto, end + 1)
    return upto
