"""The file can be read by DuckDB 1.2 and later."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.samples import delta, fault, mismatch
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.writer import Writer

STORAGE_1_2 = 65
"""Storage version number of DuckDB 1.2.x, from its release notes and its own files; 64 is 0.10 to 1.1."""


def finished(workspace: Path) -> Path:
    writer = Writer.open(StoreLayout.find(workspace))
    writer.commit([delta(*(mismatch(40 * i) for i in range(5000)), fault(7), provisional=(mismatch(999_999),))])
    writer.close()
    return writer.layout.database


def test_the_header_names_the_storage_version_of_1_2(workspace: Path) -> None:
    header = finished(workspace).read_bytes()[:20]
    assert header[8:12] == b"DUCK"
    assert struct.unpack_from("<Q", header, 12) == (STORAGE_1_2,)


ASK = """
import duckdb, json, sys
assert duckdb.__version__.startswith("1.2."), duckdb.__version__
con = duckdb.connect()
con.execute(f"ATTACH '{sys.argv[1]}' AS \\"an old client\\" (READ_ONLY)")
con.execute('USE "an old client"')
views = [name for (name,) in con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()]
def counts():
    return {view: con.execute(f'SELECT count(*) FROM (SELECT * FROM "{view}")').fetchone()[0] for view in views}
now = counts()
line = {"id": "x", "kind": "mark", "marked_at": "2026-01-01T00:00:00"}
con.execute(f"SET VARIABLE spool = '{json.dumps([line])}'")
spool = counts()
con.execute("SET VARIABLE as_of = TIMESTAMP '2000-01-01'")
print(json.dumps({"now": now, "spool": spool, "past": counts()}))
"""


@pytest.mark.slow
def test_duckdb_1_2_answers_the_base_views(workspace: Path, tmp_path: Path) -> None:
    """The public views are asked by an old client in tests/e2e/test_old_client.py."""
    database = finished(workspace)
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(site)]
    subprocess.run([*pip, "duckdb==1.2.2"], check=True)
    done = subprocess.run(
        [sys.executable, "-S", "-c", ASK, str(database)],
        env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["now"]["b_mismatch"] == 5001
    assert answer["now"]["b_fault"] == 1
    assert (answer["now"]["b_mark"], answer["spool"]["b_mark"], answer["past"]["b_mark"]) == (0, 1, 0)
    assert answer["past"]["b_mismatch"] == answer["past"]["b_source"] == 0
