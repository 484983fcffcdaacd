"""The time zone of a source whose stamps name none, from lines that were seen at the moment they were written."""

from __future__ import annotations

from datetime import UTC, datetime

_QUARTER_S = 900
_SLACK_S = 5.0
_SPREAD_S = 2.5
_SPAN_S = 2.0
_NEEDED = 3


class ZoneGuess:
    """Wants three observations in a row, over two seconds at least, that agree on a quarter of an hour.

    A stamp may be five seconds away from a whole quarter (clock error, a little buffering), and stamps must run as the
    clock does: an old log that is played back or copied piece by piece runs faster, and a wrong zone would compare
    times that say nothing of each other. What does not fit starts the count anew: unknown stays unknown.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._low = self._high = 0.0
        self._times = 0

    def note(self, stamp: datetime, now: float) -> int | None:
        """`stamp`: naive, as printed in a line just written; `now`: seconds since the epoch. Seconds east, or None."""
        east = stamp.replace(tzinfo=UTC).timestamp() - now
        offset = round(east / _QUARTER_S) * _QUARTER_S
        if abs(east - offset) > _SLACK_S or abs(offset) > 14 * 3600:
            self._first, self._times = None, 0
            return None
        low, high = min(self._low, east), max(self._high, east)
        if self._first is None or high - low > _SPREAD_S:
            self._first, self._low, self._high, self._times = now, east, east, 1
            return None
        self._low, self._high = low, high
        self._times += 1
        return offset if self._times >= _NEEDED and now - self._first >= _SPAN_S else None
