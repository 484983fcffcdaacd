"""Histories read back through the API by the real client, from a server that can be made to fail in every way."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.wandb_server import (
    Cut,
    Fault,
    Hang,
    Run,
    Status,
    WandbServer,
    graphql_errors,
    no_history,
    no_history_keys,
    no_live_data,
    only_rows,
)
from tic_daemon.config import WandbConfig, WandbRunConfig
from tic_daemon.scan.events import At
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.scanner import Scanner
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.sources import wandb_api
from tic_daemon.sources.wandb_api import WandbApi
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow
from tic_daemon.wandb.events import WandbRead, WandbRow, WandbRun
from tic_daemon.wandb.ranges import ranges_of

needs.wandb_client()


def rows(count: int, lost: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """Steps 0 .. count - 1 but for the lost ones."""
    return [
        {"_step": n, "_timestamp": 1.7e9 + n, "loss": 1 / (n + 1), "train": {"lr": n}}
        for n in range(count)
        if n not in lost
    ]


FAST = {
    "WANDB_X_GRAPHQL_RETRY_MAX": "1",
    "WANDB_X_GRAPHQL_RETRY_WAIT_MIN_SECONDS": "0",
    "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "1",
}


class Reads:
    """A source over some runs, and what it handed on."""

    def __init__(self, server: WandbServer, home: Path, *paths: str, **config: Any) -> None:
        self.events: dict[str, list[Any]] = {}
        self.sources: dict[int, SourceRow] = {}
        self.cursors: dict[tuple[int, int], CursorRow] = {}
        self.environ = {**os.environ, **server.env(home), **FAST}
        self._config = {"every_s": 0.2, "deadline_s": 90.0, "grace_s": 0.0, **config}
        self.api = self.start(*paths)

    def start(self, *paths: str, **more: Any) -> WandbApi:
        """A source that reads these runs; what was handed on before is what its store has."""
        runs = tuple(WandbRunConfig(path) for path in paths)
        stored = {
            number: [(row.wandb_step, row.digest) for row in self.rows(source.path)]
            for number, source in self.sources.items()
        }
        self.api = WandbApi(
            "node1", "/ws", WandbConfig(runs=runs, **{**self._config, **more}), lambda: None,
            sources=self.sources, cursors=self.cursors, stored=stored, environ=self.environ,
        )  # fmt: skip
        self.api.start()
        return self.api

    def note(self, deltas: list[SourceDelta]) -> None:
        """Keeps what was taken, as the store would."""
        for delta in deltas:
            assert delta.cursor is not None
            self.sources[delta.source.source_id] = delta.source
            self.cursors[delta.source.source_id, 0] = delta.cursor
            self.events.setdefault(delta.source.path, []).extend(delta.events)

    def wait(self, path: str, reads: int, seconds: float = 120.0) -> list[WandbRead]:
        """Takes until there are so many readings of a run."""
        until = time.monotonic() + seconds
        while len(self.reads(path)) < reads:
            assert time.monotonic() < until, self.reads(path)
            self.note(self.api.take())
            time.sleep(0.01)
        return self.reads(path)

    def reads(self, path: str) -> list[WandbRead]:
        """Its readings."""
        return [event for event in self.events.get(path, ()) if isinstance(event, WandbRead)]

    def rows(self, path: str) -> list[WandbRow]:
        """Its rows."""
        return [event for event in self.events.get(path, ()) if isinstance(event, WandbRow)]

    def steps(self, path: str) -> list[int | None]:
        """Their steps, in order."""
        return sorted((row.wandb_step for row in self.rows(path)), key=lambda step: -1 if step is None else step)


@pytest.fixture(scope="module")
def server() -> Iterator[WandbServer]:
    with WandbServer() as running:
        yield running


@pytest.fixture(autouse=True)
def no_faults(server: WandbServer) -> Iterator[None]:
    yield
    server.faults.clear()
    server.runs.clear()
    server.log.clear()


def only(run: Run) -> Any:
    """A fault's condition: requests about this run."""
    return lambda asked: run.name in (asked.get("run"), asked.get("name"), asked.get("runName"))


