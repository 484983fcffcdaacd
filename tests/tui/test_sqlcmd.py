"""`tic-tui sql`: exact values in CSV and JSON, clean ones for eyes, and the same live and from the file."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.conftest import make_engine
from tests.tui.test_status import run_tui
from tic_daemon.live import LiveServer
from tic_daemon.store import plain
from tic_daemon.store.reader import Result
from tic_tui.sqlcmd import parse_time, text_of

VALUES = [
    None, True, -(2**127), 0.1, -0.0, 1e300, math.nan, math.inf, -math.inf, Decimal("1.50"), Decimal("0E-10"), "",
    " x ", 'a"b,c\nd\r', "NULL", "\x1b]0;t\x07\x9b\u202e", "é漢字", datetime(2026, 1, 2, 3, 4, 5, 6),
    datetime(2026, 1, 2), b"\x00\\a\xff", [1, None, [math.nan]], {"a": "\x1b", "b": [Decimal("2.0")]},
]  # fmt: skip


def result(
    *rows: tuple[object, ...], columns: tuple[str, ...] = ("x",), types: tuple[str, ...] = ("VARCHAR",)
) -> Result:
    return Result(columns, types, list(rows), False, 0.0)


def text(shown: Result, form: str, *, tty: bool = False) -> str:
    return "".join(text_of(shown, form, tty=tty))


def test_json_reads_back_exactly() -> None:
    got = [row["x"] for row in json.loads(text(result(*((v,) for v in VALUES)), "json"), parse_float=Decimal)]
    assert got[:3] == [None, True, -(2**127)]
    assert [float(v) for v in got[3:6]] == [0.1, -0.0, 1e300]
    assert got[6:9] == ["NaN", "Infinity", "-Infinity"]
    assert [format(v, "f") for v in got[9:11]] == ["1.50", "0.0000000000"]
    assert got[11:17] == VALUES[11:17]
    assert got[17:20] == ["2026-01-02 03:04:05.000006", "2026-01-02 00:00:00", "\\x00\\x5Ca\\xFF"]
    assert got[20] == [1, None, ["NaN"]]
    assert got[21] == {"a": "\x1b", "b": [Decimal("2.0")]}


@given(st.text(st.characters(codec="utf-8")))
def test_json_strings_are_exact_and_harmless_on_a_terminal(value: str) -> None:
    shown = plain.to_json(value)
    assert json.loads(shown) == value
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"))), st.integers()),
        min_size=1,
    )
)
def test_csv_reads_back_exactly_by_another_reader(rows: list[tuple[str | None, int]]) -> None:
    shown = text(result(*rows, columns=("a,b", "n"), types=("VARCHAR", "BIGINT")), "csv")
    got = list(csv.reader(io.StringIO(shown, newline="")))
    assert got[0] == ["a,b", "n"]
    assert got[1:] == [[value or "", str(number)] for value, number in rows]


def test_csv_tells_null_from_empty() -> None:
    shown = text(result((None, 1), ("", 2), columns=("a", "n"), types=("VARCHAR", "BIGINT")), "csv")
    assert shown == 'a,n\n,1\n"",2\n'


def test_duckdb_reads_the_csv_back(tmp_path: Path) -> None:
    rows = [(i, None if i % 3 == 0 else f'v"{i},\n', i / 7) for i in range(50)]
    path = tmp_path / "x.csv"
    shown = text(result(*rows, columns=("i", "s", "d"), types=("BIGINT", "VARCHAR", "DOUBLE")), "csv")
    path.write_text(shown, newline="")
    read = duckdb.sql(f"FROM read_csv('{path}', header = true, all_varchar = true)").fetchall()
    assert [(int(i), s, float(d)) for i, s, d in read] == rows


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "json"])
def test_nothing_hostile_reaches_a_terminal(form: str) -> None:
    evil = "a\x1b]52;c;AAAA\x07\x9b31m\u202eb\r\n\tc|[bold]"
    shown = text(
        result((evil, [evil], {evil: evil}), columns=("x", "y\x1b[2J", "z"), types=("VARCHAR",) * 3), form, tty=True
    )
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)


def test_table() -> None:
    shown = text(
        result(
            (1, "a", 0.5),
            (1000, None, math.nan),
            (-2, "漢字", None),
            columns=("n", "s", "value"),
            types=("BIGINT", "VARCHAR", "DOUBLE"),
        ),
        "table",
    )
    assert shown == (
        "   n  s     value\n"
        "----  ----  -----\n"
        "   1  a       0.5\n"
        "1000  NULL    NaN\n"
        "  -2  漢字   NULL\n"
        "3 rows\n"
    )  # fmt: skip


def test_long_cells_are_cut_on_a_terminal_only() -> None:
    long = result(("x" * 500,))
    assert max(map(len, text(long, "table", tty=True).splitlines())) == 80
    assert "x" * 500 in text(long, "table")


def test_markdown() -> None:
    shown = text(result(("a|b", 1), ("two\nlines", None), columns=("s", "n"), types=("VARCHAR", "INTEGER")), "markdown")
    assert shown == "| s | n |\n| --- | ---: |\n| a\\|b | 1 |\n| two<br>lines | NULL |\n"


def test_columns_of_the_same_name() -> None:
    shown = text(result((1, 2, 3), columns=("x", "x", "x_2"), types=("INTEGER",) * 3), "json")
    assert json.loads(shown) == [{"x": 1, "x_2": 2, "x_2_2": 3}]


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02 03:04+02:00", datetime(2026, 1, 2, 1, 4)),
        ("2026-01-02", datetime(2026, 1, 2)),
        (None, None),
    ],
)
def test_times_are_utc(given_text: str | None, expected: datetime | None) -> None:
    assert parse_time(given_text) == expected


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    engine, layout = make_engine(tmp_path_factory.mktemp("sql"))
    server = LiveServer(engine.cursor, layout)
    server.start()
    yield server
    server.stop()
    engine.close()


def ask(live: LiveServer, *words: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return run_tui("sql", *words, TIC_TOKEN=live.token, **env)


def test_command_against_a_live_daemon(live: LiveServer) -> None:
    done = ask(live, "--csv", live.url, "SELECT rec_id, text FROM event WHERE rec_id < 2 ORDER BY 1")
    assert (done.returncode, done.stdout) == (0, b"rec_id,text\n0,line 0\n1,line 1\n"), done.stderr
    cut = ask(live, "--json", "--max-rows", "2", live.url, "SELECT rec_id FROM event ORDER BY 1", LC_ALL="C")
    assert json.loads(cut.stdout) == [{"rec_id": 0}, {"rec_id": 1}]
    assert b"2 of more rows" in cut.stderr
    as_of = ask(live, "--csv", "--as-of", "2026-01-02T03:04:05Z", live.url, "SELECT getvariable('as_of') AS t")
    assert as_of.stdout == b"t\n2026-01-02 03:04:05\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["DROP TABLE event"], 2, b"only SELECT"),
        (["SELEC"], 2, b"syntax error"),
        (["--as-of", "yesterday", "SELECT 1"], 2, b"not a time"),
        (["--max-rows", "-1", "SELECT 1"], 2, b"must not be negative"),
        (["--timeout", "0.2", "SELECT count(*) FROM range(10000000000) a, range(100000) b"], 2, b"0.2 s"),
    ],
)
def test_errors_of_the_command(live: LiveServer, words: list[str], code: int, says: bytes) -> None:
    done = ask(live, *words[:-1], live.url, words[-1])
    assert (done.returncode, done.stdout) == (code, b"")
    assert says in done.stderr and b"Traceback" not in done.stderr


def test_a_wrong_token(live: LiveServer) -> None:
    done = run_tui("sql", live.url, "SELECT 1", TIC_TOKEN="wrong")
    assert done.returncode == 15 and b"token" in done.stderr and live.token.encode() not in done.stderr


def test_the_query_from_standard_input_into_a_pipe_that_closes_early(live: LiveServer) -> None:
    argv = (
        f"echo 'SELECT rec_id FROM event ORDER BY 1' | {sys.executable} -m tic_tui sql --csv {live.url} - | head -n 2"
    )
    env = {"PYTHONPATH": f"{Path(__file__).resolve().parents[2]}:{Path(__file__).resolve().parents[2] / 'daemon'}"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", argv],
        env={**env, "TIC_TOKEN": live.token, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
    )
    assert done.stdout == b"rec_id\n0\n", done.stderr
    assert b"Traceback" not in done.stderr and b"BrokenPipe" not in done.stderr
