"""What three sources lack of each other: every kind of gap with its cause, and nothing where nothing is wrong.

All runs are in one store, and what is expected of each is worked out by hand from what was put.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from tests.wandb.histories import Gap, Histories, at
from tic_daemon.store import united
from tic_daemon.store.reconcile import Reconciler
from tic_daemon.store.statements import DERIVE, load

END = 1000.0


def verl(step: int) -> dict[str, object]:
    return {"training/global_step": step, "actor/pg_loss": step / 8, "_timestamp": 1.0 + step, "_runtime": step}


@pytest.fixture(scope="module")
def store() -> Iterator[Histories]:
    h = Histories()
    for put in PUTS:
        put(h)
    h.settle(END)
    yield h
    h.con.close()


def gaps(
    store: Histories, run: str, columns: str = "kind, source, first_step, last_step, key, cause, confirmed"
) -> list[Gap]:
    return store.gaps(columns, f"run_id = '{run}'")


def test_what_was_worked_with_is_not_held(store: Histories) -> None:
    """A row or two for each step of all runs, in a dozen tables: no memory for them between one round and the next."""
    rows = store.con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE temporary AND starts_with(table_name, 't_wandb_')"
    ).fetchall()
    worked = {
        f"t_{s.name}" for name in ("2_compare.sql", "3_gaps.sql") for s in load(DERIVE / "wandb" / name) if not s.kept
    }
    assert len(worked) > 20 and not worked & {row[0] for row in rows}


def _chunk(h: Histories) -> None:
    """2,000 steps; the server acknowledged two chunks and lost them; the first reading was cut short, the others not."""
    log, server = h.local("chunk", "chunk"), h.api("chunk", "chunk")
    for step in range(200):
        h.row(log, step, verl(step), t=step / 10)
    for first in range(0, 200, 20):
        h.upload(log, 20, "acknowledged", history_offset=first, history_lines=20, status=200)
    lost = {*range(40, 60), *range(100, 120)}
    kept = [(step, verl(step)) for step in range(200) if step not in lost]
    h.whole(server, 100, [row for row in kept if row[0] < 150])  # 50 rows short
    h.whole(server, 160, kept[:0] + [row for row in kept if row[0] >= 150])
    h.read(server, 160, "0-39 60-99 120-199", page=777)
    h.read(server, 220, "0-39 60-99 120-199", page=500)


def _young(h: Histories) -> None:
    """All is acknowledged, the server has not got the last steps, and no reading is younger than they are by the grace time."""
    log, server = h.local("young", "young"), h.api("young", "young")
    for step in range(10):
        h.row(log, step, verl(step), t=END - 100 + 10 * step)
        h.upload(log, END - 99 + 10 * step, "acknowledged", history_offset=step, history_lines=1, status=200)
    rows = [(step, verl(step)) for step in range(6)]
    h.whole(server, END - 40, rows)
    h.whole(server, END - 10, rows, page=777, stored=False)


def _once(h: Histories) -> None:
    """One reading lacks a step, and the second has the same pages: no confirmation."""
    log, server = h.local("once", "once"), h.api("once", "once")
    for step in range(10):
        h.row(log, step, verl(step), t=step)
    rows = [(step, verl(step)) for step in range(10) if step != 5]
    h.whole(server, 200, rows)
    h.whole(server, 260, rows, stored=False)


def _killed(h: Histories) -> None:
    """SIGKILL: the last rows of the log were never written, the server has them."""
    log, server = h.local("killed", "killed"), h.api("killed", "killed", state="crashed")
    for step in range(8):
        h.row(log, step, verl(step), t=step)
    rows = [(step, verl(step)) for step in range(12)]
    h.whole(server, 100, rows)
    h.whole(server, 160, rows, page=777, stored=False)


def _resumed(h: Histories) -> None:
    """Resumed at 8 behind a checkpoint of step 2: steps 3 to 7 are replayed, and the client drops them."""
    first, second = h.local("resumed", "resumed", t=0), h.local("resumed", "resumed", t=50, starting_step=8)
    server, console = h.api("resumed", "resumed"), h.source("file", "resumed", console=True)
    for step in range(8):
        h.row(first, step, verl(step), t=step)
        h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=step)
    for step in range(3, 12):
        h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=60 + step)
    for step in range(3, 8):
        h.upload(second, 60 + step, "dropped", dropped_step=step, current_step=8)
    for step in range(8, 12):
        h.row(second, step, verl(step), t=60 + step)
    rows = [(step, verl(step)) for step in range(12)]
    h.whole(server, 200, rows)
    h.whole(server, 260, rows, page=777, stored=False)


def _replayed(h: Histories) -> None:
    """The same without the client's own log: the trainer's second lines and the resume tell."""
    first, second = h.local("replayed", "replayed", t=0), h.local("replayed", "replayed", t=50, starting_step=8)
    console = h.source("file", "replayed", console=True)
    for step in range(8):
        h.row(first, step, verl(step), t=step)
        h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=step)
    for step in range(3, 10):
        h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=60 + step)
    for step in range(8, 10):
        h.row(second, step, verl(step), t=60 + step)


def _behind(h: Histories) -> None:
    """Resumed at its last step, nothing is replayed, and the lines are read only long after: none shows that it is of after
    the resume. So for a run whose first log ends early, too."""
    for run, kept in (("behind", 8), ("behind-cut", 6)):
        console = h.source("file", run, console=True)
        first, second = h.local(run, run, t=0), h.local(run, run, t=50, starting_step=8)
        for step in range(kept):
            h.row(first, step, verl(step), t=step)
        for step in range(8, 12):
            h.row(second, step, verl(step), t=60 + step)
        for step in range(12):
            h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=500)


def _later(h: Histories) -> None:
    """Its log was followed before the resume, and two looks after it found one step each: only of the second is it sure that
    it was not printed before."""
    first, second = h.local("later", "later", t=0), h.local("later", "later", t=50, starting_step=8)
    console = h.source("file", "later", console=True)
    for step in range(6):
        h.row(first, step, verl(step), t=step)
        h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=step)
    for step, t in ((6, 60), (7, 70)):
        h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=t)
    for step in range(8, 12):
        h.row(second, step, verl(step), t=80 + step)


def _ahead(h: Histories) -> None:
    """The trainer printed two steps that the log has not got yet, and no reading is as young."""
    log, server = h.local("ahead", "ahead"), h.api("ahead", "ahead")
    console = h.source("file", "ahead", console=True)
    for step in range(8):
        h.row(log, step, verl(step), t=step)
    for step in range(10):
        h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=step)
    h.upload(log, 8, "acknowledged", history_offset=0, history_lines=8, status=200)
    h.whole(server, 20, [(step, verl(step)) for step in range(8)])


def _damaged(h: Histories) -> None:
    """Bytes of the log are damaged, between rows and before the first one; the server has all."""
    log, server = h.local("damaged", "damaged"), h.api("damaged", "damaged", state="finished")
    h.damage(log, 0)
    for step in (1, 2, 3, 7, 8):
        if step == 7:
            h.damage(log, 6)
        h.row(log, step, verl(step), t=step)
    h.tell(log, 9, state="finished")
    rows = [(step, verl(step)) for step in range(9)]
    h.whole(server, 100, rows)
    h.whole(server, 160, rows, page=777, stored=False)


def _back(h: Histories) -> None:
    """log(step=) went back: the client dropped the call, the trainer printed the step."""
    log, console = h.local("back", "back"), h.source("file", "back", console=True)
    for step in [*range(6), *range(7, 20)]:
        h.row(log, step, verl(step), t=step)
    for step in range(20):
        h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=step)
    h.upload(log, 8, "dropped", dropped_step=6, current_step=7)


def _dead(h: Histories) -> None:
    """403 on an upload: training goes on, nothing more is sent. The server answers readings."""
    log, server = h.local("dead", "dead"), h.api("dead", "dead")
    for step in range(40):
        h.row(log, step, verl(step), t=step)
    h.upload(log, 15, "acknowledged", history_offset=0, history_lines=15, status=200)
    h.upload(log, 30, "dead", status=403, detail="filestream: fatal error: 403 Forbidden")
    rows = [(step, verl(step)) for step in range(15)]
    h.whole(server, 200, rows)
    h.whole(server, 260, rows, page=777, stored=False)


def _dead_now(h: Histories) -> None:
    """The same, seen at once and before any reading."""
    log, server = h.local("dead-now", "dead-now"), h.api("dead-now", "dead-now")
    for step in range(20):
        h.row(log, step, verl(step), t=END - 20 + step / 2)
    h.upload(log, END - 12, "acknowledged", history_offset=0, history_lines=10, status=200)
    h.upload(log, END - 2, "dead", status=403)
    h.whole(server, END - 12, [(step, verl(step)) for step in range(10)])


def _long(h: Histories) -> None:
    """One line over the size that is uploaded."""
    log, server = h.local("long", "long"), h.api("long", "long")
    for step in range(10):
        h.row(log, step, verl(step), t=step, bytes=11_000_000 if step == 4 else 100)
    h.upload(log, 5, "too_long")
    rows = [(step, verl(step)) for step in range(10) if step != 4]
    h.whole(server, 200, rows)
    h.whole(server, 260, rows, page=777, stored=False)


def _gone(h: Histories) -> None:
    """The server had steps 7 to 9 and has them no more (rewound); the log still has them."""
    log, server = h.local("gone", "gone"), h.api("gone", "gone")
    rows = [(step, verl(step)) for step in range(10)]
    for step, values in rows:
        h.row(log, step, values, t=step)
    h.whole(server, 100, rows)
    h.whole(server, 200, rows[:7], stored=False)
    h.whole(server, 260, rows[:7], page=777, stored=False)


def _grown(h: Histories) -> None:
    """Two readings of all that there was, at once one after the other, and later ones of what is new: rows came between, logged before."""
    log, server = h.local("grown", "grown"), h.api("grown", "grown")
    for step in range(20):
        h.row(log, step, verl(step), t=step)
    h.whole(server, 12, [(step, verl(step)) for step in range(10)])
    h.whole(server, 13, [(step, verl(step)) for step in range(10)], page=777, stored=False)
    first = h.read(server, 90, "10-19", page=777, first=10)
    for step in range(10, 20):
        h.row(server, step, verl(step), t=90, read=first, logged=step)
    h.read(server, 150, "10-19", page=1000, first=10)


def _short(h: Histories) -> None:
    """The last reading did not see what the one before did: our own reading was short."""
    log, server = h.local("short", "short"), h.api("short", "short")
    rows = [(step, verl(step)) for step in range(10)]
    for step, values in rows:
        h.row(log, step, values, t=step)
    h.whole(server, 100, rows, page=777)
    h.whole(server, 200, rows[:4], stored=False)


def _unread(h: Histories) -> None:
    """The server cannot be read since: nothing is said of the run."""
    log, server = h.local("unread", "unread"), h.api("unread", "unread")
    for step in range(10):
        h.row(log, step, verl(step), t=step * 10)
    h.whole(server, 40, [(step, verl(step)) for step in range(4)])
    h.read(server, 300, outcome="timeout", detail="no answer within 120 s", page=777, rows=0)
    h.read(server, 400, outcome="timeout", detail="no answer within 120 s", page=500, rows=0)


def _offline(h: Histories) -> None:
    log = h.local("offline", "offline", mode="offline")
    for step in range(10):
        h.row(log, step, verl(step), t=step)


def _no_account(h: Histories) -> None:
    log, server = h.local("no-account", "no-account"), h.api("no-account", "no-account", mute=True)
    for step in range(10):
        h.row(log, step, verl(step), t=step)
    h.read(server, 200, outcome="no_account", detail="no key")


def _prime(h: Histories) -> None:
    """prime-rl: five rows a step in several orders, trainer and orchestrator in one run; one step lacks one row at the server."""
    log, server = h.local("prime", "prime", framework="prime_rl"), h.api("prime", "prime")
    keys = ("loss/mean", "mismatch_kl/all/mean", "perf/mfu", "time/step", "reward/all/mean")
    rows = [
        {"step": step, key: step + n / 10, "_timestamp": 9.0 * step + n}
        for step in range(12)
        for n, key in enumerate(keys)
    ]
    for number, row in enumerate(rows):
        h.row(log, number, row, t=number / 10)
    kept = [(number, row) for number, row in enumerate(rows) if not (row["step"] == 7 and "perf/mfu" in row)]
    h.whole(server, 100, kept)
    h.whole(server, 160, kept, page=777, stored=False)


def _slime(h: Histories) -> None:
    """slime: shared mode, two processes with logs of their own and `_step` of their own, three axes; step 5 of training is lost."""
    main, other = (h.local("slime", "slime", mode="shared", framework="slime") for _ in range(2))
    server = h.api("slime", "slime")
    served = []
    for step in range(10):
        train = {"train/step": step, "train/train_rollout_logprob_abs_diff": 0.01 * step, "train/loss": 1.0}
        rollout = {"rollout/step": step // 2, "rollout/reward": step / 4, "perf/step_time": 3.0}
        h.row(main, step, train, t=step)
        served += [train] * (step != 5)
        if step % 2 == 0:
            h.row(other, step // 2, rollout, t=step)
            served.append(rollout)
    h.whole(server, 100, list(enumerate(served)))
    h.whole(server, 160, list(enumerate(served)), page=7, stored=False)


def _untold(h: Histories) -> None:
    """slime again: one of the processes leaves the step out of some rows, which are held against nothing."""
    log, server = (
        h.local("untold", "untold", mode="shared", framework="slime"),
        h.api("untold", "untold", framework="slime"),
    )
    rows: list[dict[str, object]] = [
        {"train/step": step, "train/train_rollout_logprob_abs_diff": 0.01 * step} for step in range(6)
    ]
    rows += [{"train/train_rollout_logprob_abs_diff": 0.5, "train/loss": 1.0} for _ in range(3)]
    for number, row in enumerate(rows):
        h.row(log, number, row, t=number)
    h.whole(server, 100, list(enumerate(rows[:-1])))
    h.whole(server, 160, list(enumerate(rows[:-1])), page=7, stored=False)


def _empty_log(h: Histories) -> None:
    """A local log without a record is as good as none: what the trainer printed is held against the server."""
    h.source("wandb_local", "empty-log", "/w/wandb/run-20261130_000000-empty-log/run-empty-log.wandb")
    server, console = h.api("empty-log", "empty-log"), h.source("file", "empty-log", console=True)
    for step in range(12):
        h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=step)
    kept = [(step, verl(step)) for step in range(12) if step != 5]
    h.whole(server, 100, kept)
    h.whole(server, 160, kept, page=777, stored=False)


def _partial(h: Histories) -> None:
    """The server lacks one key of step 3 and two of step 4; a null says no more than an absent key."""
    log, server = h.local("partial", "partial"), h.api("partial", "partial")
    rows = [{**verl(step), "a": 1.0, "b": 2.0, "nothing": None} for step in range(8)]
    for step, values in enumerate(rows):
        h.row(log, step, values, t=step)
    lacks = {3: {"a"}, 4: {"a", "b"}}
    h.whole(
        server,
        100,
        [
            (step, {k: v for k, v in row.items() if k not in lacks.get(step, set()) | {"nothing"}})
            for step, row in enumerate(rows)
        ],
    )
    h.whole(server, 160, list(enumerate(rows)), page=777, stored=False)


def _values(h: Histories) -> None:
    """Equal by number, NaN and large integers; and three that differ."""
    log, server = h.local("values", "values"), h.api("values", "values")
    same = {
        "one": 1,
        "zero": -0.0,
        "nan": math.nan,
        "inf": math.inf,
        "big": 2**60 + 1,
        "text": "x",
        "flag": True,
        "image": {"_type": "image-file", "path": "a"},
    }
    there = {
        "one": 1.0,
        "zero": 0,
        "nan": "NaN",
        "inf": "Infinity",
        "big": 2**60 + 1,
        "text": "x",
        "flag": True,
        "image": {"path": "a", "_type": "image-file"},
    }
    for step in range(5):
        h.row(log, step, {**verl(step), **same}, t=step)
    served = [{**verl(step), **there} for step in range(5)]
    served[1]["big"] = 2**60
    served[2]["one"] = 1.5
    served[3]["nan"] = None
    h.whole(server, 100, list(enumerate(served)))
    h.whole(server, 160, list(enumerate(served)), page=777, stored=False)


def _printed(h: Histories) -> None:
    """Printed with three digits; one logged value is another, one key was overwritten, and W&B has steps of another writer."""
    log, console = h.local("printed", "printed"), h.source("file", "printed", console=True)
    for step in range(30):
        row = {**verl(step), "actor/lr": 0.001234, "actor/kl": 0.5}
        if step == 4:
            row["actor/lr"] = 0.002
        if step == 9:
            del row["actor/kl"]
        h.row(log, step, row, t=step)
        if step != 20:
            h.line(console, step, {"actor/lr": "0.00123", "actor/kl": "0.5", "not/logged": "1.0"}, t=step)


def _sparse(h: Histories) -> None:
    """A progress bar ends every step, W&B has every tenth: nothing is missing."""
    log, console = h.local("sparse", "sparse", framework="trl"), h.source("file", "sparse", console=True)
    for step in range(0, 100, 10):
        h.row(log, step // 10, {"train/global_step": step, "train/loss": 1.0}, t=step)
    for step in range(100):
        h.line(console, step, {}, t=step)


def _thinned(h: Histories) -> None:
    """Each step is printed with its metrics, every tenth is logged: nothing is missing."""
    log, console = h.local("thinned", "thinned"), h.source("file", "thinned", console=True)
    for step in range(0, 100, 10):
        h.row(log, step, verl(step), t=step)
    for step in range(100):
        h.line(console, step, {"actor/pg_loss": str(step / 8)}, t=step)


def _twice(h: Histories) -> None:
    """One `_step` twice with other content in one reading; and a row behind a later one in the log."""
    log, server = h.local("twice", "twice"), h.api("twice", "twice")
    for step in (0, 1, 3, 2, 4):
        h.row(log, step, verl(step), t=step)
    rows = [
        (0, verl(0)),
        (1, verl(1)),
        (2, verl(2)),
        (2, {**verl(2), "actor/pg_loss": 9.0}),
        (3, verl(3)),
        (4, verl(4)),
    ]
    h.whole(server, 100, rows)
    h.read(server, 160, "0-4", page=777)


def _alike(h: Histories) -> None:
    """Two keys that go from one value to another together: at the server, and in two rows of one `_step` of the log."""
    log, server = h.local("alike", "alike"), h.api("alike", "alike")
    rows = [{**verl(step), "a": 0.0, "b": 0.0} for step in range(6)]
    for step, row in enumerate(rows):
        h.row(log, step, row, t=step)
    served = [{**row, "a": 1.0, "b": 1.0} if step == 2 else row for step, row in enumerate(rows)]
    h.whole(server, 100, list(enumerate(served)))
    h.whole(server, 160, list(enumerate(served)), page=777, stored=False)
    other = h.local("alike-twice", "alike-twice")
    for step, value in ((0, 0.0), (1, 0.0), (1, 1.0), (2, 0.0)):
        h.row(other, step, {**verl(step), "a": value, "b": value}, t=step)


PUTS = (
    _chunk, _young, _once, _killed, _resumed, _replayed, _behind, _later, _ahead, _damaged, _back, _dead, _dead_now, _long, _gone, _grown, _short, _unread, _offline, _no_account, _prime,
    _slime, _untold, _empty_log, _partial, _values, _printed, _sparse, _thinned, _twice, _alike,
)  # fmt: skip
CHUNK = "server_lost_chunk"


@pytest.mark.parametrize(("run", "expected"), [
    ("chunk", [("missing", "wandb_api", 100, 119, None, CHUNK, True), ("missing", "wandb_api", 40, 59, None, CHUNK, True)]),
    ("young", [("pending", "wandb_api", 6, 9, None, "under_way", False)]),
    ("once", [("pending", "wandb_api", 5, 5, None, "under_way", False)]),
    ("killed", [("missing", "wandb_local", 8, 11, None, "ended_before_flush", False)]),
    ("resumed", [("missing", "wandb_local", 3, 7, None, "dropped_by_sdk", True)]),
    ("replayed", [("missing", "wandb_local", 3, 7, None, "dropped_by_sdk", True)]),
    ("behind", []),
    ("behind-cut", [("missing", "wandb_local", 6, 7, None, "unknown", True)]),
    ("later", [
        ("missing", "wandb_local", 6, 6, None, "unknown", True), ("missing", "wandb_local", 7, 7, None, "dropped_by_sdk", True),
    ]),
    ("ahead", [("pending", "wandb_local", 8, 9, None, "under_way", False)]),
    ("damaged", [
        ("missing", "wandb_local", 0, 0, None, "log_damaged", False), ("missing", "wandb_local", 4, 6, None, "log_damaged", False),
    ]),
    ("back", [("missing", "wandb_local", 6, 6, None, "dropped_by_sdk", True)]),
    ("dead", [("missing", "wandb_api", 15, 39, None, "uploader_dead", True)]),
    ("dead-now", [("pending", "wandb_api", 10, 19, None, "uploader_dead", False)]),
    ("long", [("missing", "wandb_api", 4, 4, None, "line_too_long", True)]),
    ("gone", [("missing", "wandb_api", 7, 9, None, "server_lost", True)]),
    ("grown", []),
    ("short", [("unread", "wandb_api", 4, 9, None, "read_short", False)]),
    ("unread", [("unread", "wandb_api", 4, 9, None, "under_way", False), ("unread", "wandb_api", 0, None, None, "timeout", False)]),
    ("offline", [("not_synced", "wandb_api", 0, 9, None, "offline", False)]),
    ("no-account", [("unread", "wandb_api", 0, None, None, "no_account", False)]),
    ("prime", [("partial", "wandb_api", 7, 7, "perf/mfu", "server_lost_part", True)]),
    ("slime", [("missing", "wandb_api", 5, 5, None, "unknown", True)]),
    ("untold", [
        ("not_compared", "wandb_api", None, None, None, "no_step", False),
        ("not_compared", "wandb_local", None, None, None, "no_step", False),
    ]),
    ("empty-log", [("missing", "wandb_api", 5, 5, None, "unknown", True)]),
    ("partial", [("partial", "wandb_api", 3, 4, "a", "server_lost_part", True), ("partial", "wandb_api", 4, 4, "b", "server_lost_part", True)]),
    ("values", [
        ("value_differs", "wandb_api", 1, 1, "big", "unknown", True), ("value_differs", "wandb_api", 2, 2, "one", "unknown", True),
        ("value_differs", "wandb_api", 3, 3, "nan", "unknown", True),
    ]),
    ("printed", [
        ("missing", "console", 20, 20, None, "not_printed", False), ("partial", "wandb_local", 9, 9, "actor/kl", "overwritten", True),
        ("value_differs", "wandb_local", 4, 4, "actor/lr", "overwritten", True),
    ]),
    ("alike", [
        ("value_differs", "wandb_api", 2, 2, "a", "unknown", True), ("value_differs", "wandb_api", 2, 2, "b", "unknown", True),
    ]),
    ("alike-twice", [("duplicate", "wandb_local", 1, 1, None, "written_twice", True)]),
    ("sparse", []),
    ("thinned", []),
    ("twice", [
        ("duplicate", "wandb_api", 2, 2, None, "written_twice", True), ("out_of_order", "wandb_local", 2, 2, None, "step_went_back", False),
    ]),
])  # fmt: skip
def test_each_gap_and_nothing_else(store: Histories, run: str, expected: list[Gap]) -> None:
    assert gaps(store, run) == sorted(expected, key=repr)


def test_before_the_grace_time_nothing_is_missing() -> None:
    h = Histories()
    _chunk(h)
    _killed(h)
    h.settle(END)  # what was observed, but asked at a time within the grace time of the first rows
    h.con.execute("SET VARIABLE now = ?", [at(20)])
    kinds = {row[0] for row in h.gaps("kind", "source = 'wandb_local'")}
    assert kinds <= {"pending"}


@pytest.mark.parametrize(("run", "words"), [
    ("chunk", "lines 40 to 59 of the history were acknowledged with status 200 at 2026-11-29 12:00:20 UTC"),
    ("dead", "the uploader ended with status 403 at 2026-11-29 12:00:30 UTC; 15 lines of history were acknowledged before: filestream: fatal error"),
    ("resumed", "log() was called for it when the client was at _step 8; what an earlier call logged is there"),
    ("back", "log() was called for it when the client was at _step 7"),
    ("killed", "the log ends at step 7 without an exit record"),
    ("damaged", "the log is damaged there: bytes 500 to 600"),
    ("ahead", "the log ends at step 7 without an exit record"),
    ("replayed", "the run was resumed at _step 8 on 2026-11-29 12:00:50 UTC"),
    ("values", "local 1152921504606846977, server 1152921504606846976"),
    ("printed", "printed 0.00123, logged 0.002"),
])  # fmt: skip
def test_each_cause_comes_with_its_evidence(store: Histories, run: str, words: str) -> None:
    assert any(words in str(row[0]) for row in gaps(store, run, "detail")), gaps(store, run, "detail")


def test_a_step_that_is_not_there_is_not_said_to_be(store: Histories) -> None:
    assert [row[0] for row in gaps(store, "back", "evidence")] == [
        "log() was called for it when the client was at _step 7"
    ]


def test_an_uploaders_log_and_a_server_that_said_nothing_are_of_the_run_that_they_are_named_for(
    store: Histories,
) -> None:
    ids = store.con.execute("SELECT DISTINCT run_id, wandb_id FROM wandb_gaps WHERE wandb_id <> ''").fetchall()
    assert len(ids) > 10 and [row for row in ids if row[0] != row[1]] == []


def test_a_run_counts_its_confirmed_gaps(store: Histories) -> None:
    rows = dict(store.con.execute("SELECT run_id, gaps FROM wandb_runs").fetchall())
    assert {run: rows[run] for run in ("chunk", "killed", "partial", "offline", "sparse")} == {
        "chunk": 2, "killed": 0, "partial": 2, "offline": 0, "sparse": 0,
    }  # fmt: skip


def test_coverage_has_each_step_of_each_source_with_the_worst_that_is_said_of_it(store: Histories) -> None:
    rows = store.con.execute(
        "SELECT source, state, list(step ORDER BY step) FROM step_coverage WHERE run_id = 'dead' GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    assert rows == [
        ("wandb_api", "missing", list(range(15, 40))),
        ("wandb_api", "ok", list(range(15))),
        ("wandb_local", "ok", list(range(40))),
    ]
    partial = store.con.execute(
        "SELECT step FROM step_coverage WHERE run_id = 'prime' AND state = 'partial'"
    ).fetchall()
    assert partial == [(7,)]


def test_rows_of_a_step_side_by_side(store: Histories) -> None:
    rows = store.con.execute(
        "SELECT source, key, value FROM wandb_step_rows WHERE run_id = 'partial' AND step = 4 AND key IN ('a', 'b') ORDER BY ALL"
    ).fetchall()
    assert rows == [("wandb_local", "a", 1.0), ("wandb_local", "b", 2.0)]


def test_the_uploader_and_the_readings_are_told(store: Histories) -> None:
    row = store.con.execute(
        "SELECT uploader, uploader_status, acknowledged_lines, read_outcome, reads, local_steps, server_steps FROM wandb_runs WHERE run_id = 'dead'"
    ).fetchone()
    assert row == ("dead", 403, 15, "ok", 2, 40, 15)
    assert store.con.execute("SELECT count(*) FROM wandb_reads WHERE run_id = 'dead'").fetchone() == (2,)
    assert store.con.execute(
        "SELECT count(*) FROM wandb_uploads WHERE run_id = 'dead' AND state = 'dead'"
    ).fetchone() == (1,)


def test_taking_in_piece_by_piece_finds_what_taking_all_at_once_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows in ticks, with slices of a few values that end as soon as a line waits, which one always does."""
    from tic_daemon.store import reconcile

    h, puts = Histories(), (_chunk, _resumed, _prime, _slime, _printed, _values)
    for put in puts:
        put(h)
    h.settle(END)
    whole = h.gaps("* EXCLUDE (first_seen_at)")
    monkeypatch.setattr(reconcile, "BUDGET", 300)
    monkeypatch.setattr(reconcile, "LOOK", 100)
    monkeypatch.setattr(reconcile, "SLICE_S", 1000.0)
    other = Histories(con=h.con)
    for table in reconcile._TABLES:
        h.con.execute(f"DELETE FROM {table}")
    other.derived.rebuild(h.con, at(END))
    assert other.settle(END, rebuild=False, pressed=True) > len(other.derived.wandb._gaps)
    assert other.gaps("* EXCLUDE (first_seen_at)") == whole
    closed = "SELECT count(*) FROM d_wandb_gap WHERE valid_to IS NOT NULL UNION ALL SELECT count(*) FROM d_wandb_step WHERE valid_to IS NOT NULL"
    assert h.con.execute(closed).fetchall() == [(0,), (0,)]


