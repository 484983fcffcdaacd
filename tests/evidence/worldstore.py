"""A store in memory with the real tables, derivations and views, filled from worlds in any order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa

from tests.evidence.oracle import Row, World
from tic_daemon.store import migrate
from tic_daemon.store.derive import Derived
from tic_daemon.store.exchange import what_it_says
from tic_daemon.store.exchange_lines import parse_line, to_line
from tic_daemon.store.upsert import REMOTE_INSERTS

SCHEMA = Path(migrate.__file__).with_name("schema")
EPOCH, NOW = datetime(1970, 1, 1), datetime(2026, 12, 1)
EVENTS = (
    "mismatch", "fault", "step_event", "metric", "device", "source_run", "process_seen", "stamp_after", "exec_state", "weight_phase",
)  # fmt: skip
TRACKS = {"updated": "version", "reset": "cache", "reset_refused": "cache", "captured": "graph"}
Key = tuple[int, int, int]
State = tuple[str, int, str, str]


def prepare(con: duckdb.DuckDBPyConnection, store_id: str = "s") -> None:
    """The whole schema, as a daemon's start makes it."""
    migrate.migrate(con, store_id, "/w", "h", NOW, SCHEMA)
    Derived().rebuild(con, NOW)
    migrate.public_views(con, SCHEMA)


def stamp(us: int | None) -> datetime | None:
    return None if us is None else EPOCH + timedelta(microseconds=us)


def twin(world: World) -> World:
    """The same world under other names: what is inserted in another order beside the first."""

    def named(text: str) -> str:
        return text.replace("w", "v", 1).replace("/w", "/v").replace("run", "twin") if text else text

    far = 10**6
    return World(
        {s.id + far: replace(s, id=s.id + far, host=named(s.host), root=named(s.root), path=named(s.path), run_hint=named(s.run_hint))
         for s in world.sources.values()},
        [replace(r, src=r.src + far, node=named(r.node), run=named(r.run)) for r in world.rows],
        [replace(a, run=named(a.run), id=named(a.id), cut=tuple((s + far, g, o) for s, g, o in a.cut)) for a in world.attempts],
        world.rules,
    )  # fmt: skip


