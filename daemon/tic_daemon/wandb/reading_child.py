"""`python -m tic_daemon.wandb.reading_child`: reads histories with the real client, in a process that can be killed.

Standard input brings one `Asked` a line; standard output gets the messages of wire.py. When standard input ends, the
process ends with all that it started: whoever asked is gone.

The client prints as it likes: what was standard output is taken away first. It blocks as it likes, too; that is the
parent's concern.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from tic_daemon.credentials import without_credentials
from tic_daemon.wandb.history import HistoryRow, flatten, history_row
from tic_daemon.wandb.masking import masked
from tic_daemon.wandb.process_tree import end_tree
from tic_daemon.wandb.wire import Asked, Begun, Encoder, Ended, Hello, Message, PageTold, RowTold, RunTold

HOME: Final = "tic-wandb-"
"""How the directory begins that was made for a child."""
OLDEST: Final = (0, 28)
"""Before it a scan of an active run could come back empty without a word."""
MOST_STEPS: Final = 2_000_000_000
"""A page is a range of steps, asked for in 32 bits; of a run that counts in tokens it may be that long."""
MOST_PAGES: Final = 200_000
"""More of them is no history, but a last step that cannot be true."""
_JSON: Final = 4 << 20


class _NoAccount(Exception):
    """The client has no credentials that the server takes, or is not installed."""


def main() -> int:
    """See the module."""
    out = os.fdopen(os.dup(1), "wb", buffering=1 << 20)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(2, 1)
    asked: queue.Queue[Asked] = queue.Queue()
    lines = os.fdopen(os.dup(0), "rb")
    os.dup2(null, 0)  # the client must not ask anybody anything
    threading.Thread(target=_listen, args=(lines, asked), daemon=True).start()
    client = _Client()
    while True:
        told = Teller(out)
        request = asked.get()
        try:
            client.read(request, told)
        except _NoAccount as error:
            told(Ended("no_account", client.masked(error), told.next_step))
        except BrokenPipeError:
            return 0
        except Exception as error:  # noqa: BLE001  whatever the client raises is told
            told(Ended("error", f"{type(error).__name__}: {client.masked(error)}", told.next_step))


def _listen(lines: BinaryIO, asked: queue.Queue[Asked]) -> None:
    for line in lines:
        asked.put(Asked(**json.loads(line)))
    end_tree(os.getpid(), itself=False)
    if Path.cwd().name.startswith(HOME):
        shutil.rmtree(Path.cwd(), ignore_errors=True)  # who made it may have been killed
    os._exit(0)


class Teller:
    """Writes messages; remembers how far pages went."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._encoder = Encoder()
        self.next_step = 0

    def __call__(self, message: Message) -> None:
        self._out.write(self._encoder.line(message))
        if isinstance(message, RowTold):
            return
        if isinstance(message, PageTold):
            self.next_step = message.to
        self._out.flush()


class _Client:
    """The real client, started by the first reading."""

    def __init__(self) -> None:
        self._api: Any = None
        self._secrets: list[str] = [held for name in ("WANDB_API_KEY",) if (held := os.environ.get(name))]

    def masked(self, error: BaseException) -> str:
        return masked(str(error) or type(error).__name__, self._secrets)

    def read(self, asked: Asked, told: Teller) -> None:
        began = time.monotonic()
        told.next_step = asked.first
        api = self._started(told)
        api.flush()  # it would give the run as it was at the last reading
        run = api.run(asked.path)
        facts = _facts(run, asked.path)
        told(facts)
        page = page_size(asked, facts)
        told(Begun(asked.first, page))
        if (facts.last_step - asked.first) // page > MOST_PAGES:
            raise RuntimeError(f"the server's last step is {facts.last_step}: rows cannot be that far apart")
        if facts.last_step >= asked.first:
            try:
                scan = run.scan_history(page_size=page, min_step=asked.first, use_cache=False)
                if not _tell_rows(scan, asked, page, began, told):
                    return
            finally:
                for path in _exports():
                    path.unlink(missing_ok=True)
        told(Ended("ok", "", max(asked.first, facts.last_step + 1)))

    def _started(self, told: Teller) -> Any:
        if self._api is None:
            self._api = self._start()
        import wandb  # noqa: PLC0415  only after it was looked for

        told(Hello(wandb.__version__, masked(str(self._api.settings.get("base_url", "")), self._secrets)))
        return self._api

    def _start(self) -> Any:
        try:
            import wandb  # noqa: PLC0415  half a second, and not everybody has it
        except ImportError as error:
            raise _NoAccount(f"the W&B client is not installed here: {error}") from error
        if _version(wandb.__version__) < OLDEST:
            raise RuntimeError(
                f"wandb {wandb.__version__} leaves rows out of what it reads; "
                f"{'.'.join(map(str, OLDEST))} or later is needed"
            )
        try:
            api = wandb.Api()
        except wandb.errors.UsageError as error:
            raise _NoAccount(masked(str(error), self._secrets)) from error
        except wandb.errors.AuthenticationError as error:
            if _unreachable(error):
                raise
            raise _NoAccount(masked(str(error), self._secrets)) from error
        if isinstance(key := getattr(api, "api_key", None), str):
            self._secrets.append(key)
        return api