def test_with_nothing_new_there_is_nothing_to_do(store: Histories) -> None:
    wandb = store.derived.wandb
    assert not wandb.waiting
    wandb.note({"mismatch", "exec_state", "gpu_sample"})
    assert not wandb.waiting and not wandb.due(at(END + 1))


def test_kept_tables_have_the_columns_of_what_fills_them(store: Histories) -> None:
    for name in store.derived.wandb.kept():
        made = store.con.execute(f"SELECT column_name, column_type FROM (DESCRIBE t_{name})").fetchall()
        kept = store.con.execute(f"SELECT column_name, column_type FROM (DESCRIBE d_{name})").fetchall()
        assert kept[:-3] == made, name


def test_as_of_shows_what_was_known_then() -> None:
    h = Histories()
    log, server = h.local(), h.api()
    for step in range(10):
        h.row(log, step, verl(step), t=step)
    rows = [(step, verl(step)) for step in range(10) if step != 5]
    h.whole(server, 100, rows)
    h.settle(110)
    h.whole(server, 160, rows, page=777, stored=False)
    h.settle(170, rebuild=False)
    assert h.gaps("kind") == [("missing",)]
    h.con.execute("SET VARIABLE as_of = ?", [at(120)])
    assert h.gaps("kind") == [("pending",)]


