"""The layer under all public views: as-of, provisional rows, the spool; and that nothing goes round it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from tests.store.samples import NOON, delta, fault, mismatch, source
from tic_daemon.store import migrate, rows
from tic_daemon.store import writer as writer_module
from tic_daemon.store.columns import EVENT_TABLES, table_columns
from tic_daemon.store.spool import Spool, overlay
from tic_daemon.store.writer import Writer

Opener = Callable[[], Writer]
VIEWS = Path(migrate.__file__).with_name("schema") / "views"
TABLES = [
    *EVENT_TABLES, "store", "source", "source_change", "cursor", "fault_rule", "mark", "run_attempt", "attempt_cut",
    "ingest", "remote_fault", "remote_place", "remote_gap", "env_pin", "config_value", "checkpoint", "fault_file",
    "result_file", "artifact", "result_gap",
    "comparison_task", "comparison", "comparison_file", "comparison_said", "comparison_version", "comparison_sequence", "comparison_token", "trace_boundary",
    "wandb_value", "ledger_row",
]  # fmt: skip


def ask(
    con: duckdb.DuckDBPyConnection, sql: str, as_of: datetime | None = None, spool: str | None = None
) -> list[tuple[object, ...]]:
    cursor = con.cursor()
    if as_of is not None:
        cursor.execute("SET VARIABLE as_of = ?", [as_of])
    if spool is not None:
        cursor.execute("SET VARIABLE spool = ?", [spool])
    return cursor.execute(sql).fetchall()


def test_there_is_a_base_view_for_every_table_with_its_columns(open_writer: Opener) -> None:
    con = open_writer().reader_cursor()
    tables = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()}
    derived = {name for name in tables if name.startswith("d_")} | {
        "derived"
    }  # store/derive.py; read by i_<name> views
    assert tables - derived == set(TABLES)
    for table in TABLES:
        columns = con.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [table]
        ).fetchall()
        described = con.execute(f"DESCRIBE b_{table}").fetchall()
        assert [(row[0], row[1]) for row in described] == columns, table
    assert table_columns("fault") == [row[0] for row in con.execute("DESCRIBE b_fault").fetchall()]


def sql_words(path: Path) -> str:
    """A view file without comments and string literals."""
    text = re.sub(r"--[^\n]*", "", path.read_text(encoding="utf-8"))
    return re.sub(r"'(?:[^']|'')*'", "''", text)


@pytest.mark.parametrize("path", sorted(VIEWS.glob("*.sql")), ids=lambda path: path.name)
def test_public_views_read_tables_only_through_the_base_layer(path: Path) -> None:
    if path.name.startswith("000_"):
        return
    pattern = rf"\b(?:FROM|JOIN)\s+\(?\s*({'|'.join(TABLES)})\b(?!\s*\()"
    defined = set(
        re.findall(
            r"(?:WITH|WITH RECURSIVE|,)\s+(\w+)(?:\s*\([^)]*\))?\s+AS\s+(?:NOT\s+)?(?:MATERIALIZED\s+)?\(",
            sql_words(path),
            re.IGNORECASE,
        )
    )
    direct = set(re.findall(pattern, sql_words(path), re.IGNORECASE)) - defined
    assert not direct, f"{path.name} reads {direct} past b_<table>"


def test_views_hold_no_catalog_name(open_writer: Opener) -> None:
    """As DuckDB keeps them: the file must answer under whatever name it is attached as."""
    con = open_writer().reader_cursor()
    for name, sql in con.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall():
        assert not re.search(r"\b(tic|main|memory)\.\w", re.sub(r"'(?:[^']|'')*'", "''", sql)), name


def test_the_file_answers_under_any_name(open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), provisional=(mismatch(40),))])
    writer.close()
    con = duckdb.connect()
    con.execute(f"ATTACH '{writer.layout.database}' AS \"what ever\" (READ_ONLY)")
    for table in TABLES:
        con.execute(f'SELECT * FROM "what ever".b_{table}').fetchall()
    assert con.execute('SELECT count(*) FROM "what ever".b_mismatch').fetchall() == [(2,)]
    con.execute("SET VARIABLE as_of = TIMESTAMP '2000-01-01'")
    assert con.execute('SELECT count(*) FROM "what ever".b_mismatch').fetchall() == [(0,)]


def ticks(writer: Writer, monkeypatch: pytest.MonkeyPatch, *deltas: rows.SourceDelta) -> list[datetime]:
    """Commits one delta a minute from noon on; returns the times."""
    times = [NOON + timedelta(minutes=number) for number in range(len(deltas))]
    for time, one in zip(times, deltas, strict=True):
        monkeypatch.setattr(writer_module, "_utcnow", lambda time=time: time)
        writer.commit([one])
    return times


def test_as_of_shows_the_store_as_it_was(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tic_daemon.store.layout import StoreLayout

    monkeypatch.setattr(writer_module, "_utcnow", lambda: NOON - timedelta(days=1))
    writer = Writer.open(StoreLayout.find(workspace))
    grown = {"first_seen_at": NOON, "last_growth_at": NOON}
    later = {**grown, "last_growth_at": NOON + timedelta(minutes=1, seconds=30)}
    t0, t1, t2 = ticks(
        writer,
        monkeypatch,
        delta(mismatch(0), state="growing", bytes_size=40, **grown),
        delta(fault(40), state="growing", bytes_size=80, zone_s=3600, **later),
        delta(mismatch(80), state="idle", zone_s=3600, generation=1, bytes_size=9, **later),
    )
    con = writer.reader_cursor()
    count = "SELECT (SELECT count(*) FROM b_mismatch), (SELECT count(*) FROM b_fault), (SELECT count(*) FROM b_ingest)"
    assert ask(con, count) == [(2, 1, 3)]
    moments = [t0 - timedelta(seconds=1), t0, t1 - timedelta(microseconds=1), t1, t2]
    assert [ask(con, count, moment)[0] for moment in moments] == [(0, 0, 0), (1, 0, 1), (1, 0, 1), (1, 1, 2), (2, 1, 3)]
    state = "SELECT state, zone_s, generation, bytes_size, last_growth_at FROM b_source"
    growth = later["last_growth_at"]
    assert ask(con, state) == [("idle", 3600, 1, 9, growth)]
    assert ask(con, state, moments[0]) == []
    assert ask(con, state, t0) == [("growing", None, 0, 40, t0)], "a growth of later is not known yet"
    assert ask(con, state, t1) == [("growing", 3600, 0, 80, t1)]
    assert ask(con, state, t2) == [("idle", 3600, 1, 9, growth)]
    con.close()
    writer.close()


def test_as_of_is_private_to_a_cursor(open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0))])
    one, other = writer.reader_cursor(), writer.reader_cursor()
    one.execute("SET VARIABLE as_of = TIMESTAMP '2000-01-01'")
    assert one.execute("SELECT count(*) FROM b_mismatch").fetchall() == [(0,)]
    assert other.execute("SELECT count(*) FROM b_mismatch").fetchall() == [(1,)]


def test_spool_lines_show_until_they_are_taken_in_and_once_only(open_writer: Opener) -> None:
    writer = open_writer()
    spool = Spool.at(writer.layout.directory)
    mark = spool.mark("r1", reason="looks wrong")
    attempt = spool.attempt("r1", reason="again", cut=[(5, 0, 100), (2**62, 1, 0)])
    text = overlay(writer.layout.spool_dir)
    con = writer.reader_cursor()
    marks = "SELECT rec_id, id, run_id, attempt, verdict, reason, marked_at FROM b_mark"
    attempts = "SELECT rec_id, id, run_id, from_kind, from_time FROM b_run_attempt"
    cuts = "SELECT id, source_id, generation, byte_offset FROM b_attempt_cut ORDER BY source_id"
    assert ask(con, marks) == ask(con, attempts) == ask(con, cuts) == []
    assert ask(con, marks, spool=text) == [(None, mark.id, "r1", None, "inconclusive", "looks wrong", mark.marked_at)]
    assert ask(con, attempts, spool=text) == [(None, attempt.id, "r1", "now", None)]
    pieces = [(attempt.id, 5, 0, 100), (attempt.id, 2**62, 1, 0)]
    assert ask(con, cuts, spool=text) == pieces
    assert ask(con, marks, mark.marked_at - timedelta(seconds=1), text) == []
    writer.commit([], marks=[mark], attempts=[attempt])
    for spool_text in (None, text):
        assert [row[0] for row in ask(con, marks, spool=spool_text)] == [1]
        assert [row[0] for row in ask(con, attempts, spool=spool_text)] == [2]
        assert ask(con, cuts, spool=spool_text) == pieces


def test_a_spool_with_fields_of_wrong_kinds_hides_nothing_else(open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([], marks=[rows.MarkRow("m1", "r1", None, "run", "", "note", "x", "me", NOON, "h")])
    odd = [
        {"id": "z", "kind": "mark", "run_id": {"a": 1}, "attempt": "many", "marked_at": "soon", "cut": "no"},
        7,
        None,
    ]
    assert ask(writer.reader_cursor(), "SELECT id FROM b_mark", spool=json.dumps(odd)) == [("m1",)]


def test_two_generations_have_provisional_rows_of_their_own(open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([delta(provisional=(mismatch(0),)), delta(generation=1, provisional=(mismatch(7),))])
    con = writer.reader_cursor()
    seen = "SELECT generation, byte_offset FROM b_mismatch ORDER BY 1"
    assert ask(con, seen) == [(0, 0), (1, 7)]
    gone = delta(offset=40)
    assert gone.cursor is not None
    writer.commit([replace(gone, cursor=replace(gone.cursor, closed=True))])
    assert ask(con, seen) == [(1, 7)]
    assert ask(con, "SELECT source_id FROM b_cursor WHERE prov IS NOT NULL") == [(source().source_id,)]