def test_every_silent_short_reading_is_noticed_and_made_good(server: WandbServer, tmp_path: Path) -> None:
    def made(name: str, *faults: Fault) -> Run:
        run = server.add_run(f"lab/grpo/{name}", rows(1300))
        server.faults += faults
        for fault in faults:
            fault.when = only(run)
        return run

    # A page is about a thousand steps here: the first reading of each run has two of them.
    null_page = made("null-page", Fault("HistoryPage", no_history(), times=1))
    null_end = made("null-end", Fault("HistoryPage", no_history(), after=1, times=1))
    short = made("short-page", Fault("HistoryPage", only_rows(400), times=1))
    keys = made("null-keys", Fault("RunHistoryKeys", no_history_keys(), times=1))
    live = made("no-live-data", Fault("RunParquetHistory", no_live_data(), times=1))
    live.export(700)
    fine = made("fine")
    reads = Reads(server, tmp_path, *sorted(server.runs), every_s=3600.0)
    for run in server.runs.values():
        told = reads.wait(run.path, 1 if run is fine else 2)
        assert [read.outcome for read in told] == (["ok"] if run is fine else ["short", "ok"]), (run.name, told)
        assert reads.steps(run.path) == list(range(1300)), run.name
        assert told[-1].seen == "0-1299" and told[-1].rows == told[-1].history_line_count == 1300
        assert (told[-1].first_step, told[-1].last_step, told[-1].last_history_step) == (0, None, 1299)
        assert told[-1].who == "daemon" and told[-1].client_version.startswith("0.")
        if run is not fine:
            assert told[0].page_size != told[1].page_size, "other borders"
            assert told[0].detail and len(ranges_of(told[0].seen)) == told[0].rows < 1300
    reads.api.stop()
    assert null_page is not null_end and short is not keys


@pytest.mark.slow
def test_a_server_that_names_no_step_proves_nothing(server: WandbServer, tmp_path: Path) -> None:
    run = server.add_run("lab/grpo/blind", rows(30))
    empty = server.add_run("lab/grpo/empty")
    server.faults.append(Fault("RunHistoryKeys", no_history_keys()))
    reads = Reads(server, tmp_path, run.path, empty.path, every_s=3600.0)
    assert [read.outcome for read in reads.wait(run.path, 2)] == ["short", "short"]
    assert [read.outcome for read in reads.wait(empty.path, 1)] == ["ok"], "and one that counts no row has none"
    reads.api.stop()


def test_what_the_server_has_not_is_told_by_two_readings_that_agree(server: WandbServer, tmp_path: Path) -> None:
    lost = server.add_run("lab/grpo/lost", rows(60, lost=(20, 21, 40)))
    lost.line_count = 60  # it counts what it lost
    fewer = server.add_run("lab/grpo/fewer", rows(60, lost=(20, 21, 40)))
    twice = server.add_run("lab/grpo/twice", rows(60))
    twice.twice, twice.order = {3, 4}, "reversed"
    twice.put([{"_step": 5, "loss": 99.0}])
    reads = Reads(server, tmp_path, lost.path, fewer.path, twice.path)
    first, second = reads.wait(lost.path, 2)[:2]
    assert first.outcome == second.outcome == "ok" and first.page_size != second.page_size
    assert first.seen == second.seen == "0-19 22-39 41-59" and "another reading says the same" in second.detail
    told = reads.wait(fewer.path, 3)
    assert {read.outcome for read in told} == {"ok"} and told[0].seen == "0-19 22-39 41-59"
    assert [read.first_step for read in told[:3]] == [0, 20, 60], "from the first hole on, once more"
    assert told[0].page_size != told[1].page_size and told[2].rows == 0
    reads.wait(twice.path, 1)
    assert reads.steps(twice.path) == sorted([*range(60), 5]), "what is told twice is one row, another content is not"
    assert reads.reads(twice.path)[0].rows == 63
    reads.api.stop()


def test_it_goes_on_where_it_was_also_after_a_restart(server: WandbServer, tmp_path: Path) -> None:
    run = server.add_run("lab/grpo/grows", rows(50))
    run.config = json.dumps({"lr": {"value": 1e-6}, "wandb_api_key": {"value": "f" * 40}})
    reads = Reads(server, tmp_path, run.path)
    reads.wait(run.path, 1)
    run.put(rows(70)[50:])
    while len(reads.rows(run.path)) < 70:
        reads.wait(run.path, len(reads.reads(run.path)) + 1)
    assert reads.steps(run.path) == list(range(70))
    reads.api.stop()
    reads.note(reads.api.take())
    told = len(reads.reads(run.path))
    server.log.clear()
    reads.start(run.path)
    run.put(rows(75)[70:])
    run.state = "finished"
    while reads.reads(run.path)[-1].first_step != 0:
        reads.wait(run.path, len(reads.reads(run.path)) + 1)
    reads.api.stop()
    assert reads.steps(run.path) == list(range(75)), "no row a second time"
    assert server.asked("HistoryPage")[0]["minStep"] >= 50, "only what is not confirmed was asked for"
    after = reads.reads(run.path)[told:]
    assert after[-1].first_step == 0 < after[-2].first_step, "all of it once more when the run is over"
    assert after[-1].seen == "0-74"
    places = [event.at.byte_offset for event in reads.events[run.path]]
    assert places == list(range(len(places))), "every row has its own place"
    told_runs = [event for event in reads.events[run.path] if isinstance(event, WandbRun)]
    assert [event.state for event in told_runs][-1] == "finished" and told_runs[0].run_path == run.path
    assert "f" * 40 not in told_runs[0].config and "lr" in told_runs[0].config


