"""Records of Rich's log handler, printed by Rich itself: time on the first of several, level and file in columns."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from datetime import datetime

import pytest
from rich.console import Console
from rich.logging import RichHandler
from rich.traceback import Traceback

from tests.scan.support import of, scan
from tic_daemon.scan.events import Fault

WHEN = datetime(2026, 11, 29, 14, 7, 29)
IMA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


def printed(*calls: Callable[[logging.Logger], object], width: int = 160, time: str = "[%x %X]") -> str:
    """What a logger with Rich's handler writes into a file of this width."""
    out = io.StringIO()
    handler = RichHandler(console=Console(file=out, width=width), log_time_format=time)
    logger = logging.Logger("train")
    logger.addHandler(handler)
    logger.addFilter(lambda record: setattr(record, "created", WHEN.timestamp()) or True)
    for call in calls:
        call(logger)
    return out.getvalue()


def faults(text: str, **traits: object) -> list[tuple[str, str, datetime | None]]:
    return [(fault.kind, fault.verdict, fault.at.stamp) for fault in of(scan(text, **traits), Fault)]


def raises(logger: logging.Logger) -> None:
    try:
        raise RuntimeError(IMA)
    except RuntimeError:
        logger.exception("step failed")


def test_only_the_first_record_of_a_second_shows_its_time() -> None:
    text = printed(lambda log: log.error(IMA), lambda log: log.error(IMA))
    first, second = text.splitlines()
    assert first.startswith("[11/29/26 14:07:29] ERROR    torch") and second.startswith(" " * 20 + "ERROR    torch")
    assert faults(text) == [
        ("cuda.illegal_address", "confirmed", WHEN),
        ("cuda.illegal_address", "confirmed", None),
    ]


@pytest.mark.parametrize("time", ["[%x %X]", "[%X]"])
def test_an_exception_below_its_record(time: str) -> None:
    text = printed(lambda log: log.info("ready"), raises, time=time)
    assert [(kind, verdict) for kind, verdict, _stamp in faults(text)] == [("cuda.illegal_address", "confirmed")]


def test_levels_below_error_prove_nothing() -> None:
    for level in ("debug", "info", "warning"):
        text = printed(lambda log, level=level: getattr(log, level)(IMA))  # type: ignore[misc]
        assert {verdict for _kind, verdict, _stamp in faults(text)} <= {"mention", "suspect"}, level


def test_a_traceback_that_no_record_opened_stays_a_question() -> None:
    """The same lines, as far to the right, below a record that says that they are an example."""
    text = printed(lambda log: log.info("an example"), raises)
    opener, *rest = [line for line in text.splitlines() if line.startswith(" " * 29)]
    assert opener.strip() == "Traceback (most recent call last):"
    for head in ("[11/29/26 14:07:29] INFO     an example     train.py:41", "for example:"):
        verdicts = {verdict for _kind, verdict, _stamp in faults("\n".join((head, opener, *rest)) + "\n")}
        assert "confirmed" not in verdicts, head


# Tracebacks in a box, as `rich.traceback.install`, Typer and RichHandler(rich_tracebacks=True) print them


def boxed(prefix: str = "", width: int = 100) -> str:
    out = io.StringIO()
    try:
        raise RuntimeError(IMA)
    except RuntimeError:
        Console(file=out, width=width).print(Traceback(width=width))
    return "".join(prefix + line + "\n" for line in out.getvalue().splitlines())


def test_a_box_in_a_workers_own_file_or_behind_its_launchers_prefix() -> None:
    assert "─ Traceback (most recent call last) ─" in boxed() and "│ /" in boxed()
    want = [("cuda.illegal_address", "confirmed")]
    for text, traits in (
        (boxed(), {"single_process": True, "pid": 7}),
        (boxed("[default3]:"), {}),
        (boxed("(WorkerDict pid=184142) "), {}),
        ("ERROR:root:step failed\n" + boxed(), {}),
    ):
        assert [(kind, verdict) for kind, verdict, _stamp in faults(text, **traits)] == want


def test_a_box_below_a_record_that_says_error() -> None:
    out = io.StringIO()
    handler = RichHandler(console=Console(file=out, width=200), rich_tracebacks=True, tracebacks_width=100)
    logger = logging.Logger("train")
    logger.addHandler(handler)
    raises(logger)
    assert [(kind, verdict) for kind, verdict, _stamp in faults(out.getvalue())] == [
        ("cuda.illegal_address", "confirmed")
    ]


def test_a_box_that_nobody_vouches_for() -> None:
    question = {"mention", "suspect"}
    assert {verdict for _kind, verdict, _stamp in faults(boxed())} <= question
    assert {verdict for _kind, verdict, _stamp in faults(boxed("(TaskRunner pid=5) "))} == {"mention"}
    assert {v for _k, v, _s in faults(boxed(), single_process=True, stream="stdout")} <= question
    frames = [line for line in boxed("[default3]:").splitlines() if ":│ /" not in line]
    assert {verdict for _kind, verdict, _stamp in faults("\n".join(frames) + "\n")} <= question
    quoted = "(WorkerDict pid=7) [response] see\n" + boxed("(WorkerDict pid=7) ") + "(WorkerDict pid=7) [score] 1\n"
    assert {verdict for _kind, verdict, _stamp in faults(quoted)} == {"mention"}
