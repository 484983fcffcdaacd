"""Ages in steps. A clock that ticks would repaint all the time; steps let an idle screen send nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_STEPS: Final = (
    (10, "10 s"), (30, "30 s"), (60, "1 min"), (120, "2 min"), (300, "5 min"), (600, "10 min"), (1200, "20 min"),
    (1800, "30 min"), (3600, "1 h"), (2 * 3600, "2 h"), (3 * 3600, "3 h"), (6 * 3600, "6 h"), (12 * 3600, "12 h"),
)  # fmt: skip
_DAY: Final = 86_400


def age(then: datetime | None, now: datetime) -> str:
    """How long ago, as the largest step that has passed: now, 10 s, 1 min, 5 min ... 12 h, then whole days.

    Args:
        then: UTC, naive as the store keeps it, or aware. None is unknown and says so.
        now: aware. A `then` in the future (another host's clock) counts as now.
    """
    if then is None:
        return "unknown"
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    seconds = (now - then).total_seconds()
    if seconds >= _DAY:
        return f"{int(seconds // _DAY)} d"
    word = "now"
    for step, name in _STEPS:
        if seconds < step:
            break
        word = name
    return word


def clock(at: datetime | None) -> str:
    """HH:MM:SS of a UTC time as "12:03:44Z", or the word unknown."""
    return "unknown" if at is None else f"{at:%H:%M:%S}Z"


def day_and_clock(at: datetime | None) -> str:
    """Date and time with microseconds where there are any; UTC; or the word unknown."""
    if at is None:
        return "unknown"
    return f"{at:%Y-%m-%d %H:%M:%S}" + (f".{at.microsecond:06d}" if at.microsecond else "") + "Z"
