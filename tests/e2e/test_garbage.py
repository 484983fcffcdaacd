"""Files that no logger meant to write: the daemon goes on, says what it skipped, and its records are still right."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.e2e.harness import ask, once, tui

RECORD = (
    "[mismatch] run={run} step={step} policy=1 input=abc phase=decode rank=0 repeat=0 scope=fixed-input intervention=none "
    "metric=logprob_mae value=0.25 reference=x self_repeat=0.125 report=r classification=unknown\n"
)


def test_random_bytes_long_lines_nuls_and_bad_utf8(tmp_path: Path) -> None:
    rng = random.Random(5)
    with (tmp_path / "noise.log").open("wb") as log:
        log.write(b"this log starts well\n")
        for _ in range(50):
            log.write(rng.randbytes(100_000))
        log.write(b"\n" + RECORD.format(run="a", step=1).encode())
    with (tmp_path / "long.log").open("wb") as log:
        log.write(RECORD.format(run="a", step=2).encode())
        for _ in range(100):
            log.write(b"x" * 100_000)
        log.write(b"\n" + RECORD.format(run="a", step=3).encode())
    (tmp_path / "hole.log").write_bytes(b"start\n" + b"\0" * 300_000 + RECORD.format(run="a", step=4).encode())
    (tmp_path / "latin.log").write_bytes(
        b"caf\xe9 \xff\xfe\n" + RECORD.format(run="b\udcff", step=5).encode("utf-8", "surrogateescape")
    )
    store = once(tmp_path)
    assert ask(store, "SELECT step FROM mismatches ORDER BY step") == [(1,), (2,), (3,), (4,), (5,)]
    ((run, raw),) = ask(store, "SELECT run_id, raw FROM mismatches WHERE step = 5")
    assert run == "b\ufffd"
    assert "run=b\\xff " in str(raw), "the bytes themselves are kept"
    skipped = dict(ask(store, "SELECT path, skipped FROM sources"))  # type: ignore[arg-type]
    assert skipped[str(tmp_path / "long.log")] > 8_000_000
    nuls = dict(ask(store, "SELECT path, nul_bytes FROM sources"))  # type: ignore[arg-type]
    assert nuls[str(tmp_path / "hole.log")] == 300_000


@pytest.mark.slow
def test_fifty_megabytes_of_random_bytes_and_a_line_of_a_hundred(tmp_path: Path) -> None:
    rng = random.Random(6)
    with (tmp_path / "noise.log").open("wb") as log:
        log.write(b"this log starts well\n")
        for _ in range(50):
            log.write(rng.randbytes(1_000_000))
        log.write(b"\n" + RECORD.format(run="a", step=1).encode())
    with (tmp_path / "long.log").open("wb") as log:
        for _ in range(100):
            log.write(b"y" * 1_000_000)
        log.write(b"\n" + RECORD.format(run="a", step=2).encode())
    store = once(tmp_path)
    assert ask(store, "SELECT step FROM mismatches ORDER BY step") == [(1,), (2,)]


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    evil = "'); DROP TABLE mismatch; --"
    (tmp_path / "evil.log").write_text(
        RECORD.format(run="a", step=1).replace("input=abc", "input=\x1b]0;owned\x07\x1b[2J")
        + RECORD.format(run="a", step=2).replace("report=r", f'report="{evil}"')
        + "[rank0]: torch.AcceleratorError: CUDA error: \x1b]52;c;cm0gLXJm\x07an illegal memory access was encountered\n"
    )
    store = once(tmp_path)
    assert ask(store, "SELECT count(*) FROM mismatches") == [(2,)]
    for command in (("status",), ("sql",)):
        query = ("SELECT * FROM mismatches",) if command == ("sql",) else ()
        shown = tui(*command, tmp_path, *query).stdout
        assert "\x1b" not in shown
        assert "\x07" not in shown