def test_known_metrics_become_numeric_records_once() -> None:
    """The local log, the server and a record that the trainer printed tell one number: one record."""
    h = Histories()
    log, server, console = h.local(), h.api(), h.source("file", "r", console=True)
    rows = [
        (step, {**verl(step), "training/rollout_probs_diff_mean": 0.00125 * (step + 1), "rollout_corr/kl": 0.5})
        for step in range(6)
    ]
    printed = h._at(console, 2, step=2)
    h._put("mismatch", {**printed, "run": "r", "metric": "probability_mae", "value": 0.00375, "value_text": "0.00375", "scope": "fixed-input",
                        "intervention": "none", "parse_state": "ok", "raw": "x", "phase": "", "input": "", "rank_text": "", "repeat": "",
                        "reference": "", "report": "", "classification": "", "extra": "", "self_repeat_text": ""})  # fmt: skip
    for step, values in rows[:5]:
        h.row(log, step, values, t=step)
    h.whole(server, 100, rows)
    h.settle(200)
    found = h.con.execute(
        "SELECT source_kind, step, metric, value, parse_state, is_evidence FROM mismatches ORDER BY metric, step"
    ).fetchall()
    assert found == [
        ("wandb_local", 0, "probability_mae", 0.00125, "ok", False), ("wandb_local", 1, "probability_mae", 0.0025, "ok", False),
        ("console", 2, "probability_mae", 0.00375, "ok", True), ("wandb_local", 3, "probability_mae", 0.005, "ok", False),
        ("wandb_local", 4, "probability_mae", 0.00125 * 5, "ok", False), ("wandb_api", 5, "probability_mae", 0.0075, "ok", False),
        *(("wandb_local", step, "unknown", 0.5, "unknown_metric", False) for step in range(5)),
        ("wandb_api", 5, "unknown", 0.5, "unknown_metric", False),
    ]  # fmt: skip
    h.settle(300)
    assert h.con.execute("SELECT count(*) FROM mismatches").fetchone() == (12,)


