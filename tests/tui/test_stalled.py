"""A terminal that nobody reads: a laptop asleep, an ssh that hangs. The process lives, stays small, and can be ended."""

from __future__ import annotations

import os
import signal
import statistics
import termios
import threading
import time
from pathlib import Path

import pytest

from tests.tui.terminal import Terminal
from tic_tui import ending
from tic_tui.mailbox import Mailbox
from tic_tui.messages import Arrived, LinkChanged, RunFetched

APP = ["-m", "tests.tui.hostile_app"]


def rss_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def level_mib(pid: int) -> float:
    """Resident memory, the median of a second: it swings by several MiB while much is drawn."""
    readings = []
    for _ in range(11):
        readings.append(rss_mib(pid))
        time.sleep(0.1)
    return statistics.median(readings)


def test_it_lives_stays_small_and_ends_on_sigterm() -> None:
    terminal = Terminal([*APP, "storm"], (120, 40))
    terminal.shows("grpo-tiny-a")
    terminal.send("\r")
    terminal.shows("FOLLOW")
    time.sleep(2.5)  # nobody reads from here on; what is drawn fills the terminal's buffer
    before = level_mib(terminal.process.pid)
    time.sleep(2)
    assert terminal.process.poll() is None
    assert level_mib(terminal.process.pid) - before < 12
    began = time.monotonic()
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.process.wait(ending.PATIENCE_S + 12) == 128 + signal.SIGTERM
    assert time.monotonic() - began < ending.PATIENCE_S + 12
    for _ in range(50):  # a terminal that wakes up later is put back then
        terminal.pump(0.1)
        if b"\x1b[?1049l" in terminal.raw:
            break
    assert terminal.raw.endswith(b"\x1b[?1049l\x1b[?25h"), terminal.raw[-200:]
    os.close(terminal.master)


def test_it_goes_on_when_it_is_read_again() -> None:
    terminal = Terminal([*APP, "storm"], (120, 40))
    terminal.shows("grpo-tiny-a")
    terminal.send("\r")
    terminal.shows("FOLLOW")
    time.sleep(2)
    terminal.pump(1)
    os.write(terminal.master, b"1")
    terminal.shows("3 runs")
    terminal.send("q")
    assert terminal.end() == 0


def test_of_each_kind_only_the_newest_waits() -> None:
    woken: list[int] = []
    box = Mailbox(lambda: woken.append(1))
    for n in range(1000):
        box.post(RunFetched(f"r{n}", None))
        box.post(LinkChanged(n))  # type: ignore[arg-type]
    taken = box.take()
    assert len(woken) == 1 and [type(m) for m in taken] == [RunFetched, LinkChanged]
    assert isinstance(taken[0], RunFetched) and taken[0].run_id == "r999"
    assert box.take() == []
    box.post(Arrived())
    assert len(woken) == 2


@pytest.mark.parametrize("reads", [True, False], ids=["read", "full"])
def test_putting_a_terminal_back_never_waits(reads: bool) -> None:
    master, slave = os.openpty()
    attributes = termios.tcgetattr(slave)
    raw = termios.tcgetattr(slave)
    raw[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(slave, termios.TCSANOW, raw)
    if not reads:
        os.set_blocking(slave, False)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(slave, b"x" * 4096)
        os.set_blocking(slave, True)
    done = threading.Event()
    ready = os.dup(slave)

    def put() -> None:
        ending.put_back(attributes, ready)
        done.set()

    threading.Thread(target=put, daemon=True).start()
    assert done.wait(10)
    assert termios.tcgetattr(slave)[3] & termios.ECHO, "the modes are back"
    for fd in (master, slave, ready):
        os.close(fd)
