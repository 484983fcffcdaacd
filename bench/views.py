"""The lock on ten million records and 2,500 faults: what the views cost, beside a bare scan of the same table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import duckdb

from tic_daemon.store import migrate
from tic_daemon.store.derive import Derived

RECORDS = int(os.environ.get("TIC_BENCH_RECORDS", "10000000"))
FAULTS = 2500
SOURCES = 1000
NOW = datetime(2026, 1, 2)

_AT = (
    "'s', 'h' || ({src} % 8), 1000003 * ({src} + 1), 0, {off}, 150, {off} // 200, NULL, 'pid:' || (5000 + {src}), 5000 + {src}, "
    "{src}, '', '{stream}', {stamp}, 1000000, false, {stamp} - INTERVAL 1 SECOND, false, {step}, false, '', {seen}"
)
_CLOCK = "TIMESTAMP '2026-01-01' + to_microseconds(({i} * 86400000000 // {records})::BIGINT)"
# Four commits a second, each with a time of its own, as the daemon makes them.
_SEEN = "TIMESTAMP '2026-01-01 00:00:01' + to_microseconds(({i} * 86400000000 // {records} // 250000 * 250000)::BIGINT)"


def main(folder: Path) -> list[str]:
    """Lines of the report. `folder` gets a store of some hundred MB and is left as it was."""
    path = folder / "views.duckdb"
    path.unlink(missing_ok=True)
    try:
        with duckdb.connect(str(path)) as con:
            con.execute("SET threads = 2")
            derived = fill(con)
            return _measure(con, derived)
    finally:
        path.unlink(missing_ok=True)


def fill(con: duckdb.DuckDBPyConnection) -> float:
    """A run of one day on 1,000 workers; faults begin after 40 % of it. Returns the seconds that deriving took."""
    migrate.migrate(con, "0" * 12, "/w", "h0", NOW)

    def at(src: str, off: str, i: str, step: str, stream: str = "", stamped: str = "true") -> str:
        clock = _CLOCK.format(i=i, records=RECORDS)
        stamp = f"CASE WHEN {stamped} THEN {clock} END"
        seen = _SEEN.format(i=i, records=RECORDS)
        return _AT.format(src=src, off=off, step=step, stream=stream, stamp=stamp, seen=seen)

    con.execute(
        f"INSERT INTO source SELECT 1000003 * (i + 1), 'file', 'h' || (i % 8), '/r', '/r/w' || i || '.log', 'rollout', 'plain', "
        f"i, 5000 + i, true, CASE WHEN i % 2 = 0 THEN 'stdout' ELSE '' END, false, '', '', CASE WHEN i % 10 <> 3 THEN 0 END, '', "
        f"false, 'growing', '', '', 0, 1000000, TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-02 00:00:01', TIMESTAMP '2026-01-02 00:00:01' "
        f"FROM range({SOURCES}) t(i)"
    )
    con.execute(
        f"INSERT INTO cursor SELECT 1000003 * (i + 1), 0, 10000000, 50000, 0, '', '', 0, 0, '', false, NULL, 50000, 0, 0, 0, 0, "
        f"'', now()::TIMESTAMP FROM range({SOURCES}) t(i)"
    )
    record = at("(i % 1000)", "(i // 1000) * 200", "i", f"i // {RECORDS // 1000}", stamped="i % 3 > 0")
    con.execute(
        f"INSERT INTO mismatch SELECT i, {record}, 'run-a', 'sha', 'decode', '0', '0', 'fixed-input', 'none', 'logprob_mae', "
        f"0.001, '0.001', 'trainer', 0.0005, '0.0005', 'r', 'numerical', '{{}}', 'ok', '[mismatch] x' FROM range({RECORDS}) t(i)"
    )
    for table, extra in (("process_seen", ""), ("source_run", ", 'run-a', 'record'")):
        con.execute(f"INSERT INTO {table} SELECT i, {at('i', '0', '0', 'NULL')}{extra} FROM range({SOURCES}) t(i)")
    ends = at("(i % 1000)", "(i // 1000) * 20000 + 50", f"(i * {RECORDS // 1_000_000})", "i // 1000")
    con.execute(f"INSERT INTO step_event SELECT i, {ends}, 'end', true, 'r', '' FROM range(1000000) t(i)")
    base, apart = RECORDS * 4 // 10, max(1, RECORDS // 2 // FAULTS)
    fault = at(
        "(i * 10 % 1000)", f"({base} + i * {apart}) // 1000 * 200 + 10", f"({base} + i * {apart})",
        f"CASE WHEN i % 4 = 0 THEN ({base} + i * {apart}) // {RECORDS // 1000} END", stream="stderr", stamped="i % 3 > 0",
    )  # fmt: skip
    con.execute(
        f"INSERT INTO fault SELECT i, {fault}, 'cuda.illegal_address', 'confirmed', 'x', '', '', '', '' FROM range({FAULTS}) t(i)"
    )
    con.execute("INSERT INTO fault_rule VALUES ('cuda.illegal_address', 'L', 'always', false, '', '', '')")
    began = time.perf_counter()
    Derived().rebuild(con, NOW)
    took = time.perf_counter() - began
    migrate.public_views(con)
    con.execute("CHECKPOINT")
    return took


def _measure(con: duckdb.DuckDBPyConnection, derived: float) -> list[str]:
    def clock(sql: str) -> tuple[float, object]:
        best, answer = float("inf"), None
        for _ in range(3):
            began = time.perf_counter()
            answer = con.execute(sql).fetchall()
            best = min(best, time.perf_counter() - began)
        return best, answer

    ask: Callable[[str], tuple[float, object]] = clock
    bare, _ = ask("SELECT step, stamp, source_id, count(*) FROM mismatch GROUP BY ALL HAVING count(*) > 1000")
    lock, told = ask("SELECT admissibility, count(*) FROM mismatches GROUP BY 1 ORDER BY 1")
    page, _ = ask(f"SELECT * FROM mismatches WHERE rec_id > {RECORDS - 1000} ORDER BY rec_id LIMIT 200")
    runs, _ = ask("SELECT * FROM runs")
    return [
        f"views: {RECORDS:,} records, {FAULTS:,} faults, {SOURCES:,} sources, 1,000,000 step lines; best of 3, two threads",
        f"  admissibility of all records {lock:.2f} s; a group-by of three columns of the table {bare:.2f} s, ratio {lock / bare:.2f}",
        f"  newest 200 records           {1e3 * page:.0f} ms",
        f"  view runs                    {runs:.2f} s",
        f"  deriving faults and places   {derived:.2f} s, once and when a fault comes",
        f"  answer                       {told}",
    ]