def _unreachable(error: BaseException) -> bool:
    """Whether credentials could not be tried at all: the client says so with the same class."""
    cause = error.__cause__
    if cause is None:
        return False  # a key that has not the form of one
    return getattr(getattr(cause, "response", None), "http_status", 0) not in (401, 403)


def _version(text: str) -> tuple[int, int]:
    parts = text.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        return OLDEST  # a build of somebody's own


def page_size(asked: Asked, facts: RunTold) -> int:
    """How many steps a page may span so that it holds about `asked.page_rows` rows and not too many values."""
    wanted = min(asked.page_rows, max(10, asked.values // max(1, facts.keys)))
    steps = facts.last_step + 1
    size = max(wanted, steps / 1000)  # where nobody says how close rows lie
    if facts.line_count and steps > 0:
        size = wanted * steps / facts.line_count
    # Sizes of a step or two would be the same for each stretch.
    return int(min(MOST_STEPS, max(1, math.ceil(size * asked.stretch))) + int(asked.stretch * 1.5) - 1)


def _facts(run: Any, path: str) -> RunTold:
    attrs: Mapping[str, Any] = getattr(run, "_attrs", None) or {}
    keys = attrs.get("historyKeys")
    held = keys.get("keys") if isinstance(keys, Mapping) else None
    raw = attrs.get("rawconfig")
    own = raw.get("_wandb") if isinstance(raw, Mapping) else None
    own = own if isinstance(own, Mapping) else {}
    count = attrs.get("historyLineCount")
    last = run.lastHistoryStep
    return RunTold(
        path=path,
        name=str(attrs.get("displayName") or ""),
        state=str(run.state or ""),
        created_at=_time(attrs.get("createdAt")),
        line_count=count if isinstance(count, int) else None,
        last_step=int(last) if isinstance(last, int | float) and math.isfinite(last) else -1,
        keys=len(held) if isinstance(held, Mapping) else 0,
        config=_json(attrs.get("config")),
        summary=_json(attrs.get("summaryMetrics")),
        writer_version=str(own.get("cli_version") or ""),
        git_commit=str(attrs.get("commit") or ""),
        heartbeat_at=_time(attrs.get("heartbeatAt")),
    )


def _json(given: object) -> str:
    """Without secrets; what is too long to be kept is left out and says so."""
    plain = without_credentials(dict(given)) if isinstance(given, Mapping) else {}
    text = json.dumps(plain, default=str, ensure_ascii=True)
    return text if len(text) <= _JSON else json.dumps({"_left_out": f"{len(text)} bytes"})


def _time(given: object) -> datetime | None:
    try:
        return datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        return None


def _tell_rows(scan: Iterable[Mapping[str, Any]], asked: Asked, page: int, began: float, told: Teller) -> bool:
    """Tells every row. False: the time was up at the border of a page, and that is said."""
    exported = _exported()
    border = asked.first + page
    for number, given in enumerate(scan):
        row = _row(given, number, exported)
        # Rows come page by page and sorted within each, so the first row beyond a border says that a page is through.
        if row.wandb_step is not None and row.wandb_step >= border:
            border += (row.wandb_step - border) // page * page + page
            told(PageTold(border - page))
            if time.monotonic() - began > asked.budget_s:
                told(Ended("cut", "", border - page))
                return False
        told(RowTold(row, row.digest()))
    return True


def _row(given: Mapping[str, Any], number: int, exported: list[tuple[int, int]]) -> HistoryRow:
    """A row; in what is exported a null is a key that the row does not have, elsewhere it is a null.

    The client gives keys in no order. Sorted they are the same from row to row, and need not be told each time.
    """
    row = history_row(flatten(given), number)
    step = row.wandb_step or 0
    absent = any(low <= step <= high for low, high in exported)
    values = sorted(value for value in row.values if not (absent and value.kind == "null"))
    return HistoryRow(row.wandb_step, row.at, row.row_no, row.writer, tuple(values))


def _exported() -> list[tuple[int, int]]:
    """First and last steps of the exports that the client has just fetched; its cache is this child's own."""
    found: list[tuple[int, int]] = []
    for path in _exports():
        import pyarrow.parquet as pq  # noqa: PLC0415  only where there are exports

        ranges: list[tuple[int, int]] = []
        # The client reads the file by itself, and says what is wrong with it.
        with contextlib.suppress(Exception), pq.ParquetFile(path) as file:
            ranges = list(_step_ranges(file.metadata))
        found += ranges or [(0, sys.maxsize)]
    return found


def _step_ranges(metadata: Any) -> Iterator[tuple[int, int]]:
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for column in range(row_group.num_columns):
            chunk = row_group.column(column)
            if chunk.path_in_schema == "_step" and chunk.statistics is not None and chunk.statistics.has_min_max:
                yield int(chunk.statistics.min), int(chunk.statistics.max)


def _exports() -> list[Path]:
    cache = os.environ.get("WANDB_CACHE_DIR", "")
    return sorted(Path(cache).glob("**/*.runhistory.parquet")) if cache else []


if __name__ == "__main__":
    sys.exit(main())
