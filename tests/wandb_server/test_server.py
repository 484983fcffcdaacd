"""The server against the real client: what it tells and takes, and that each fault does to the client what it says."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.wandb_server import (
    Close,
    Cut,
    Fault,
    Hang,
    Lose,
    Raw,
    Run,
    Status,
    WandbServer,
    graphql_errors,
    no_history,
    no_history_keys,
    no_live_data,
    no_project,
    only_rows,
)
from tests.wandb_server.client import Reader, client, wandb_command

needs.wandb_client()


def rows(count: int) -> list[dict[str, object]]:
    """Steps 0 .. count - 1."""
    return [{"_step": n, "_timestamp": 1.7e9 + n, "loss": 1 / (n + 1), "train": {"lr": n}} for n in range(count)]


@pytest.fixture(scope="module")
def server() -> Iterator[WandbServer]:
    with WandbServer() as running:
        yield running


@pytest.fixture(scope="module")
def reader(server: WandbServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with Reader(server, tmp_path_factory.mktemp("reader"), WANDB_X_GRAPHQL_TIMEOUT_SECONDS="2") as running:
        yield running


@pytest.fixture
def run(server: WandbServer, request: pytest.FixtureRequest) -> Iterator[Run]:
    """A run of 30 steps, of this test alone; no fault is left behind."""
    yield server.add_run(f"lab/grpo/{request.node.name.replace('[', '-').replace(']', '')}", rows(30))
    server.faults.clear()


def test_it_tells_a_history_as_it_is(server: WandbServer, reader: Reader, run: Run) -> None:
    run.put([{"_step": 30, "big": 2**53 + 1, "nan": math.nan, "inf": math.inf, "text": "é\x1b[31m", "none": None}])
    server.log.clear()
    answer = reader.read(run.path, page_size=10)
    assert answer["lines"] == 31 and answer["state"] == "running"
    assert [row["_step"] for row in answer["rows"]] == list(range(31))
    last = answer["rows"][-1]
    assert last["big"] == 9007199254740993 and math.isnan(last["nan"]) and last["inf"] == math.inf
    assert last["text"] == "é\x1b[31m" and last["none"] is None
    assert answer["rows"][3]["train"] == {"lr": 3}
    assert [(page["minStep"], page["maxStep"]) for page in server.asked("HistoryPage")] == [
        (0, 10), (10, 20), (20, 30), (30, 31),
    ]  # fmt: skip
    assert reader.steps(run.path, min_step=12, max_step=15) == [12, 13, 14]


@pytest.mark.parametrize(("spelling", "told"), [("bare", math.nan), ("string", "NaN"), ("null", None)])
def test_it_spells_nan_in_three_ways(reader: Reader, run: Run, spelling: str, told: object) -> None:
    run.put([{"_step": 30, "nan": math.nan}])
    run.nan_as = spelling
    seen = reader.read(run.path, min_step=30)["rows"][0]["nan"]
    assert math.isnan(seen) if spelling == "bare" else seen == told


def test_rows_come_twice_and_in_another_order(reader: Reader, run: Run) -> None:
    run.twice, run.order = {4, 5}, "reversed"
    assert sorted(reader.steps(run.path)) == sorted([*range(30), 4, 5])
    assert json.loads(run.page(0, 30, 30)[0])["_step"] == 29


def test_exported_rows_come_from_parquet(server: WandbServer, reader: Reader, run: Run) -> None:
    run.export(10)
    run.export(20, at_least=10)
    server.log.clear()
    answer = reader.read(run.path, page_size=15)
    assert [row["_step"] for row in answer["rows"]] == list(range(30))
    assert answer["rows"][3]["train.lr"] == 3, "columns of exports are dotted"
    assert answer["rows"][25]["train"] == {"lr": 25}
    assert len(server.asked("parquet")) == 2
    run.put([{"_step": 5, "late": 1.0}])  # a row of an exported step that comes afterwards is in neither place
    assert reader.steps(run.path) == list(range(30))
    run.exported_again = True
    assert reader.steps(run.path, page_size=30) == sorted([*range(30), *range(20), 5])


def test_an_export_out_of_order_loses_rows(reader: Reader, run: Run) -> None:
    run.export(30, order=[*range(3), 29, *range(3, 29)])
    assert reader.steps(run.path, page_size=10) != list(range(30))


def test_the_cache_is_poisoned_by_one_403(server: WandbServer, reader: Reader, run: Run) -> None:
    run.export(20)
    server.faults.append(Fault("parquet", Status(403), times=1))
    assert "error" in reader.read(run.path, use_cache=True)
    assert "error" in reader.read(run.path, use_cache=True), "the body of the 403 is kept as the export"
    assert reader.steps(run.path, use_cache=False) == list(range(30))


def test_exports_that_grow_are_hidden_by_the_cache(reader: Reader, run: Run) -> None:
    run.export(10)
    assert reader.steps(run.path, use_cache=True) == list(range(30))
    run.exports.clear()
    run.exported.clear()
    run.export(20)
    assert reader.steps(run.path, use_cache=True) == [*range(10), *range(20, 30)]
    assert reader.steps(run.path, use_cache=False) == list(range(30))


@pytest.mark.parametrize(
    "fault",
    [
        Fault("HistoryPage", Status(429, {"Retry-After": "1"}), times=1),
        Fault("HistoryPage", Status(500), times=2),
        Fault("HistoryPage", Close(), times=1),
    ],
    ids=["429", "5xx", "close"],
)
def test_these_faults_are_retried(server: WandbServer, reader: Reader, run: Run, fault: Fault) -> None:
    server.faults.append(fault)
    began = time.monotonic()
    assert reader.steps(run.path) == list(range(30))
    assert fault.met == fault.times
    if isinstance(fault.action, Status) and fault.action.code == 429:
        assert time.monotonic() - began >= 0.95, "Retry-After is kept to"


@pytest.mark.parametrize(
    "fault",
    [
        Fault("HistoryPage", Status(403)),
        Fault("HistoryPage", Status(500)),
        Fault("HistoryPage", Cut()),
        Fault("HistoryPage", Raw()),
        Fault("HistoryPage", graphql_errors("the database is away")),
        Fault("HistoryPage", no_project()),
        Fault("RunParquetHistory", Status(400)),
    ],
    ids=["403", "always-500", "cut", "html", "errors", "no-project", "no-exports"],
)
def test_these_faults_raise(server: WandbServer, reader: Reader, run: Run, fault: Fault) -> None:
    server.faults.append(fault)
    assert "error" in reader.read(run.path)
    assert fault.met


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        (Fault("HistoryPage", no_history(), times=1), range(10, 30)),
        (Fault("HistoryPage", only_rows(4), after=1, times=1), [*range(14), *range(20, 30)]),
        (Fault("RunHistoryKeys", no_history_keys()), []),
    ],
    ids=["null-history", "short-page", "null-history-keys"],
)
def test_these_faults_are_silent(server: WandbServer, reader: Reader, run: Run, fault: Fault, left: list[int]) -> None:
    server.faults.append(fault)
    assert reader.steps(run.path, page_size=10) == list(left)
    assert fault.met


def test_live_rows_vanish_without_live_data(server: WandbServer, reader: Reader, run: Run) -> None:
    run.export(20)
    server.faults.append(Fault("RunParquetHistory", no_live_data()))
    assert reader.steps(run.path) == list(range(20))


def test_a_hanging_server_is_waited_for(server: WandbServer, reader: Reader, run: Run) -> None:
    server.faults.append(Fault("HistoryPage", Hang(), times=1))
    began = time.monotonic()
    assert reader.steps(run.path) == list(range(30))
    assert time.monotonic() - began >= 1.9, "until its own timeout, which is two seconds here"


def test_keys_and_runs_that_are_not_there(server: WandbServer, reader: Reader, tmp_path: Path) -> None:
    assert "not find run" in reader.read("lab/grpo/nothing")["text"].lower()
    done = client("import wandb; wandb.Api()", server.env(tmp_path, key="f" * 40))
    assert done.returncode != 0 and "f" * 40 not in done.stdout


LOG = """
import math, sys
import wandb
mode, name, resume = sys.argv[1:4]
steps = range(int(sys.argv[4]), int(sys.argv[5]))
settings = wandb.Settings(x_label=sys.argv[6]) if len(sys.argv) > 6 else None
more = {"resume_from": resume} if "?" in resume else {"resume": resume or None}
with wandb.init(project="grpo", id=name, mode=mode, settings=settings, config={"lr": 1e-6}, **more) as run:
    for n in steps:
        run.log({"loss": 1 / (n + 1), "train": {"lr": n}, "a.b": n, "nan": math.nan})
