"""The thread that looks at results: what it hands over, that nobody waits for it, and that a defect does not end it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.results.test_archive import manifest, put
from tic_daemon.results.archive import Archive
from tic_daemon.sources import results as module
from tic_daemon.sources.results import Results
from tic_daemon.store.rows import ArtifactRow, ResultRow

OLD = 1_700_000_000.0


def wait_for(ready: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < until, "did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "results" / "r1"
    put(directory / "a.pt", b"1")
    manifest(directory, {"a.pt": b"1"})
    return directory


def walk(run: Path) -> tuple[list[tuple[str, str]], list[str]]:
    return [(str(run / "manifest.json"), str(run.parent.parent))], [str(run)]


def test_rows_are_handed_over_once_and_the_follower_is_woken(run: Path) -> None:
    woken = threading.Event()
    results = Results("h", lambda _: "", wake=woken.set)
    try:
        assert results.take() == [] and not results.busy()
        results.found(*walk(run))
        assert results.busy()
        assert woken.wait(30)
        wait_for(lambda: not results.busy())
        rows = results.take()
        assert [row.state for row in rows if isinstance(row, ArtifactRow)] == ["verified"]
        assert results.take() == []
        results.found(*walk(run))
        assert not results.busy(), "a walk that found nothing new asks for a look"
        put(run / "a.pt", b"2", OLD + 1)
        results.finish(30)
        assert [row.state for row in results.take() if isinstance(row, ArtifactRow)] == ["changed"]
    finally:
        results.close()


def test_without_results_there_is_no_thread() -> None:
    before = set(threading.enumerate())
    results = Results("h", lambda _: "")
    results.found([], ["/w"])
    results.finish(30)
    assert not results.busy() and not set(threading.enumerate()) - before


def test_a_look_that_hangs_holds_nobody_up(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release, began = threading.Event(), threading.Event()

    def hang(self: Archive, tell: Callable[[ResultRow], None], *, final: bool = False) -> None:
        began.set()
        release.wait(60)

    monkeypatch.setattr(Archive, "look", hang)
    results = Results("h", lambda _: "")
    try:
        results.found(*walk(run))
        assert began.wait(30)
        start = time.monotonic()
        results.found(*walk(run))
        assert results.take() == [] and results.busy()
        results.finish(0.05)
        results.close()
        assert time.monotonic() - start < 10, "it waited for the mount"
    finally:
        release.set()


def test_a_defect_is_told_and_tried_again(
    run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, failed = Archive.look, threading.Event()

    def once(self: Archive, tell: Callable[[ResultRow], None], *, final: bool = False) -> None:
        if not failed.is_set():
            failed.set()
            raise ZeroDivisionError("planted")
        real(self, tell, final=final)

    monkeypatch.setattr(Archive, "look", once)
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    results = Results("h", lambda _: "")
    try:
        with caplog.at_level(logging.ERROR, "tic-daemon"):
            results.found(*walk(run))
            rows: list[ResultRow] = []
            wait_for(lambda: bool(rows.extend(results.take())) or any(isinstance(row, ArtifactRow) for row in rows))
        assert "planted" in caplog.text
    finally:
        results.close()
