"""What `check`, `status`, `watch` and `tic-daemon wandb` say of histories, read from a store's file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, timedelta

import pytest

from tests.wandb.histories import NOON, Histories
from tests.wandb.test_gaps import END, _chunk, _dead, _killed, _no_account, _partial
from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.store import histories, plain
from tic_daemon.store.check import check
from tic_daemon.store.file_reader import FileReader
from tic_daemon.store.reader import Reader
from tic_tui.plainwatch import News
from tic_tui.status import report

NOW = (NOON + timedelta(seconds=END)).replace(tzinfo=UTC)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    path = tmp_path_factory.mktemp("words") / "store.duckdb"
    h = Histories.in_file(path)
    for put in (_chunk, _killed, _dead, _no_account, _partial):
        put(h)
    console = h.source("file", "chunk", console=True)
    record = {
        "run": "chunk", "metric": "logprob_mae", "value": 0.1, "value_text": "0.1", "scope": "fixed-input", "intervention": "none",
        "parse_state": "ok", "raw": "x", "phase": "", "input": "", "rank_text": "", "repeat": "", "reference": "", "report": "",
        "classification": "", "extra": "", "self_repeat_text": "",
    }  # fmt: skip
    h._put("mismatch", {**h._at(console, 2, step=2), **record})
    killed = h.source("file", "killed", console=True)
    h._put("mismatch", {**h._at(killed, 2, step=2), **record, "run": "killed"})
    h.local("other", "other", project="q", entity="e")
    h.settle(END)
    h.con.execute("UPDATE source SET bytes_size = 0")
    h.con.close()
    opened = FileReader(path)
    yield opened
    opened.close()


def test_check_exits_14_on_confirmed_gaps_and_says_them(reader: Reader) -> None:
    code, lines = check(reader, "chunk")
    assert code == ExitCode.GAPS == 14
    told = [line for line in lines if line.startswith("14: W&B: ")]
    assert told[0].startswith(
        "14: W&B: missing server, steps 40-59: the server acknowledged it and does not have it: lines 40 to 59"
    )
    assert told[1].startswith("14: W&B: missing server, steps 100-119")


def test_a_local_log_that_is_shorter_than_the_server_is_no_gap_of_the_run(reader: Reader) -> None:
    assert check(reader, "killed")[0] == ExitCode.WELL


def test_status_tells_where_the_steps_are_and_what_lacks(reader: Reader) -> None:
    told = report(reader, now=NOW)
    text = told.text
    assert (
        "e/p/chunk online running; steps: 200 in local logs, 160 on the server; uploader acknowledged 10 min ago; read ok"
        in text
    )
    assert (
        "missing server, steps 15-39: the uploader had ended while training went on: the uploader ended with status 403"
        in text
    )
    # A server that no reading has got an answer of has not "0" steps.
    assert "e/p/no-account online running; steps: 10 in local logs, the server's not known; read no account" in text
    assert "missing local log, steps 8-11: the process ended before its log was written" in text
    assert "runs of this workspace are in 2 projects: e/p, e/q" in text
    data = json.loads(plain.to_json(dict(told.data)))
    chunk = next(run for run in data["runs"] if run["run_id"] == "chunk")
    assert [gap["first_step"] for gap in chunk["wandb_gaps"]] == [40, 100]
    assert chunk["wandb"][0]["gaps"] == 2 and chunk["exit_code"] == 14


def test_watch_tells_each_gap_once(reader: Reader) -> None:
    news = News(reader, "dead")
    first = [event.line(False) for event in news._gaps()]
    assert len(first) == 1 and " gap dead attempt 1: W&B: missing server, steps 15-39: " in first[0]
    assert list(news._gaps()) == []


def test_a_run_at_wandb_with_what_each_source_covers(reader: Reader) -> None:
    lines, data = histories.told(reader, "e/p/partial", lambda then: "then")
    assert lines[0].startswith("e/p/partial online running; steps: 8 in local logs, 8 on the server; read ok then")
    assert "  server: 6 ok, steps 0-7" in lines and "  server: 2 partial, steps 3-4" in lines
    assert "  partial server, steps 3-4 a: the server has a part of the row" in lines
    assert len(data["gaps"]) == 2
    assert histories.told(reader, "e/p/nowhere", str)[0] == ["the store knows of no such run at W&B"]
