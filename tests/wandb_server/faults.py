"""Faults of the server and of the way to it: which requests they meet, and what happens then."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Status:
    """Answers with this status instead; nothing is stored."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b'{"error": "a fault of the test"}'


@dataclass(frozen=True)
class Hang:
    """Takes the request and never answers, until the server is closed. `seconds`: answers after so long."""

    seconds: float = 3600.0


@dataclass(frozen=True)
class Close:
    """Closes the connection without a byte."""


@dataclass(frozen=True)
class Cut:
    """Announces the whole answer and sends only its first part."""

    keep: float = 0.5


@dataclass(frozen=True)
class Raw:
    """Answers 200 with this text, as a proxy's page would be."""

    body: bytes = b"<html><body>Please log in to the network</body></html>"
    content_type: str = "text/html"


@dataclass(frozen=True)
class Lose:
    """On file_stream: answers 200 and stores none of the history lines."""


@dataclass(frozen=True)
class Edit:
    """Changes the JSON answer. The function gets the answer and the request's variables."""

    change: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]


Action = Status | Hang | Close | Cut | Raw | Lose | Edit


@dataclass
class Fault:
    """What happens to requests named `op`.

    Args:
        op: name of a GraphQL operation, or `file_stream`, `parquet`, `upload`; "*" is every one.
        action: what happens.
        after: so many are let through first. times: so many are met; None: all from then on.
        when: further condition on the request's variables.
        on: False while it is switched off.
    """

    op: str
    action: Action
    after: int = 0
    times: int | None = None
    when: Callable[[Mapping[str, Any]], bool] = lambda _variables: True
    on: bool = True
    seen: int = 0
    met: int = 0

    def meets(self, op: str, variables: Mapping[str, Any]) -> bool:
        """Whether it happens to this request; counts it."""
        if not self.on or self.op not in (op, "*") or not self.when(variables):
            return False
        self.seen += 1
        if self.seen <= self.after or (self.times is not None and self.met >= self.times):
            return False
        self.met += 1
        return True


def _run_of(answer: dict[str, Any]) -> dict[str, Any]:
    return answer["data"]["project"]["run"]  # type: ignore[no-any-return]


def _edit(change: Callable[[dict[str, Any]], None]) -> Edit:
    def edited(answer: dict[str, Any], _variables: Mapping[str, Any]) -> dict[str, Any]:
        answer = copy.deepcopy(answer)
        change(answer)
        return answer

    return Edit(edited)


def no_history() -> Edit:
    """A page whose `history` is null."""
    return _edit(lambda answer: _run_of(answer).update(history=None))


def only_rows(count: int) -> Edit:
    """A page that holds its first `count` rows alone."""
    return _edit(lambda answer: _run_of(answer).update(history=_run_of(answer)["history"][:count]))


def no_history_keys() -> Edit:
    """A run whose `historyKeys` is null."""
    return _edit(lambda answer: _run_of(answer).update(historyKeys=None))


def no_live_data() -> Edit:
    """Exports, and not a word of what is not exported yet."""
    return _edit(lambda answer: _run_of(answer)["parquetHistory"].update(liveData=None))


def no_project() -> Edit:
    """As if the project were not there."""
    return _edit(lambda answer: answer["data"].update(project=None))


def graphql_errors(message: str) -> Edit:
    """GraphQL errors in an answer with status 200."""
    return Edit(lambda _answer, _variables: {"data": None, "errors": [{"message": message, "path": ["project"]}]})
