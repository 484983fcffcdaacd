"""The GPUs that a run uses, one line each: memory, utilisation, what holds the clock down, the last Xid."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from tic_tui.age import age
from tic_tui.execution import Gpu
from tic_tui.glyphs import Glyphs
from tic_tui.render.text import Builder, Line, some

MOST: Final = 8
_GIB: Final = 1 << 30


def _memory(gpu: Gpu) -> str:
    if gpu.memory_used is None or gpu.memory_total is None:
        return "memory unknown"
    return f"{gpu.memory_used / _GIB:.1f} of {gpu.memory_total / _GIB:.0f} GiB"


def lines(gpus: Sequence[Gpu], now: datetime, width: int, glyphs: Glyphs, most: int = MOST) -> list[Line]:
    """At most `most` lines, and one that says how many more there are; none without a GPU."""
    found = [_line(gpu, now, width, glyphs) for gpu in gpus[:most]]
    if len(gpus) > most:
        found.append(Builder(width, glyphs).add(f" and {some(len(gpus) - most, 'more GPU')}", "dim").line())
    return found


def _line(gpu: Gpu, now: datetime, width: int, glyphs: Glyphs) -> Line:
    b = Builder(width, glyphs).add(" ").cell(f"gpu {gpu.gpu_index}", 8, "head")
    b.cell("rank ?" if gpu.rank is None else f"rank {gpu.rank}", 8).cell(_memory(gpu), 20)
    b.cell("unknown" if gpu.utilization is None else f"{gpu.utilization:.0f} %", 7, right=True)
    if gpu.last_xid is not None:
        b.add_if_fits(f" {glyphs.fault} last Xid {gpu.last_xid} ", "suspect")
    if gpu.ecc_uncorrected:
        b.add_if_fits(f" {glyphs.fault} {some(gpu.ecc_uncorrected, 'uncorrected ECC error')} ", "suspect")
    if gpu.throttle:
        b.add_if_fits(f" clocks held by {gpu.throttle} ", "stale")
    if gpu.why:
        b.add_if_fits(f" {gpu.why} ", "stale")
    b.add_if_fits(f" {gpu.host or 'host unknown'}", "dim").add_if_fits(f" {gpu.name or ''}", "dim")
    return b.right(age(gpu.read_at or gpu.observed_at, now) + " ", "dim").line()
