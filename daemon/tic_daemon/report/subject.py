"""Which run or candidate the user means: its whole name, or the beginning of it if nothing else begins so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tic_daemon.errors import TicError, UnknownRunError
from tic_daemon.report.moment import Moment, Row

SHOWN: Final = 10
_RUNS: Final = "SELECT DISTINCT run_id FROM run_states"
_ALL_RUNS: Final = (
    "SELECT DISTINCT run_id FROM runs UNION SELECT DISTINCT run_id FROM comparisons WHERE run_id IS NOT NULL"
)
_CANDIDATES: Final = "SELECT candidate_id, coalesce(name, '') AS name, run_ids FROM candidates"
Kind = Literal["run", "candidate"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a report is about.

    Attributes:
        id: a run id, or the hash of a closure. name: what people call a candidate; "".
        runs: the run itself, or those that execute the candidate.
    """

    kind: Kind
    id: str
    name: str
    runs: tuple[str, ...]

    @property
    def title(self) -> str:
        """As a person names it."""
        return self.name or self.id


def find(moment: Moment, text: str, kind: str = "") -> Subject:
    """The one that `text` names.

    Args:
        kind: run or candidate, where both have such a name; "": either.

    Raises:
        UnknownRunError: there is none. TicError: there are several.
    """
    candidates = moment.rows(_CANDIDATES) if kind != "run" else []
    runs = _runs(moment, text) if kind != "candidate" else []
    whole = [_run(run) for run in runs if run == text]
    whole += [_candidate(row) for row in candidates if text in (row["candidate_id"], row["name"])]
    found = whole or [
        *(_run(run) for run in runs if text and run.startswith(text)),
        *(_candidate(row) for row in candidates if text and _begins(row, text)),
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownRunError(
            f"no run and no candidate {text!r} as of {moment.at:%Y-%m-%d %H:%M:%S} UTC", _known(runs, candidates)
        )
    names = ", ".join(sorted(f"{one.kind} {one.title}" for one in found)[:SHOWN])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    if len({one.kind for one in found}) == 2 and len({one.title for one in found}) == 1:
        raise TicError(f"{text!r} is a run and a candidate", "say which: --kind run, or --kind candidate")
    raise TicError(f"{text!r} may be {len(found)}: {names}{more}", "name more of it; a candidate also goes by its hash")


def _runs(moment: Moment, text: str) -> list[str]:
    """Runs of the workspace; those that only records or comparisons name are looked for only if no log names it."""
    known = [str(row["run_id"]) for row in moment.rows(_RUNS)]
    if any(run.startswith(text) for run in known):
        return known
    return sorted({*known, *(str(row["run_id"]) for row in moment.rows(_ALL_RUNS))})


def _begins(row: Row, text: str) -> bool:
    return str(row["name"]).startswith(text) or str(row["candidate_id"]).startswith(text)


def _run(run: str) -> Subject:
    return Subject("run", run, "", (run,))


def _candidate(row: Row) -> Subject:
    return Subject("candidate", str(row["candidate_id"]), str(row["name"]), tuple(sorted(row["run_ids"] or ())))


def _known(runs: list[str], candidates: list[Row]) -> str:
    named = sorted(str(row["name"] or row["candidate_id"][:12]) for row in candidates)
    parts = [
        f"{what}: {', '.join(names[:SHOWN])}{' and more' if len(names) > SHOWN else ''}"
        for what, names in (("runs", runs), ("candidates", named))
        if names
    ]
    return "; ".join(parts) or "the workspace has no run yet: tic-daemon watch DIR reads its logs"
