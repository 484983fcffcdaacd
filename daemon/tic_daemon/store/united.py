"""The public views of several stores as one: for SQL that people write, which names views and knows of no stores.

Each view that a statement mentions is read whole from every store (`part_<view>`, with the column `part_store`), and
the view itself is what schema/union/<view>.sql makes of that; without such a file, the rows of all stores. Files whose
names begin with i_ are helps for others. Then the statement runs on these views, in a DuckDB in memory.

    plan = plan_for(mentioned)        what is to be read, and the views to be made, in order
    make(cursor, plan, parts)         the views, on a cursor of gather.Local
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.store import gather, migrate, sqltext
from tic_daemon.store.gather import STORE_COLUMN, Part, identifier

if TYPE_CHECKING:
    import duckdb

UNION = Path(__file__).with_name("schema") / "union"
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_NAMED = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is asked of each store for one part: the statement, and the public view whose columns it gives."""

    sql: str
    view: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Parts to read from each store by name, and (name, SELECT) of the views to make, each after those it reads."""

    read: Mapping[str, Reading]
    make: tuple[tuple[str, str], ...]


def plan_for(mentioned: Iterable[str]) -> Plan:
    """What it takes to answer a statement that mentions these tables. Names that are no public view are left out."""
    known = public_views()
    read: dict[str, Reading] = {}
    made: dict[str, str] = {}

    def add(view: str) -> None:
        if view in made:
            return
        sql = merge_of(view)
        for name in _NAMED.findall(sql):
            if name.startswith("part_"):
                read[name.removeprefix("part_")] = _reading(name.removeprefix("part_"))
            elif name in known or (UNION / f"{name}.sql").exists():
                add(name)
        made[view] = sql

    for view in sorted(known.keys() & set(mentioned)):
        add(view)
    return Plan(read, tuple(made.items()))


def _reading(part: str) -> Reading:
    """How a part is read: the view of its name, whole, or what part_<name>.sql says; its first line names the view."""
    path = UNION / f"part_{part}.sql"
    if not path.exists():
        return Reading(f"SELECT * FROM {part}", part)  # noqa: S608
    text = path.read_text(encoding="utf-8")
    return Reading(_COMMENT.sub("", text).strip(), text.removeprefix("--").partition(":")[0].strip())


def merge_of(view: str) -> str:
    """The SELECT that makes a public view of `part_<view>`, and of other united views."""
    path = UNION / f"{view}.sql"
    if path.exists():
        return _COMMENT.sub("", sqltext.read(path)).strip()
    return f"SELECT * EXCLUDE ({STORE_COLUMN}) FROM part_{view}"  # noqa: S608


def make(cursor: duckdb.DuckDBPyConnection, plan: Plan, parts: Mapping[str, Sequence[Part]]) -> None:
    """Lays the parts out and makes the views. A store of an older program lacks columns: they are NULL there."""
    columns = public_views()
    for part, reading in plan.read.items():
        kinds = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns[reading.view])
        cursor.execute(f"CREATE TEMP TABLE empty_{part} ({kinds}, {STORE_COLUMN} VARCHAR)")
        gather.lay_out(cursor, f"part_{part}", parts.get(part, ()), named=True, empty=f"empty_{part}")
    for name, sql in plan.make:
        cursor.execute(f"CREATE TEMP VIEW {identifier(name)} AS {sql}")


def public_views() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Columns and types of this program's public views. Takes a tenth of a second, once."""
    return _public_views(migrate.SCHEMA)


@functools.cache
def _public_views(schema: Path) -> Mapping[str, tuple[tuple[str, str], ...]]:
    import duckdb  # noqa: PLC0415  the screen paints before this

    from tic_daemon.store.derive import Derived  # noqa: PLC0415

    now = datetime(2000, 1, 1)
    with duckdb.connect(":memory:", config={"threads": 1}) as con:
        migrate.migrate(con, "0" * 12, "", "", now, schema)
        Derived().rebuild(con, now)
        migrate.public_views(con, schema)
        found: dict[str, list[tuple[str, str]]] = {}
        rows = con.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
            " AND table_name IN (SELECT view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary)"
            " ORDER BY column_index"
        ).fetchall()
    for view, column, kind in rows:
        if not view.startswith(("i_", "b_")):
            found.setdefault(view, []).append((column, kind))
    return {view: tuple(columns) for view, columns in found.items()}
