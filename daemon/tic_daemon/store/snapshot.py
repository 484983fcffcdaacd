"""The published snapshot: a store in Parquet, for readers that can reach neither its daemon nor its file.

    snapshot/
        manifest.json                               all files of one moment; put in place last, by rename
        mismatch-000000000001-000000020000-LLLLLL.parquet
                                                    rows of a table that only grows, by its key, both ends included
        cursor-00000012-LLLLLL.parquet              a small table whole, as of the publication of that number
        views-00000001-LLLLLL.json                  the store's views, [[name, SQL], ...] in the order to create them

A file that a manifest named is never written again. LLLLLL is the snapshot's lineage: another one when a daemon could
not go on with the snapshot that it found, so that a name never means two contents. Files that no manifest names any
more stay for a while (publish.py `GRACE_S`), so that whoever reads the older manifest comes to its end.

Here is the format alone; publish.py writes it, snapshot_reader.py reads it. Everything read from disk is checked: names
are file names, not paths, and what becomes SQL is identifiers and type names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tic_daemon.errors import StoreError
from tic_daemon.store.layout import StoreLayout, open_file

if TYPE_CHECKING:
    import duckdb

MANIFEST = "manifest.json"
FORMAT = 1
MANIFEST_BYTES = 16 << 20
VIEWS_BYTES = 4 << 20

# How the values of a type go through Parquet: as they are, or as text that DuckDB casts back (BIT, HUGEINT, ...).
CARRIED = re.compile(r"(BOOLEAN|TINYINT|SMALLINT|INTEGER|BIGINT|UBIGINT|FLOAT|DOUBLE|VARCHAR|TIMESTAMP|DATE)(\[\])*")

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_FILE = re.compile(r"[a-z_][a-z0-9_]{0,62}-[0-9]+(-[0-9]+)?-[0-9a-f]{6}\.(parquet|json)")
_TYPE = re.compile(r"[A-Z][A-Z0-9 ]{0,40}(\([0-9]+(,[0-9]+)?\))?(\[\])*")


@dataclass(frozen=True, slots=True)
class Piece:
    """One file. `first` and `last` are keys of its rows, or both the number of the publication that wrote it."""

    name: str
    first: int
    last: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TableFiles:
    """One table: its columns with DuckDB's type names, and its files, oldest first.

    `key` names the column by which its files are ranges; "" for a table that is written whole.
    """

    columns: tuple[tuple[str, str], ...]
    key: str
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a manifest says.

    Attributes:
        at: naive UTC; everything committed before this moment is in.
        number: of the publication; a larger one of the same lineage is newer.
        tick: the last one whose rows are in. seen: of each growing table, the `observed_at` of its last row, so that a
            daemon can tell whether the snapshot is of the store that it has.
    """

    at: datetime
    store_id: str
    host: str
    schema_version: int
    program_version: str
    lineage: str
    number: int
    tick: int
    tables: dict[str, TableFiles]
    views: Piece
    seen: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Changes with every publication that changed something; not when only `at` was renewed."""
        return f"{self.lineage}-{self.number}"

    def files(self) -> set[str]:
        """Names of all files besides the manifest."""
        return {self.views.name, *(piece.name for table in self.tables.values() for piece in table.pieces)}

    def pieces(self) -> list[Piece]:
        """All files besides the manifest."""
        return [self.views, *(piece for table in self.tables.values() for piece in table.pieces)]

    def to_json(self) -> dict[str, Any]:
        """The manifest as JSON-ready values."""
        return {
            "format": FORMAT,
            "at": self.at.isoformat(),
            "store_id": self.store_id,
            "host": self.host,
            "schema_version": self.schema_version,
            "program_version": self.program_version,
            "lineage": self.lineage,
            "number": self.number,
            "tick": self.tick,
            "views": _piece_json(self.views),
            "seen": self.seen,
            "tables": {
                name: {
                    "columns": [list(column) for column in table.columns],
                    "key": table.key,
                    "files": [_piece_json(piece) for piece in table.pieces],
                }
                for name, table in self.tables.items()
            },
        }


def snapshot_of(layout: StoreLayout) -> Snapshot | None:
    """What is published of a store; None if nothing usable is."""
    try:
        return read_manifest(layout.snapshot_dir)
    except StoreError:
        return None


def read_manifest(directory: Path) -> Snapshot:
    """The manifest of a snapshot directory. The file is opened anew: over NFS a stat may answer from a cache.

    Raises:
        StoreError: it is missing, torn, of another format, or holds what no daemon writes.
    """
    path = directory / MANIFEST
    try:
        with open_file(path) as file:
            text = file.read(MANIFEST_BYTES)
    except OSError as error:
        raise StoreError(f"no snapshot can be read at {path}: {error.strerror or error}") from error
    try:
        return _parse(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise StoreError(f"the snapshot's manifest {path} cannot be used: {str(error)[:200]}") from error


def select_of(table: TableFiles, directory: Path, pieces: Sequence[Piece] | None = None) -> str:
    """A SELECT of the table's columns, in order and of its types, from all its files or from `pieces`."""
    listed = ", ".join(
        f'"{name}"' if CARRIED.fullmatch(kind) else f'CAST("{name}" AS {kind}) AS "{name}"'
        for name, kind in table.columns
    )
    files = ", ".join(quote(str(directory / piece.name)) for piece in (table.pieces if pieces is None else pieces))
    # A directory named a=b above would become a column.
    return f"SELECT {listed} FROM read_parquet([{files}], hive_partitioning = false)"  # noqa: S608  checked names


