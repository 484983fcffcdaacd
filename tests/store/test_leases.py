"""What a person is told of each store: who holds it, where it lies, how old it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.samples import delta, mismatch
from tests.store.test_owner import dead_pid, leave
from tic_daemon.cli import main
from tic_daemon.errors import StoreOwnedError
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.leases import as_text, leases
from tic_daemon.store.publish import Publisher
from tic_daemon.store.writer import Writer

Opener = Callable[[], Writer]


def test_a_store_with_its_daemon_and_without(workspace: Path, open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), offset=40)])
    (one,) = leases(workspace)
    assert (one.state, one.owner) == ("alive", f"pid {os.getpid()} on {writer.layout.host}")
    assert one.heartbeat_s is not None and one.heartbeat_s < 60 and one.snapshot_s is None
    assert one.here and one.bytes and one.database == str(writer.layout.database) and one.why == ""
    Publisher(writer.reader_cursor, writer.layout, writer.changes).publish()
    writer.close()
    (one,) = leases(workspace)
    assert (one.state, one.owner, one.heartbeat_s) == ("free", "", None)
    assert one.snapshot_s is not None and one.snapshot_s < 120


@pytest.mark.parametrize(
    ("age_s", "changes", "state"),
    [
        (1, {"pid": 0}, "dead"),
        (1, {"boot": "another-boot"}, "dead"),
        (10, {"host": "node9", "pid": 4242}, "alive"),
        (300, {"host": "node9", "pid": 4242}, "silent"),
        (300, {"pid_namespace": "pid:[1]", "pid": 7}, "silent"),
    ],
)
def test_states_of_an_owner(workspace: Path, age_s: float, changes: dict[str, object], state: str) -> None:
    layout = StoreLayout.find(workspace)
    if changes.get("pid") == 0:
        changes = {"pid": dead_pid(), "pid_start": ""}
    leave(layout.owner_file, age_s, **changes)
    (one,) = leases(workspace)
    assert one.state == state
    assert ("--take-over" in one.advice) == (state == "silent")


def test_the_error_of_a_second_daemon_and_the_advice_are_one_command(workspace: Path) -> None:
    layout = StoreLayout.find(workspace)
    leave(layout.owner_file, 300, host="node9", pid=4242)
    command = f"tic-daemon watch {workspace} --take-over"
    assert command in leases(workspace)[0].advice
    with pytest.raises(StoreOwnedError) as error:
        Writer.open(layout)
    assert command in error.value.hint
    Writer.open(layout, take_over=True).close()
    assert leases(workspace)[0].state == "free"


def test_a_store_elsewhere(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIC_LOCAL_DIR", str(tmp_path / "local"))
    writer = Writer.open(StoreLayout.find(workspace), network=True)
    writer.commit([delta(mismatch(0), offset=40)])
    (one,) = leases(workspace)
    assert one.database.startswith(str(tmp_path / "local")) and "network" in one.why and one.here
    Publisher(writer.reader_cursor, writer.layout, writer.changes).publish()
    writer._engine.close()
    writer._owner.release()
    shutil.rmtree(tmp_path / "local")
    assert "from the snapshot" in leases(workspace)[0].advice
    shutil.rmtree(writer.layout.snapshot_dir)
    assert "from their beginning" in leases(workspace)[0].advice
    writer.layout.pointer_file.write_text(json.dumps({"host": "node9", "database": "/scratch/x.duckdb", "why": "z"}))
    (one,) = leases(workspace)
    assert one.database.endswith(":/scratch/x.duckdb") and not one.here and "not to be seen from here" in as_text([one])


def test_the_command_and_doctor(workspace: Path, open_writer: Opener, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stores", str(workspace)]) == 0
    assert "none yet" in capsys.readouterr().out
    open_writer().close()
    assert main(["stores", str(workspace), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["state"] == "free" and row["here"] is True
    assert main(["doctor", str(workspace)]) == 0
    assert "stores: 1" in capsys.readouterr().out
    assert main(["doctor", str(workspace), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stores"] == [row]


def test_hostile_names_stay_harmless(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = StoreLayout.find(workspace)
    leave(layout.owner_file, 1, host="no\x1b[2Jde", pid=3)
    layout.pointer_file.write_text(json.dumps({"host": "x", "database": "/a\x1b]0;x\x07", "why": "\u202e"}))
    assert main(["stores", str(workspace)]) == 0
    out = capsys.readouterr().out
    assert not any(char in out for char in "\x1b\x07\u202e")
