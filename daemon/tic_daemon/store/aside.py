"""A question to the store that may take long, answered beside the writer's thread: on a cursor of its own, in a thread
that takes the processor after it.

    aside.ask(question)     question(con) runs; `busy` until its answer is taken
    aside.take()            the answer, once it is there
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from tic_daemon import priority

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger("tic-daemon")

T = TypeVar("T")

NICE = 10


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a question gave; None: it failed, which is logged. `cost_s`: of a processor."""

    value: T | None
    cost_s: float


class Aside(Generic[T]):
    """One question at a time. For the writer's thread.

    Args:
        connect: gives a cursor; called in the thread.
        name: of the thread. what: is asked, for the log.
    """

    def __init__(self, connect: Callable[[], duckdb.DuckDBPyConnection], name: str, what: str) -> None:
        self._connect, self._name, self._what = connect, name, what
        self._thread: threading.Thread | None = None
        self._answer: Answer[T] | None = None

    @property
    def busy(self) -> bool:
        """Whether something was asked and its answer is not taken."""
        return self._thread is not None

    def ask(self, question: Callable[[duckdb.DuckDBPyConnection], T]) -> None:
        """Not while it is busy."""
        self._thread = threading.Thread(target=self._run, args=(question,), name=self._name, daemon=True)
        self._thread.start()

    def take(self, *, wait: bool = False) -> Answer[T] | None:
        """The answer; None: there is none yet, or nothing was asked. `wait`: for as long as it takes."""
        if self._thread is None or (self._thread.is_alive() and not wait):
            return None
        self._thread.join()
        self._thread, answer, self._answer = None, self._answer, None
        return answer

    def _run(self, question: Callable[[duckdb.DuckDBPyConnection], T]) -> None:
        priority.behind(NICE)
        value = None
        try:
            con = self._connect()
            try:
                value = question(con)
            finally:
                con.close()
        except Exception as error:  # noqa: BLE001  the logs are followed on without it
            log.warning("%s could not be asked: %s", self._what, error)
        self._answer = Answer(value, time.thread_time())
