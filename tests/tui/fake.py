"""A reader over in-memory DuckDB tables that bear the names and columns of the public views."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from tests.tui import compared, judged
from tic_daemon.store.reader import Tail

NOW = datetime.now(UTC).replace(tzinfo=None, microsecond=0)

SCHEMA = """
CREATE TABLE runs (run_id VARCHAR, attempt INTEGER, state VARCHAR, locked BOOLEAN, first_fault_rec_id BIGINT,
  last_step BIGINT, last_event_at TIMESTAMP, last_observed_at TIMESTAMP, mismatches BIGINT, faults BIGINT,
  wandb_gaps BIGINT, marked BOOLEAN, named_by_us BOOLEAN);
CREATE TABLE mismatches (rec_id BIGINT, run_id VARCHAR, attempt INTEGER, step BIGINT, step_carried BOOLEAN,
  policy VARCHAR, input VARCHAR, phase VARCHAR, rank VARCHAR, repeat VARCHAR, scope VARCHAR, intervention VARCHAR,
  metric VARCHAR, value DOUBLE, reference VARCHAR, self_repeat DOUBLE, noise_ratio DOUBLE, report VARCHAR,
  classification VARCHAR, parse_state VARCHAR, admissibility VARCHAR, reason VARCHAR, marked BOOLEAN,
  is_evidence BOOLEAN, not_evidence_because VARCHAR, graph_mode VARCHAR, step_kind VARCHAR, prefix_cache VARCHAR,
  prefix_hit_rate VARCHAR, weight_phase VARCHAR, host VARCHAR, pid BIGINT, path VARCHAR, source_id BIGINT,
  generation INTEGER, line_no BIGINT, byte_offset BIGINT, byte_length BIGINT, event_at TIMESTAMP,
  observed_at TIMESTAMP, raw VARCHAR, store_id VARCHAR DEFAULT 's1', provisional BOOLEAN DEFAULT false,
  state_source VARCHAR DEFAULT '', state_note VARCHAR DEFAULT '', state_by_time VARCHAR DEFAULT '',
  finding_ids VARCHAR DEFAULT '');
CREATE TABLE faults (rec_id BIGINT, run_id VARCHAR, attempt INTEGER, severity VARCHAR, kind VARCHAR, verdict VARCHAR,
  locks BOOLEAN, rank INTEGER, pid BIGINT, host VARCHAR, code VARCHAR, step BIGINT, text VARCHAR, raw VARCHAR,
  title VARCHAR, reason VARCHAR, echo_of BIGINT,
  path VARCHAR, line_no BIGINT, byte_offset BIGINT, byte_length BIGINT, event_at TIMESTAMP, observed_at TIMESTAMP,
  store_id VARCHAR DEFAULT 's1', last_attempt INTEGER DEFAULT 1, source_id BIGINT DEFAULT 7,
  generation INTEGER DEFAULT 0, origin_store_id VARCHAR, origin_rec_id BIGINT,
  witness_of BIGINT, witnesses BIGINT DEFAULT 0, incident_store_id VARCHAR);
CREATE TABLE exec_state_now (run_id VARCHAR, attempt INTEGER, role VARCHAR, rank INTEGER, host VARCHAR, pid BIGINT,
  field VARCHAR, claimed VARCHAR, observed VARCHAR, event_at TIMESTAMP, observed_at TIMESTAMP);
CREATE TABLE weight_lifecycle (rec_id BIGINT, run_id VARCHAR, attempt INTEGER DEFAULT 1, role VARCHAR, rank INTEGER,
  host VARCHAR DEFAULT 'node1', pid BIGINT, track VARCHAR, phase VARCHAR, level VARCHAR, version VARCHAR,
  legal BOOLEAN DEFAULT true, path VARCHAR DEFAULT '/logs/rollout.log', line_no BIGINT DEFAULT 1,
  generation INTEGER DEFAULT 0, byte_offset BIGINT DEFAULT 0, byte_length BIGINT DEFAULT 80,
  event_at TIMESTAMP, observed_at TIMESTAMP DEFAULT now()::TIMESTAMP, duration_s DOUBLE, keeps_kv BOOLEAN DEFAULT false,
  voice VARCHAR DEFAULT '', source_id BIGINT DEFAULT 7, finding VARCHAR DEFAULT '');