@pytest.mark.slow
def test_rewound_steps_are_missed_once(server: WandbServer, tmp_path: Path) -> None:
    run = server.add_run("lab/grpo/rewound", rows(40))
    reads = Reads(server, tmp_path, run.path, full_s=0.5)
    reads.wait(run.path, 1)
    run.rewind(19)
    run.put([{"_step": n, "loss": -1.0} for n in range(20, 25)])
    until = time.monotonic() + 120
    while not any(read.seen == "0-24" for read in reads.reads(run.path)):
        assert time.monotonic() < until
        reads.wait(run.path, len(reads.reads(run.path)) + 1)
    reads.api.stop()
    assert reads.reads(run.path)[-1].outcome == "ok", "two readings agreed; the steps are not waited for any more"
    assert {row.wandb_step for row in reads.rows(run.path) if row.values[0].number == -1.0} == set(range(20, 25))


def test_a_reading_that_hangs_is_ended_and_the_next_one_reads_on(server: WandbServer, tmp_path: Path) -> None:
    run = server.add_run("lab/grpo/hanging", rows(30))
    server.faults.append(Fault("HistoryPage", Hang(), times=1, when=only(run)))
    reads = Reads(server, tmp_path, run.path, deadline_s=8.0)
    assert reads.wait(run.path, 1)[0].outcome == "timeout"
    [source] = reads.sources.values()
    assert source.state == "unreadable" and source.error.startswith("timeout")
    until = time.monotonic() + 120
    while reads.reads(run.path)[-1].outcome != "ok":  # on a busy machine the next one may be late, too
        assert time.monotonic() < until
        reads.wait(run.path, len(reads.reads(run.path)) + 1)
    reads.api.stop()
    assert reads.steps(run.path) == list(range(30))


def test_faults_that_raise_are_readings_that_failed(server: WandbServer, tmp_path: Path) -> None:
    faults = {
        "refused": Fault("HistoryPage", Status(403)),
        "broken": Fault("HistoryPage", Status(503)),
        "cut": Fault("HistoryPage", Cut()),
        "errors": Fault("HistoryPage", graphql_errors("no such field: https://x/y?sig=deadbeef")),
        "poisoned": Fault("parquet", Status(403), times=1),
    }
    for name, fault in faults.items():
        run = server.add_run(f"lab/grpo/{name}", rows(30))
        fault.when = only(run)
        server.faults.append(fault)
    server.runs["lab/grpo/poisoned"].export(20)
    faults["poisoned"].when = lambda asked: asked["run"] == "lab/grpo/poisoned"
    reads = Reads(server, tmp_path, *server.runs, every_s=3600.0)
    outcomes = {name: reads.wait(f"lab/grpo/{name}", 1)[0] for name in faults}
    assert {name: read.outcome for name, read in outcomes.items()} == dict.fromkeys(faults, "error")
    assert "deadbeef" not in outcomes["errors"].detail and "no such field" in outcomes["errors"].detail
    assert all(read.last_step is None and read.detail for read in outcomes.values())
    reads.api.stop()
    # An answer of 403 in place of an export is not kept for the next reading, nor for anybody else's.
    reads.start("lab/grpo/poisoned")
    reads.wait("lab/grpo/poisoned", 2)
    reads.api.stop()
    assert reads.steps("lab/grpo/poisoned") == list(range(30)), reads.reads("lab/grpo/poisoned")
    assert not list(tmp_path.rglob("*.parquet"))


