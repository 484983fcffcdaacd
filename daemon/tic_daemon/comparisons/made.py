"""One pair compared: the rows of the store, and the report. In the worker's process alone, which has numpy.

    row, parts = compare_pair(asked, ask, tell)

`ask` tells where the numbers stand towards faults, which the store knows; `tell` how far it is. What is compared and
how it is judged is `tic_daemon.compare`, as in `tic-daemon compare`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tic_daemon.compare import reporting, trace_report, traces
from tic_daemon.compare.align import Alignment
from tic_daemon.compare.comparison import compare, judged_again
from tic_daemon.compare.figures import Figures
from tic_daemon.compare.reading import TraceFound
from tic_daemon.compare.sides import Side
from tic_daemon.compare.trace_reading import read_trace
from tic_daemon.comparisons import rows
from tic_daemon.comparisons.asked import Asked, judging, made_of, path_of, produced
from tic_daemon.comparisons.detail import Detail, detail
from tic_daemon.errors import CompareError
from tic_daemon.evidence.judge import Standing
from tic_daemon.store.comparison_rows import ComparisonPart, ComparisonRow

TELL_S: Final = 0.5


class Changed(CompareError):
    """A file is another than the one that was verified: it is to be looked at again, and then compared."""


Standings = Callable[[dict[str, Any]], tuple[Standing, str, str, str]]
"""Standing and reason, and what is shown of the criterion: see `judged_again`."""
Rows = tuple[ComparisonRow, list[ComparisonPart]]


class _Watch:
    """What is seen of a comparison while its files are open."""

    def __init__(self, comparison_id: str, tell: Callable[[int, int | None], None]) -> None:
        self._id, self._tell = comparison_id, tell
        self._total: int | None = None
        self._told = 0.0
        self.kept = Detail()

    def aligned(self, alignment: Alignment) -> None:
        self._total = alignment.valid
        self._tell(0, self._total)

    def progress(self, done: int) -> None:
        if time.monotonic() - self._told >= TELL_S:
            self._told = time.monotonic()
            self._tell(done, self._total)

    def look(self, a: Side, b: Side, alignment: Alignment, figures: Figures) -> None:
        self.kept = detail(self._id, a, b, alignment, figures)


def compare_pair(asked: Asked, ask: Standings, tell: Callable[[int, int | None], None]) -> Rows:
    """Compares, judges, writes the report.

    Args:
        ask: where numbers stand towards faults, of what `comparison_standing.Made` names, and what the store shows of
            the criterion.
        tell: tokens that are compared, and how many there are.

    Raises:
        CompareError: a file cannot be read, or is no dump. Changed: it is not what was verified.
        OSError: the report cannot be written.
    """
    began = time.monotonic()
    watch = _Watch(asked.id, tell)
    try:
        found = compare(
            Path(asked.pair.a), path_of(asked.pair.b), asked.declared,
            manifests={path: Path(one) for path, one in asked.manifests.items()},
            look=watch.look, tell=watch.progress, aligned=watch.aligned,
        )  # fmt: skip
    except TraceFound:
        if not asked.pair.b:
            raise
        return _traces(asked, ask, began)
    for side in (found.a, found.b):
        _verified(asked, side.path, side.sha256)
    for one in found.beside:
        if one.role not in ("manifest", "said"):  # of a manifest counts what it says of these files
            _verified(asked, one.path, one.sha256)
    _as_said(asked, {one.path: one.sha256 for one in found.beside if one.role == "said"})
    sides = produced(found.claims_a, asked.pair.a), produced(found.claims_b, asked.pair.b or asked.pair.a)
    where = made_of(asked, sides, found.agreed("run"), found.agreed("step"))
    found = judged_again(found, *ask({**where, "judging": judging(found)}))
    report = _report(asked, reporting.dumped(found))
    row = rows.comparison(asked, found, sides, report, time.monotonic() - began)
    return row, [*rows.beside(asked.id, found), *watch.kept.sequences, *watch.kept.tokens]


def _traces(asked: Asked, ask: Standings, began: float) -> Rows:
    """Two layer traces: a diagnosis without a verdict."""
    one, other = (read_trace(Path(path)) for path in (asked.pair.a, asked.pair.b))
    files = [(own.content, own.size if own.sha256 else None) for own in (one, other)]
    for own in (one, other):
        _verified(asked, own.path, own.content)
    found = traces.compared(one, other, {path: Path(named) for path, named in asked.manifests.items()})
    _as_said(asked, {own.path: claim.said for own, claim in zip((one, other), found.said, strict=True)})
    sides = produced(None, asked.pair.a), produced(None, asked.pair.b)
    standing = ask(made_of(asked, sides, None, None))[:2]
    body = json.dumps(trace_report.as_json(found, asked.pair.a, asked.pair.b), indent=1, ensure_ascii=False)
    report = _report(asked, f"{body}\n")
    row = rows.trace(asked, found, (one, other), files, sides, standing, report, time.monotonic() - began)
    return row, [*rows.trace_beside(asked, found), *rows.boundaries(asked.id, found, one.probes, other.probes)]


def _verified(asked: Asked, path: str, sha256: str) -> None:
    wanted = asked.sha256.get(path)
    if wanted and wanted != sha256:
        raise Changed(f"{path} has SHA-256 {sha256}, and {wanted} was verified", "it is compared once it is verified")


def _as_said(asked: Asked, read: Mapping[str, str]) -> None:
    for path, wanted in asked.said.items():
        if read.get(path, "") != wanted:
            raise Changed(f"the manifest of {path} says something else of it than when it was looked at")


def _report(asked: Asked, body: str) -> str:
    """Writes the report of this comparison. One that is there is of the same files and declarations, and stays."""
    if not asked.reports:
        return ""
    folder = Path(asked.reports)
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{asked.id}.json"
    if path.exists():
        return str(path)
    part = folder / f".{asked.id}.{os.getpid()}.part"
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(body.encode("utf-8", "backslashreplace"))
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return str(path)
