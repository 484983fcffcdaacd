"""Comparing two dumps of 1,024 requests of 8,192 float32 tokens, beside the seed's sketch made correct (it needs torch),
numpy's compare-and-count over the same numbers in memory, and hashlib."""

from __future__ import annotations

import hashlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.measure import run
from tests.compare.ptfile import T, write
from tic_daemon.compare.align import align
from tic_daemon.compare.figures import measure
from tic_daemon.compare.reading import Reading
from tic_daemon.compare.runs import first_true, per_sequence
from tic_daemon.compare.signs import signs

REQUESTS, TOKENS, ROUNDS = 1024, 8192, 5
_BITS = "the same bits: counts and firsts by sequence"
_PLAIN = "numpy: != and count of the same bits"

_MAKE = """
import sys
from pathlib import Path
from bench.compare import make
make(Path(sys.argv[1]), Path(sys.argv[2]))
"""
_OURS = """
import sys
from pathlib import Path
from tic_daemon.compare.comparison import compare
print(compare(Path(sys.argv[1]), Path(sys.argv[2])).figures.mismatched)
"""
_SKETCH = """
import sys
import torch
torch.set_num_threads(1)
a, b = (torch.load(path, weights_only=True) for path in sys.argv[1:3])
assert a.keys() == b.keys()
n = bad = 0
first, largest = None, 0.0
for uid in sorted(a):
    (x, own), (y, other) = a[uid], b[uid]
    assert torch.equal(own, other) and own.dtype == torch.bool and x.dtype == y.dtype == torch.float32 and own.any()
    places = own.nonzero().flatten()
    x, y = x[own], y[own]
    assert torch.isfinite(x).all() and torch.isfinite(y).all()
    differ = (x.view(torch.int32) != y.view(torch.int32)).nonzero()
    if len(differ) and first is None:
        first = (uid, int(places[differ[0]]))
    n, bad = n + len(x), bad + len(differ)
    largest = max(largest, (x.double() - y.double()).abs().max().item())
print(bad)
"""


def main(folder: Path) -> list[str]:
    """Lines of the report. `folder` gets 85 MB, which are removed again."""
    paths = folder / "a.pt", folder / "b.pt"
    # In a child, as everything whose memory is told: a child is counted with what its parent held when it began.
    run([sys.executable, "-c", _MAKE, *map(str, paths)])
    try:
        return [
            f"Compare: {REQUESTS} requests of {TOKENS} float32 tokens, nearly all differ, CPU-seconds",
            *_report(paths),
        ]
    finally:
        for path in paths:
            path.unlink()


def _sides() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    values = (-rng.exponential(size=(REQUESTS, TOKENS))).astype(np.float32)
    other = -np.abs(values + rng.normal(scale=1e-3, size=values.shape))  # no log-probability is above 0
    return values, other.astype(np.float32)


def make(*paths: Path) -> None:
    """Write both dumps."""
    for path, side in zip(paths, _sides(), strict=True):
        mask = np.ones(TOKENS, bool)
        write(path, {f"r{place:04}": (T(row, "float32"), T(mask, "bool")) for place, row in enumerate(side)})


def _report(paths: tuple[Path, Path]) -> list[str]:
    size = sum(path.stat().st_size for path in paths)
    ours = run([sys.executable, "-c", _OURS, *map(str, paths)])
    bare = run([sys.executable, "-c", _OURS.split("print", maxsplit=1)[0], *map(str, paths)])
    lines = [
        f"  whole comparison, start included    {ours.cpu_s:6.2f}, {ours.rss_mib:.0f} MiB resident ({bare.rss_mib:.0f} before), "
        f"input {size / 2**20:.0f} MiB"
    ]
    try:
        sketch = run([sys.executable, "-c", _SKETCH, *map(str, paths)])
        lines.append(f"  the sketch with torch, start included {sketch.cpu_s:4.2f}, {sketch.rss_mib:.0f} MiB resident")
        lines.append(f"  times the sketch                    {sketch.cpu_s / ours.cpu_s:6.2f}")
    except RuntimeError:
        lines.append("  the sketch: torch is not installed")
    values, other = _sides()
    with Reading(paths[0]) as one, Reading(paths[1]) as two:
        a, b = one.sides[0], two.sides[0]
        aligned = align(a, b)
        figures = measure(a, b, aligned)
        if figures is None:
            raise RuntimeError("nothing was compared")
        parts: list[tuple[str, Callable[[], object]]] = [
            ("open, index and hash both files", lambda: [Reading(path).__exit__(None, None, None) for path in paths]),
            ("all figures", lambda: measure(a, b, aligned)),
            ("all figures of a side with itself", lambda: measure(a, a, align(a, a))),
            ("all diagnostics", lambda: signs(a, b, aligned, figures)),
            (_BITS, lambda: _bits(values.view(np.uint32), other.view(np.uint32))),
            (_PLAIN, lambda: np.count_nonzero(values.view(np.uint32) != other.view(np.uint32))),
            ("hashlib: both files", lambda: [hashlib.sha256(path.read_bytes()).digest() for path in paths]),
        ]
        found = {name: _median(part) for name, part in parts}
        lines += [f"  {name:<50} {seconds:6.3f}" for name, seconds in found.items()]
        lines.append(f"  bandwidth of the bits beside numpy's               {found[_PLAIN] / found[_BITS]:6.2f}")
    return lines


def _bits(values: np.ndarray, other: np.ndarray) -> None:
    """What is compared bit for bit: how many differ in each sequence, and where first."""
    differ = values.reshape(-1) != other.reshape(-1)
    starts = np.arange(0, differ.size + 1, TOKENS)
    per_sequence(differ, starts)
    first_true(differ, starts)


def _median(part: Callable[[], object]) -> float:
    """Processor seconds of the process, the median of a few rounds."""
    found = []
    for _ in range(ROUNDS):
        started = time.process_time()
        part()
        found.append(time.process_time() - started)
    return statistics.median(found)
