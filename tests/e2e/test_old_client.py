"""After a run the file is opened and answered by an old client: DuckDB 1.2, installed for real."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.e2e.harness import ROOT, once

ASK = """
import duckdb, json, sys
assert duckdb.__version__.startswith("1.2"), duckdb.__version__
con = duckdb.connect(sys.argv[1], read_only=True)
views = [name for (name,) in con.execute(
    "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()]
counts = {view: con.execute(f'SELECT count(*) FROM (SELECT * FROM "{view}")').fetchone()[0] for view in views}
con.execute("SET VARIABLE as_of = TIMESTAMP '2000-01-01'")
past = con.execute("SELECT count(*) FROM mismatches").fetchone()[0]
print(json.dumps({"counts": counts, "past": past}))
"""


@pytest.mark.timeout(280)
def test_duckdb_1_2_answers_every_view(tmp_path: Path) -> None:
    (tmp_path / "worker_raw.log").write_bytes((ROOT / "samples" / "grpo-tiny-a" / "worker_raw.log").read_bytes())
    store = once(tmp_path)
    venv.create(tmp_path / "old", with_pip=False)
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([*pip, "duckdb==1.2.2"], check=True)
    done = subprocess.run(
        [str(tmp_path / "old" / "bin" / "python"), "-c", ASK, str(store)],
        env={"PYTHONPATH": str(target)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["counts"]["mismatches"] == 12
    assert answer["counts"]["metrics"] == 96
    assert answer["past"] == 0
