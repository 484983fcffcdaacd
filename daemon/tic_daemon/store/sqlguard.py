"""What SQL a stranger may run: exactly one SELECT that only reads the store.

The statement's type alone is not enough. `SELECT * FROM force_checkpoint()`, `enable_logging()` and
`json_execute_serialized_sql(...)` are of type SELECT and go through although `lock_configuration` is on (tried with
DuckDB 1.5.6), and `PRAGMA x` is parsed into a SELECT. So, after the type, the parse tree is walked: table functions
must be on a list of those that only read or generate, and scalar functions that act are refused. `query()` and
`query_table()` take SQL as text, behind the walk's back: refused.

This is the second of two nets. The first is the connection: `enable_external_access=false` and
`lock_configuration=true` (store/writer.py, store/reader.py), which stop files, extensions and settings in whatever way
they are named.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tic_daemon.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

# Bytes of UTF-8. A longer query was generated; DuckDB's planner takes seconds over it and cannot be interrupted there.
MAX_SQL_BYTES = 256 * 1024

# Table functions that generate rows, unpack values, or describe the store. All others are refused, future ones too.
TABLE_FUNCTIONS = frozenset(
    """
    range generate_series unnest repeat repeat_row json_each json_tree histogram histogram_values summary
    test_all_types duckdb_columns duckdb_constraints duckdb_databases duckdb_dependencies duckdb_extensions
    duckdb_functions duckdb_indexes duckdb_keywords duckdb_memory duckdb_optimizers duckdb_schemas
    duckdb_sequences duckdb_settings duckdb_tables duckdb_temporary_files duckdb_types duckdb_variables
    duckdb_views pragma_collations pragma_database_size pragma_platform pragma_show pragma_storage_info
    pragma_table_info pragma_user_agent pragma_version icu_calendar_names pg_timezone_names
    """.split()  # noqa: SIM905 -- thirty quoted words would be harder to read
)

# Scalar functions that change something outside the query.
ACTING_FUNCTIONS = frozenset({"nextval", "write_log"})


MAX_TIMEOUT_S = 7 * 86400.0


class SqlError(StoreError):
    """The text is not SQL that DuckDB can parse, or it fails when it runs."""

    exit_code = 2  # the query is to blame, not the store


class SqlRefused(StoreError):
    """The text is SQL, but not one SELECT that only reads."""

    exit_code = 2  # the query is to blame, not the store


def only_select(con: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """The one statement of `sql`, parsed and ready for `con.execute`.

    Args:
        con: any open connection; nothing is run on it but the parser.
        sql: untrusted text.

    Raises:
        SqlError: it does not parse.
        SqlRefused: it is no statement, several, not a SELECT, or calls a function that is not on the list.
    """
    import duckdb  # noqa: PLC0415 -- so that importing this module costs nothing

    try:
        size = len(sql.encode())
    except UnicodeEncodeError as e:
        raise SqlError("the query is not valid Unicode (a lone surrogate)") from e
    if size > MAX_SQL_BYTES:
        raise SqlRefused(
            f"the query is {size} bytes long; the limit is {MAX_SQL_BYTES}", "pass long lists as parameters"
        )
    if "\0" in sql:
        raise SqlError("the query holds a NUL character")
    try:
        statements = con.extract_statements(sql)
    except duckdb.Error as e:
        raise SqlError(_first_lines(str(e))) from e
    if len(statements) != 1:
        raise SqlRefused(f"exactly one SELECT is allowed, not {len(statements)} statements", _HINT)
    statement = statements[0]
    kind = statement.type.name
    if kind != "SELECT":
        raise SqlRefused(f"only SELECT is allowed, not {kind.replace('_', ' ')}", _HINT)
    try:
        _check_tree(con, sql)
    except duckdb.Error as e:
        raise SqlError(_first_lines(str(e))) from e
    return statement


def tables_of(con: duckdb.DuckDBPyConnection, sql: str) -> frozenset[str]:
    """Names, in lower case, of all tables and views that a text passed by `only_select` mentions."""
    (text,) = con.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone() or ("{}",)
    named = (node.get("table_name") for node in _nodes(json.loads(text)))
    return frozenset(name.strip('"').lower() for name in named if isinstance(name, str) and name)


def sound_parameters(params: Sequence[object]) -> None:
    """Refuses text that is no Unicode, such as the name of a run with bytes that are no UTF-8: DuckDB takes none.

    Raises:
        SqlError: a parameter holds a lone surrogate.
    """
    for value in params:
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as e:
                raise SqlError(f"not valid Unicode: {ascii(value)[:80]}", "the store holds UTF-8 only") from e


def deadline(timeout_s: float) -> float:
    """`timeout_s` as timers and sockets can take it: they refuse what a caller means by "for ever".

    Raises:
        SqlError: it is no number of seconds.
    """
    if not timeout_s >= 0:  # NaN compares false
        raise SqlError(f"the time limit must be a number of seconds, not {timeout_s}")
    return min(timeout_s, MAX_TIMEOUT_S)


_HINT = "the store is read-only here; marks and attempts are written with tic-daemon mark and tic-daemon attempt"


def _check_tree(con: duckdb.DuckDBPyConnection, sql: str) -> None:
    (text,) = con.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone() or ("{}",)
    try:
        tree = json.loads(text)
    except RecursionError:
        # Some hundred levels. DuckDB plans such expressions for tens of seconds and cannot be interrupted there.
        raise SqlRefused("the query is nested too deeply to be examined") from None
    if tree.get("error") is not False:
        # The parser called it a SELECT, the serialiser does not: a PRAGMA, or syntax that cannot be looked into.
        raise SqlRefused(f"only a plain SELECT is allowed: {tree.get('error_message', 'it cannot be examined')}", _HINT)
    for node in _nodes(tree):
        # FROM 'name.ext' is a file to DuckDB. Reading the store's own file would drop the daemon's lock (tried with
        # read_blob), and that file is allowed even without external access.
        table = node.get("table_name")
        if isinstance(table, str) and ("/" in table or "." in table):
            raise SqlRefused(f"{table!r} is not a view: files cannot be read here", "query the views")
        if node.get("type") == "TABLE_FUNCTION":
            function = node.get("function")
            name = str(function.get("function_name", "")).lower() if isinstance(function, dict) else ""
            if name not in TABLE_FUNCTIONS:
                raise SqlRefused(
                    f"the table function {name!r} is not allowed here",
                    "query the views; docs/reference/views.md lists them",
                )
        elif node.get("class") == "FUNCTION" and str(node.get("function_name", "")).lower() in ACTING_FUNCTIONS:
            raise SqlRefused(f"the function {str(node['function_name'])!r} is not allowed here: it changes something")


def _nodes(tree: object) -> Iterator[dict[str, object]]:
    """Every JSON object of the tree, without recursion: the depth is the stranger's choice."""
    todo = [tree]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            yield item
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)


def _first_lines(text: str, limit: int = 500) -> str:
    return text if len(text) <= limit else text[:limit] + "…"