CREATE TABLE fault_files (run_id VARCHAR, attempt INTEGER, kind VARCHAR, path VARCHAR, host VARCHAR, pid BIGINT,
  rank INTEGER, bytes_size BIGINT, modified_at TIMESTAMP, why VARCHAR, present BOOLEAN DEFAULT true);
CREATE TABLE lifecycle_findings (finding_id VARCHAR, rec_id BIGINT, run_id VARCHAR, attempt INTEGER, role VARCHAR,
  rank INTEGER, host VARCHAR, pid BIGINT, kind VARCHAR, severity VARCHAR, detail VARCHAR, first_step BIGINT,
  last_step BIGINT, from_at TIMESTAMP, until_at TIMESTAMP, path VARCHAR, line_no BIGINT, byte_offset BIGINT,
  observed_at TIMESTAMP, source_id BIGINT DEFAULT 7, generation INTEGER DEFAULT 0, until_generation BIGINT,
  until_offset BIGINT, log_host VARCHAR AS (host));
CREATE TABLE gpus (host VARCHAR, gpu_index INTEGER, uuid VARCHAR, name VARCHAR, run_id VARCHAR, rank INTEGER, pid BIGINT,
  memory_used BIGINT, memory_total BIGINT, utilization DOUBLE, throttle VARCHAR, ecc_uncorrected BIGINT, last_xid VARCHAR,
  read_at TIMESTAMP, observed_at TIMESTAMP, why VARCHAR);
CREATE TABLE artifacts (run_id VARCHAR, state VARCHAR, path VARCHAR, host VARCHAR, why VARCHAR, bytes_size BIGINT,
  sha256 VARCHAR, expected_sha256 VARCHAR, manifest VARCHAR, modified_at TIMESTAMP, observed_at TIMESTAMP);
CREATE TABLE wandb_runs (run_id VARCHAR, wandb_id VARCHAR, run_path VARCHAR, mode VARCHAR, state VARCHAR, local_steps BIGINT,
  server_steps BIGINT, uploader VARCHAR, uploader_at TIMESTAMP, uploader_status BIGINT, dropped BIGINT DEFAULT 0,
  read_outcome VARCHAR, read_at TIMESTAMP, read_ok_at TIMESTAMP, gaps BIGINT DEFAULT 0, findings BIGINT DEFAULT 0,
  project_note VARCHAR DEFAULT '');
CREATE TABLE wandb_gaps (run_id VARCHAR, attempt INTEGER DEFAULT 1, wandb_id VARCHAR, kind VARCHAR, source VARCHAR, first_step BIGINT,
  last_step BIGINT, axis VARCHAR DEFAULT '_step', key VARCHAR, detail VARCHAR, confirmed BOOLEAN);
CREATE TABLE step_coverage (run_id VARCHAR, source VARCHAR, step BIGINT, state VARCHAR, main BOOLEAN DEFAULT true);
CREATE TABLE wandb_step_rows (run_id VARCHAR, axis VARCHAR, step BIGINT, source VARCHAR, key VARCHAR, value DOUBLE,
  value_text VARCHAR, kind VARCHAR);
CREATE TABLE marks (rec_id BIGINT, id VARCHAR, run_id VARCHAR, attempt INTEGER, scope VARCHAR, target VARCHAR,
  verdict VARCHAR, reason VARCHAR, who VARCHAR, marked_at TIMESTAMP, retracted BOOLEAN);
CREATE TABLE steps (run_id VARCHAR, step BIGINT);
CREATE TABLE sources (source_id BIGINT, run_id VARCHAR, bytes_read BIGINT, last_growth_at TIMESTAMP, state VARCHAR,
  first_seen_at TIMESTAMP DEFAULT TIMESTAMP '2000-01-01', host VARCHAR, path VARCHAR, generation INTEGER DEFAULT 0,
  lines BIGINT DEFAULT 0);
CREATE TABLE step_lines (rec_id BIGINT, store_id VARCHAR DEFAULT 's1', run_id VARCHAR, attempt INTEGER, step BIGINT,
  event_at TIMESTAMP, observed_at TIMESTAMP, provisional BOOLEAN DEFAULT false, host VARCHAR DEFAULT 'node1',
  path VARCHAR, generation INTEGER DEFAULT 0, line_no BIGINT DEFAULT 1);
