"""Where numbers of a run stand towards its CUDA faults, asked of the public views: for a comparison of dumps.

A dump has no place in a log. It stands at the step and the time at which its later side was made, and whatever of the
two is not known is before nothing (docs/explanation/evidence.md). So:

    locked    a fault locks an attempt that the numbers may be of, and neither step nor time shows them to be before it
    suspect   a step does not show them to be before it, since CUDA errors are reported late; or a fault that voids its
              step may be of their step; or records of their step are suspect
    clear     the run is known, all of its logs were read, and nothing of that holds
    unknown   the store cannot say, or a person marked the run or attempt inconclusive
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tic_daemon.evidence.judge import Standing
from tic_daemon.store.check import _ask, _Asked, _clean, _stores, _unread
from tic_daemon.store.reader import Reader

MARGIN: Final = timedelta(seconds=2)
STALENESS: Final = 1
"""The defaults of `[lock]`: a dump may be made on any host, and rollout and trainer may be a step apart."""

Row = dict[str, Any]
Found = tuple[Standing, str]


def standing(reader: Reader, run_id: str, step: int | None, made_at: datetime | None) -> Found:
    """The standing of numbers, and why.

    Args:
        run_id: their run.
        step: the step that they are of.
        made_at: when the later side was made, aware; None where a side does not say it.

    Raises:
        StoreError, ConnectError: the store cannot be asked.
    """
    asked = _Asked(reader)
    attempts = _ask(asked, "SELECT attempt, from_time, marked FROM attempts WHERE run_id = ? ORDER BY attempt", run_id)
    faults = _ask(
        asked,
        "SELECT attempt, last_attempt, severity, locks, kind, step, event_at, rec_id FROM faults WHERE run_id = ?"
        " AND verdict = 'confirmed' AND echo_of IS NULL AND severity <> 'I' ORDER BY event_at NULLS LAST, rec_id",
        run_id,
    )
    records = _ask(
        asked,
        "SELECT attempt, admissibility, min(reason) AS reason, count(*) AS records FROM mismatches"
        " WHERE run_id = ? AND step = ? GROUP BY ALL",
        run_id, -1 if step is None else step,
        gather="SELECT attempt, admissibility, min(reason) AS reason, sum(records)::BIGINT AS records FROM part"
        " GROUP BY ALL",
    )  # fmt: skip
    findings = _ask(asked, "SELECT attempt, detail FROM lifecycle_findings WHERE run_id = ?", run_id)
    lacking = [*_stores(asked), *_unread(asked, run_id)]
    if not attempts:
        return Standing.UNKNOWN, f"no run {_clean(run_id)} in this store"
    own = _attempts(attempts, made_at)
    found = _by_faults([row for row in faults if _of(row, own)], step, _naive(made_at))
    if found is not None:
        return found
    if any(row["marked"] for row in attempts if row["attempt"] in own):
        return Standing.UNKNOWN, "a person marked the run or the attempt inconclusive"
    if lacking:
        return Standing.UNKNOWN, lacking[0][1]
    return _by_records(*([row for row in rows if row["attempt"] in own] for rows in (records, findings)))


def _naive(made_at: datetime | None) -> datetime | None:
    return None if made_at is None else made_at.astimezone(UTC).replace(tzinfo=None)


def _attempts(attempts: list[Row], made_at: datetime | None) -> set[int]:
    """The attempts that numbers of that time may be of: all, unless times tell which."""
    every = {row["attempt"] for row in attempts}
    if made_at is None or any(row["from_time"] is None for row in attempts[1:]):
        return every
    time = _naive(made_at)
    own = [row["attempt"] for row in attempts if row["from_time"] is None or row["from_time"] <= time]
    return {own[-1]} if own else every


def _of(fault: Row, own: set[int]) -> bool:
    last = fault["last_attempt"] if fault["last_attempt"] is not None else max(own)
    return any(fault["attempt"] is None or fault["attempt"] <= attempt <= last for attempt in own)


def _by_faults(faults: list[Row], step: int | None, made_at: datetime | None) -> Found | None:
    """What faults make of numbers, or None."""
    suspect: Found | None = None
    for fault in faults:
        by_step = step is not None and fault["step"] is not None and step + STALENESS < fault["step"]
        by_time = made_at is not None and fault["event_at"] is not None and made_at + MARGIN < fault["event_at"]
        name = f"{_clean(fault['kind'])}, record {fault['rec_id']}"
        if fault["locks"]:
            if not by_step and not by_time:
                after = made_at is not None and fault["event_at"] is not None and fault["event_at"] + MARGIN < made_at
                return Standing.LOCKED, f"{'after the fault' if after else 'order unknown'} ({name})"
            if not by_step:
                late = f"before the fault by time alone, and CUDA errors come late ({name})"
                suspect = suspect or (Standing.SUSPECT, late)
        elif step is None or fault["step"] is None or -STALENESS <= step - fault["step"] <= 1 + STALENESS:
            suspect = suspect or (Standing.SUSPECT, f"a fault that voids its step ({name})")
    return suspect


def _by_records(records: list[Row], findings: list[Row]) -> Found:
    """What the run's own records of the step say, where there are any."""
    doubtful = [row for row in records if row["admissibility"] != "admissible"]
    if doubtful:
        worst = doubtful[0]
        return Standing.SUSPECT, f"records of that step are {worst['admissibility']}: {_clean(worst['reason'])}"
    if findings and not records:
        return (
            Standing.UNKNOWN,
            f"the weights' lifecycle: {_clean(findings[0]['detail'])}; no record shows that step free",
        )
    return Standing.CLEAR, "no fault may be before them"
