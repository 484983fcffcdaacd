"""How everything above the store reads it: SQL over a small interface, wherever the run is.

    open_reader(target)   a live daemon's endpoint if one answers, else the file
    Reader                what both are: FileReader (file_reader.py), HttpReader (http_reader.py)
    Result, Connection    what they give

Importing this module loads neither DuckDB nor Arrow; the readers do, when they connect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from tic_daemon.errors import ConnectError, StoreError
from tic_daemon.store.layout import STATE_DIR, StoreLayout, read_json, stores_under
from tic_daemon.store.owner import live_owner

MAX_ROWS = 100_000
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Result:
    """Rows of one query. `types` are DuckDB's names. `truncated`: there were more than `max_rows`."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Connection:
    """What a reader reads from, and whether it can. `target` is a URL or a path, `since` naive UTC."""

    kind: Literal["live", "file"]
    state: Literal["pending", "connected", "disconnected"]
    since: datetime
    detail: str
    target: str


class Reader(Protocol):
    """Asks one store. Methods may be called from any thread; queries of one reader run one after another."""

    def query(
        self,
        sql: str,
        params: Sequence[object] = (),
        *,
        as_of: datetime | None = None,
        max_rows: int = MAX_ROWS,
        timeout_s: float = TIMEOUT_S,
    ) -> Result:
        """Runs one SELECT.

        Args:
            sql: exactly one SELECT over the views. params: values for its `?`.
            as_of: UTC; the store as it was known then.
            max_rows: no more rows than this are returned. timeout_s: the query is stopped after this many seconds.

        Raises:
            SqlRefused, SqlError: the text is not one SELECT, is wrong, or ran past its deadline (store/sqlguard.py).
            ConnectError, StoreError: the store cannot be read any more; `connection()` says why.
        """
        ...

    def connection(self) -> Connection:
        """Where this reader stands now; asks nobody."""
        ...

    def interrupt(self) -> None:
        """Stops the query that runs, if one does; it raises SqlError. From any thread."""
        ...

    def close(self) -> None:
        """Lets everything go; a second call does nothing."""
        ...


def open_reader(target: str | Path) -> Reader:
    """A reader for what the user named.

    Args:
        target: workspace directory, its `.tic`, a store directory, a `*.duckdb` file, or an http(s) URL. A live
            endpoint is preferred; of several stores without one, the one written last.

    Raises:
        StoreError: there is no store, or it cannot be opened. StoreVersionError: written by a newer program.
        ConnectError: a daemon writes the store, and its endpoint cannot be reached.
    """
    if str(target).startswith(("http://", "https://")):
        from tic_daemon.store.http_reader import HttpReader  # noqa: PLC0415  only when it is used

        return HttpReader(str(target))
    path = Path(target)
    try:
        path.stat()
        if path.is_file():
            return _file_or_live(path)
        layouts = stores_under(path)
    except FileNotFoundError:
        layouts = []
    except (OSError, ValueError) as error:  # no right to look, a name that is too long, a loop of links
        why = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"{path} cannot be read: {why}", "name a watched directory, or a store file") from error
    if not layouts:
        if not path.exists():
            raise StoreError(f"{path} does not exist", "name a watched directory, a store file, or a daemon's URL")
        raise StoreError(f"no store under {path}", f"start `tic-daemon watch {path}`")
    unreachable: ConnectError | None = None
    for layout in layouts:
        try:
            live = _live(layout)
        except ConnectError as error:
            unreachable = unreachable or error
            continue
        if live is not None:
            return live
    for layout in layouts:
        if layout.readable_database.exists() and live_owner(layout.owner_file) is None:
            return _file(layout.readable_database, layout)
    raise unreachable or StoreError(
        f"the store {layouts[0].directory} has no file here", f"its live file is on {layouts[0].host}: look there"
    )


def _file_or_live(path: Path) -> Reader:
    """A store's file: while a daemon writes it, its endpoint answers for it."""
    layout = StoreLayout.of(path.parent) if path.parent.parent.name == STATE_DIR else None
    layout = layout or StoreLayout.of(path.parent)
    if layout is not None:
        live = _live(layout)
        if live is not None:
            return live
    return _file(path, layout)


def _live(layout: StoreLayout) -> Reader | None:
    """A reader on the endpoint of the daemon that owns the store; None if none does.

    Raises:
        ConnectError: one does, and its endpoint does not answer.
    """
    owner = live_owner(layout.owner_file)
    if owner is None:
        return None
    told = read_json(layout.daemon_file)
    url, token = told.get("url"), told.get("token")
    who = f"pid {owner.pid} on {owner.host} writes {layout.directory.name}"
    if told.get("pid") != owner.pid or not isinstance(url, str) or not isinstance(token, str):
        raise ConnectError(f"{who}, and has no endpoint (yet)", "try again in a second, or end it to read the file")
    from tic_daemon.store.http_reader import HttpReader  # noqa: PLC0415  only when it is used

    reader = HttpReader.of(layout.daemon_file)
    try:
        reader.query("SELECT 1")
    except (ConnectError, StoreError) as error:
        reader.close()
        raise ConnectError(f"{who}, and its endpoint {url} does not answer: {error}", "look there") from error
    return reader


def _file(path: Path, layout: StoreLayout | None) -> Reader:
    from tic_daemon.store.file_reader import FileReader  # noqa: PLC0415  it loads DuckDB

    return FileReader(path, layout)
