"""Lines of screen 5: the card of the first fault, what followed on each rank, and every fault with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tic_tui.age import age, day_and_clock
from tic_tui.glyphs import Glyphs
from tic_tui.model import Fault, FaultFile, FaultsView, Key
from tic_tui.render.banner import first_line
from tic_tui.render.text import Builder, Line, clean, clip_left, count, some

_CANDIDATES: Final = 2  # named beside the first one; the rest is counted
_FILES: Final = 2


def verdict(fault: Fault, glyphs: Glyphs) -> tuple[str, str]:
    """(glyph and words, tone) of what a fault does."""
    if fault.locks and fault.verdict == "confirmed":
        return f"{glyphs.locked} locks", "locked"
    if fault.verdict == "confirmed":
        return f"{glyphs.fault} confirmed", "suspect"
    return f"{glyphs.unknown} {fault.verdict or 'unknown'}", "dim"


def who(fault: Fault) -> str:
    """Rank, host and pid; what is not known says so."""
    rank = "unknown" if fault.rank is None else fault.rank
    return f"rank {rank}  host {fault.host or 'unknown'}  pid {'unknown' if fault.pid is None else fault.pid}"


def card(view: FaultsView, state: str, now: datetime, width: int, glyphs: Glyphs, *, tall: bool) -> list[Line]:
    """The first fault: whether it locks, its line, and who wrote it when and in which execution state (`state`)."""
    first, b = view.first, Builder(width, glyphs)
    attempt = f"attempt {view.attempt}" + (f" of {max(view.attempts)}" if len(view.attempts) > 1 else "")
    if first is None:
        b.add(f"{glyphs.admissible} no fault acts on {attempt}", "ok")
        if view.total:
            said = some(view.total, "line that looks like one does", "lines that look like one do")
            b.add_if_fits(f": {said} not", "dim")
        return [_other_attempt(view, b).line()]
    if first.locks and first.verdict == "confirmed":
        b.add(f"{glyphs.locked} LOCKED", "locked").add(f" {attempt} by its first fault", "banner")
    else:
        b.add(f"{glyphs.admissible} not locked", "ok").add(f": the first fault of {attempt} does not lock", "text")
    if len(view.candidates) > 1:
        b.add_if_fits(f"; which was first is not decided: {len(view.candidates)} may have been", "suspect")
    _other_attempt(view, b)
    text = Builder(width, glyphs).add("  " + first_line(first.text or first.raw), "title").line()
    place = clip_left(clean(first.place, glyphs), max(10, width - 4), glyphs.ellipsis)
    where = Builder(width, glyphs).add("  " + place, "locked").line()
    if not tall:
        return [b.line(), text, where]
    step = "step unknown" if first.step is None else f"step {first.step}"
    kind = Builder(width, glyphs).add(f"  {first.title or first.kind}", "banner")
    kind.add_if_fits(f", severity {first.severity or 'unknown'}", "banner")
    if first.reason:
        kind.add_if_fits(f", {first.reason}", "dim")
    own = Builder(width, glyphs).add(f"  {who(first)}  {step}", "text")
    own.add_if_fits(f"  {day_and_clock(first.event_at)}" if first.event_at else "  without a time stamp", "dim")
    own.add_if_fits(f"  {_ago(first, now)}", "dim")
    lines = [b.line(), text, where, kind.line(), own.line()]
    if first.witnesses:
        lines.append(Builder(width, glyphs).add(f"  and {same(first)}", "text").line())
    if len(view.candidates) > 1 and view.why:
        lines.append(Builder(width, glyphs).add(f"  not decided: {view.why}", "suspect").line())
    lines.append(Builder(width, glyphs).add("  state  ", "head").add(state, "text").line())
    lines += files(view.files, width, glyphs)
    others = [c for c in view.candidates if c.key != first.key]
    for other in others[:_CANDIDATES]:
        line = Builder(width, glyphs).add("  or ", "suspect").add(f"{who(other)}  ", "text")
        lines.append(line.add(other.place, "dim").line())
    if len(others) > _CANDIDATES:
        lines.append(
            Builder(width, glyphs).add(f"  or one of {some(len(others) - _CANDIDATES, 'other')}", "suspect").line()
        )
    return lines


def size(octets: int | None) -> str:
    """A size of a file: 512 B, 1.5 MiB, 12 GiB; or the words size unknown."""
    if octets is None:
        return "size unknown"
    for unit, one in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if octets >= one:
            return f"{octets / one:.3g} {unit}"
    return f"{octets} B"


def files(found: Sequence[FaultFile], width: int, glyphs: Glyphs) -> list[Line]:
    """What the faults left beside: kind, size and path of the first two, and how many more there are."""
    lines = []
    for file in found[:_FILES]:
        b = Builder(width, glyphs).add("  file   ", "head")
        b.add(
            f"{str(file.kind).replace('_', ' ')}, {size(file.bytes_size)}{', gone' if file.present is False else ''}  ",
            "text",
        )
        lines.append(b.add(clip_left(clean(file.path, glyphs), max(10, b.room), glyphs.ellipsis), "key").line())
    if len(found) > _FILES:
        more = some(len(found) - _FILES, "more file", "more files")
        lines.append(Builder(width, glyphs).add(f"         and {more}; y copies all their paths", "dim").line())
    return lines


def same(fault: Fault) -> str:
    """How many other processes say what this first line says."""
    return some(fault.witnesses, "other process says the same", "other processes say the same")


def _other_attempt(view: FaultsView, b: Builder) -> Builder:
    """An older attempt is no answer to whether the run is locked: says so where its newest one is."""
    if view.run.locked and view.attempt != view.run.attempt:
        b.add_if_fits(f"; attempt {view.run.attempt} is locked", "locked")
    return b


def _ago(fault: Fault, now: datetime) -> str:
    ago = age(fault.event_at or fault.observed_at, now)
    return ago if ago in {"now", "unknown"} else f"{ago} ago"


def after(fault: Fault, first: Fault | None) -> str:
    """How long after the first fault, by the lines' own stamps: +0.412 s; the word unknown without both."""
    if first is None or fault.event_at is None or first.event_at is None:
        return "unknown"
    seconds = (fault.event_at - first.event_at).total_seconds()
    return f"{seconds:+.3f} s" if abs(seconds) < 1000 else f"{seconds:+.0f} s"


