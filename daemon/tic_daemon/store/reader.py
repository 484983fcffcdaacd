"""How everything above the store reads it: SQL over a small interface, wherever the run is.

    open_reader(target)   what the user named: one store, or several as one
    Reader                what all are: HttpReader, SnapshotReader and FileReader read one store in one way,
                          FailoverReader in whichever way it can be read, UnionReader many
    Result, Tail, Connection   what they give

Importing this module loads neither DuckDB nor Arrow; the readers do, when they connect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from tic_daemon.errors import StoreError
from tic_daemon.store.layout import StoreLayout, stores_under

MAX_ROWS = 100_000
TIMEOUT_S = 5.0
TAIL_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Result:
    """Rows of one query. `types` are DuckDB's names. `truncated`: there were more than `max_rows`.

    `missing`: of several stores, those whose rows are not among these, each with the reason in words.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool
    elapsed_s: float
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Connection:
    """What a reader reads from, and whether it can.

    Attributes:
        kind: live: a daemon's endpoint; file: a store that nobody writes; snapshot: what a daemon published that cannot
            be reached; several: the stores of a workspace together.
        since: naive UTC; when `state` began.
        detail: what is wrong, in words; "" if nothing.
        target: a URL or a path.
        data_at: naive UTC; of when the answers are, if that is not now: the moment of the snapshot.
        hint: what a person can do about `detail`, such as the `ssh -L` line; "" if nothing.
        stores: of kind `several`: how each store is reached.
        unreadable: the store's file lies here, nobody writes it, and it cannot be read: `detail` says why.
    """

    kind: Literal["live", "file", "snapshot", "several"]
    state: Literal["pending", "connected", "disconnected"]
    since: datetime
    detail: str
    target: str
    data_at: datetime | None = None
    hint: str = ""
    stores: tuple[Connection, ...] = ()
    unreadable: bool = False


@dataclass(frozen=True, slots=True)
class Tail:
    """What was committed since a position: the answer of a long poll.

    A row with `provisional` is an open record, or a last line without its newline. When it is read on, a row of the
    same place comes (`store_id`, `source_id`, `generation`, `byte_offset`), with another rec_id: it stands instead of
    the provisional one. So keep rows by their place, and count provisional ones apart. A provisional row that is gone
    without another in its place changes `standing`.

    Attributes:
        position: opaque; the `after` of the next call. It changes with every commit, also of what has no rows here.
        standing: opaque; it changes whenever rows that were read before may read differently now: a fault, a mark, an
            attempt, a run learnt later, a provisional row gone, a daemon started anew. What was computed from rows
            under one standing stays true while it stands. Rows of one answer read at least as they did under its
            standing; when it has changed, read by query what was read before.
        columns, rows: new rows of view `mismatches`, oldest first. The newest `limit` of them if there were more.
        missed: how many rows came besides; they are read by query. Of an old position it is an upper bound: provisional
            rows that no longer stand are counted, too.
    """

    position: str
    standing: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    missed: int = 0


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
        gather: str = "",
    ) -> Result:
        """Runs one SELECT.

        Args:
            sql: exactly one SELECT over the views. params: values for its `?`.
            gather: how the answers of several stores become one: a SELECT over table `part`, which holds the rows that
                `sql` gave in each of them, columns by name. A reader of one store has nothing to gather and leaves it.
                Without it, several stores' views are united first, which reads them whole: for people's questions, not
                for a screen's.
            as_of: UTC; the store as it was known then.
            max_rows: no more rows than this are returned. timeout_s: the query is stopped after this many seconds.

        Raises:
            SqlRefused, SqlError: the text is not one SELECT, is wrong, or ran past its deadline (store/sqlguard.py).
            ConnectError, StoreError: the store cannot be read any more; `connection()` says why.
        """
        ...

    def tail(self, after: str = "", *, wait_s: float = 0.0, limit: int = TAIL_ROWS) -> Tail:
        """What was committed since `after`; waits up to `wait_s` for something, and gives an empty one if nothing came.

        `interrupt` and `close` end the wait. An `after` of "" or of another daemon gives the present position and no
        rows. So: first ask for the position, then read by query what is there, then go on from the position; rows may
        come twice that way, and none is left out. A `limit` of 0 only waits, and costs the daemon nothing.

        Raises:
            ConnectError, StoreError: as `query`.
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
        target: workspace directory or its `.tic`: all stores of it, as one if they are several; a store directory or a
            `*.duckdb` file: that one; an http(s) URL: what answers there. A store is read live if its daemon can be
            reached, else from what was published, else from the file if nobody writes it (failover.py).

    Raises:
        StoreError: there is no store, or it cannot be opened. StoreVersionError: written by a newer program.
        ConnectError: a daemon writes the store; neither its endpoint nor anything published can be reached.
    """
    if str(target).startswith(("http://", "https://")):
        from tic_daemon.store.http_reader import HttpReader  # noqa: PLC0415  only when it is used

        return HttpReader(str(target))
    path = Path(target)
    try:
        path.stat()
        if path.is_file():
            return _of_file(path)
        single = StoreLayout.of(path)
        if single is not None:
            return _opened(single)
        layouts = stores_under(path)
    except FileNotFoundError:
        raise StoreError(
            f"{path} does not exist", "name a watched directory, a store file, or a daemon's URL"
        ) from None
    except (OSError, ValueError) as error:  # no right to look, a name that is too long, a loop of links
        why = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"{path} cannot be read: {why}", "name a watched directory, or a store file") from error
    if not layouts:
        raise StoreError(
            f"no store under {path}", f"start `tic-daemon watch {path}`, or name the directory that is watched"
        )
    from tic_daemon.store.failover import FailoverReader  # noqa: PLC0415  see above
    from tic_daemon.store.union import UnionReader  # noqa: PLC0415

    united = UnionReader(path, FailoverReader)
    try:
        united.open()
    except BaseException:
        united.close()
        raise
    return united


def _of_file(path: Path) -> Reader:
    """A store's file. While a daemon writes it, its endpoint answers for it."""
    layout = StoreLayout.of(path.absolute().parent)
    if layout is not None and path.absolute() in (layout.readable_database, layout.published):
        return _opened(layout)
    from tic_daemon.store.file_reader import FileReader  # noqa: PLC0415  it loads DuckDB

    return FileReader(path, layout)


def _opened(layout: StoreLayout) -> Reader:
    from tic_daemon.store.failover import FailoverReader  # noqa: PLC0415  only when it is used

    reader = FailoverReader(layout)
    reader.open()
    return reader
