"""Texts of tic.toml that have a form of their own: time zones and names of W&B runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

_WANDB_NAME = re.compile(r"[^/\\#?%:\x00-\x1f\x7f-\x9f]{1,200}")
"""W&B's own rule for names of entities, projects and runs."""
_OFFSET = re.compile(r"(?:UTC)?([+-])(\d{1,2})(?::?(\d{2}))?\Z")


def zone_offset(zone: str, at: datetime | None = None) -> int:
    """Seconds east of UTC of `zone` (an IANA name or an offset) at the instant `at` (now). Raises ValueError."""
    match = _OFFSET.match(zone)
    if match:
        sign, hours, minutes = match[1], int(match[2]), int(match[3] or 0)
        if hours > 14 or minutes > 59:
            raise ValueError(f"no such offset: {zone}")
        return (hours * 3600 + minutes * 60) * (-1 if sign == "-" else 1)
    try:
        offset = (at or datetime.now(UTC)).astimezone(ZoneInfo(zone)).utcoffset()
    except (OSError, ValueError, KeyError) as error:  # ZoneInfoNotFoundError is a KeyError; odd names are the others
        raise ValueError(f"no such time zone: {zone}") from error
    return int(offset.total_seconds()) if offset is not None else 0


def is_run_path(text: str) -> bool:
    """Whether `text` names a run as W&B does: entity/project/id."""
    names = text.split("/")
    return len(names) == 3 and all(
        _WANDB_NAME.fullmatch(name) and name == name.strip() and name not in (".", "..") for name in names
    )
