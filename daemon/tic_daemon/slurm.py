"""Asks Slurm whether a job is over, through its own commands: gently, and never on a guess.

    squeue -h -t all -j ID -o %T    one state a line: of each task of an array, of each part of a heterogeneous job
    sacct -X -n -P -j ID -o State   where the job has left slurmctld's memory (MinJobAge, 300 s unless configured)

What Slurm 22.05 answers (tried): of a job that it forgot, exit code 1 and "Invalid job id specified"; of a task that an
array does not have, nothing and exit code 0; without a controller, exit code 1 and "Unable to contact slurm controller"
after 18 s; without accounting, exit code 1 and "Slurm accounting storage is disabled". A requeued job keeps its id and
is PENDING again: it is not over.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import Literal

from tic_daemon.errors import ConfigError

TIMEOUT_S = 30.0
_ID = re.compile(r"\d{1,10}(?:[_+]\d{1,7})?", re.ASCII)

# States that a job leaves by nothing but a requeue by hand.
OVER = frozenset(
    ["BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
     "REVOKED", "TIMEOUT"]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """One look. `detail`: states or the complaint, in Slurm's words.

    alive         slurmctld has it, and it is not over (pending after a requeue, running, completing, suspended, ...)
    over          all of it is in a final state
    gone          slurmctld does not know it, and accounting says that it is over
    unaccounted   slurmctld does not know it, and accounting says nothing
    contradicted  slurmctld does not know it, and accounting says that it is not over
    unreachable   slurmctld did not answer: nothing is known
    """

    kind: Literal["alive", "over", "gone", "unaccounted", "contradicted", "unreachable"]
    detail: str


PATIENCE = {"over": 2, "gone": 2, "unaccounted": 4, "contradicted": 30}
"""How many looks in a row must say so. A controller that was restarted may not know a job for a moment."""


class Job:
    """A Slurm job; `look` asks once.

    Args:
        job_id: as `squeue -j` takes it: 4711, 4711_3 (a task of an array), 4711+1 (a part of a heterogeneous job).

    Raises:
        ConfigError: it is no job id.
    """

    def __init__(self, job_id: str) -> None:
        if not _ID.fullmatch(job_id):
            raise ConfigError(f"{job_id!r} is no Slurm job id", "write it as --until-job=4711, or =4711_3 for a task")
        self.job_id = job_id

    def look(self) -> Seen:
        """Asks squeue, and sacct if squeue does not know the job. Takes a minute at most.

        Raises:
            ConfigError: there is no squeue here.
        """
        code, said, complaint = _run(["squeue", "-h", "-t", "all", "-j", self.job_id, "-o", "%T"])
        if code is None:
            raise ConfigError(f"squeue cannot be run: {complaint}", "--until-job needs Slurm's commands on this host")
        states = _states(said)
        if code == 0 and states:
            return Seen("over" if states <= OVER else "alive", ", ".join(sorted(states)))
        if code != 0 and "invalid job id" not in complaint.lower():
            return Seen("unreachable", complaint or f"squeue: exit code {code}")
        code, said, complaint = _run(["sacct", "-X", "-n", "-P", "-j", self.job_id, "-o", "State"])
        states = _states(said)
        if code != 0 or not states:
            return Seen("unaccounted", complaint or "sacct has nothing")
        return Seen("gone" if states <= OVER else "contradicted", ", ".join(sorted(states)))


class Judge:
    """Looks in a row, and what they come to."""

    def __init__(self) -> None:
        self._kind, self._count = "", 0

    def over(self, seen: Seen) -> bool:
        """Whether the job is over, now that this was seen as well."""
        self._count = self._count + 1 if seen.kind == self._kind else 1
        self._kind = seen.kind
        return self._count >= PATIENCE.get(seen.kind, self._count + 1)


def _states(said: str) -> set[str]:
    """`CANCELLED by 1000` is CANCELLED; with several clusters squeue prints a line `CLUSTER: name` even with -h."""
    lines = [line.strip() for line in said.splitlines() if not line.startswith("CLUSTER:")]
    return {line.split()[0].rstrip("+") for line in lines if line}


def _run(command: list[str]) -> tuple[int | None, str, str]:
    """(exit code, stdout, last line of stderr). The code is None if the program cannot be run, -1 past the deadline."""
    # SQUEUE_USERS, SACCT_STATE and their like would hide the job.
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SQUEUE_", "SACCT_"))}
    env = {**kept, "LC_ALL": "C", "CUDA_VISIBLE_DEVICES": ""}
    try:
        done = subprocess.run(
            command, env=env, check=False, timeout=TIMEOUT_S, capture_output=True, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return -1, "", f"{command[0]} did not answer within {TIMEOUT_S:g} s"
    except OSError as error:
        return None, "", str(error.strerror or error)
    complaint = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return done.returncode, done.stdout.decode("utf-8", "replace"), complaint[-1][:300] if complaint else ""
