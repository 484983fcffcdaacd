"""The frame of every screen: the status line above, the footer below, the badge of a list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tic_tui.age import age, clock
from tic_tui.bindings import Key, shown
from tic_tui.glyphs import Glyphs
from tic_tui.messages import Link
from tic_tui.render.text import Builder, Line, clean, clip_left, count, width_of


def link_text(link: Link, now: datetime) -> tuple[str, str]:
    """(words, tone) of the connection: pending, connected since, disconnected (retry in N s)."""
    if link.state == "pending":
        return "pending", "stale"
    if link.state == "connected":
        if link.kind == "file":
            return f"file, read {clock(link.since)}", "ok"
        return f"connected since {clock(link.since)}", "ok"
    since = "" if link.since is None else f" {age(link.since, now)}"
    return f"disconnected{since} (retry in {link.retry_s} s)", "gap"


def status_line(
    crumbs: Sequence[str], link: Link, now: datetime, width: int, glyphs: Glyphs, *, frozen_at: datetime | None = None
) -> Line:
    """Where the reader is, and what the screen hangs on."""
    said, tone = link_text(link, now)
    sign = {"connected": glyphs.moving if link.kind != "file" else glyphs.ended, "pending": glyphs.quiet}
    if width < 60:
        said = "file" if link.state == "connected" and link.kind == "file" else link.state
    right = f"{sign.get(link.state, glyphs.unreadable)} {said}"
    frozen = "" if frozen_at is None else f" FROZEN since {clock(frozen_at)} "
    b = Builder(width, glyphs)
    room = max(8, width - width_of(right) - width_of(frozen) - 5)
    words = list(crumbs)
    # Whole words go first, the least telling ones: the program's name, then what stands at the end.
    while len(words) > 1 and width_of(clean(_joined(words, glyphs), glyphs)) > room:
        words.pop(0 if words[0] == "tic" else -1)
    left = _joined(words, glyphs)
    b.add(" ")
    b.add(clip_left(clean(left, glyphs), room, glyphs.ellipsis), "title")
    if frozen:
        b.add("  ").add(frozen, "stale")
    return b.right(right + " ", tone).line()


def _joined(words: Sequence[str], glyphs: Glyphs) -> str:
    return f" {glyphs.ascending} ".join(words)


def footer(keys: Sequence[Key], notice: str, notice_tone: str, width: int, glyphs: Glyphs) -> Line:
    """At most seven keys, whole ones only; or, for a while, a notice."""
    b = Builder(width, glyphs).add(" ")
    if notice:
        return b.add(notice, notice_tone).line()
    keep = [k for k in keys if k.id in {"help", "quit"}]
    room = b.room - sum(_cells(k) for k in keep)
    chosen: list[Key] = []
    for key in keys[:7]:
        if key in keep:
            chosen.append(key)
        elif _cells(key) <= room:
            chosen.append(key)
            room -= _cells(key)
    for key in chosen:
        if _cells(key) <= b.room + 2:
            b.add(shown(key.keys[0]), "key").add(f" {key.label}", "dim").add("  ")
    return b.line()


def _cells(key: Key) -> int:
    return width_of(shown(key.keys[0])) + 1 + width_of(key.label) + 2


def badge(follows: bool, unseen: int, total: int, width: int, glyphs: Glyphs, *, focused: bool, below: bool) -> Line:
    """The head of the mismatch table: how many there are, and FOLLOW or PAUSED with what arrived since."""
    b = Builder(width, glyphs)
    b.add(f"{glyphs.cursor if focused else ' '}mismatches ", "key" if focused else "head")
    b.add(f"{count(total)} ", "text")
    if follows:
        b.add(" FOLLOW ", "ok")
    else:
        b.add(" PAUSED ", "stale")
        if unseen > 0:
            b.add(f" +{count(unseen)} new", "stale")
        elif below:
            b.add(" more below", "dim")
    return b.add(" ").fill(glyphs.rule, "dim").line()


def panel_head(title: str, extra: str, width: int, glyphs: Glyphs, *, focused: bool = False) -> Line:
    """The head of any other panel."""
    b = Builder(width, glyphs).add(f"{glyphs.cursor if focused else ' '}{title} ", "key" if focused else "head")
    return b.add(extra + " " if extra else "", "text").fill(glyphs.rule, "dim").line()
