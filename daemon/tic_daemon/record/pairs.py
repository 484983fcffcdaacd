"""Declared pairs of arms as data and as text: rules, cells, single pairs, and problems pair by pair.

    of(reader, name)         rows of the views, by pair; `name` "": all
    scored(pair)             files of scored problems, read here and paired by compare/scores.py
    text(pair, scores)

Text from outside is not made harmless here: who prints it does.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tic_daemon.compare import score_report, scores
from tic_daemon.errors import CompareError, UnknownRunError
from tic_daemon.output import joined
from tic_daemon.record.asking import Row, ask

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

_PAIRS: Final = (
    "SELECT pair, baseline, baseline_state, plant, state, reason, met, unmet, unknown, runs_a, runs_b, excluded,"
    " switch, confounders, scores_a, scores_b, path FROM pairs ORDER BY pair"
)
_RULES: Final = "SELECT pair, number, rule, title, state, value_a, value_b, why FROM pair_rules ORDER BY pair, number"
_VALUES: Final = (
    "SELECT pair, cell, key, position, run_a, run_b, value_a, value_b, difference, ratio, pairs, declared, median_a,"
    " median_b, median_difference, median_ratio, state, reason FROM pair_values ORDER BY pair, cell, key, position"
)
COMPARABLE: Final = "comparable"


def of(reader: Reader, name: str = "") -> list[Row]:
    """Each pair with its rules and values.

    Raises:
        UnknownRunError: there is none of this name, or none at all. StoreError, ConnectError, SqlError: no answer.
    """
    found = ask(reader, _PAIRS)
    chosen = [pair for pair in found if not name or pair["pair"] == name]
    if not chosen:
        known = ", ".join(str(pair["pair"]) for pair in found) or "none is declared"
        raise UnknownRunError(
            f"no pair {name!r}" if name else "no pair of arms is declared",
            f"known: {known}" if name else "declare one with [[pair]] in tic.toml, or in a manifest",
        )
    rules, values = ask(reader, _RULES), ask(reader, _VALUES)
    for pair in chosen:
        pair["rules"] = [row for row in rules if row["pair"] == pair["pair"]]
        pair["values"] = [row for row in values if row["pair"] == pair["pair"]]
    return chosen


def scored(pair: Mapping[str, Any]) -> list[Row]:
    """Files of scored problems, the first of arm a with the first of arm b, and so on. What cannot be read says why."""
    base = str(pair["path"]).rpartition("/")[0]
    found: list[Row] = []
    for one, other in zip(pair["scores_a"], pair["scores_b"], strict=False):
        row: Row = {"file_a": one, "file_b": other, "problem": "", "comparison": None}
        try:
            row["comparison"] = dataclasses.asdict(scores.compare_scores(_beside(base, one), _beside(base, other)))
        except (CompareError, OSError, ValueError) as error:  # a name may hold what no file's can
            row["problem"] = str(error)
        found.append(row)
    left = len(pair["scores_a"]) - len(pair["scores_b"])
    if left:
        arm = "a" if left > 0 else "b"
        why = f"{abs(left)} files of arm {arm} have no partner"
        row = {"file_a": "", "file_b": "", "problem": why, "comparison": None}
        found.append(row)
    return found


def _beside(base: str, name: str) -> Path:
    """A file below the directory of the declaration: a manifest may be anybody's."""
    path = os.path.realpath(os.path.join(base, name))  # noqa: PTH118  names need not be valid text
    if not path.startswith(f"{os.path.realpath(base).rstrip('/')}/"):
        raise CompareError(f"{name} leads out of {base}, and is not read", "name a file below the declaration")
    return Path(path)


def text(pair: Mapping[str, Any], compared: Sequence[Row]) -> str:
    """What a person reads of one pair."""
    reviewed = f" ({pair['baseline_state']})" if pair["baseline"] else ""
    lines = [f"pair {pair['pair']}: {pair['state']}", f"  baseline {pair['baseline'] or 'none named'}{reviewed}"]
    lines += [f"  planted error: {pair['plant']}"] if pair["plant"] else []
    lines += [f"  arm {arm}: {', '.join(pair[f'runs_{arm}']) or 'no run'}" for arm in ("a", "b")]
    lines += [f"  excluded {entry}" for entry in pair["excluded"]]
    lines.append(f"  switch: {', '.join(pair['switch']) or 'none declared'}")
    for rule in pair["rules"]:
        lines.append(
            f"  {rule['number']} {rule['title']}: {rule['state'].upper() if rule['state'] != 'met' else 'met'}"
        )
        if rule["why"]:
            lines.append(f"      {rule['why']}")
        lines += [f"      a: {rule['value_a']}", f"      b: {rule['value_b']}"]
    lines += [f"  confounder {field}" for field in pair["confounders"]]
    lines += _cells(pair["values"])
    for row in compared:
        lines.append(f"  problems of {row['file_a']} and {row['file_b']}")
        if row["problem"]:
            lines.append(f"      {row['problem']}")
            continue
        fields = {field.name for field in dataclasses.fields(scores.ScoreComparison)}
        told = scores.ScoreComparison(**{key: value for key, value in row["comparison"].items() if key in fields})
        lines += [f"      {line}" for line in score_report.text(told, row["file_a"], row["file_b"]).split("\n")]
    return joined(lines)


def _cells(values: Sequence[Row]) -> list[str]:
    lines: list[str] = []
    for cell, key in dict.fromkeys((row["cell"], row["key"]) for row in values):
        rows = [row for row in values if (row["cell"], row["key"]) == (cell, key)]
        first = rows[0]
        if cell in ("performance", "quality"):
            why = f" ({first['reason']})" if first["reason"] else ""
            lines.append(f"  {cell} {key}: {first['state']}{why}")
            lines.append(
                f"      medians of {first['pairs']} pairs: {_number(first['median_a'])} and"
                f" {_number(first['median_b'])}, difference {_number(first['median_difference'])},"
                f" ratio {_number(first['median_ratio'])}"
            )
        else:
            lines.append(f"  {cell} {key}")
        lines += [
            f"      {row['run_a'] or 'no run'} and {row['run_b'] or 'no run'}: {_number(row['value_a'])} and"
            f" {_number(row['value_b'])}"
            for row in rows
        ]
    return lines


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"
