"""Reports that `[mismatch]` records name: whether they are there, and say what the record says.

    reports.note(claims)       records that were read, here or by an earlier daemon
    reports.look(now, tell)    looks whether what they name is there, and reads what changed

A `report=` is a path from nobody knows where: it is looked for beside the log and in each directory above it, up to the
watched root, the nearest first. Gaps told here:

    report_missing    it is not there, though the directory that it begins with is; or it was there, and is gone
    report_differs    it says another run, step, policy, input or value than the record that names it
    report_unchecked  it leads out of the watched directory, or the directory that it begins with is nowhere above
                      the log: it is not reachable, and nothing is said against it. No gap: view record_reports has it

What a report says is read where it is a JSON object: a report of `tic-daemon compare`, a manifest, or a table of
metrics under their names. Of anything else only the presence is checked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, Final

from tic_daemon.results import layout
from tic_daemon.results.gaps import Gaps
from tic_daemon.results.judge import SETTLE_S
from tic_daemon.results.manifest import Problem
from tic_daemon.results.safefile import GoneError, RefusedError, read_inside, stamp
from tic_daemon.store.rows import ResultGapRow

REST_S: Final = 60.0
"""A record may be printed before its report is written: so long nothing is missed."""
MAX_REPORTS: Final = 20_000
_CLAIMS: Final = 64  # records of one report that are held against it
_MAX_BYTES: Final = 64 << 20
_ABOVE: Final = 16
_KINDS: Final = frozenset({"report_missing", "report_differs", "report_unchecked", "too_many"})
_UNSAID: Final = frozenset({"", "unknown", "none", "null", "-", "n/a"})

Tell = Callable[[ResultGapRow], None]


@dataclass(frozen=True, slots=True)
class Claim:
    """What one record says of its report. Texts are "" and the step None where it says nothing."""

    log: str
    root: str
    report: str
    run: str = ""
    metric: str = ""
    value: str = ""
    step: int | None = None
    policy: str = ""
    input: str = ""


@dataclass(slots=True)
class _Named:
    """One report of one log. `path`: where it was found, "" before. `problem`: what its content says otherwise."""

    root: str
    since: float
    claims: dict[Claim, None] = field(default_factory=dict)
    path: str = ""
    stamp: str = ""
    problem: str = ""
    stale: bool = True


class Reports:
    """Reports that records name. `clock`: wall time in seconds, when a record is heard of."""

    def __init__(self, gaps: Gaps, clock: Callable[[], float]) -> None:
        self._gaps, self._clock = gaps, clock
        self._named: dict[str, dict[str, _Named]] = {}
        self._count = 0
        self._left_out: dict[str, int] = {}

    def note(self, claims: Iterable[Claim]) -> None:
        """Records that name a report."""
        for claim in claims:
            if claim.report.strip().lower() in _UNSAID or not claim.log.startswith("/"):
                continue
            of_log = self._named.setdefault(claim.log, {})
            named = of_log.get(claim.report)
            if named is None:
                if self._count >= MAX_REPORTS:
                    self._left_out[claim.log] = self._left_out.get(claim.log, 0) + 1
                    continue
                self._count += 1
                named = of_log[claim.report] = _Named(claim.root, self._clock())
            if claim not in named.claims and len(named.claims) < _CLAIMS:
                named.claims[claim] = None
                named.stale = True

    def look(self, now: float, tell: Tell) -> None:
        """Looks at all of them once. `now` in seconds; infinity: nothing is waited for."""
        for log, of_log in self._named.items():
            problems, waits = [], False
            unreachable: list[str] = []
            for report, named in of_log.items():
                found = self._one(log, report, named, now)
                waits |= found is None
                if isinstance(found, Problem):
                    problems.append(found)
                elif found == "report_unchecked":
                    unreachable.append(report)
            if unreachable:
                words = f"{len(unreachable)} reports that records name are not reachable from their log, first"
                problems.append(Problem("report_unchecked", unreachable[0], words))
            if log in self._left_out:
                words = f"{self._left_out[log]} more records name reports that are not checked"
                problems.append(Problem("too_many", "report", words))
            root = next(iter(of_log.values())).root if of_log else "/"
            run = next((claim.run for one in of_log.values() for claim in one.claims if claim.run), layout.run_of(log))
            if waits:  # what is over is told once all is settled
                self._gaps.add(log, root, run, problems, tell)
            else:
                self._gaps.put(log, root, run, _KINDS, problems, tell)

    def _one(self, log: str, report: str, named: _Named, now: float) -> Problem | str | None:
        """What is wrong with one; a kind where it is not looked at; "" if nothing is; None: it is too early to say."""
        run = next((claim.run for claim in named.claims if claim.run), "")
        if named.path and (mark := stamp(named.path, named.root)):
            if mark != named.stamp or named.stale:
                return self._read(named, report, mark, now, run)
            return Problem("report_differs", report, named.problem, run) if named.problem else ""
        if named.path:
            return Problem("report_missing", report, "the report of a record was there and is gone", run)
        return self._search(log, report, named, now, run)

    def _search(self, log: str, report: str, named: _Named, now: float, run: str) -> Problem | str | None:
        """One that was not found before."""
        inside = False
        for place in _places(log, report, named.root):
            inside = True
            if mark := stamp(place, named.root):
                named.path = place
                return self._read(named, report, mark, now, run)
        if not inside or not any(os.path.isdir(base) for base in _begins(log, report, named.root)):  # noqa: PTH112
            return "report_unchecked"
        if now - named.since < REST_S:
            return None
        return Problem("report_missing", report, "a record names a report that is not there", run)

    def _read(self, named: _Named, report: str, mark: str, now: float, run: str) -> Problem | str | None:
        try:
            data, seen = read_inside(named.path, named.root, _MAX_BYTES)
        except GoneError:
            return None
        except (RefusedError, OSError) as error:
            named.stamp, named.stale = mark, False
            named.problem = f"it cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
            return Problem("report_differs", report, named.problem, run)
        if 0 <= now - seen.modified < SETTLE_S:
            return None
        named.stamp, named.stale = seen.stamp, False
        said = _json(data) if len(data) <= _MAX_BYTES else None
        differs = [word for claim in named.claims for word in _differs(claim, said)] if said is not None else []
        named.problem = "; ".join(dict.fromkeys(differs))[:1000]
        return Problem("report_differs", report, named.problem, run) if named.problem else ""


def _bases(log: str, root: str) -> Iterator[str]:
    """The log's directory and those above it, up to the root."""
    top = os.path.normpath(root)
    base = os.path.dirname(os.path.normpath(log))  # noqa: PTH120  names need not be valid text
    for _ in range(_ABOVE):
        if base != top and not base.startswith(f"{top.rstrip('/')}/"):
            return
        yield base
        base = os.path.dirname(base)  # noqa: PTH120


