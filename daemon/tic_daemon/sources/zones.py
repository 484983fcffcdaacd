"""The time zone of a source whose stamps name none, from lines that were seen at the moment they were written."""

from __future__ import annotations

from datetime import UTC, datetime

_QUARTER_S = 900
_SLACK_S = 120.0
_NEEDED = 3


class ZoneGuess:
    """Wants three observations in a row that agree on a quarter of an hour.

    A stamp may be up to two minutes away from a whole quarter (clock error, buffering); what lies between says nothing.
    """

    def __init__(self) -> None:
        self._offset: int | None = None
        self._times = 0

    def note(self, stamp: datetime, now: float) -> int | None:
        """`stamp`: naive, as printed in a line just written; `now`: seconds since the epoch. Seconds east, or None."""
        east = stamp.replace(tzinfo=UTC).timestamp() - now
        offset = round(east / _QUARTER_S) * _QUARTER_S
        if abs(east - offset) > _SLACK_S or abs(offset) > 14 * 3600:
            self._times = 0
            return None
        self._times = self._times + 1 if offset == self._offset else 1
        self._offset = offset
        return offset if self._times >= _NEEDED else None
