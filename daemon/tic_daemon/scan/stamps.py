"""Times printed in lines. What is not printed is not made up, but for the year, which comes from the file's time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

SECOND: Final = 1_000_000
# Parts of the patterns of wrappers
CLOCK: Final = r"(\d\d:\d\d:\d\d)"
DATE: Final = r"(\d{4}-\d\d-\d\d)"
ZONE: Final = r"(Z|[+-]\d\d:?\d\d)"
_DAY: Final = timedelta(days=1)
_HALF_YEAR: Final = timedelta(days=183)
_NEAR: Final = timedelta(days=60)

MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}


class Stamp(NamedTuple):
    """A printed time: naive; `res_us` its resolution in microseconds; `utc` if the text names its zone."""

    at: datetime
    res_us: int
    utc: bool


@dataclass(slots=True)
class Years:
    """Gives stamps without a year their year.

    The first such stamp gets the year that puts it closest to `reference` and at most a day after it (a file's last
    line is not younger than the file). Each later one gets the year closest to the stamp before it, so that a log
    followed over New Year goes on in the next year, and a restart changes nothing.
    """

    reference: datetime | None
    anchored: bool = False
    _text: str = field(default="", init=False, repr=False, compare=False)
    _last: Stamp | None = field(default=None, init=False, repr=False, compare=False)

    def resolve(self, month: int, day: int, hour: int, minute: int, second: int, micro: int = 0) -> datetime | None:
        """The full time, or None without a reference or for a date that does not exist."""
        reference = self.reference
        if reference is None:
            return None
        if self.anchored:  # nearly always: the same year as the stamp before
            try:
                found = datetime(reference.year, month, day, hour, minute, second, micro)
            except ValueError:
                found = None
            if found is not None and -_NEAR < found - reference < _NEAR:
                self.reference = found
                return found
        return self._search(reference, month, day, hour, minute, second, micro)

    def second(self, text: str) -> Stamp | None:
        """As `resolve`, for `11-29 08:12:03`."""
        reference, last = self.reference, self._last
        if reference is None:
            return None
        if last is not None and text == self._text and last.at is reference:
            return last  # many lines are written in one second
        at: datetime | None = None
        if self.anchored:
            try:
                at = datetime.fromisoformat(f"{reference.year}-{text}")
            except ValueError:
                at = None
            if at is not None and -_NEAR < at - reference < _NEAR:
                self.reference = at
            else:
                at = None
        if at is None:
            day = int(text[3:5])
            clock = int(text[6:8]), int(text[9:11]), int(text[12:14])
            at = self.resolve(int(text[:2]), day, *clock) if day else None
        if at is None:
            return None
        self._text, self._last = text, Stamp(at, SECOND, False)
        return self._last

    def _search(self, reference: datetime, *parts: int) -> datetime | None:
        """The year by the rule above."""
        month, day, hour, minute, second, micro = parts
        best: datetime | None = None
        for year in (reference.year, reference.year - 1, reference.year + 1):
            try:
                found = datetime(year, month, day, hour, minute, second, micro)
            except ValueError:
                continue
            distance = abs(found - reference)
            if self.anchored and distance < _HALF_YEAR:
                best = found
                break
            if not self.anchored and found > reference + _DAY:
                continue
            if best is None or distance < abs(best - reference):
                best = found
        # A single wild stamp must not carry the reference away with it.
        if best is not None and (not self.anchored or abs(best - reference) < _NEAR):
            self.reference, self.anchored = best, True
        return best


def full(date: str, clock: str, fraction: str = "") -> Stamp | None:
    """`2026-11-29` (or `20261129`), `08:12:03`, `123` or `123456789` (digits after the point)."""
    micro = int((fraction + "000000")[:6]) if fraction else 0
    try:
        at = datetime.fromisoformat(f"{date} {clock}") if len(date) == 10 else datetime.strptime(date, "%Y%m%d")
        if len(date) != 10:
            at = at.replace(hour=int(clock[:2]), minute=int(clock[3:5]), second=int(clock[6:8]))
        return Stamp(at.replace(microsecond=micro) if micro else at, resolution(fraction), False)
    except ValueError:
        return None


def zoned(date: str, clock: str, fraction: str, zone: str) -> Stamp | None:
    """A full stamp with `Z` or `+hh:mm` / `+hhmm`: converted to UTC."""
    stamp = full(date, clock, fraction)
    if stamp is None:
        return None
    if zone in {"Z", "z"}:
        return Stamp(stamp.at, stamp.res_us, True)
    digits = zone[1:].replace(":", "")
    shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4] or 0))
    try:
        return Stamp(stamp.at - shift if zone[0] == "+" else stamp.at + shift, stamp.res_us, True)
    except OverflowError:
        return None


def resolution(fraction: str) -> int:
    """Microseconds that a fraction of so many digits leaves open."""
    return max(1, 10 ** (6 - len(fraction))) if fraction and len(fraction) < 6 else (1 if fraction else SECOND)