def _places(log: str, report: str, root: str) -> Iterator[str]:
    """Where a report may lie, within the root."""
    top = os.path.normpath(root)
    for base in [""] if report.startswith("/") else _bases(log, root):
        place = os.path.normpath(os.path.join(base, report))  # noqa: PTH118
        if place.startswith(f"{top.rstrip('/')}/"):
            yield place


def _begins(log: str, report: str, root: str) -> Iterator[str]:
    """The directories that a report's path begins with. A bare name begins nowhere: nothing says where it starts."""
    if report.startswith("/"):
        yield os.path.dirname(report)  # noqa: PTH120
        return
    parts = os.path.normpath(report).split("/")
    if len(parts) > 1 and parts[0] != "..":
        yield from (os.path.join(base, parts[0]) for base in _bases(log, root))  # noqa: PTH118


def _json(data: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _differs(claim: Claim, said: Mapping[str, Any]) -> Iterator[str]:
    """What a report says otherwise than a record."""
    identity = said.get("identity")
    sides = [identity[side] for side in "ab" if isinstance(identity, dict) and isinstance(identity.get(side), dict)]
    for name, own, others in (
        ("run", claim.run, [said.get("run")]),
        ("step", "" if claim.step is None else str(claim.step), [said.get("step")]),
        ("policy", claim.policy, [said.get("policy_version"), *(side.get("policy") for side in sides)]),
    ):
        known = {str(other) for other in others if type(other) in {str, int} and str(other)}
        if own and own.lower() != "unknown" and known and own not in known:
            yield f"it says {name} {', '.join(sorted(known))}, the record {own}"
    digest = said.get("input_sha256") or (identity.get("inputs") if isinstance(identity, dict) else None)
    if isinstance(digest, str) and claim.input and "unknown" not in {digest.lower(), claim.input.lower()}:
        one, other = digest.lower().removeprefix("sha256:"), claim.input.lower().removeprefix("sha256:")
        if not one.startswith(other) and not other.startswith(one):
            yield f"it says input {digest}, the record {claim.input}"
    value = _value(said, claim.metric)
    if value is not None and claim.value and not _rounds_to(value, claim.value):
        yield f"it says {claim.metric} {value!r}, the record {claim.value}"


def _value(said: Mapping[str, Any], metric: str) -> float | None:
    """The number of a metric in a report."""
    observed = said.get("observed")
    tables: Collection[Any] = (
        observed.get("metrics") if isinstance(observed, dict) else None,
        said.get("metrics"),
        said,
    )
    for table in tables:
        own = table.get(metric) if isinstance(table, dict) and metric else None
        if isinstance(own, int | float) and not isinstance(own, bool) and isfinite(own):
            return float(own)
    return None


def _rounds_to(value: float, text: str) -> bool:
    """Whether a number is the printed one, or would be printed so with as many digits."""
    try:
        printed = Decimal(text)
        if not printed.is_finite():
            return False
        half = Decimal(1).scaleb(int(printed.as_tuple().exponent)) / 2
        return float(printed) == value or abs(Decimal(value) - printed) <= half * Decimal("1.000001")
    except (InvalidOperation, ValueError, OverflowError):
        return True  # the text is no number: the record says so itself