class WorldStore:
    def __init__(self, store_id: str = "s") -> None:
        self.store_id = store_id
        self.con = duckdb.connect()
        self.con.execute("SET threads = 1")
        prepare(self.con, store_id)

    def put(self, table: str, rows: Sequence[dict[str, object]]) -> None:
        if not rows:
            return
        kinds = {
            str(name): str(kind)
            for name, kind in self.con.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?", [table]
            ).fetchall()
        }
        arrow = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "INTEGER": pa.int32(), "BOOLEAN": pa.bool_(),
                 "DOUBLE": pa.float64(), "TIMESTAMP": pa.timestamp("us")}  # fmt: skip
        columns = list(rows[0])
        batch = pa.table({c: pa.array([r[c] for r in rows], arrow[kinds[c]]) for c in columns})
        self.con.register("batch", batch)
        self.con.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM batch")
        self.con.unregister("batch")

    def fill(self, worlds: Sequence[World], rng: random.Random) -> None:
        """The worlds and nothing else, each table in a random order, read at random times."""
        others = ("source", "cursor", "fault_rule", "run_attempt", "attempt_cut", "remote_fault", "remote_place")
        for table in (*EVENTS, *others):
            self.con.execute(f"DELETE FROM {table}")
        self.told: dict[tuple[object, ...], int] = {}
        self.said: dict[tuple[object, ...], object] = {}
        self.heard = 0
        rules = {kind: rule for world in worlds for kind, rule in world.rules.items()}
        self.put("fault_rule", [
            {"kind": k, "severity": r.severity, "locks": r.locks, "node_scope": r.node_scope, "title": k, "pack": "test", "product": ""}
            for k, r in rules.items()
        ])  # fmt: skip
        hosts = {s.id: s.host for world in worlds for s in world.sources.values()}
        self.put("source", [
            {"source_id": s.id, "kind": "file", "host": s.host, "root": s.root, "path": s.path, "role": "unknown", "rank": s.rank,
             "pid": s.pid, "single_process": s.single, "stream": s.stream, "console": s.console, "run_hint": s.run_hint,
             "run_how": s.run_how, "zone_s": s.zone_s, "state": "growing", "generation": 0, "last_growth_at": NOW,
             "first_seen_at": NOW, "observed_at": NOW}
            for world in worlds for s in world.sources.values()
        ])  # fmt: skip
        places = sorted({(r.src, r.gen) for world in worlds for r in world.rows})
        self.put("cursor", [
            {"source_id": s, "generation": g, "byte_offset": 1 << 40, "prov": 5, "observed_at": NOW} for s, g in places
        ])  # fmt: skip
        rec_ids = list(range(1, 1 + sum(len(world.rows) for world in worlds)))
        rng.shuffle(rec_ids)
        for table in EVENTS:
            rows = [r for world in worlds for r in world.rows if r.table == table]
            rng.shuffle(rows)
            self.put(table, [self.row(r, rec_ids.pop(), hosts[r.src], rng) for r in rows])
        self.put("run_attempt", [
            {"rec_id": n, "id": a.id, "run_id": a.run, "from_kind": "now" if a.time is None else "time", "from_time": stamp(a.time),
             "declared_at": stamp(a.declared_at), "reason": "", "who": "", "host": "", "observed_at": NOW}
            for world in worlds for n, a in enumerate(world.attempts)
        ])  # fmt: skip
        self.put("attempt_cut", [
            {"id": a.id, "source_id": s, "generation": g, "byte_offset": o, "observed_at": NOW}
            for world in worlds for a in world.attempts for s, g, o in a.cut
        ])  # fmt: skip
        derived = Derived()
        derived.left_out(self.con)  # no tick brought these rows
        derived.rebuild(self.con, NOW)

    def say(self) -> list[bytes]:
        """What its daemon would append now: what is new or changed since the last call, and what holds no more."""
        now = {row.key: row for row in what_it_says(self.con)}
        news = [row for key, row in now.items() if self.said.get(key) != row]
        gone = [replace(row, gone=True) for key, row in self.said.items() if key not in now]
        self.said = now
        lines = []
        for row in (*news, *gone):
            self.told[row.key] = self.told.get(row.key, 0) + 1
            lines.append(to_line(replace(row, revision=self.told[row.key])))
        return lines

    def hear(self, lines: Sequence[bytes], store_id: str, rng: random.Random | None = None) -> None:
        """Takes lines of another store in, in any order, and derives."""
        rows = [parse_line(line, store_id) for line in lines]
        assert not [row for row in rows if isinstance(row, str)]
        if rng is not None:
            rng.shuffle(rows)
        for cls, statement in REMOTE_INSERTS.items():
            if told := [row for row in rows if isinstance(row, cls)]:
                self.con.register("_batch", statement.table(told, NOW, 10**6 + self.heard))
                self.con.execute(statement.sql)
                self.con.unregister("_batch")
                self.heard += len(told)
        Derived().rebuild(self.con, NOW)

    @staticmethod
    def row(r: Row, rec_id: int, host: str, rng: random.Random) -> dict[str, object]:
        prov = 4 if not r.live else rng.choice((None, None, 5))  # the live set of every cursor is 5
        row: dict[str, object] = {
            "rec_id": rec_id, "store_id": "s", "host": host, "source_id": r.src, "generation": r.gen, "byte_offset": r.off,
            "byte_length": 20, "line_no": 1 + r.off // 20, "prov": prov, "proc": r.proc, "pid": r.pid, "proc_rank": r.rank, "actor": "",
            "stream": r.stream, "stamp": stamp(r.stamp), "stamp_res_us": r.res, "stamp_utc": r.utc, "after_stamp": stamp(r.after),
            "after_utc": r.after_utc, "step": r.step, "step_carried": r.carried, "policy": "",
            "observed_at": NOW - timedelta(seconds=rng.randint(0, 10**6)),
        }  # fmt: skip
        if r.table == "mismatch":
            row |= {"run": r.run, "metric": "logprob_mae", "value": 0.5, "value_text": "0.5", "parse_state": "ok", "raw": "",
                    "scope": "fixed-input", "intervention": "none"}  # fmt: skip
        elif r.table == "fault":
            row |= {
                "kind": r.kind,
                "verdict": r.verdict,
                "text": r.text,
                "code": "",
                "bus": r.bus,
                "node": r.node,
                "raw": "",
            }
        elif r.table == "step_event":
            row |= {"edge": r.edge, "gpu": r.gpu, "rule": "", "raw": ""}
        elif r.table == "metric":
            row |= {"key": "k", "value": 1.0, "value_text": "1", "raw": ""}
        elif r.table == "device":
            row |= {"bus": r.bus, "node": r.node}
        elif r.table == "exec_state":
            row |= {
                "role": "rollout",
                "field": r.field,
                "claimed": r.claimed,
                "observed": r.observed,
                "rule": r.rule,
            }
        elif r.table == "weight_phase":
            row |= {
                "role": "rollout",
                "track": TRACKS.get(r.phase, "residency"),
                "phase": r.phase,
                "level": r.level,
                "version": "",
                "rule": r.rule,
            }
        elif r.table == "source_run":
            row |= {"run": r.run, "how": "record"}
        return row

    def states(self) -> dict[Key, State]:
        rows = self.con.execute(
            "SELECT source_id, generation, byte_offset, run_id, attempt, admissibility, reason FROM mismatches"
        ).fetchall()
        found = {(r[0], r[1], r[2]): (r[3], r[4], r[5], r[6]) for r in rows}
        assert len(found) == len(rows), "a record has two places"
        return found