"""


@pytest.mark.slow
def test_the_client_uploads_resumes_and_rewinds(server: WandbServer, tmp_path: Path) -> None:
    env = server.env(tmp_path)
    assert client(LOG, env, "online", "up", "", "0", "20").returncode == 0
    run = server.runs["lab/grpo/up"]
    assert [row["_step"] for row in run.rows()] == list(range(20))
    assert run.rows()[3]["train"] == {"lr": 3} and run.rows()[3]["a.b"] == 3 and math.isnan(run.rows()[3]["nan"])
    assert json.loads(run.config)["lr"]["value"] == 1e-6 and run.state == "finished"
    assert client(LOG, env, "online", "up", "must", "20", "25").returncode == 0
    assert [row["_step"] for row in run.rows()] == list(range(25))
    assert client(LOG, env, "online", "up", "up?_step=9", "10", "12").returncode == 0
    assert [row["_step"] for row in run.rows()] == list(range(12))


@pytest.mark.slow
def test_the_client_shares_a_run_and_syncs_one(server: WandbServer, tmp_path: Path) -> None:
    for writer in ("trainer", "rollout"):
        env = server.env(tmp_path / writer)
        assert client(LOG, env, "shared", "both", "", "0", "5", writer).returncode == 0
    run = server.runs["lab/grpo/both"]
    assert len([writer for writer in run.lines if writer]) == 2 and run.count() == 10
    env = server.env(tmp_path)
    assert client(LOG, env, "offline", "later", "", "0", "30").returncode == 0
    assert "lab/grpo/later" not in server.runs
    [directory] = (tmp_path / "wandb").glob("offline-run-*")
    done = wandb_command(["sync", str(directory)], env, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["_step"] for row in server.runs["lab/grpo/later"].rows()] == list(range(30))


@pytest.mark.slow
def test_faults_of_uploads(server: WandbServer, tmp_path: Path) -> None:
    lost = Fault("file_stream", Lose(), when=lambda asked: "wandb-history.jsonl" in asked.get("files", {}), times=1)
    server.faults.append(lost)
    try:
        assert client(LOG, server.env(tmp_path), "online", "lost", "", "0", "20").returncode == 0
        assert lost.met == 1
        assert 0 <= server.runs["lab/grpo/lost"].count() < 20, "acknowledged, and not there"
        server.faults[:] = [Fault("file_stream", Status(403))]
        assert client(LOG, server.env(tmp_path), "online", "dead", "", "0", "20").returncode == 0
        assert server.runs["lab/grpo/dead"].count() == 0
        logs = [path.read_text() for path in (tmp_path / "wandb").glob("run-*-dead/logs/debug-internal.log")]
        assert "fatal error" in logs[0]
    finally:
        server.faults.clear()
