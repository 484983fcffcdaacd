"""The exit codes of every command, and which one is given when several hold (docs/reference/exit-codes.md).

1 and 2 stay what they are everywhere: a crash, and wrong usage. They are no findings and are not in this list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class ExitCode(IntEnum):
    """What a command found. The list is closed."""

    WELL = 0
    FAIL = 10
    INVALID = 11
    INCONCLUSIVE = 12
    LOCKED = 13
    GAPS = 14
    NO_EVIDENCE = 15


PRECEDENCE: Final = (
    ExitCode.NO_EVIDENCE,
    ExitCode.LOCKED,
    ExitCode.FAIL,
    ExitCode.INVALID,
    ExitCode.INCONCLUSIVE,
    ExitCode.GAPS,
)
"""Gravest first: having nothing to judge comes before any judgement, and a lock before any verdict on numbers."""

WORDS: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.WELL: "well",
        ExitCode.FAIL: "FAIL",
        ExitCode.INVALID: "INVALID or VACUOUS",
        ExitCode.INCONCLUSIVE: "inconclusive",
        ExitCode.LOCKED: "locked by a fault",
        ExitCode.GAPS: "confirmed gaps",
        ExitCode.NO_EVIDENCE: "no evidence",
    }
)


def worst(codes: Iterable[int]) -> ExitCode:
    """The one code that is given for all that was found; WELL for nothing.

    Raises:
        ValueError: a code that is not in the list.
    """
    found = {ExitCode(code) for code in codes}
    return next((code for code in PRECEDENCE if code in found), ExitCode.WELL)