def create_of(name: str, table: TableFiles) -> str:
    """The statement that makes an empty table."""
    columns = ", ".join(f'"{column}" {kind}' for column, kind in table.columns)
    return f"CREATE OR REPLACE TABLE {name} ({columns})"


def make_views(con: duckdb.DuckDBPyConnection, directory: Path, snapshot: Snapshot) -> None:
    """Gives a database that has the tables the store's own views. Its connection must be shut off from all files.

    Raises:
        StoreError: they cannot be read, or hold anything but views.
    """
    path = directory / snapshot.views.name
    try:
        with open_file(path) as file:
            views = [(str(name), str(sql)) for name, sql in json.loads(file.read(VIEWS_BYTES))]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"the snapshot's views {path} cannot be read: {str(error)[:200]}") from error
    for name, sql in views:
        statements = con.extract_statements(sql)
        # A view is bound and not run; CREATE TABLE AS would be.
        if len(statements) != 1 or statements[0].type.name != "CREATE" or not sql.startswith("CREATE VIEW "):
            raise StoreError(f"{path} holds what is no view: {name[:60]!r}", "no daemon of tic wrote it")
        con.execute(statements[0])


def quote(text: str) -> str:
    """`text` as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _parse(value: dict[str, Any]) -> Snapshot:
    if value["format"] != FORMAT:
        raise ValueError(f"it has format {value['format']!r}, this program knows {FORMAT}")
    at = datetime.fromisoformat(value["at"])
    if at.tzinfo is not None:
        raise ValueError("its time has a zone")
    return Snapshot(
        at=at,
        store_id=str(value["store_id"]),
        host=str(value["host"]),
        schema_version=_whole(value["schema_version"]),
        program_version=str(value["program_version"]),
        lineage=_fits(re.compile(r"[0-9a-f]{6}"), value["lineage"]),
        number=_whole(value["number"]),
        tick=_whole(value["tick"]),
        tables={_fits(_NAME, name): _parse_table(table) for name, table in value["tables"].items()},
        views=_parse_piece(value["views"]),
        seen={str(name): str(text) for name, text in value.get("seen", {}).items()},
    )


def _parse_table(value: dict[str, Any]) -> TableFiles:
    columns = tuple((_fits(_NAME, name), _fits(_TYPE, kind)) for name, kind in value["columns"])
    key = value["key"]
    if key and key not in {name for name, _ in columns}:
        raise ValueError(f"no column {key!r}")
    return TableFiles(columns, str(key), tuple(_parse_piece(piece) for piece in value["files"]))


def _parse_piece(value: list[Any]) -> Piece:
    name, first, last, rows, size = value
    return Piece(_fits(_FILE, name), _whole(first), _whole(last), _whole(rows), _whole(size))


def _piece_json(piece: Piece) -> list[str | int]:
    return [piece.name, piece.first, piece.last, piece.rows, piece.bytes]


def _fits(pattern: re.Pattern[str], value: object) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{str(value)[:80]!r} is not a name that a daemon writes")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError(f"{str(value)[:40]!r} is not a count")
    return value