def test_the_revision_says_what_a_key_is_that_changed_its_meaning() -> None:
    h = Histories(Reconciler(revision="1dda039"))
    log = h.local()
    h.row(log, 0, {**verl(0), "rollout_corr/kl": 0.5}, t=0)
    h.settle(10)
    assert h.con.execute("SELECT metric, not_evidence_because FROM mismatches").fetchall() == [
        ("kl_k1", "intervention not stated")
    ]


def test_neither_the_client_nor_the_server_shows_that_a_run_moves() -> None:
    """The client's own process goes on writing while a trainer hangs, and a server that cannot be read is no lost log."""
    h = Histories()
    log, server, console = h.local(), h.api(), h.source("file", "r", console=False)
    h.row(log, 0, verl(0), t=0)
    h.line(console, 0, {"actor/pg_loss": "0"}, t=0)
    h.settle(10)
    h.con.execute("UPDATE source SET last_growth_at = ? WHERE source_id IN (?, ?)", [at(5000), log, server])
    h.con.execute("UPDATE source SET last_growth_at = ? WHERE source_id = ?", [at(0), console])
    h.con.execute("UPDATE source SET state = 'unreadable' WHERE source_id = ?", [server])
    h.con.execute("SET VARIABLE now = ?", [at(5010)])
    assert h.con.execute("SELECT state FROM run_states").fetchone() == ("silent",)
    assert h.con.execute("SELECT worker_at FROM liveness").fetchone() == (at(0),)
    assert h.con.execute("SELECT count(*) FROM evidence_gaps WHERE kind = 'unreadable'").fetchone() == (0,)


