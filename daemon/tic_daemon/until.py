"""What a daemon outlives by a moment: `--until-pid` and `--until-job`.

A condition waits in a thread of its own, so that neither a slow scheduler nor a long job touches the tail. Once all
have come true, the daemon goes on for the time of grace (the last lines of other nodes take a moment on a network file
system), then its end is asked for.
"""

from __future__ import annotations

import logging
import os
import random
import select
import threading
from collections.abc import Sequence
from typing import Protocol

from tic_daemon import slurm
from tic_daemon.ending import Ending
from tic_daemon.errors import ConfigError
from tic_daemon.store.owner import process_ended, process_start

log = logging.getLogger("tic-daemon")

LINGER_S = 5.0
ASK_S = 20.0
"""Pause between two looks at a job, give or take a fifth: many daemons must not ask a controller in step."""
LOOK_S = 1.0


class Condition(Protocol):
    """Something that comes true once."""

    def wait(self, ending: Ending) -> str:
        """Waits until it is true; what became of it, in words. Returns early, with anything, once an end is asked."""
        ...


class PidGone:
    """A process of this host that runs now has ended. A later one with the same pid is another process.

    Raises:
        ConfigError: there is no such process, or it is this one.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        if pid == os.getpid():
            raise ConfigError(f"--until-pid {pid} is this daemon itself", "give the pid of what it watches")
        self._start = process_start(pid)
        self._fd = -1
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError as error:
            raise ConfigError(
                f"--until-pid {pid}: no such process on this host", "give the pid of a process that runs"
            ) from error
        except (OSError, AttributeError):
            # A kernel, a sandbox or a Python without it, or a thread's id: looked at once a second.
            if self._gone():
                raise ConfigError(f"--until-pid {pid}: no such process on this host") from None

    def wait(self, ending: Ending) -> str:
        """See `Condition`."""
        try:
            while not ending.requested:
                if self._fd >= 0:
                    if select.select([self._fd], [], [], LOOK_S)[0]:
                        break
                elif self._gone() or ending.wait(LOOK_S):
                    break
        finally:
            if self._fd >= 0:
                os.close(self._fd)
        return f"process {self._pid} has ended"

    def _gone(self) -> bool:
        start = process_start(self._pid)
        return not start or start != self._start or process_ended(self._pid)


class JobOver:
    """A Slurm job is over. Asked for the first time when it is made.

    Raises:
        ConfigError: it is no job id, Slurm does not know it, or there is no squeue.
    """

    def __init__(self, job_id: str) -> None:
        self._job = slurm.Job(job_id)
        self._judge = slurm.Judge()
        self._said = ""
        seen = self._job.look()
        if seen.kind == "unaccounted":
            raise ConfigError(
                f"Slurm does not know the job {job_id}", "it never was, or it ended and accounting does not keep it"
            )
        self._over = seen.kind in ("over", "gone")
        self._note(seen)

    def wait(self, ending: Ending) -> str:
        """See `Condition`."""
        while not self._over and not ending.wait(ASK_S * random.uniform(0.8, 1.2)):  # noqa: S311  no secret
            try:
                seen = self._job.look()
            except ConfigError as error:  # squeue was there when this began: an update, a mount that went away
                seen = slurm.Seen("unreachable", error.what)
            self._note(seen)
            self._over = self._judge.over(seen)
        return f"job {self._job.job_id} is over: {self._said}"

    def _note(self, seen: slurm.Seen) -> None:
        """Logs what changed. A controller that cannot be reached is no end of a job."""
        if seen.detail != self._said:
            level = logging.INFO if seen.kind in ("alive", "over", "gone") else logging.WARNING
            log.log(level, "job %s: %s (%s)", self._job.job_id, seen.detail, seen.kind)
        self._said = seen.detail


def watch(conditions: Sequence[Condition], ending: Ending, linger_s: float = LINGER_S) -> None:
    """Asks for the end `linger_s` seconds after the last condition came true. Returns at once."""
    if conditions:
        threading.Thread(target=_run, args=(conditions, ending, linger_s), name="tic-until", daemon=True).start()


def _run(conditions: Sequence[Condition], ending: Ending, linger_s: float) -> None:
    what = [condition.wait(ending) for condition in conditions]
    if ending.requested:
        return
    log.info("%s; last lines are waited for, %g s", "; ".join(what), linger_s)
    if not ending.wait(linger_s):
        ending.request("; ".join(what))
