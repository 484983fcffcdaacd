"""The reader for a run that is still being watched: SQL to the daemon's live endpoint, rows back as Arrow.

Two kept connections, one for queries and one for long polls, so that a poll that waits blocks no query. A daemon that
was started anew is found again (http_link.py). Standard library only, and pyarrow when the first rows arrive.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tic_daemon.errors import ConnectError
from tic_daemon.store import sqlguard, wire
from tic_daemon.store.http_link import Address, Interrupted, Link, named, noted
from tic_daemon.store.layout import read_json
from tic_daemon.store.reader import MAX_ROWS, TAIL_ROWS, TIMEOUT_S, Connection, Result, Tail
from tic_daemon.store.sqlguard import SqlError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

READ_S = 12.0
"""How long the daemon may read for a poll, after the wait."""


class HttpReader:
    """Reads one store through its daemon. Thread-safe; queries of several threads wait for each other, polls too.

    Args:
        url: http(s)://host:port of the daemon.
        token: its bearer token; "" takes it from the environment variable TIC_TOKEN, so that it is in no argv.
        certificate: PEM text, the only one that an https daemon may show; "" takes it from the file that
            TIC_CERTIFICATE names, and without that trusts what the system trusts.
        store_id: refuse answers of any other store; "" accepts what answers.
        daemon_file: daemon.json, where a restarted daemon's url, token and certificate are looked up.

    Raises:
        ConnectError: the certificate's file cannot be read.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        certificate: str = "",
        *,
        store_id: str = "",
        daemon_file: Path | None = None,
    ) -> None:
        self._address = Address(named(url, token, certificate), store_id=store_id, daemon_file=daemon_file)
        self._queries, self._polls = Link(self._address), Link(self._address)
        self._last = Tail("", "")
        self._closed = False

    @classmethod
    def of(cls, daemon_file: Path) -> HttpReader:
        """The reader for the daemon that wrote this daemon.json.

        Raises:
            ConnectError: the file is missing or holds no url and token.
        """
        found = noted(daemon_file)
        if found is None:
            raise ConnectError(f"{daemon_file} names no live endpoint", "is the daemon running? tic-daemon doctor")
        store_id = str(read_json(daemon_file).get("store_id") or "")
        return cls(found.url, found.token, found.certificate, store_id=store_id, daemon_file=daemon_file)

    def query(
        self,
        sql: str,
        params: Sequence[object] = (),
        *,
        as_of: datetime | None = None,
        max_rows: int = MAX_ROWS,
        timeout_s: float = TIMEOUT_S,
        gather: str = "",  # one store: there is nothing to gather
    ) -> Result:
        """Runs one SELECT.

        Args:
            params: for `?` in the text.
            as_of: the store as it was known then; naive is UTC.
            max_rows: the result says `truncated` if there were more.
            timeout_s: the daemon stops the query then.

        Raises:
            SqlError, SqlRefused: the query is wrong, or no SELECT; its deadline passed, or `interrupt` was called.
            ConnectError: the daemon cannot be reached, refuses the token, is not the one that is pinned, or serves
                another store.
            StoreError: the daemon is busy or cannot read its store now.
        """
        sqlguard.sound_parameters(params)
        timeout_s = sqlguard.deadline(timeout_s)
        body = json.dumps(
            {
                "sql": sql,
                "params": [wire.encode_parameter(value) for value in params],
                "as_of": as_of.isoformat() if as_of else None,
                "max_rows": max_rows,
                "timeout_s": timeout_s,
            }
        ).encode()
        try:
            headers, data, took = self._queries.ask("POST", "/sql", body, timeout_s)
        except Interrupted as e:
            raise SqlError("the query was interrupted") from e
        table_columns, types, rows = _unpack(data)
        truncated = headers.get(wire.TRUNCATED_HEADER) == "1"
        return Result(table_columns, types, rows, truncated, took)

    def tail(self, after: str = "", *, wait_s: float = 0.0, limit: int = TAIL_ROWS) -> Tail:
        """See `Reader.tail`. The daemon waits at most a minute."""
        wait_s = sqlguard.deadline(wait_s)
        asked = urlencode({"after": after, "wait": f"{min(wait_s, 60.0):g}", "limit": limit})
        try:
            headers, data, _ = self._polls.ask("GET", f"/tail?{asked}", None, min(wait_s, 60.0) + READ_S)
        except Interrupted as e:
            if self._closed:
                raise ConnectError(f"the reader of {self._address.found.url} is closed", "open another one") from e
            return Tail(after, self._last.standing)
        columns, _, rows = _unpack(data)
        missed = headers.get(wire.MISSED_HEADER, "0")
        self._last = Tail(
            headers.get(wire.POSITION_HEADER, ""),
            headers.get(wire.STANDING_HEADER, ""),
            columns,
            tuple(rows),
            int(missed) if missed.isascii() and missed.isdecimal() else 0,
        )
        return self._last

    def connection(self) -> Connection:
        """Where the daemon is and whether the last exchange with it succeeded."""
        return self._address.status

    def interrupt(self) -> None:
        """Ends the running query and the running poll, from any thread."""
        self._queries.interrupt()
        self._polls.interrupt()

    def close(self) -> None:
        """No more queries. Ends a running one."""
        self._closed = True
        self._queries.close()
        self._polls.close()


def _unpack(data: bytes) -> tuple[tuple[str, ...], tuple[str, ...], list[wire.Row]]:
    import pyarrow as pa  # noqa: PLC0415 -- 100 ms that the first paint does not wait for

    try:
        with pa.ipc.open_stream(data) as stream:
            table = stream.read_all()
        table.validate()  # buffers of a torn stream; in full it would refuse DuckDB's own HUGEINT and 24:00:00
        types = wire.types_of(table.schema)
        return tuple(table.schema.names), types, wire.rows_of(table, types)
    except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError, RecursionError) as e:
        raise ConnectError(f"the answer is no Arrow stream: {str(e)[:200]}", "is there a proxy in between?") from e
