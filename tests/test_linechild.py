"""A child that answers in lines, against programs of the standard library whose words are known."""

from __future__ import annotations

import os
import tempfile
import time

import pytest

from tic_daemon.linechild import Died, Late, LineChild, Stopped, TooLong


def _child(module: str, *arguments: str, most: int = 1000, stopped: bool = False) -> LineChild:
    errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`
    return LineChild(module, *arguments, environ=os.environ, errors=errors, most=most, stopped=lambda: stopped)


def _soon() -> float:
    return time.monotonic() + 60


def test_lines_come_one_by_one_and_then_its_end() -> None:
    child = _child("this")
    assert child.line(_soon()) == b"The Zen of Python, by Tim Peters"
    assert child.line(_soon()) == b""
    assert child.line(_soon()) == b"Beautiful is better than ugly."
    with pytest.raises(Died) as died:
        while True:
            child.line(_soon())
    assert (died.value.code, died.value.words) == (0, "") and not child.alive


def test_its_last_words_and_its_code_are_told() -> None:
    child = _child("json.tool", "--nonsense")
    with pytest.raises(Died) as died:
        child.line(_soon())
    assert died.value.code == 2 and "unrecognized arguments: --nonsense" in died.value.words
    with pytest.raises(Died):
        child.say(b"{}\n")


def test_a_line_that_is_too_long_ends_it() -> None:
    child = _child("this", most=20)
    with pytest.raises(TooLong):
        child.line(_soon())
    assert not child.alive


@pytest.mark.parametrize(("stopped", "left_s", "error"), [(False, 0.2, Late), (True, 60.0, Stopped)])
def test_one_that_says_nothing_is_ended(stopped: bool, left_s: float, error: type[Exception]) -> None:
    child = _child("json.tool", stopped=stopped)  # it waits for its input's end
    with pytest.raises(error):
        child.line(time.monotonic() + left_s)
    assert not child.alive
