"""After a run the file is opened and answered by old clients: DuckDB 1.2 and 1.4, installed for real.

Before 1.4 DuckDB writes a CTE out anew at each mention, and what the store's storage format keeps of a view does not say
MATERIALIZED: four views that are made of many steps take such a client minutes. docs/explanation/store.md names them.
"""

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
assert duckdb.__version__ == sys.argv[2], duckdb.__version__
con = duckdb.connect(sys.argv[1], read_only=True)
con.execute("SET enable_progress_bar = false")  # it would stand before the answer
views = [name for (name,) in con.execute(
    "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()]
left_out = set(sys.argv[3:])
assert left_out <= set(views), views
counts = {view: con.execute(f'SELECT count(*) FROM (SELECT * FROM "{view}")').fetchone()[0] for view in views
          if view not in left_out}
con.execute("SET VARIABLE as_of = TIMESTAMP '2000-01-01'")
past = con.execute("SELECT count(*) FROM mismatches").fetchone()[0]
print(json.dumps({"counts": counts, "past": past}))
"""


DEEP = ("gates", "pair_rules", "pair_values", "pairs")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("old_client")
    (tmp_path / "worker_raw.log").write_bytes((ROOT / "samples" / "grpo-tiny-a" / "worker_raw.log").read_bytes())
    return once(tmp_path)


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    ("version", "left_out"),
    # `lamps` takes 1.2 as long as all others together.
    [("1.2.2", (*DEEP, "lamps")), pytest.param("1.2.2", DEEP, marks=pytest.mark.slow), ("1.4.0", ())],
    ids=["1.2.2", "1.2.2 with lamps", "1.4.0"],
)
def test_an_old_duckdb_answers_the_views(version: str, left_out: tuple[str, ...], store: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "old", with_pip=False)
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(target), f"duckdb=={version}"], check=True)
    done = subprocess.run(
        [str(tmp_path / "old" / "bin" / "python"), "-c", ASK, str(store), version, *left_out],
        env={"PYTHONPATH": str(target)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["counts"]["mismatches"] == 12
    assert answer["counts"]["metrics"] == 96
    assert answer["past"] == 0
