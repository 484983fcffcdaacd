"""A store in memory with the real tables and views, filled from simulated worlds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa

from tests.evidence.sim import RULES, Said, World, line_of
from tic_daemon.evidence.bounds import Line
from tic_daemon.store import migrate
from tic_daemon.store.derive import Derived

SCHEMA = Path(migrate.__file__).with_name("schema")
NOW = datetime(2026, 6, 1)
AT = (
    "rec_id, store_id, host, source_id, generation, byte_offset, byte_length, line_no, prov, proc, pid, proc_rank, actor, "
    "stream, stamp, stamp_res_us, stamp_utc, after_stamp, after_utc, step, step_carried, policy, observed_at"
)


def when(us: int | None) -> datetime | None:
    return None if us is None else datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None) + timedelta(microseconds=us)


class Store:
    """Tables, base views, what is derived, and the public views."""

    def __init__(self) -> None:
        self.con = duckdb.connect()
        self.con.execute("SET threads = 1")
        migrate.migrate(self.con, "s", "/w", "h", NOW, SCHEMA)
        self.derived = Derived()
        self.derived.rebuild(self.con, NOW)
        migrate.public_views(self.con, SCHEMA)
        self.tables = [str(r[0]) for r in self.con.execute(
            "SELECT table_name FROM duckdb_columns() WHERE column_name = 'observed_at' AND NOT internal "
            "AND table_name IN (SELECT table_name FROM duckdb_tables()) AND table_name NOT LIKE 'd\\_%' ESCAPE '\\'"
        ).fetchall()]  # fmt: skip

    def clear(self) -> None:
        for table in self.tables:
            self.con.execute(f"DELETE FROM {table}")

    def insert(self, table: str, rows: Sequence[Sequence[object]], columns: str = "") -> None:
        """Rows as Arrow columns; row by row DuckDB takes seconds."""
        if rows:
            arrays = [pa.array(list(column)) for column in zip(*rows, strict=True)]
            batch = pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
            self.con.register("batch", batch)
            self.con.execute(f"INSERT INTO {table} {f'({columns})' if columns else ''} SELECT * FROM batch")
            self.con.unregister("batch")

    def rules(self) -> None:
        self.con.execute("DELETE FROM fault_rule")
        self.insert("fault_rule", [(k, s, locks, False, k, "test", "") for k, (s, locks) in RULES.items()])

    def fill(self, worlds: Iterable[World], rng: random.Random) -> None:
        """Inserts the worlds in a random order, and derives."""
        self.clear()
        self.rules()
        rows: list[tuple[str, str, tuple[object, ...]]] = []

        def at(line: Line, host: str, pid: int | None, prov: int | None = None) -> tuple[object, ...]:
            return (
                0, "s", host, line.source_id, line.generation, line.offset, 10, line.offset // 10 + 1, prov, line.proc, pid, None,
                "", line.stream, when(line.stamp), line.res, line.utc, when(line.after), line.after_utc, line.step,
                line.carried, "", NOW,
            )  # fmt: skip

        for world in worlds:
            hosts = {f.source.source_id: f.source.host for f in world.files}
            for file in world.files:
                s = file.source
                rows.append(("source", "source_id, kind, host, root, path, pid, single_process, stream, console, run_hint, run_how, "
                    "zone_s, state, generation, observed_at", (s.source_id, "file", s.host, f"/{world.run}", f"/{world.run}/{s.source_id}",
                    s.pid, s.single_process, s.stream, s.console, "", "", s.zone_s, "growing", 0, NOW)))  # fmt: skip
            generations = sorted({(line_of(s).source_id, line_of(s).generation) for s in world.said})
            for source_id, generation in generations:
                line = Line(source_id, generation, 0)
                rows.append(
                    (
                        "cursor",
                        "source_id, generation, byte_offset, prov, observed_at",
                        (source_id, generation, 9999, None, NOW),
                    )
                )
                rows.append(("source_run", "", (*at(line, hosts[source_id], None), world.run, "record")))
            for said in world.said:
                rows.append(_event(said, at, hosts, world.run))
            for first in world.firsts:
                rows.append(("process_seen", "", at(first.line, hosts[first.line.source_id], first.pid)))
            for line in world.stamp_after:
                rows.append(("stamp_after", "", at(line, hosts[line.source_id], None)))
            for number, declaration in enumerate(world.declarations):
                key = f"{world.run}-{number}"
                kind = "now" if declaration.from_us is None else "time"
                rows.append(("run_attempt", "", (None, key, world.run, kind, when(declaration.from_us), "because", "me",
                    NOW + timedelta(seconds=number), "h", NOW)))  # fmt: skip
                rows.extend(
                    ("attempt_cut", "", (key, source, *place, NOW)) for source, place in declaration.cut.items()
                )
        rng.shuffle(rows)
        grouped: dict[tuple[str, str], list[tuple[object, ...]]] = {}
        for rec_id, (table, columns, row) in enumerate((r for r in rows if r[0]), start=1):
            read_at = NOW - timedelta(seconds=rng.randint(0, 10**6))
            is_event = not columns and table not in {"run_attempt", "attempt_cut"}
            told = (rec_id, *row[1:22], read_at, *row[23:]) if is_event else row
            grouped.setdefault((table, columns), []).append(told)
        for (table, columns), group in grouped.items():
            self.insert(table, group, columns)
        self.derived.rebuild(self.con, NOW)


def _event(said: Said, at: object, hosts: dict[int, str], run: str) -> tuple[str, str, tuple[object, ...]]:
    line = line_of(said)
    head = at(line, hosts[line.source_id], said.process.pid if line.proc else None, 77 if said.ghost else None)  # type: ignore[operator]
    if said.what == "record":
        return "mismatch", "", (*head, run, "sha", "decode", "0", "0", "fixed-input", "none", "logprob_mae", 0.1, "0.1", "ref",
            0.05, "0.05", "r", "numerical", "{}", "ok", "raw")  # fmt: skip
    if said.what == "fault":
        return "fault", "", (*head, said.kind, said.verdict, "boom", "", "", "", "raw")
    if said.what == "step":
        return "step_event", "", (*head[:19], said.step, False, *head[21:], "end", True, "rule", "raw")
    return "", "", ()
