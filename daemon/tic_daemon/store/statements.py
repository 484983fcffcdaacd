"""SQL that says what follows from the events: files of statements, each of which fills a temporary table `t_<name>`,
and how `d_<name>`, which is kept, is brought to it with validity. Who runs them: derive.py and reconcile.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.store import sqltext

if TYPE_CHECKING:
    import duckdb

DERIVE = Path(__file__).with_name("schema") / "derive"

NOTHING = (0, 0)
"""Count and print of a relation without rows, see `store_kept`.

The print is a sum of hashes of hashes. DuckDB's hash of a row is linear in its last column: the exclusive or of two
rows stays as it was when both get the same other value there. Whatever is told by such a print hashes twice."""

_NEXT = "CREATE OR REPLACE TEMP"
_STATEMENT = re.compile(rf"{_NEXT} (TABLE|VIEW) t_(\w+) AS\b.*?;\s*(?={_NEXT}|\Z)", re.DOTALL)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One derived relation: its name, the SQL that fills `t_<name>`, whether it is a table, and kept as `d_<name>`."""

    name: str
    sql: str
    table: bool
    kept: bool


def load(path: Path) -> tuple[Statement, ...]:
    """The statements of one file, in order. A TEMP VIEW is a help for those after it and is not kept; so is a table
    whose name ends in `_`."""
    text = _COMMENT.sub("", sqltext.read(path))
    return tuple(
        Statement(match[2], match[0].strip(), match[1] == "TABLE", match[1] == "TABLE" and not match[2].endswith("_"))
        for match in _STATEMENT.finditer(text)
    )


def kept_prints(con: duckdb.DuckDBPyConnection, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Count and print of what `d_<name>` says now, by name; as `store_kept` compares them."""
    rows = con.execute(
        " UNION ALL ".join(
            f"SELECT '{name}', count(*), coalesce(sum(hash(row_hash)), 0) FROM d_{name} WHERE valid_to IS NULL"  # noqa: S608
            for name in names
        )
    ).fetchall()
    return {name: (count, print_) for name, count, print_ in rows}


def store_kept(
    con: duckdb.DuckDBPyConnection, names: Sequence[str], known: dict[str, tuple[int, int]], now: datetime | None
) -> int:
    """Brings `d_<name>` to what `t_<name>` holds, and returns how many tables that changed.

    Args:
        known: count and print of each as it was stored last; brought up to date.
        now: None: valid since ever.
    """
    changes = 0
    prints = con.execute(
        " UNION ALL ".join(
            f"SELECT '{name}', count(*), coalesce(sum(hash(hash(t))), 0) FROM t_{name} t"  # noqa: S608
            for name in names
        )
    ).fetchall()
    for name, count, print_ in prints:
        if known.get(name) == (count, print_):
            continue
        changes += 1
        con.execute(
            f"UPDATE d_{name} SET valid_to = ? WHERE valid_to IS NULL "  # noqa: S608
            f"AND row_hash NOT IN (SELECT hash(t) FROM t_{name} t)",
            [now],
        )
        con.execute(
            f"INSERT INTO d_{name} SELECT t.*, hash(t), coalesce(?::TIMESTAMP, '-infinity'::TIMESTAMP), NULL "  # noqa: S608
            f"FROM t_{name} t WHERE hash(t) NOT IN (SELECT row_hash FROM d_{name} WHERE valid_to IS NULL)",
            [now],
        )
        known[name] = (count, print_)
    return changes
