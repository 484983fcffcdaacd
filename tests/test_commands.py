"""The commands as a hostile or unlucky user calls them: real processes, one or two lines of complaint, right exit codes.

Expected codes are those of docs/reference/exit-codes.md: 2 for what cannot be used, 15 for runs and stores, never 0.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tic_daemon import cli as daemon_cli
from tic_daemon import logged
from tic_daemon.errors import TicError
from tic_daemon.output import complain, printable
from tic_daemon.store.layout import StoreLayout, local_host
from tic_tui import cli as tui_cli

LINES = "[mismatch] step=1 k1=0.1\n"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with one run, read to its end."""
    where = tmp_path_factory.mktemp("ws")
    (where / "worker.log").write_text(LINES * 3)
    assert daemon_cli.main(["watch", "--once", str(where)]) == 0
    return where


def _run(main: object, argv: list[str]) -> tuple[int, str]:
    """Exit code and standard error of a command in this process; a traceback is an exception."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        code = main(argv)  # type: ignore[operator]
    return code, errors.getvalue()


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_times_outside_the_calendar(workspace: Path, when: str) -> None:
    run = workspace.name
    code, said = _run(daemon_cli.main, ["attempt", run, "--at", str(workspace), "--from", when, "--reason", "x"])
    assert code == 2 and "outside the calendar" in said
    code, said = _run(tui_cli.main, ["sql", "--as-of", when, str(workspace), "SELECT 1"])
    assert code == 2 and "outside the calendar" in said


@pytest.mark.parametrize("limit", ["nan", "inf", "-inf", "0", "-1"])
def test_time_limits_that_are_none(workspace: Path, limit: str) -> None:
    code, said = _run(tui_cli.main, ["sql", f"--timeout={limit}", str(workspace), "SELECT 1"])
    assert code == 2 and "--timeout must be positive" in said


def test_a_time_limit_for_ever(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    argv = [sys.executable, "-m", "tic_tui", "sql", "--csv", "--timeout=1e300", str(workspace), "SELECT 6 * 7"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout.splitlines()[1:], done.stderr) == (0, ["42"], "")


@pytest.mark.parametrize(
    "command", [["check"], ["mark", "--reason", "x"], ["attempt", "--from", "now", "--reason", "x"]]
)
def test_a_run_that_is_no_unicode(workspace: Path, command: list[str]) -> None:
    code, said = _run(daemon_cli.main, [*command, "--at", str(workspace), os.fsdecode(b"\xff\xfe")])
    assert code == 2 and "not valid Unicode" in said


def test_an_attempt_never_begins_behind_the_end_of_its_file(workspace: Path) -> None:
    size = (workspace / "worker.log").stat().st_size
    argv = ["attempt", workspace.name, "--at", str(workspace), "--reason", "x", "--from"]
    code, said = _run(daemon_cli.main, [*argv, f"{workspace / 'worker.log'}:{size + 1}"])
    assert code == 2 and f"has {size} bytes" in said


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:99999", "http://[::1", "http://a@b:c", "http://", "http://a..b", "http://127.0.0.1:1"]
)
def test_urls_of_no_daemon(url: str) -> None:
    for main, argv in ((tui_cli.main, ["sql", url, "SELECT 1"]), (daemon_cli.main, ["check", "r", "--at", url])):
        code, said = _run(main, argv)
        assert code == 15 and 1 <= said.count("\n") <= 2, said


def test_names_too_long_and_loops(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for name in ("x" * 5000, str(tmp_path / "loop")):
        assert _run(tui_cli.main, ["sql", name, "SELECT 1"])[0] == 15
        assert _run(daemon_cli.main, ["check", "r", "--at", name])[0] == 15
        assert _run(daemon_cli.main, ["watch", "--once", name])[0] == 2


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_ports(tmp_path: Path, port: str) -> None:
    with pytest.raises(SystemExit) as left:
        _run(daemon_cli.main, ["watch", f"--port={port}", str(tmp_path)])
    assert left.value.code == 2


def test_a_full_or_closed_output_changes_no_code_to_0(workspace: Path) -> None:
    """Twice 15, as no record is evidence: a reader that went away must not turn it into 0, nor a full disk into a crash."""
    check = f"{sys.executable} -m tic_daemon.cli check {workspace.name} --at '{workspace}'"
    script = f"{check} > /dev/full; echo $?; {check} >&-; echo $?; {check} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["2", "15", "15"], done
    assert done.stderr == "tic-daemon: cannot write to standard output: No space left on device\n"


def test_sql_to_a_full_or_closed_output(workspace: Path) -> None:
    query = f"{sys.executable} -m tic_tui sql --csv '{workspace}' 'SELECT * FROM range(100000)'"
    script = f"{query} > /dev/full; echo $?; {query} >&-; echo $?; {query} | head -n 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["2", "0", "range"], done
    assert done.stderr == "tic-tui: sql could not be done: No space left on device\n"


def test_all_that_is_written_is_the_users_alone(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text(LINES)
    before = os.umask(0o000)
    try:
        daemon_cli.main(["watch", "--once", str(tmp_path)])
    finally:
        os.umask(before)
    for path in [tmp_path / ".tic", *(tmp_path / ".tic").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_complaints_move_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    complain(TicError("no \x1b[2J\x9b31m\r\u202erun \udcff", "known: a\tb"))
    assert capsys.readouterr().err == "tic-daemon: no \\x1b[2J\\x9b31m\\r\\u202erun \\udcff\n  known: a\tb\n"
    assert printable("Ünï 漢字 ✓\n") == "Ünï 漢字 ✓\n"


def test_a_store_deleted_under_its_daemon_ends_it(tmp_path: Path) -> None:
    where = tmp_path / "ws"
    where.mkdir()
    (where / "worker.log").write_text(LINES)
    argv = [sys.executable, "-m", "tic_daemon.cli", "watch", str(where)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as daemon:
        assert daemon.stderr is not None
        try:
            assert any("endpoint" in line for line in daemon.stderr)  # lines of other threads may come first
            subprocess.run(["rm", "-rf", str(where)], check=True)
            where.mkdir()
            assert daemon.wait(30) == 15
            assert re.search(r"^tic-daemon: the store .* was deleted while", daemon.stderr.read(), re.MULTILINE)
        finally:
            daemon.kill()


def test_a_state_directory_is_not_watched_and_hides_no_store(workspace: Path) -> None:
    code, said = _run(daemon_cli.main, ["watch", "--once", str(workspace / ".tic")])
    assert code == 2 and "its own state" in said
    (workspace / ".tic" / ".tic" / f"{local_host()}-0123456789ab").mkdir(parents=True)
    stores = [path.name for path in (workspace / ".tic").iterdir() if path.name.startswith(f"{local_host()}-")]
    assert StoreLayout.find(workspace).directory.name in stores


def test_a_corrupt_store_is_not_said_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text(LINES)
    assert daemon_cli.main(["watch", "--once", str(tmp_path)]) == 0
    (store,) = (tmp_path / ".tic").glob("*/tic.duckdb")
    shutil.rmtree(store.parent / "snapshot")  # a daemon that took longer than FIRST_S has published: that would be read
    with store.open("r+b") as file:  # both headers: "Corrupt database file: ... in block at location"
        file.seek(4096)
        file.write(b"\xa5" * 8192)
    code, said = _run(tui_cli.main, ["sql", str(tmp_path), "SELECT 1"])
    assert code == 15 and "cannot read" in said and "being written" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_reading_that_is_broken_off_ends_with_130_and_no_words(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "worker.log").write_text("".join(f"[mismatch] step={step} k1=0.1\n" for step in range(100_000)))
    argv = [sys.executable, "-m", "tic_daemon.cli", "watch", "--once", str(tmp_path)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as daemon:
        until = time.monotonic() + 60
        while not list((tmp_path / ".tic").glob("*/owner.json")) and time.monotonic() < until:
            time.sleep(0.01)
        daemon.send_signal(number)  # while the schema is made: DuckDB must not see an exception
        assert daemon.wait(30) == 130
        assert daemon.stderr is not None and daemon.stderr.read() == ""
    assert not list((tmp_path / ".tic").glob("*/owner.json"))


def test_what_is_logged_moves_no_cursor() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "cannot read %s", ("a\x1b[2Jb.log",), None)
    assert logged.Clean("%(message)s").format(record) == "cannot read a\\x1b[2Jb.log"


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="needs Linux' /proc")
def test_interfaces_of_the_kernel_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "kmsg.log").symlink_to("/proc/kmsg")
    (tmp_path / "proc").symlink_to("/proc/self")
    (tmp_path / "worker.log").write_text(LINES)
    told = subprocess.run(
        [sys.executable, "-m", "tic_daemon.cli", "doctor", "--json", str(tmp_path)],
        capture_output=True, text=True, timeout=30, check=True,
    ).stdout  # fmt: skip
    left = {one["path"]: one["why"] for one in json.loads(told)["left_out"]}
    assert "interface of the kernel" in left[str(tmp_path / "kmsg.log")]
    assert any(path.startswith("/proc/") for path in left)
    assert "/proc/kmsg" not in {one["path"] for one in json.loads(told)["followed"]}


@pytest.mark.parametrize("program", ["tic_daemon", "tic_tui"])
def test_a_program_asks_no_directory_for_pandas(program: str) -> None:
    code = (
        f"import sys; from {program} import cli; cli.main = lambda: 0; before = len(sys.meta_path)\n"
        "try: cli.entry()\n"
        "except SystemExit as end: assert not end.code\n"
        "import duckdb; seen = []\n"
        "class Last:\n"
        "    @staticmethod\n"
        "    def find_spec(name, *_): seen.append(name)\n"
        "sys.meta_path.append(Last())\n"
        "assert duckdb.connect().execute('SELECT ?, ?', [1, 'x']).fetchall() == [(1, 'x')]\n"
        "print(len(sys.meta_path) - before, [name for name in seen if name.startswith('pandas')])\n"
        "import importlib.util; assert importlib.util.find_spec('pandas') is None  # asked so by the W&B client"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["2 []"], done.stderr
