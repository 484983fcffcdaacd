"""Which run a W&B directory belongs to: one that a person named, and W&B's own id where nobody named any."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tic_daemon.scan.events import At, SourceRun
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow, source_id
from tic_daemon.store.writer import Writer

LOCAL, API = "wandb_local", "wandb_api"


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    writer = Writer.open(StoreLayout.find(tmp_path_factory.mktemp("names")))
    yield writer
    writer.close()


def log(root: str, path: str, *, kind: str = "file", wandb: str = "", record: str = "", told: str = "") -> SourceDelta:
    """A source under a root. `record`: the run that a line of it names; `told`: the one that tic.toml does."""
    number = source_id("n", kind, path)
    hint, how = (told, "config") if told else (wandb, "wandb") if wandb else ("", "")
    row = SourceRow(number, kind, "n", root, path, run_hint=hint, run_how=how)
    events = (SourceRun(At(10, 5, 2), record, "record"),) if record else ()
    return SourceDelta(row, CursorRow(number, 0, byte_offset=100, path=path), events)


def runs(writer: Writer, root: str) -> dict[str, tuple[str, str]]:
    """Run and how it was named, by path below the root."""
    con = writer.reader_cursor()
    rows = con.execute("SELECT path, run_id, run_how FROM sources WHERE root = ?", [root]).fetchall()
    con.close()
    return {path.removeprefix(f"{root}/"): (run, how) for path, run, how in rows}


def job(root: str, name: str, wandb: str, record: str = "") -> list[SourceDelta]:
    """A job's directory: a worker's log, a W&B directory with its copy of the console, and its history from the API."""
    return [
        log(root, f"{root}/{name}/worker.log", record=record),
        log(root, f"{root}/{name}/wandb/run-1-{wandb}/run-{wandb}.wandb", kind=LOCAL, wandb=wandb),
        log(root, f"{root}/{name}/wandb/run-1-{wandb}/files/output.log", wandb=wandb),
        log(root, f"lab/p/{wandb}", kind=API, wandb=wandb),
    ]


def test_where_nobody_names_a_run_w_b_s_id_is_its_name(writer: Writer) -> None:
    writer.commit(job("/a", "one", "xyz"))
    assert {run for run, _ in runs(writer, "/a").values()} == {"xyz"}
    assert runs(writer, "/a")["one/wandb/run-1-xyz/run-xyz.wandb"] == ("xyz", "path")
    assert runs(writer, "/a")["one/worker.log"] == ("xyz", "root")
    # From the moment that a line names it, all of it has that name.
    writer.commit([log("/a", "/a/one/driver.log", record="grpo-a")])
    assert {run for run, _ in runs(writer, "/a").values()} == {"grpo-a"}


def test_each_job_s_histories_go_with_its_logs(writer: Writer) -> None:
    writer.commit(job("/b", "one", "w1", "grpo-a") + job("/b", "two", "w2", "grpo-b") + job("/b", "three", "w3"))
    named = runs(writer, "/b")
    for place, wandb, run in (("one", "w1", "grpo-a"), ("two", "w2", "grpo-b")):
        assert named[f"{place}/wandb/run-1-{wandb}/run-{wandb}.wandb"] == (run, "directory")
        assert named[f"{place}/wandb/run-1-{wandb}/files/output.log"] == (run, "directory")
        assert named[f"lab/p/{wandb}"] == (run, "directory")  # in no directory: with its local log
    # What belongs to several, or to none of them, keeps W&B's id.
    assert named["three/wandb/run-1-w3/run-w3.wandb"] == ("w3", "path") == named["lab/p/w3"]


def test_tic_toml_decides(writer: Writer) -> None:
    path = "/c/other/wandb/run-1-w9/run-w9.wandb"
    writer.commit([*job("/c", "one", "w1", "grpo-a"), log("/c", path, kind=LOCAL, told="mine")])
    assert runs(writer, "/c")["other/wandb/run-1-w9/run-w9.wandb"] == ("mine", "config")
    assert runs(writer, "/c")["one/wandb/run-1-w1/run-w1.wandb"] == ("grpo-a", "directory")