def test_nan_in_three_spellings_and_nulls_of_exports(server: WandbServer, tmp_path: Path) -> None:
    for spelling in ("bare", "string", "null"):
        run = server.add_run(f"lab/grpo/{spelling}", [{"_step": n, "nan": math.nan, f"k{n}": n} for n in range(4)])
        run.nan_as = spelling
    exported = server.add_run("lab/grpo/exported", [{"_step": n, "nan": math.nan, f"k{n}": n} for n in range(4)])
    exported.export(2)
    exported.put([{"_step": 4, "said": None}])
    reads = Reads(server, tmp_path, *server.runs, every_s=3600.0)
    values = {}
    for path in server.runs:
        reads.wait(path, 1)
        values[path.split("/")[2]] = [{v.key: v.kind for v in row.values} for row in reads.rows(path)]
    reads.api.stop()
    assert values["bare"] == values["string"] == [{"nan": "nan", f"k{n}": "int"} for n in range(4)]
    assert values["null"] == [{"nan": "null", f"k{n}": "int"} for n in range(4)], "a null is no NaN"
    assert values["exported"][:4] == values["bare"], "a column that a row has nothing in is no null of that row"
    assert values["exported"][4] == {"said": "null"}


def test_without_an_account_or_a_client_it_is_said_once(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = server.add_run("lab/grpo/mine", rows(5))
    monkeypatch.setattr(wandb_api, "RETRY_S", 0.1)
    for key, why in (("", "No API key"), ("f" * 40, "not logged in"), (None, "not installed")):
        caplog.clear()
        with monkeypatch.context() as patch:
            if key is None:
                patch.setattr(wandb_api, "client_there", lambda: False)
            reads = Reads(server, tmp_path / why.replace(" ", ""))
            reads.environ["WANDB_API_KEY"] = key or ""
            reads.start(run.path)
            [read] = reads.wait(run.path, 1)
            time.sleep(0.5 if key is None else 0.05)
            reads.note(reads.api.take())
            reads.api.stop()
        assert read.outcome == "no_account" and why in read.detail and "ffff" not in read.detail
        assert len(reads.reads(run.path)) == 1
        assert sum("not read through the API" in record.message for record in caplog.records) == 1
    assert not reads.rows(run.path)


def test_runs_are_named_by_other_sources(server: WandbServer, tmp_path: Path) -> None:
    run = server.add_run("lab/grpo/named", rows(5))
    reads = Reads(server, tmp_path, every_s=3600.0)

    def told(path: str, mode: str = "online") -> SourceDelta:
        log = SourceRow(7, "wandb_local", "node1", "/ws", "/ws/wandb/run-x", run_hint="r1", run_how="path")
        return SourceDelta(log, events=(WandbRun(At(0, 1, 1), path, "named", mode=mode),))

    hostile = ("", "a/b", "a/b/c/d", "../../x", "a/b/c?x=1", "a/b/c\x1b[31m", " a/b/c", "a/../c")
    reads.api.note([told(path) for path in hostile] + [told("lab/grpo/offline", "offline")])
    assert reads.api.settled and not reads.api.take()
    printed = server.add_run("lab/my project/printed", rows(3))
    line = b"wandb: \xf0\x9f\x9a\x80 View run at https://elsewhere.example/lab/my%20project/runs/printed\n"
    events = tuple(Scanner(RuleSet.load()).open(SourceTraits()).feed(line))
    assert [(type(event).__name__, event.at.byte_length) for event in events] == [("WandbNamed", len(line))]
    log = SourceRow(8, "file", "node1", "/ws", "/ws/trainer.log")
    reads.api.note([told(run.path), SourceDelta(log, events=events)])
    reads.wait(run.path, 1)
    reads.wait(printed.path, 1)
    assert reads.steps(printed.path) == [0, 1, 2], "of the server that the client has, whatever the line says"
    sources = {source.path: source for source in reads.sources.values()}
    assert set(sources) == {run.path, printed.path}
    assert (sources[run.path].run_hint, sources[run.path].run_how, sources[run.path].kind) == (
        "r1",
        "path",
        "wandb_api",
    )
    assert (sources[printed.path].run_hint, sources[printed.path].root) == ("", "/ws"), "whose that log is"
    reads.api.stop()
    quiet = reads.start(read=False)
    quiet.note([told(run.path)])
    assert quiet.settled


@pytest.mark.slow
def test_a_long_history_is_read_in_pieces(server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = server.add_run("lab/grpo/long", rows(3500))
    monkeypatch.setattr(wandb_api, "PIECE", 0.0)  # at every border
    reads = Reads(server, tmp_path, run.path, every_s=3600.0)
    [read] = reads.wait(run.path, 1)
    reads.api.stop()
    assert read.outcome == "ok" and read.seen == "0-3499" and reads.steps(run.path) == list(range(3500))
    assert len(server.asked("RunParquetHistory")) == 4, "one scan a page"
