"""The frame of every screen: the status line above, the footer below, the badge of a list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tic_tui.age import age, clock
from tic_tui.bindings import Key, shown
from tic_tui.glyphs import Glyphs
from tic_tui.messages import Link
from tic_tui.model import Search
from tic_tui.render.text import Builder, Line, clean, clip_left, count, width_of


def link_text(link: Link, now: datetime) -> tuple[str, str]:
    """(words, tone) of the connection: pending, connected since, disconnected (retry in N s), a snapshot's age."""
    if link.state == "pending":
        return "pending", "stale"
    if link.state == "disconnected":
        since = "" if link.since is None else f" {age(link.since, now)}"
        return f"disconnected{since} (retry in {link.retry_s} s)", "gap"
    if link.kind == "file":
        return f"no daemon, file read {clock(link.since)}", "stale"
    if link.kind == "snapshot":
        old = age(link.data_at, now)
        return {"now": "snapshot just made", "unknown": "snapshot of unknown age"}.get(
            old, f"snapshot {old} old"
        ), "stale"
    if link.kind == "several":
        behind = sum(_badness(one) > 1 for one in link.stores)
        return f"{len(link.stores)} stores" + (f", {behind} behind" if behind else ""), "stale" if behind else "ok"
    return f"connected since {clock(link.since)}", "ok"


def _badness(link: Link) -> int:
    """0 live, 1 a file that nobody writes, 2 a snapshot, 3 not read yet, 4 not reached."""
    if link.state == "connected":
        return {"file": 1, "snapshot": 2}.get(link.kind, 0)
    return 3 if link.state == "pending" else 4


def worst(link: Link) -> Link:
    """The store that is worst to rely on: of several, the one not reached, else the oldest snapshot; or itself."""
    if link.kind != "several" or not link.stores:
        return link
    return max(link.stores, key=lambda one: (_badness(one), -(one.data_at.timestamp() if one.data_at else 0.0)))


def hint_of(link: Link) -> str:
    """What a person can do about the connection, to be copied; "" if nothing."""
    return str(worst(link).hint or link.hint)


def trouble_line(link: Link, now: datetime, key: str, width: int, glyphs: Glyphs) -> Line | None:
    """What is wrong with the connection and what helps; None while nothing is."""
    bad = worst(link)
    if not (bad.detail or bad.hint) or (_badness(bad) < 2 and link.state == "connected"):
        return None
    said, _ = link_text(bad, now)
    said = "disconnected" if bad.state == "disconnected" else said
    b = Builder(width, glyphs).add(f" {glyphs.unreadable} ", "gap")
    if link.kind == "several":
        b.add(f"{clip_left(clean(bad.target or 'a store', glyphs), max(12, width // 4), glyphs.ellipsis)}: ", "title")
    text = f"{said}: {bad.detail}" if bad.detail else said
    hint = hint_of(link)
    offer = f"; {hint} ({key} copies it)" if hint else ""
    if width_of(clean(text + offer, glyphs)) > b.room and hint:  # what helps goes before what is wrong
        text, offer = said, f"; {hint}"
    return b.add(text, "stale").add(offer, "text").line()


def status_line(crumbs: Sequence[str], link: Link, now: datetime, width: int, glyphs: Glyphs) -> Line:
    """Where the reader is, and what the screen hangs on."""
    said, tone = link_text(link, now)
    if width < 60:
        short = {"file": "no daemon", "snapshot": said, "several": said}
        said = short.get(link.kind, link.state) if link.state == "connected" else link.state
    right = f"{_sign(link, glyphs)} {said}"
    b = Builder(width, glyphs)
    room = max(8, width - width_of(right) - 5)
    words = list(crumbs)
    # Whole words go first, the least telling ones: the program's name, then what stands at the end.
    while len(words) > 1 and width_of(clean(_joined(words, glyphs), glyphs)) > room:
        words.pop(0 if words[0] == "tic" else -1)
    left = _joined(words, glyphs)
    b.add(" ")
    b.add(clip_left(clean(left, glyphs), room, glyphs.ellipsis), "title")
    return b.right(right + " ", tone).line()


def _sign(link: Link, glyphs: Glyphs) -> str:
    return (glyphs.moving, glyphs.ended, glyphs.quiet, glyphs.quiet, glyphs.unreadable)[_badness(worst(link))]


def frozen_line(since: datetime, waits: bool, key: str, width: int, glyphs: Glyphs) -> Line:
    """The banner of a held picture."""
    b = Builder(width, glyphs).add(f" {glyphs.quiet} FROZEN since {clock(since)}", "frozen")
    b.add_if_fits(", newer data waits" if waits else ", nothing newer yet", "frozen")
    b.add_if_fits(f"; {key} to go on", "frozen")
    return b.fill(" ", "frozen").line()


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


def badge(
    counts: str, follows: bool, unseen: int, width: int, glyphs: Glyphs, *, focused: bool, below: bool, key: str,
    what: str = "mismatches",
) -> Line:  # fmt: skip
    """The head of a table that grows: how many there are, and FOLLOW or PAUSED with what arrived since.

    `key`: the one that follows again. `what`: the table holds.
    """
    b = Builder(width, glyphs)
    b.add(f"{glyphs.cursor if focused else ' '}{what} ", "key" if focused else "head")
    state, tone = (" FOLLOW ", "ok") if follows else (" PAUSED ", "stale")
    if width_of(counts) + 1 + width_of(state) <= b.room:  # the badge goes before the counts
        b.add(f"{counts} ", "text")
    b.add(state, tone)
    if not follows and unseen > 0:
        b.add_if_fits(f" +{count(unseen)} new ", "stale")
    elif not follows and below:
        b.add_if_fits(" more below ", "dim")
    if not follows:
        b.add_if_fits(f" {key} follows ", "dim")
    return b.add(" ").fill(glyphs.rule, "dim").line()


def counting(search: Search) -> str:
    """That counts are not complete yet, and how far back they go; "" when they are."""
    if search.complete:
        return ""
    if search.back_to_step is not None:
        return f"counting ... back to step {search.back_to_step}"
    return "counting ..." if search.back_to is None else f"counting ... back to {search.back_to:%m-%d %H:%M:%S}Z"


def panel_head(title: str, extra: str, width: int, glyphs: Glyphs, *, focused: bool = False) -> Line:
    """The head of any other panel."""
    b = Builder(width, glyphs).add(f"{glyphs.cursor if focused else ' '}{title} ", "key" if focused else "head")
    return b.add(extra + " " if extra else "", "text").fill(glyphs.rule, "dim").line()
