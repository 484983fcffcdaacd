"""How often a run is read: at its pace while it moves, ever less often while the server calls it running and it does not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tic_daemon.wandb import target as module
from tic_daemon.wandb.history import HistoryRow
from tic_daemon.wandb.target import Named, Target
from tic_daemon.wandb.wire import RowTold, RunTold

HOUR = 3600.0
NOW = datetime(2026, 11, 30, tzinfo=UTC).timestamp()


class Clock:
    """A clock that the test sets, and a run that is read by it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = NOW
        monkeypatch.setattr(module.time, "time", lambda: self.now)
        self.target = Target(Named("lab/grpo/a", "/ws"), "node1")
        self.steps = 0

    def read(self, beat: float | None, rows: int = 0) -> float:
        """One reading that tells this heartbeat and so many new rows; the pause until the next, of 60 s to an hour."""
        at = None if beat is None else datetime.fromtimestamp(beat, UTC).replace(tzinfo=None)
        self.target.run(RunTold("lab/grpo/a", "", "running", None, None, -1, 0, "{}", "{}", "", "", at))
        for _ in range(rows):
            self.steps += 1
            assert self.target.row(RowTold(HistoryRow(self.steps, None, self.steps, "", ()), f"{self.steps:032x}"), "r")
        return self.target.pause(60.0, HOUR)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_run_that_lives_is_read_at_its_pace_for_ever(clock: Clock) -> None:
    for _ in range(2000):
        clock.now += 60
        assert clock.read(clock.now - 20) == 60


def test_one_that_is_called_running_for_ever_is_read_ever_less(clock: Clock) -> None:
    readings, pause, until = 0, 0.0, NOW + 24 * HOUR
    while clock.now < until:
        pause = clock.read(NOW - 30, rows=5 if not readings else 0)
        readings += 1
        clock.now += pause
    assert readings < 70  # of 1,440; a hundred in two days
    assert pause == HOUR
    assert clock.read(clock.now - 5, rows=1) == 60  # it lives again


def test_a_heartbeat_of_long_ago_counts_from_then_on_but_is_not_believed_at_once(clock: Clock) -> None:
    assert clock.read(NOW - 5 * HOUR) == 60  # the clocks may differ
    clock.now += 60
    assert clock.read(NOW - 5 * HOUR) == 60
    clock.now += 60
    assert clock.read(NOW - 5 * HOUR) == pytest.approx(1812)
    clock.now += 1812
    assert clock.read(NOW - 4.9 * HOUR) == 60  # by a clock that is five hours behind, it lives


def test_without_heartbeats_new_rows_are_movement(clock: Clock) -> None:
    for _ in range(100):
        clock.now += 60
        assert clock.read(None, rows=1) == 60
    clock.now += 2 * HOUR
    assert clock.read(None) == pytest.approx(720)


def test_the_local_log_of_a_run_wakes_it(clock: Clock) -> None:
    clock.now += 2 * HOUR
    assert clock.read(NOW) == pytest.approx(720)
    assert clock.target.stir()
    assert clock.target.pause(60.0, HOUR) == 60 and not clock.target.stir()
