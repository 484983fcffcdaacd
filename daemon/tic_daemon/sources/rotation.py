"""Names of rotated logs: which file a name is an older piece of, and how old.

    x.log.1  x.log.2.gz            logrotate, RotatingFileHandler, Ray: a larger number is older
    x.log-20261129  x.log.2026-11-29_14  0.log.20261129-141500.gz
                                   logrotate's dateext, TimedRotatingFileHandler, the kubelet: a smaller date is older
    x.log.gz                       a finished log that somebody compressed

All pieces of `x.log` are generations of one source, whose path is that of `x.log`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DATE = r"(?:19|20)\d{2}-?\d{2}-?\d{2}(?:[-_T.]?\d{2}(?:[-:_]?\d{2}){0,2})?"
_NUMBERED = re.compile(r"(?P<base>.+)\.(?P<number>\d{1,4})\Z", re.DOTALL)
_DATED = re.compile(rf"(?P<base>.+)[.-](?P<date>{_DATE})\Z", re.DOTALL)
# "slurm-20261129.out" never comes here: a date counts only behind the whole name. But "run-20261129" has no extension
# and is a name of its own, so what is left after the date must look like a file with one.
_HAS_EXTENSION = re.compile(r".*\.[A-Za-z]\w*\Z", re.DOTALL)
_BARE = {"stdout", "stderr", "syslog", "messages", "kmsg", "dmesg"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A name taken apart.

    Attributes:
        base: name of the log that this is a piece of (the name itself if it is none).
        gz: the piece is compressed.
        age: sorts pieces of one base from the oldest to the newest (the base itself); x.1.gz before x.1.
    """

    base: str
    gz: bool
    age: tuple[int, int, str]


def piece_of(name: str) -> Piece:
    """Takes a file name (no directory) apart."""
    gz = name.endswith(".gz") and len(name) > len(".gz")
    plain = name[: -len(".gz")] if gz else name
    if (match := _DATED.match(plain)) and _is_name(match["base"]):
        return Piece(match["base"], gz, (0, 0, re.sub(r"\D", "", match["date"]) + ("" if gz else "~")))
    if (match := _NUMBERED.match(plain)) and _is_name(match["base"]):
        return Piece(match["base"], gz, (1, -2 * int(match["number"]) - gz, ""))
    return Piece(plain, gz, (2, 0, "") if gz else (3, 0, ""))


def _is_name(base: str) -> bool:
    return base in _BARE or bool(_HAS_EXTENSION.match(base))