CREATE TABLE metrics (run_id VARCHAR, step BIGINT, key VARCHAR, value DOUBLE, value_text VARCHAR, source_kind VARCHAR);
CREATE TABLE exec_states (rec_id BIGINT, run_id VARCHAR, attempt INTEGER DEFAULT 1, step BIGINT, role VARCHAR,
  rank INTEGER, host VARCHAR DEFAULT 'node1', pid BIGINT, field VARCHAR, claimed VARCHAR, observed VARCHAR,
  rule VARCHAR DEFAULT 'vllm.test', path VARCHAR DEFAULT '/logs/rollout.log', voice VARCHAR DEFAULT '',
  source_id BIGINT DEFAULT 7, generation INTEGER DEFAULT 0, line_no BIGINT, byte_offset BIGINT, byte_length BIGINT DEFAULT 80,
  event_at TIMESTAMP, observed_at TIMESTAMP DEFAULT now()::TIMESTAMP);
CREATE TABLE coverage (run_id VARCHAR, rank INTEGER, watched BOOLEAN);
CREATE TABLE liveness (run_id VARCHAR, verdict VARCHAR, worker_at TIMESTAMP, console_at TIMESTAMP, step_at TIMESTAMP,
  moved_last VARCHAR, checkpoint_at TIMESTAMP, why VARCHAR);
CREATE VIEW run_states AS SELECT run_id, attempt, state, locked, first_fault_rec_id, 's1' AS store_id, faults, marked,
  named_by_us, last_observed_at AS last_growth_at, 0 AS remote_faults, NULL::VARCHAR AS first_fault_origin FROM runs;
CREATE VIEW attempt_states AS SELECT run_id, attempt, first_fault_rec_id,
  CASE WHEN first_fault_rec_id IS NOT NULL THEN [first_fault_rec_id] END AS first_fault_candidates, 's1' AS store_id,
  '' AS first_fault_why FROM runs;
