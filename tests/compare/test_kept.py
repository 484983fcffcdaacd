"""Quantiles of numbers that come once, against sorting; and that what is expected wrongly is not answered."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compare import made
from tic_daemon.compare import kept as kept_module
from tic_daemon.compare.align import align
from tic_daemon.compare.blocks import Scratch
from tic_daemon.compare.figures import measure
from tic_daemon.compare.kept import Kept

SHARES = (50, 95, 99)


def filled(pieces: list[np.ndarray], keep: int, zeros: int = 0) -> Kept:
    found, scratch = Kept(keep, SHARES), Scratch()
    for piece in pieces:
        found.add(piece, zeros, scratch)
    return found


def ranks(count: int, zeros: int = 0) -> list[int]:
    return [rank for share in SHARES if (rank := ceil((count + zeros) * share / 100) - 1 - zeros) >= 0]


def first_of(values: np.ndarray, wanted: list[int]) -> list[tuple[float, int]]:
    """By sorting: the value of each rank, and where it stands first."""
    order = np.sort(values)
    return [(float(order[rank]), int(np.flatnonzero(values == order[rank])[0])) for rank in wanted]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, allow_nan=False), min_size=1, max_size=300), st.integers(1, 400), st.integers(1, 6),
    st.integers(0, 500), st.data(),
)  # fmt: skip
def test_what_is_answered_is_what_sorting_gives(
    numbers: list[float], keep: int, pieces: int, zeros: int, data: st.DataObject
) -> None:
    values = np.array(numbers) + 0.0
    found = filled(np.array_split(values, pieces), keep, zeros)
    wanted = (
        ranks(len(values), zeros) if data.draw(st.booleans()) else data.draw(st.lists(st.integers(0, len(values) - 1)))
    )
    answers = found.at(wanted)
    if keep >= len(values):
        assert answers is not None
    if answers is not None:
        assert answers == first_of(values, wanted)
    assert found.count == len(values) and found.leading.sum() == len(values)


def test_of_many_numbers_those_around_the_answers_are_kept() -> None:
    rng = np.random.default_rng(5)
    values = np.abs(rng.normal(size=400_000)) * 10.0 ** rng.integers(-4, 0, 400_000)
    found = filled(np.array_split(values, 97), 1 << 20)
    wanted = ranks(len(values))
    assert found.at(wanted) == first_of(values, wanted)
    assert found.held < len(values) / 8, "most were let go"
    assert found.at([0]) is None, "nobody had asked for the smallest"


def test_numbers_that_drift_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes later is a thousand times as large, so that nothing of it was expected."""
    monkeypatch.setattr(kept_module, "_SAMPLE", 50)
    small, large = np.linspace(1.0, 2.0, 200), np.linspace(1000.0, 2000.0, 4000)
    assert filled([small, large], 1000).at(ranks(4200)) is None
    sizes = {f"r{place:02}": 100 for place in range(42)}
    gaps = np.concatenate([small, large]) / 1e4
    numbers = iter(gaps.tolist())
    a = made.side({request: ([0xBF800000] * size, [True] * size) for request, size in sizes.items()})
    b = made.side(
        {
            request: ((-1 - np.array([next(numbers) for _ in range(size)])).astype(np.float32).view(np.uint32).tolist(), [True] * size)
            for request, size in sizes.items()
        }
    )  # fmt: skip
    found = measure(a, b, align(a, b), block=100)
    assert found is not None
    exact = np.abs((-1 - gaps).astype(np.float32).astype(np.float64) + 1)
    for share in SHARES:
        assert found.metrics[f"p{share}"] == np.sort(exact)[ceil(len(exact) * share / 100) - 1]
        request, position = found.places[f"p{share}"]
        place = int(request[1:]) * 100 + position
        assert exact[place] == found.metrics[f"p{share}"] and place == int((exact == exact[place]).argmax())
