"""Rows that are given to DuckDB as Arrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tic_daemon.store.arrow import laid

_WATCH = """
import sys
from tic_daemon import cli
code = cli.main(["watch", "--once", sys.argv[1]])
assert code == 0, code
print([name for name in sys.modules if name in ("pyarrow.dataset", "pyarrow.fs", "pandas")])
"""


def test_a_table_can_be_read_by_one_statement_and_is_gone_afterwards() -> None:
    con = duckdb.connect()
    table = pa.table({"a": [1, None, 3], "b": ["x", "y'", ""]})
    with laid(con, _one=table, _two=pa.table({"a": [3]})):
        found = con.execute("SELECT o.a, o.b, t.a FROM _one o LEFT JOIN _two t ON t.a = o.a ORDER BY o.b").fetchall()
    assert found == [(3, "", 3), (1, "x", None), (None, "y'", None)]
    with laid(con, _one=table):
        assert con.execute("SELECT count(*) FROM _one").fetchone() == (3,)
        with pytest.raises(duckdb.Error, match="consumed"):
            con.execute("SELECT count(*) FROM _one")
    with pytest.raises(duckdb.CatalogException):
        con.execute("FROM _one")


def test_a_daemon_loads_no_file_systems_and_formats_of_arrow(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("CUDA error: an illegal memory access was encountered\nstep:1 - loss:0.5\n")
    found = subprocess.run([sys.executable, "-c", _WATCH, tmp_path], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"
    with duckdb.connect(str(next(tmp_path.glob(".tic/*/tic.duckdb"))), read_only=True) as con:
        assert con.execute("SELECT count(*) > 0 FROM fault").fetchone() == (True,)
