"""Everything about one record or fault: its fields, and the bytes it came from with their neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from tic_tui.age import clock
from tic_tui.execution import Finding, Item, PhaseChange, StateChange
from tic_tui.glyphs import Glyphs
from tic_tui.model import Fault, Mismatch
from tic_tui.neighbours import FileLine, Neighbours, Place
from tic_tui.plural import plural
from tic_tui.render import findings, lifecycle
from tic_tui.render.records import standing
from tic_tui.render.runs import number_tone
from tic_tui.render.text import Builder, Line, clean, clip_left, number

AROUND: Final = 6  # lines of the file on each side, unless asked for more
_NUMBER: Final = 8


def place_of(item: Item) -> Place:
    """Where its bytes are."""
    if isinstance(item, Finding | PhaseChange | StateChange):
        host, path = str(item.host or ""), str(item.path or "")
        return Place(path, host, item.byte_offset, item.byte_length, item.line_no, "", unkept=True)
    raw = text_of(item)
    return Place(str(item.path or ""), str(item.host or ""), item.byte_offset, item.byte_length, item.line_no, raw)


def text_of(item: Item) -> str:
    """What it says: its bytes where the store keeps them, else in words."""
    if isinstance(item, Mismatch):
        return item.raw
    if isinstance(item, Fault):
        return item.raw or str(item.text)
    if isinstance(item, Finding):
        return str(item.detail)
    if isinstance(item, PhaseChange):
        return lifecycle.words(item)
    return f"{item.field} {item.claimed if item.observed is None else item.observed}"


def detail(item: Item, found: Neighbours | None, around: int, width: int, glyphs: Glyphs) -> list[Line]:
    """What matters first, then the bytes, then all other fields. `found` None: the file is being read."""
    if isinstance(item, Finding):
        head, rest = _finding(item, glyphs)
    elif isinstance(item, PhaseChange | StateChange):
        head, rest = _phase(item, glyphs) if isinstance(item, PhaseChange) else _state(item)
    else:
        head, rest = _mismatch(item, glyphs) if isinstance(item, Mismatch) else _fault(item)
    blank = Builder(width, glyphs).line()
    bytes_ = [blank, *bytes_lines(item, found, around, width, glyphs), blank]
    return _fields(head, width, glyphs) + bytes_ + _fields(rest, width, glyphs)


_Fields = list[tuple[str, object, str]]


def _mismatch(record: Mismatch, glyphs: Glyphs) -> tuple[_Fields, _Fields]:
    word, tone = standing(record, glyphs)
    head: _Fields = [
        ("standing", word, tone),
        ("because", record.not_evidence_because or ("-" if record.is_evidence else "unknown"), tone),
        ("reason", record.reason or "-", "text"),
        ("place", record.place, "key"),
        ("offset", f"{record.byte_offset}, {record.byte_length} bytes", "text"),
        ("value", number(record.value), number_tone(record)),
        ("self_repeat", number(record.self_repeat), "text"),
        ("noise_ratio", "floor 0, no ratio" if record.self_repeat == 0 else number(record.noise_ratio), "text"),
    ]
    names = (
        "metric", "reference", "run_id", "attempt", "step", "step_carried", "policy", "input", "phase", "rank",
        "repeat", "scope", "intervention", "classification", "report", "parse_state", "marked",
    )  # fmt: skip
    rest: _Fields = [(name, getattr(record, name), "text") for name in names]
    rest += [(name, _from(record, name), "text") for name in _STATE]
    rest += [(name, getattr(record, name), "text") for name in ("state_source", "state_note", "host", "pid", "rec_id")]
    return head, [*rest, *_times(record)]


_STATE: Final = ("graph_mode", "step_kind", "prefix_cache", "prefix_hit_rate", "weight_phase")


def _from(record: Mismatch, name: str) -> str:
    """A value of its execution state with where it is from, or why it is not known."""
    value = str(getattr(record, name) or "unknown")
    if value != "unknown":
        by_time = name in str(record.state_by_time or "").split(", ")
        return f"{value}  (by time, from other processes of the rollout)" if by_time else f"{value}  (own log)"
    notes = str(record.state_note or "").split("; ")
    why = next((note.removeprefix(f"{name}: ") for note in notes if note.startswith(f"{name}: ")), "")
    return f"{value}  ({why})" if why else value


def _fault(fault: Fault) -> tuple[_Fields, _Fields]:
    locks = bool(fault.locks) and fault.verdict == "confirmed"
    head: _Fields = [
        ("effect", "locks the attempt" if locks else "does not lock", "locked" if locks else "text"),
        ("what", fault.title or fault.kind, "text"),
        ("reason", fault.reason or "-", "text"),
        ("text", fault.text, "text"),
        ("place", fault.place, "key"),
        ("offset", f"{fault.byte_offset}, {fault.byte_length} bytes", "text"),
    ]
    names = (
        "kind", "severity", "verdict", "rank", "pid", "host", "code", "step", "run_id", "attempt", "echo_of", "rec_id",
    )  # fmt: skip
    return head, [*((name, getattr(fault, name), "text") for name in names), *_times(fault)]


def _finding(finding: Finding, glyphs: Glyphs) -> tuple[_Fields, _Fields]:
    head: _Fields = [
        ("finding", f"{glyphs.suspect} {str(finding.kind).replace('_', ' ')}", "suspect"),
        ("what", finding.detail, "text"),
        ("touches", findings.steps(finding), "text"),
        ("from", _time(finding.from_at), "text"),
        ("until", "not seen to end" if finding.until_at is None else _time(finding.until_at), "text"),
        ("place", finding.place, "key"),
        ("offset", f"{finding.byte_offset}, {finding.byte_length} bytes", "text"),
    ]
    names = (
        "kind",
        "severity",
        "role",
        "rank",
        "pid",
        "host",
        "first_step",
        "last_step",
        "run_id",
        "attempt",
        "rec_id",
    )
    rest: _Fields = [(name, getattr(finding, name), "text") for name in names]
    return head, [*rest, ("observed_at", _time(finding.observed_at), "text")]


def _phase(change: PhaseChange, glyphs: Glyphs) -> tuple[_Fields, _Fields]:
    said = lifecycle.words(change)
    head: _Fields = [
        ("weights", said if change.legal else f"{glyphs.suspect} {said}", "text" if change.legal else "suspect"),
        ("wrong from here", change.wrong or "-", "text" if change.legal else "suspect"),
        ("KV cache", "kept on purpose, by its policy" if change.keeps_kv else "-", "text"),
        ("took", "-" if change.duration_s is None else f"{change.duration_s:.3g} s", "text"),
        ("place", change.place, "key"),
        ("offset", f"{change.byte_offset}, {change.byte_length} bytes", "text"),
    ]
    names = ("track", "phase", "level", "version", "role", "rank", "pid", "host", "run_id", "attempt", "rec_id")
    return head, [*((name, getattr(change, name) or "-", "text") for name in names), *_times(change)]


def _state(change: StateChange) -> tuple[_Fields, _Fields]:
    claims = change.observed is None
    head: _Fields = [
        ("state", f"{change.field} {change.claimed if claims else change.observed}", "text"),
        (
            "shown by",
            "a configuration: claimed, not observed" if claims else "what the process printed of itself",
            "text",
        ),
        ("before", change.before or "nothing told", "text"),
        ("place", change.place, "key"),
        ("offset", f"{change.byte_offset}, {change.byte_length} bytes", "text"),
    ]
    names = ("rule", "step", "role", "rank", "pid", "host", "run_id", "attempt", "rec_id")
    return head, [*((name, getattr(change, name), "text") for name in names), *_times(change)]


def _times(item: Mismatch | Fault | PhaseChange | StateChange) -> _Fields:
    return [("event_at", _time(item.event_at), "text"), ("observed_at", _time(item.observed_at), "text")]


def _time(at: datetime | None) -> str:
    return "unknown" if at is None else f"{at:%Y-%m-%d} {clock(at)}"


def _fields(fields: Iterable[tuple[str, object, str]], width: int, glyphs: Glyphs) -> list[Line]:
    lines = []
    for name, value, tone in fields:
        text = "unknown" if value is None or value == "" else value
        shade = "dim" if text == "unknown" else tone
        b = Builder(width, glyphs).cell(name, 16, "head")
        if name == "place":  # its end, the file's name and the line, tells the most
            text = clip_left(clean(text, glyphs), b.room, glyphs.ellipsis)
        lines.append(b.add(text, shade).line())
    return lines


def bytes_lines(
    item: Item, found: Neighbours | None, around: int, width: int, glyphs: Glyphs
) -> list[Line]:  # fmt: skip
    """The record's bytes between up to `around` lines on each side, under a line that says where they are from."""
    b = Builder(width, glyphs).add("bytes", "head")
    if found is None:
        b.add(", reading the file ...", "dim")
        rows: Sequence[FileLine] = [FileLine(None, text, True) for text in place_of(item).raw.split("\n") if text]
        return [b.line(), *neighbour_lines(rows, width, glyphs)]
    if found.from_file and found.place.unkept:
        b.add(" as the file has them now: the store keeps none of them", "stale")
    elif found.from_file:
        moved = "" if found.path == found.place.path else f" {found.path}"
        b.add(f" from the file{moved}", "ok")
    else:
        b.add(f" as they were kept: {found.why}", "stale")
    mine = [n for n, row in enumerate(found.lines) if row.mine]
    first, last = (mine[0], mine[-1]) if mine else (0, 0)
    return [b.line(), *neighbour_lines(found.lines[max(0, first - around) : last + 1 + around], width, glyphs)]


def neighbour_lines(rows: Iterable[FileLine], width: int, glyphs: Glyphs) -> list[Line]:
    """Lines of a file with their numbers; the record's own are marked."""
    lines = []
    for row in rows:
        b = Builder(width, glyphs).add(glyphs.cursor if row.mine else " ", "key")
        b.cell("" if row.number is None else row.number, _NUMBER, "dim", right=True)
        b.add(row.text, "text" if row.mine else "dim")
        if row.hidden:
            b.add(f" ({row.hidden} {plural(row.hidden, 'byte')} more)", "stale")
        lines.append(b.line())
    return lines
