"""What the scheduler says of this start of a job, read from the environment.

    Slurm           SLURM_JOB_ID, and SLURM_RESTART_COUNT if the job was requeued (unset at its first start: tried)
    anything else   TIC_JOB_ID (or TIC_POD_UID) and TIC_RESTART_COUNT; deploy/kubernetes.yaml fills them from labels
                    and annotations of the pod

Only a number that a scheduler counts is a declaration. A process that merely looks new is none.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tic_daemon.output import printable

log = logging.getLogger("tic-daemon")

_COUNT = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Start:
    """A start of a job: its `restart`th restart, 0 for the first start.

    `job` names the job for programs, the same on all its nodes and in all its restarts; `name` for people.
    """

    job: str
    name: str
    restart: int


def start_of(environ: Mapping[str, str]) -> Start | None:
    """The start that this process belongs to; None without a scheduler that says so."""
    job = environ.get("TIC_JOB_ID") or environ.get("TIC_POD_UID")
    if job:
        restart = _count(environ, "TIC_RESTART_COUNT")
        return None if restart is None else Start(f"tic:{job}", f"job {job}", restart)
    job = environ.get("SLURM_JOB_ID")
    if job:
        restart = _count(environ, "SLURM_RESTART_COUNT")
        cluster = environ.get("SLURM_CLUSTER_NAME", "")  # two clusters may count to the same number
        return None if restart is None else Start(f"slurm:{cluster}:{job}", f"Slurm job {job}", restart)
    return None


def _count(environ: Mapping[str, str], name: str) -> int | None:
    """The number in a variable: 0 if it is unset or empty, None if it is no number, which is logged."""
    text = environ.get(name, "").strip()
    if not text:
        return 0
    if not _COUNT.fullmatch(text):
        log.warning("%s is %s, no number: no attempt is declared by it", name, printable(repr(text[:100])))
        return None
    return int(text)
