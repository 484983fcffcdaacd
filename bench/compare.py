"""Comparing two dumps of 1,024 requests of 8,192 float32 tokens, of which none, one in a thousand or all differ: beside the
seed's sketch made correct (it needs torch), numpy's compare-and-count over the same numbers in memory, and hashlib.

The sketch makes three numbers. So it is held against two things: our whole comparison, which makes all figures and
diagnostics, hashes both files and judges, called as the sketch is and as a command with its report; and the sketch's own
three numbers and the mean, made with our readers.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from bench.measure import Cost, run
from tests.compare.ptfile import T, write
from tic_daemon.compare.align import align
from tic_daemon.compare.blocks import blocks
from tic_daemon.compare.figures import measure
from tic_daemon.compare.reading import Reading
from tic_daemon.compare.runs import first_true, per_sequence
from tic_daemon.compare.signs import signs
from tic_daemon.compare.sweep import Sweep

REQUESTS, TOKENS, ROUNDS = 1024, 8192, 5
KINDS: Final = ("all", "0.1 %", "none")
_BITS = "the same bits: counts and firsts by sequence"
_PLAIN = "numpy: != and count of the same bits"

_MAKE = """
import sys
from pathlib import Path
from bench.compare import write_all
write_all(Path(sys.argv[1]))
"""
_START = """
import os, resource, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # all have one thread, which our command sees to itself
from pathlib import Path
def used():
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime
"""
_OURS = (
    _START
    + """
from tic_daemon.compare.comparison import compare
began = used()
print(compare(Path(sys.argv[1]), Path(sys.argv[2])).figures.mismatched, began)
"""
)
_COMMAND = """
import sys
from tic_daemon.cli import main
code = main(["compare", *sys.argv[1:], "--no-report"])
sys.exit(code not in (10, 11, 12))  # a verdict of two dumps without manifests
"""
_SAME = (
    _START
    + """
from bench.compare import three
began = used()
print(three(Path(sys.argv[1]), Path(sys.argv[2]))[1], began)
"""
)
_SKETCH = (
    _START
    + """
