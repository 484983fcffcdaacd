"""Lines of the ledger's rows: the table, the state of the chain, one row in full."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from tic_tui.age import day_and_clock
from tic_tui.evidence_model import Chain, Entry, LedgerView
from tic_tui.filters import Filter
from tic_tui.glyphs import Glyphs
from tic_tui.render.chrome import panel_head
from tic_tui.render.columns import STANDING_CELLS, Column, Columns
from tic_tui.render.comparison import field, listed
from tic_tui.render.text import Builder, Line, count, some

COLUMNS: Final = Columns(
    (
        Column("run", 14, 100, "run_id"),
        Column("row", 6, 48, "id", right=True),
        Column("kind", 9, 0, "kind"),
        Column("label", 8, 56, "label"),
        Column("of", 12, 110, "candidate"),
        Column("cell", 26, 130, "cell"),
        Column("who", 12, 150, "who"),
        Column("said", 19, 160, "host"),
    ),
    rest="what it says",
)


def standing(one: Entry, glyphs: Glyphs) -> tuple[str, str]:
    """(sign and word, tone): only what another row says of it. What is current, the gates say."""
    if not one.standing:
        return "-", "dim"
    sign = glyphs.wave if one.standing == "superseded" else glyphs.ended
    return f"{sign} {one.standing}", "stale"


def row(one: Entry, width: int, glyphs: Glyphs, *, selected: bool, all_runs: bool) -> Line:
    """One row."""
    texts = {
        "run": one.run_id or "-",
        "row": one.seq,
        "kind": one.kind,
        "label": one.label or "-",
        "of": (one.candidate_id or one.target or one.criterion_id)[:12] or "-",
        "cell": place(one) or "-",
        "who": one.who,
        "said": day_and_clock(one.said_at)[:19],
    }
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    for c in COLUMNS.fitting(width, all_runs=all_runs):
        b.cell(texts[c.name], c.cells, _shade(one, c.name), right=c.right)
    word, tone = standing(one, glyphs)
    b.cell(word, STANDING_CELLS, tone)
    shown = {c.name for c in COLUMNS.fitting(width, all_runs=all_runs)}
    return b.add(says(one, cell="cell" not in shown), "dim").line()


def says(one: Entry, *, cell: bool) -> str:
    """What a row says in short. `cell`: with its cell, which no column names."""
    where = " ".join(part for part in (place(one) if cell else "", _about(one)) if part)
    parts = [where, str(one.because or one.reason), *([] if one.kind == "evidence" else _summary(one))]
    return ": ".join(part for part in parts if part) or "-"


def _about(one: Entry) -> str:
    """The other row, criterion or candidate that it is about."""
    words = {"supersede": "of ", "plane": f"{one.plane}, of ", "exemption": "from ", "replaced": "by "}
    return f"{words[one.kind]}{one.target[:15]}" if one.kind in words else ""


def _summary(one: Entry) -> list[str]:
    """The name, metric and what else of its body tells in a few words."""
    try:
        said = json.loads(one.body)
    except (ValueError, RecursionError):
        return []
    if not isinstance(said, dict):
        return []
    held = [str(said[name]) for name in ("name", "metric", "reviewer") if said.get(name)]
    parts = said.get("parts")
    return [*held, ", ".join(map(str, parts))] if isinstance(parts, dict) and parts else held


def _shade(one: Entry, column: str) -> str:
    if column == "label" and not one.standing:
        return {"PASS": "ok", "FAIL": "gap"}.get(str(one.label), "suspect" if one.label else "dim")
    return "text" if column in {"kind", "run"} else "dim"


def place(one: Entry) -> str:
    """gate/cell, as far as it is said."""
    return "/".join(part for part in (str(one.gate), one.cell) if part)


def counts(view: LedgerView | None, filters: Iterable[Filter]) -> str:
    """ "40 rows, 2 superseded, 1 historical", or "matching 12 of 40" while a filter is on."""
    if view is None:
        return "reading ..."
    if view.demand.filters != tuple(filters):
        return "filtering ..."
    if any(f.on for f in filters):
        return f"matching {count(view.matching)} of {count(view.total)}"
    said = [count(view.total)]
    said += [
        f"{count(n)} {word}" for n, word in ((view.superseded, "superseded"), (view.historical, "historical")) if n
    ]
    return ", ".join(said)


def chain_line(chain: Chain, width: int, glyphs: Glyphs) -> Line:
    """Whether the chain holds, as far as it was walked, and what was not looked at."""
    b = Builder(width, glyphs)
    if chain.broken:
        b.add(f" {glyphs.locked} chain BROKEN ", "gap").add(f"at {chain.broken}", "text")
        return b.add_if_fits("; nothing behind it counts: tic-daemon verify", "stale").line()
    stores = f" of {chain.stores} stores" if chain.stores > 1 else ""
    if not chain.complete:
        return b.add(f" {glyphs.quiet} chain: walked {count(chain.walked)} rows{stores}, going on", "stale").line()
    if not chain.walked:
        return b.add(f" {glyphs.unknown} chain: no row yet", "dim").line()
    b.add(f" {glyphs.admissible} chain holds", "ok").add(f": {some(chain.walked, 'row')}{stores} hashed", "text")
    if chain.head:
        b.add_if_fits(f"; head {chain.head[:16]}", "dim")
    return b.add_if_fits("; files that rows name: tic-daemon verify", "dim").line()


def detail(one: Entry, width: int, glyphs: Glyphs) -> list[Line]:
    """All of a row, what it is about first."""
    word, tone = standing(one, glyphs)
    lines = [panel_head(f"row {one.seq}", str(one.kind), width, glyphs), *field("id", one.id, width, glyphs)]
    if one.standing:
        lines += field("standing", word, width, glyphs, tone) + field("because", one.because, width, glyphs)
    for name, value in (
        ("label", one.label), ("reason", one.reason), ("cell", place(one)), ("plane", one.plane), ("run", one.run_id),
        ("attempt", one.attempt), ("step", one.step), ("policy", one.policy), ("candidate", one.candidate_id),
        ("criterion", one.criterion_id), ("target", one.target), ("workload", one.workload),
        ("manifest", one.manifest_sha256), ("policy content", one.policy_content_id), ("receipt", one.receipt_sha256),
    ):  # fmt: skip
        if value not in (None, ""):
            lines += field(name, value, width, glyphs)
    lines += field("who", f"{one.who} on {one.host}", width, glyphs)
    lines += field("said at", day_and_clock(one.said_at), width, glyphs)
    lines += field("taken in", day_and_clock(one.observed_at), width, glyphs)
    lines += field("store", one.store_id, width, glyphs)
    lines += field("hash before", one.prev_hash or "none: the first row", width, glyphs)
    lines += field("own hash", one.row_hash, width, glyphs)
    for title, text in (("what else it says", str(one.body)), ("files that it names", str(one.artifacts))):
        told = _told(text)
        if told:
            lines += [Builder(width, glyphs).line(), panel_head(title, "", width, glyphs)]
            for name, value in told:
                lines += field(name, value, width, glyphs)
    return lines


def _told(text: str) -> list[tuple[str, str]]:
    """JSON as names and values, one level deep; what is no JSON as it stands."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return [("", text)] if text else []
    if isinstance(said, list):
        return [("", _text(item)) for item in said]
    if isinstance(said, dict):
        return [pair for name, value in said.items() for pair in _one(str(name), value)]
    return [("", _text(said))]


def _one(name: str, value: Any) -> list[tuple[str, str]]:
    if name == "text" and isinstance(value, str):  # a criterion's file: its lines
        return [(name if n == 0 else "", line or " ") for n, line in enumerate(value.splitlines())]
    if isinstance(value, dict):
        return [(name, f"{key} = {_text(item)}") for key, item in value.items()] or [(name, "{}")]
    return [(name, _text(value))]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def nothing(width: int, glyphs: Glyphs) -> list[Line]:
    """An empty ledger: what fills it."""
    steps = (
        "tic-daemon criterion freeze FILE, tic-daemon candidate declare RUN, tic-daemon baseline, tic-daemon case",
        "the daemon: a row for each judged comparison of a run whose candidate is declared",
    )
    head = Builder(width, glyphs).add("  the ledger is empty. What fills it:", "text").line()
    return [head, *listed(steps, width, glyphs)]
