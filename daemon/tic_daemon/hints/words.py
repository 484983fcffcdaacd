"""Hints as text. Each says that it is one: text from outside is not made harmless here, who prints it does."""

from __future__ import annotations

from tic_daemon.hints.router import Routing
from tic_daemon.output import joined


def text(run: str, told: Routing) -> str:
    """What a person reads: patterns with their first step, the handling order, the next probe."""
    lines = [f"hints for {run}: which experiment comes first. No verdict, and no cause is proved"]
    if not told.hints:
        lines.append("  no pattern: nothing that was compared differs")
    for hint in told.hints:
        lines += [
            f"  hint: {hint.says}",
            f"      seen: {hint.seen}",
            f"      first step: {hint.first_step}",
            f"      probe: {hint.probe}",
        ]
    lines.append("  handling order, each ruled out before the next:")
    lines += [f"      {lamp.name}: {lamp.state} ({lamp.why})" for lamp in told.lamps]
    lines += [f"  ruled out: {word}" for word in told.ruled_out]
    if told.stuck:
        lines.append(f"  no new ground: {told.stuck}")
    if told.next_probe:
        lines.append(f"  next cheapest probe: {told.next_probe}")
    return joined(lines)
