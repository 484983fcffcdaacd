"""Declared pairs of arms that a run is in: the nine rules with the two values compared, medians and single pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tic_daemon.errors import UnknownRunError
from tic_daemon.record import pairs
from tic_daemon.report.model import Block, Bullets, Cell, Section, code, para, table, text, word
from tic_daemon.report.moment import Moment


def sections(moment: Moment, runs: Collection[str]) -> list[Section]:
    """A section for each pair with one of the runs in an arm; none if there is none."""
    if not moment.number("SELECT count(*) FROM pair_declarations"):
        return []
    try:
        found = pairs.of(moment)
    except UnknownRunError:
        return []
    return [_pair(pair) for pair in found if {*(pair["runs_a"] or ()), *(pair["runs_b"] or ())} & set(runs)]


def _pair(pair: Mapping[str, Any]) -> Section:
    arms = [(f"arm {arm}", _names(pair[f"runs_{arm}"])) for arm in ("a", "b")]
    lead: list[tuple[Cell, ...]] = [
        ("state", (word(pair["state"]), f": {pair['reason']}" if pair["reason"] else "")),
        ("baseline", code(pair["baseline"]) if pair["baseline"] else "none named"),
        *arms,
        ("left out", _names(pair["excluded"])),
        ("switch", _names(pair["switch"])),
    ]
    rules = [
        (
            str(rule["number"]),
            rule["title"],
            word(rule["state"]),
            code(rule["value_a"]),
            code(rule["value_b"]),
            text(rule["why"]),
        )
        for rule in pair["rules"]
    ]
    blocks: list[Block] = [table("of it|says", lead), table("|rule|state|a|b|why not", rules)]
    if pair["confounders"]:
        blocks += [
            para("Fields that differ besides the switch:"),
            Bullets(tuple((code(one),) for one in pair["confounders"])),
        ]
    values = [
        (
            row["cell"],
            code(row["key"]),
            code(row["run_a"]),
            code(row["run_b"]),
            text(row["value_a"]),
            text(row["value_b"]),
            text(row["difference"]),
            text(row["ratio"]),
            f"{text(row['median_a'])} and {text(row['median_b'])}",
            (word(row["state"]), f": {row['reason']}" if row["reason"] else ""),
        )
        for row in pair["values"]
    ]
    if values:
        blocks.append(table("cell|number|run of a|run of b|a|b|b - a|b / a|medians of a and b|state", values))
    return Section(f"Pair {pair['pair']}", tuple(blocks))


def _names(names: Collection[str] | None) -> Cell:
    if not names:
        return "none"
    return tuple(part for name in names for part in (code(name), ", "))[:-1]