"""

FINDING = (
    "lifecycle_findings (finding_id, rec_id, run_id, attempt, role, rank, host, pid, kind, severity, detail, first_step,"
    " last_step, from_at, until_at, path, line_no, byte_offset, observed_at)"
)
RAW = (
    "[mismatch] run={run} step={step} policy=p{step} input=ab12 phase=decode rank=0 repeat=0\n"
    "  scope=fixed-input intervention=none\n"
    "  metric=logprob_mae value={value} reference=run/0/logprobs\n"
    "  self_repeat=0.0012 report=reports/{step}.json classification=unknown\n"
)


@dataclass(frozen=True)
class Result:
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool
    elapsed_s: float
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Connection:
    kind: str
    state: str
    since: datetime | None
    detail: str
    target: str
    data_at: datetime | None = None
    hint: str = ""
    stores: tuple[Connection, ...] = ()


@dataclass(frozen=True)
class Filled:
    """What a store holds: another one is filled with it in a tenth of the time that writing it takes."""

    tables: dict[str, Any]
    commits: tuple[int | None, ...]
    seen: dict[str, datetime]
    standing: int

    @classmethod
    def of(cls, store: FakeStore) -> Filled:
        names = [row[0] for row in store.db.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        tables = {name: store.db.execute(f"SELECT * FROM {name}").to_arrow_table() for name in names}
        filled = {name: table for name, table in tables.items() if table.num_rows}
        return cls(filled, tuple(store.commits), dict(store.seen), store.standing)

    def copy_into(self, store: FakeStore) -> None:
        for name, table in self.tables.items():
            store.db.register("filled", table)
            written = ", ".join(f'"{c}"' for c in table.column_names if c != "log_host")  # that one is generated
            store.db.execute(f"INSERT INTO {name} ({written}) SELECT {written} FROM filled")
            store.db.unregister("filled")
        store.commits[:], store.standing = self.commits, self.standing
        store.seen.update(self.seen)


_DEMO: list[Filled] = []


class FakeStore:
    """The store behind the readers: tests write it while a screen reads."""

    def __init__(self) -> None:
        self.db = duckdb.connect(":memory:")
        self.db.execute(SCHEMA + compared.SCHEMA + judged.SCHEMA)
        self.lock = threading.Lock()
        self.news = threading.Condition(self.lock)
        self.commits: list[int | None] = []
        self.seen: dict[str, datetime] = {}
        self.standing = 0
        self.up = True
        self.opened = 0
        self.asked: list[str] = []
        self.states = 0

    def open(self, target: str) -> FakeReader:
        self.opened += 1
        if not self.up:
            raise ConnectionError("nobody answers at \x1b]0;owned\x07 the endpoint")
        return FakeReader(self)

    def write(self, sql: str, params: Sequence[object] = (), *, rec_id: int | None = None) -> None:
        """Writes something. `rec_id`: it is a new record and changes nothing else; without it anything may have."""
        with self.lock:
            self.db.execute(sql, list(params))
            self.commits.append(rec_id)
            self.standing += rec_id is None
            self.news.notify_all()

    def grow(self) -> None:
        with self.lock:
            self.db.execute("UPDATE sources SET bytes_read = bytes_read + 1")
            self.commits.append(None)
            self.news.notify_all()

    def run(self, run_id: str, *, state: str = "moving", locked: bool = False, attempt: int = 1, seen: int = 0) -> None:
        at = NOW - timedelta(seconds=seen)
        self.seen[run_id] = at
        self.write(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, 11, ?, ?, 0, 0, 0, false, false)",
            [run_id, attempt, state, locked, 9001 if locked else None, at, at],
        )
        self.write(
            "INSERT INTO sources (source_id, run_id, bytes_read, last_growth_at, state, first_seen_at)"
            " VALUES (1, ?, 100, ?, 'growing', ?)",
            [run_id, at, NOW - timedelta(days=30)],
        )
        self.write(
            "INSERT INTO step_lines (rec_id, run_id, attempt, step, event_at, observed_at) VALUES (1, ?, ?, 11, ?, ?)",
            [run_id, attempt, at, at],
        )

    def mismatch(
        self, rec_id: int, run_id: str, *, step: int = 0, value: float | None = 0.0123, evidence: bool = True,
        admissibility: str = "admissible", reason: str = "", metric: str = "logprob_mae", raw: str = "",
        because: str = "", attempt: int = 1,
    ) -> None:  # fmt: skip
        noise = 0.0012
        self.write(
            "INSERT INTO mismatches VALUES (?, ?, ?, ?, false, ?, 'ab12', 'decode', '0', '0', 'fixed-input', 'none', ?,"
            " ?, 'run/0/logprobs', ?, ?, ?, 'unknown', 'ok', ?, ?, false, ?, ?, 'FULL_AND_PIECEWISE', 'unknown', 'on',"
            " '0.42', 'awake', 'node1', 4521, ?, 7, 0, ?, ?, 240, ?, ?, ?, 's1', false, 'own log', '', '', '')",
            [
                rec_id, run_id, attempt, step, f"p{step}", metric, value, noise,
                None if value is None else value / noise,
                f"reports/{step}.json", admissibility, reason, evidence, because or None,
                f"/logs/{run_id}/worker-0.log", rec_id * 4 + 1, rec_id * 240, NOW,
                self.seen.get(run_id, NOW) + timedelta(microseconds=rec_id),
                raw or RAW.format(run=run_id, step=step, value=value),
            ],
            rec_id=rec_id,
        )  # fmt: skip
        self.write("UPDATE runs SET mismatches = mismatches + 1 WHERE run_id = ?", [run_id], rec_id=rec_id)
        self.grow()

    def fault(
        self, rec_id: int, run_id: str, *, kind: str = "cuda_illegal_memory_access", verdict: str = "confirmed",
        locks: bool = True, step: int | None = 8, text: str = "CUDA error: an illegal memory access was encountered",
    ) -> None:  # fmt: skip
        self.write(
            "INSERT INTO faults VALUES (?, ?, 1, 'L', ?, ?, ?, 3, 4524, 'node1', '700', ?, ?, ?,"
            " NULL, '', NULL, ?, 812, 90210, 91, ?, ?, 's1', 1, 7, 0, NULL, NULL, NULL, 0, NULL)",
            [rec_id, run_id, kind, verdict, locks, step, text, text, f"/logs/{run_id}/worker-3.log", NOW, NOW],
        )
        self.write("UPDATE runs SET faults = faults + 1 WHERE run_id = ?", [run_id])
        self.grow()

    def demo(self) -> None:
        """Three runs as a person would meet them: one locked, one well, one that ended. Made once, then copied."""
        if self.commits:
            self._make_demo()
        elif _DEMO:
            _DEMO[0].copy_into(self)
        else:
            self._make_demo()
            _DEMO.append(Filled.of(self))

    def _make_demo(self) -> None:
        self.run("grpo-tiny-a", locked=True)
        for n in range(40):
            late = n > 28
            self.mismatch(
                100 + n, "grpo-tiny-a", step=n // 2, value=0.004 + 0.0007 * (n % 7) + (0.09 if late else 0),
                evidence=n <= 24, admissibility="locked" if late else "suspect" if n > 24 else "admissible",
                reason="" if n <= 24 else "reported" if not late else "order unknown" if n < 31 else "after the fault",
                because="after the CUDA fault" if late else "order unknown" if n > 24 else "",
            )  # fmt: skip
        self.fault(9001, "grpo-tiny-a", step=14)
        self.fault(9002, "grpo-tiny-a", kind="nccl_watchdog_timeout", locks=False, step=15,
                   text="[rank2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=412)")  # fmt: skip
        self.run("ppo-qwen3-8b-dapo-longer-name", seen=90, state="quiet")
        for n in range(12):
            self.mismatch(300 + n, "ppo-qwen3-8b-dapo-longer-name", step=n, value=0.002 + 0.0002 * (n % 5))
        self.run("sft-warmup", state="ended", seen=86400 * 3)
        for role, graph in (("rollout", "FULL_AND_PIECEWISE"), ("trainer", None)):
            self.write(
                "INSERT INTO exec_state_now VALUES ('grpo-tiny-a', 1, ?, 0, 'node1', 4521, 'graph_mode', ?, ?, ?, ?)",
                [role, "FULL", graph, NOW, NOW],
            )
        self.write("INSERT INTO exec_state_now VALUES ('grpo-tiny-a', 1, 'rollout', 0, 'node1', 4521, 'prefix_cache',"
                   " NULL, 'on', ?, ?)", [NOW, NOW])  # fmt: skip
        for n, (track, phase, level, version) in enumerate((
            ("residency", "asleep", "2", None), ("residency", "awake", None, None), ("version", "reloaded", None, "12"),
            ("cache", "reset", None, None), ("graph", "captured", None, None),
        )):  # fmt: skip
            self.write(
                "INSERT INTO weight_lifecycle (rec_id, run_id, role, rank, pid, track, phase, level, version, line_no,"
                " byte_offset, event_at, observed_at) VALUES (?, 'grpo-tiny-a', 'rollout', 0, 4521, ?, ?, ?, ?, ?, ?, ?, ?)",
                [50 + n, track, phase, level, version, 20 + n, 1000 * n, NOW, NOW],
            )
        self.write(
            f"INSERT INTO {FINDING} VALUES ('f1', 52, 'grpo-tiny-a', 1, 'rollout', 0, 'node1', 4521,"
            " 'reset_refused', 'N', 'the prefix cache was not reset, because requests still held blocks of it', 12, 14,"
            " ?, NULL, '/logs/rollout.log', 22, 2000, ?)",
            [NOW, NOW],
        )
        self.write(
            "INSERT INTO gpus VALUES ('node1', 3, 'GPU-3', 'NVIDIA H200', 'grpo-tiny-a', 3, 4524, ?, ?, 87, '', 0, '31', ?,"
            " ?, '')",
            [90 << 30, 139 << 30, NOW, NOW],
        )
        self.write("INSERT INTO steps SELECT 'grpo-tiny-a', range FROM range(20)")
        self.write(
            "INSERT INTO liveness VALUES ('ppo-qwen3-8b-dapo-longer-name', 'quiet', ?, NULL, ?, 'worker log', ?,"
            " 'nothing has moved for 90 s, the worker log last; a step usually takes 12 s')",
            [NOW - timedelta(seconds=90), NOW - timedelta(seconds=100), NOW - timedelta(minutes=7)],
        )
        self.mark("mark-1", "grpo-tiny-a")
        self.grow()

    def lived(self) -> None:
        """Ten minutes of the demo's first run: its state, weights, numbers, faults and finding spread over them.

        The rollout's log tells in seconds before `NOW`: claims at 600 in line 3, FULL at 540, batches from 500 on, asleep
        at 400, awake at 360, reloaded at 350, the cache reset at 340, captured at 330. The fault locks at 120.
        """
        for ago, line, field, claimed, observed in (
            (600, 3, "graph_mode", "FULL_AND_PIECEWISE", None), (600, 3, "prefix_cache", "on", None),
            (540, 12, "graph_mode", None, "FULL"), (500, 15, "step_kind", None, "prefill"),
            (480, 16, "step_kind", None, "decode"), (475, 17, "step_kind", None, "decode"),
            (470, 18, "prefix_hit_rate", None, "43.5"), (300, 30, "step_kind", None, "prefill"),
            (299, 31, "step_kind", None, "mixed"), (298, 32, "step_kind", None, "decode"),
            (270, 33, "prefix_hit_rate", None, "12.0"),
        ):  # fmt: skip
            self.state(ago, line, field, claimed, observed)
        self.state(590, 2, "graph_mode", "NONE", None, role="trainer", path="/logs/trainer.log", pid=4600)
        for n, ago in enumerate((400, 360, 350, 340, 330)):
            self.write(
                "UPDATE weight_lifecycle SET event_at = ? WHERE rec_id = ?", [NOW - timedelta(seconds=ago), 50 + n]
            )
        self.write(
            "UPDATE mismatches SET event_at = ?::TIMESTAMP - to_seconds(14 * (139 - rec_id)) WHERE run_id = 'grpo-tiny-a'",
            [NOW],
        )
        for rec_id, ago in ((9001, 120), (9002, 100)):
            self.write("UPDATE faults SET event_at = ? WHERE rec_id = ?", [NOW - timedelta(seconds=ago), rec_id])
        self.write("UPDATE lifecycle_findings SET from_at = ?", [NOW - timedelta(seconds=345)])
        self.write(
            "UPDATE mismatches SET finding_ids = 'f1' WHERE run_id = 'grpo-tiny-a' AND admissibility = 'suspect'"
        )
        self.grow()

    def state(
        self, ago: int | None, line: int, field: str, claimed: str | None, observed: str | None, *, role: str = "rollout",
        path: str = "/logs/rollout.log", pid: int = 4521, run: str = "grpo-tiny-a", voice: str = "",
    ) -> None:  # fmt: skip
        """A line that told of a state, so many seconds before `NOW`; None: at no known time."""
        at = None if ago is None else NOW - timedelta(seconds=ago)
        self.states += 1
        self.write(
            "INSERT INTO exec_states (rec_id, run_id, role, pid, field, claimed, observed, path, line_no, byte_offset,"
            " event_at, observed_at, voice) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [7000 + self.states, run, role, pid, field, claimed, observed, path, line, line * 100, at, NOW, voice],
        )

    def mark(self, id: str, run_id: str, *, verdict: str = "inconclusive", reason: str = "wrong tokenizer") -> None:
        self.write(
            "INSERT INTO marks VALUES (1, ?, ?, NULL, 'run', '', ?, ?, 'ada', ?, false)",
            [id, run_id, verdict, reason, NOW],
        )
        self.write("UPDATE runs SET marked = true WHERE run_id = ?", [run_id])


class FakeReader:
    """`tic_daemon.store.reader.Reader` over a FakeStore."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self.closed = False

    def query(
        self, sql: str, params: Sequence[object] = (), *, as_of: datetime | None = None, max_rows: int = 100_000,
        timeout_s: float = 5.0, gather: str = "",
    ) -> Result:  # fmt: skip
        if not self._store.up:
            raise ConnectionError("the endpoint went away")
        with self._store.lock:
            self._store.asked.append(sql)
            cursor = self._store.db.execute(sql, list(params))
            names = tuple(d[0] for d in cursor.description)
            rows = cursor.fetchmany(max_rows + 1)
        return Result(names, (), rows[:max_rows], len(rows) > max_rows, 0.0)

    def tail(self, after: str = "", *, wait_s: float = 0.0, limit: int = 1000) -> Tail:
        store = self._store
        with store.news:
            store.news.wait_for(
                lambda: self.closed or not store.up or after != str(len(store.commits)), wait_s if after else 0
            )
            if self.closed or not store.up:
                raise ConnectionError("the endpoint went away")
            ids = sorted({i for i in store.commits[int(after or len(store.commits)) :] if i is not None})
            cursor = store.db.execute("SELECT * FROM mismatches WHERE list_contains(?, rec_id) ORDER BY rec_id", [ids])
            names = tuple(d[0] for d in cursor.description)
            rows = cursor.fetchall()
            kept = rows[max(0, len(rows) - limit) :]
            return Tail(str(len(store.commits)), str(store.standing), names, tuple(kept), len(rows) - len(kept))

    def connection(self) -> Connection:
        return Connection("live", "connected" if self._store.up else "disconnected", NOW, "", "fake")

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        with self._store.news:
            self.closed = True
            self._store.news.notify_all()