import torch
torch.set_num_threads(1)
began = used()
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
print(bad, began)
"""
)


def main(folder: Path) -> list[str]:
    """Lines of the report. `folder` gets 170 MB, which are removed again."""
    # In a child, as everything whose memory is told: a child is counted with what its parent held when it began.
    run([sys.executable, "-c", _MAKE, str(folder)])
    try:
        lines = [
            f"Compare: {REQUESTS} requests of {TOKENS} float32 tokens, CPU-seconds; in brackets without the start of Python"
        ]
        for kind in KINDS:
            lines += _ends(folder, kind)
        return [*lines, *_parts((_path(folder, "side"), _path(folder, "all")))]
    finally:
        for kind in ("side", *KINDS):
            _path(folder, kind).unlink(missing_ok=True)


def _path(folder: Path, kind: str) -> Path:
    return folder / f"compared-{kind.replace(' ', '').replace('%', '')}.pt"


def _sides() -> dict[str, np.ndarray]:
    """The side that the others are held against, and each of them."""
    rng = np.random.default_rng(0)
    values = (-rng.exponential(size=(REQUESTS, TOKENS))).astype(np.float32)
    other = -np.abs(values + rng.normal(scale=1e-3, size=values.shape))  # no log-probability is above 0
    whole = other.astype(np.float32)
    return {
        "side": values,
        "all": whole,
        "0.1 %": np.where(rng.random(values.shape) < 1e-3, whole, values),
        "none": values,
    }


def write_all(folder: Path) -> None:
    """Write all dumps."""
    for kind, side in _sides().items():
        _write(_path(folder, kind), side)


def make(*paths: Path) -> None:
    """Write two dumps, which differ in nearly all tokens."""
    sides = _sides()
    for path, kind in zip(paths, ("side", "all"), strict=True):
        _write(path, sides[kind])


def _write(path: Path, side: np.ndarray) -> None:
    mask = np.ones(TOKENS, bool)
    pairs = {f"r{place:04}": (T(row, "float32"), T(mask, "bool")) for place, row in enumerate(side)}
    write(path, pairs, remember=True)


def three(one: Path, other: Path) -> tuple[int, int, tuple[str, int] | None, float, float]:
    """What the sketch makes, and the mean: valid tokens, differing tokens, the first of them, largest and mean difference."""
    with Reading(one) as first, Reading(other) as second:
        a, b = first.sides[0], second.sides[0]
        aligned = align(a, b)
        if not aligned.requests or aligned.empty:
            raise RuntimeError("nothing was compared")
        bad, place, largest, total = 0, None, 0.0, 0.0
        for part in blocks(a, b, aligned.requests, whole=aligned.valid == aligned.positions):
            low, high = min(part.extremes(0)[0], part.extremes(1)[0]), max(part.extremes(0)[1], part.extremes(1)[1])
            if not np.isfinite([low, high]).all() or part.differ is None:
                raise RuntimeError("not finite, or of other types")
            if not part.mismatched:
                continue
            bad += part.mismatched
            place = place or part.place(int(part.differ.argmax()))
            gap = np.subtract(part.values_b, part.values_a, out=part.scratch.of("gap", len(part.a)))
            np.abs(gap, out=gap)
            largest, total = max(largest, float(gap.max())), total + float(gap.sum())
        return aligned.valid, bad, place, largest, total / aligned.valid


def _ends(folder: Path, kind: str) -> list[str]:
    """End to end, each in a process of its own, one after the other in turn."""
    paths = [str(_path(folder, own)) for own in ("side", kind)]
    size = sum(Path(path).stat().st_size for path in paths) / 2**20
    programs = {
        "whole comparison": _OURS,
        "the same as a command": _COMMAND,
        "the sketch's numbers, our readers": _SAME,
    }
    if importlib.util.find_spec("torch") is not None:
        programs["the sketch with torch"] = _SKETCH
    found: dict[str, list[Cost]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, text in programs.items():
            found[name].append(run([sys.executable, "-c", text, *paths]))
    best = {name: min(costs, key=lambda cost: cost.cpu_s) for name, costs in found.items()}
    lines = [f"  tokens that differ: {kind}; input {size:.0f} MiB"]
    for name, cost in best.items():
        own = "" if name == "the same as a command" else f" ({_begun(cost):.2f})"
        lines.append(f"    {name:<36} {cost.cpu_s:6.2f}{own}, {cost.rss_mib:.0f} MiB resident")
    sketch = best.get("the sketch with torch")
    if sketch is None:
        return [*lines, "    the sketch: torch is not installed"]
    for name, cost in list(best.items())[:3]:
        own = "" if name == "the same as a command" else f" ({_begun(sketch) / _begun(cost):.2f})"
        lines.append(f"    times the sketch, {name:<36} {sketch.cpu_s / cost.cpu_s:.2f}{own}")
    return lines


def _begun(cost: Cost) -> float:
    """Without the start: a program says at its end what it had used when it began."""
    return cost.cpu_s - float(cost.output.split()[1])


def _parts(paths: tuple[Path, Path]) -> list[str]:
    """What the comparison of two dumps that differ everywhere is made of."""
    sides = _sides()
    values, other = sides["side"], sides["all"]
    with Reading(paths[0]) as one, Reading(paths[1]) as two:
        a, b = one.sides[0], two.sides[0]
        aligned = align(a, b)

        def both() -> object:
            sweep = Sweep(a, b, aligned)
            figures = measure(a, b, aligned, also=sweep.add)
            if figures is None:
                raise RuntimeError("nothing was compared")
            return signs(a, b, aligned, figures, sweep)

        parts: list[tuple[str, Callable[[], object]]] = [
            ("open, index and hash both files", lambda: [Reading(path).__exit__(None, None, None) for path in paths]),
            ("all figures", lambda: measure(a, b, aligned)),
            ("all figures and diagnostics", both),
            ("all figures of a side with itself", lambda: measure(a, a, align(a, a))),
            (_BITS, lambda: _bits(values.view(np.uint32), other.view(np.uint32))),
            (_PLAIN, lambda: np.count_nonzero(values.view(np.uint32) != other.view(np.uint32))),
            ("hashlib: both files", lambda: [hashlib.sha256(path.read_bytes()).digest() for path in paths]),
        ]
        found = {name: _best(part) for name, part in parts}
    lines = ["  parts, all tokens differ", *(f"    {name:<50} {seconds:6.3f}" for name, seconds in found.items())]
    return [*lines, f"    bandwidth of the bits beside numpy's               {found[_PLAIN] / found[_BITS]:6.2f}"]


def _bits(values: np.ndarray, other: np.ndarray) -> None:
    """What is compared bit for bit: how many differ in each sequence, and where first."""
    differ = values.reshape(-1) != other.reshape(-1)
    edges = list(range(0, differ.size + 1, TOKENS))
    per_sequence(differ, edges)
    first_true(differ, edges)


def _best(part: Callable[[], object]) -> float:
    """Processor seconds of the process, the least of a few rounds: others on the machine only ever add to them."""
    found = []
    for _ in range(ROUNDS):
        started = time.process_time()
        part()
        found.append(time.process_time() - started)
    return min(found)