def test_a_run_that_two_stores_tell_of_is_one(store: Histories) -> None:
    """One store follows the local log, another has read the server alone, in another project: one row of both."""
    plan = united.plan_for(["wandb_runs"])
    columns = store.con.execute("SELECT * FROM wandb_runs LIMIT 0").description
    with store.con.cursor() as con:
        con.execute("SET VARIABLE now = ?", [at(END)])
        con.execute(
            "CREATE TEMP TABLE part_wandb_runs AS SELECT *, 'a' AS part_store FROM wandb_runs WHERE run_id = 'young'"
        )
        con.execute(
            "INSERT INTO part_wandb_runs SELECT * REPLACE ('b' AS part_store, '' AS mode, 'crashed' AS state, 0 AS directories,"
            " NULL AS local_steps, 9 AS server_steps, NULL AS uploader, NULL AS uploader_at, 'timeout' AS read_outcome,"
            " read_at + INTERVAL 1 HOUR AS read_at, 3 AS reads, 0 AS gaps, 'other' AS project,"
            " observed_at + INTERVAL 1 HOUR AS observed_at) FROM part_wandb_runs"
        )
        ((name, sql),) = plan.make
        con.execute(f"CREATE TEMP VIEW made AS {sql}")
        assert name == "wandb_runs" and con.execute("SELECT * FROM made LIMIT 0").description == columns
        rows = con.execute(
            "SELECT mode, state, local_steps, server_steps, uploader, read_outcome, reads, directories, project_note FROM made"
        ).fetchall()
    (one,) = store.con.execute("SELECT reads, uploader FROM wandb_runs WHERE run_id = 'young'").fetchall()
    note = "runs of this workspace are in 2 projects: e/other, e/p"
    assert rows == [("online", "running", 10, 9, one[1], "timeout", one[0] + 3, 1, note)]