def cascade_row(
    fault: Fault, first: Fault | None, width: int, glyphs: Glyphs, *, selected: bool, folded: int = 0
) -> Line:  # fmt: skip
    """The first line of one rank; `folded`: so many ranks below it say the same, and are not listed."""
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(after(fault, first), 11, "text", right=True)
    b.cell("rank ?" if fault.rank is None else f"rank {fault.rank}", 9, "title")
    if width >= 70:
        b.cell(fault.host or "unknown", 12, "dim")
    word, tone = verdict(fault, glyphs)
    if width >= 60:
        b.cell(word, 12, tone)
    if folded:
        said = f"+{some(folded, 'rank says', 'ranks say')} the same  "
        b.add(said if len(said) + 8 <= b.room else f"+{count(folded)} same  ", "title")
    b.cell(fault.kind, 26 if width >= 70 else 18, "text")
    return b.add(first_line(fault.text or fault.raw), "dim").line()


def fault_line(
    fault: Fault, copies: int, now: datetime, width: int, glyphs: Glyphs, *, selected: bool, copy: bool = False,
    witnesses: int = 0,
) -> Line:  # fmt: skip
    """One fault: verdict, severity, kind, where in the run, and why it does what it does.

    `copies`, `witnesses`: so many copies of it, and so many other processes that say the same. `copy`: it is itself one
    of them, under the line above.
    """
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    if copy and fault.witness_of is not None:
        b.add("   the same on  ", "dim").cell("rank ?" if fault.rank is None else f"rank {fault.rank}", 9, "title")
        return b.add(fault.place, "dim").line()
    if copy:
        return b.add("   copy by a console  ", "dim").add(fault.place, "dim").line()
    word, tone = verdict(fault, glyphs)
    b.cell(word, 12, tone)
    if width >= 50:
        b.cell(fault.severity or "?", 3, "text")
    b.cell(fault.kind, 26 if width >= 90 else 20 if width >= 70 else 18, "text")
    if width >= 60:
        b.cell("step ?" if fault.step is None else f"step {fault.step}", 10)
        b.cell("rank ?" if fault.rank is None else f"rank {fault.rank}", 8)
    if width >= 110:
        b.cell("pid ?" if fault.pid is None else f"pid {fault.pid}", 12, "dim")
    if width >= 80:
        b.cell(age(fault.event_at or fault.observed_at, now), 7, "dim")
    if witnesses:
        said = f"+{some(witnesses, 'process says', 'processes say')} the same  "
        b.add(said if len(said) <= b.room else f"+{count(witnesses)} same  ", "title")
    if copies:
        b.add_if_fits(f"+{some(copies, 'copy', 'copies')}  ", "dim")
    if fault.reason:
        b.add(f"{fault.reason}  ", "stale")
    return b.add(first_line(fault.text or fault.raw), "dim").line()


def kinds_words(view: FaultsView) -> str:
    """How many there are of each kind: 3 nccl_watchdog_timeout, 1 cuda_illegal_memory_access."""
    return ", ".join(f"{count(n)} {kind}" for kind, n in view.kinds)


@dataclass(frozen=True, slots=True)
class Row:
    """A fault in a list: with how many copies and witnesses, or itself one of those of the line above."""

    fault: Fault
    copies: int = 0
    witnesses: int = 0
    copy: bool = False

    @property
    def key(self) -> Key:
        return self.fault.key


def unfolded(faults: Sequence[Fault], echoes: dict[Key, tuple[Fault, ...]], opened: set[Key]) -> list[Row]:
    """Copies, and lines of other processes that say the same, stand under their line where that is opened.

    A witness whose first line is not among `faults` stands for itself.
    """
    heads = {(f.store_id, f.rec_id): f.key for f in faults}
    witnesses: dict[Key, list[Fault]] = {}
    for fault in faults:
        head = heads.get((fault.incident_store_id or fault.store_id, fault.witness_of or -1))
        if head is not None and head != fault.key:
            witnesses.setdefault(head, []).append(fault)
    folded = {copy.key for copies in (*echoes.values(), *witnesses.values()) for copy in copies}
    rows: list[Row] = []
    for fault in faults:
        if fault.key in folded:
            continue
        below = [*witnesses.get(fault.key, ()), *echoes.get(fault.key, ())]
        copies = len(echoes.get(fault.key, ()))
        rows.append(Row(fault, copies, len(below) - copies))
        if fault.key in opened:
            rows += [Row(one, copy=True) for one in below]
    return rows
