"""A history of 10,000 steps with 200 keys is held against the server's within a minute of CPU and 400 MB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(290)]
ROOT = Path(__file__).resolve().parents[2]

_WORK = """
import json, resource, sys, time
from datetime import datetime
import duckdb
from tests.wandb.histories import Histories, at, ranges
from tic_daemon.store import migrate
from tic_daemon.store.derive import Derived

steps, keys, path = 10_000, 200, sys.argv[1]
lost = {*range(3000, 3200), *range(7000, 7013)}

def fill():
    con = duckdb.connect(path, config={"threads": 1, "memory_limit": "256MB"})
    now = datetime(2026, 11, 29, 10)
    migrate.migrate(con, "s", "/w", "h", now); Derived().rebuild(con, now); migrate.public_views(con)
    h = Histories(con=con)
    sides = ((h.local(), 1_000_000, "true", "NULL"), (h.api(), 2_000_000, f"i NOT IN ({','.join(map(str, lost))})", "'read'"))
    h.rec_id = 10_000_000
    seen = ranges([step for step in range(steps) if step not in lost])
    h.read(sides[1][0], steps + 100, seen, 1000); h.read(sides[1][0], steps + 160, seen, 777); h.flush()
    for source, base, held, read in sides:
        con.execute(f"INSERT INTO wandb_row SELECT {base} + i, 's', 'h', {source}, 0, i * 100, 100, i + 1, NULL, '', NULL, NULL, '', '',"
                    f" TIMESTAMP '2026-11-29 12:00:00' + to_seconds(i), 1, true, NULL, false, NULL, false, '',"
                    f" TIMESTAMP '2026-11-29 12:00:01' + to_seconds(i), i, i, '', {keys}, 'd', {read} FROM range({steps}) t(i) WHERE {held}")
        for low in range(0, steps, 500):
            con.execute(f"INSERT INTO wandb_value SELECT {base} + i, 'group/key_' || k, i * 0.1 + k, NULL, 'number', TIMESTAMP '2026-11-29 12:00:01'"
                        f" FROM range({low}, {low + 500}) t(i), range({keys}) q(k) WHERE {held} ORDER BY i, k")
    con.close()

def work():
    con = duckdb.connect(path, config={"threads": 1, "memory_limit": "256MB"})
    derived = Derived(); derived.rebuild(con, at(steps + 200)); derived.wandb.note({"wandb_row"})
    began, longest = time.thread_time(), 0.0
    while True:
        slice_began = time.thread_time()
        con.execute("BEGIN"); more = derived.wandb.slice(con, at(steps + 200)); con.execute("COMMIT")
        longest = max(longest, time.thread_time() - slice_began)
        if not more:
            break
    con.execute("SET VARIABLE now = ?", [at(steps + 200)])
    gaps = con.execute("SELECT kind, source, first_step, last_step FROM wandb_gaps ORDER BY first_step").fetchall()
    print(json.dumps({"cpu": time.thread_time() - began, "longest": longest, "gaps": gaps,
                      "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}))

fill() if sys.argv[2] == "fill" else work()
"""


def test_ten_thousand_steps_of_two_hundred_keys(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'daemon'}"}

    def run(what: str) -> str:
        command = [sys.executable, "-c", _WORK, str(tmp_path / "store.duckdb"), what]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=250, check=True).stdout

    run("fill")
    told = json.loads(run("work"))
    assert told["gaps"] == [["missing", "wandb_api", 3000, 3199], ["missing", "wandb_api", 7000, 7012]]
    assert told["cpu"] < 60 and told["mb"] < 400, told
    assert told["longest"] < 2, "the tail waits for a slice"
