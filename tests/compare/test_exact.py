"""Exact sums against Python's fractions, quantiles against sorting, element types against their definitions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compare import oracle
from tic_daemon.compare.blocks import Scratch
from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.exact import ExactSum, ratio, select
from tic_daemon.compare.runs import first_true, longest_run, longest_runs, per_sequence
from tic_daemon.compare.terms import Powers, bit_lengths, k3, probability_gap

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=150, deadline=None)
@given(st.lists(FINITE, max_size=40), st.lists(FINITE, max_size=40), st.integers(1, 1000))
def test_sums_are_exact_in_any_order_and_in_pieces(first: list[float], second: list[float], n: int) -> None:
    whole, part = ExactSum(), ExactSum()
    whole.add(np.array(first + second))
    for values in (second[::-1], first[::-1]):
        other = ExactSum()
        other.add(np.array(values))
        part.merge(other)
    assert whole.scaled == part.scaled
    true = sum(map(Fraction, first + second), Fraction())
    assert Fraction(whole.scaled, 1 << 1074) == true
    try:
        assert whole.over(n) == float(true / n)
    except OverflowError:
        assert math.isinf(whole.over(n))


def test_sums_of_many() -> None:
    """fsum is exact too; a piece holds 8192 numbers, and ones of all sizes stand in each."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=30_000) * 10.0 ** rng.integers(-200, 200, 30_000)
    found = ExactSum()
    found.add(values)
    assert found.over(1) == math.fsum(values)
    for extreme in (5e-324, 1.7e308):
        found = ExactSum()
        found.add(np.full(20_000, extreme) * np.where(np.arange(20_000) % 2, 1, -1))
        assert found.scaled == 0
        found.add(np.full(3, extreme))
        assert Fraction(found.scaled, 1 << 1074) == 3 * Fraction(extreme)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 2.0**-490, 1e250])
def test_layers_of_a_sum_lose_nothing(scale: float) -> None:
    """Numbers of many sizes below a known largest, signs that cancel, and a place to work in that is too short."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=20_001) * 2.0 ** rng.integers(-60, 1, 20_001) * scale
    values[10_000:20_000] = -values[:10_000]
    true = sum(map(Fraction, values.tolist()), Fraction())
    for peak in (None, float(np.abs(values).max()), 3 * float(np.abs(values).max())):
        for work in (None, np.empty(1 << 13), np.empty(7)):
            found = ExactSum()
            found.add(values, peak, work)
            assert Fraction(found.scaled, 1 << 1074) == true


def test_what_is_not_finite_is_counted_and_added_nowhere() -> None:
    found = ExactSum()
    found.add(np.array([1.0, math.inf, -math.inf, math.nan, 2.0]))
    assert (found.over(1), found.skipped) == (3, 3)
    beyond = ExactSum()
    beyond.add(np.full(4, 1.7e308))
    assert beyond.over(1) == math.inf and beyond.over(4) == 1.7e308
    other = ExactSum()
    other.add(np.array([-0.5]))
    assert ratio(other, found) == -0.5 / 3


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, allow_nan=False), min_size=1, max_size=60), st.integers(0, 70), st.data())
def test_quantiles_are_sorted_values(values: list[float], keep: int, data: st.DataObject) -> None:
    ranks = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=4))
    pieces = np.array_split(np.array(values), 3)
    expected = [sorted(values)[rank] for rank in ranks]
    assert select(lambda: pieces, ranks, keep) == [(value, values.index(value)) for value in expected]
    leading = np.zeros(1 << 16, np.int64)
    for piece in pieces:
        counts = np.bincount(np.abs(piece).view(np.int64) >> 48)
        leading[: len(counts)] += counts
    assert select(lambda: pieces, ranks, keep, leading) == select(lambda: pieces, ranks, keep)


def test_quantiles_of_close_values_need_every_digit() -> None:
    """All share their leading 48 bits: only the last pass tells them apart."""
    values = (np.float64(1.0).view(np.uint64) + np.arange(1000, dtype=np.uint64)).view(np.float64)
    found = select(lambda: [values[::-1]], [0, 499, 999], keep=1)
    assert found == [(values[rank], 999 - rank) for rank in (0, 499, 999)]


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
)
def test_every_value_of_a_small_type(name: str) -> None:
    element = ELEMENTS[name]
    bits = np.arange(1 << 8 * element.size, dtype=element.bits)
    expected = np.array([oracle.value(int(one), name) for one in bits])
    found = element.values(bits)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(expected)])


def test_known_values_of_eight_bits() -> None:
    """Largest numbers as the formats' papers print them."""
    for name, bits, value in (
        ("float8_e4m3fn", 0x7E, 448.0), ("float8_e5m2", 0x7B, 57344.0), ("float8_e4m3fnuz", 0x7F, 240.0),
        ("float8_e5m2fnuz", 0x7F, 57344.0), ("float8_e4m3fn", 0x01, 2.0**-9), ("float8_e5m2", 0x01, 2.0**-16),
    ):  # fmt: skip
        assert ELEMENTS[name].values(np.array([bits], np.uint8))[0] == value


def test_distance_in_representable_numbers() -> None:
    element = ELEMENTS["float32"]
    numbers = np.array([1.0, -0.0, np.nextafter(np.float32(0), np.float32(1)), -1.0], np.float32)
    others = np.array([np.nextafter(np.float32(1), np.float32(2)), 0.0, -numbers[2], 1.0], np.float32)
    found = element.ulps(numbers.view("<u4"), others.view("<u4"))
    assert found.tolist() == [1, 0, 2, 2 * 0x3F800000]
    wide = ELEMENTS["float64"].ulps(np.array([0xFFEFFFFFFFFFFFFF], "<u8"), np.array([0x7FEFFFFFFFFFFFFF], "<u8"))
    assert int(wide[0]) == 2 * 0x7FEFFFFFFFFFFFFF
    powers = [0, 1, 2, 3, 4, 2**32 - 1, 2**32, 2**53 + 1, 2**64 - 1]
    assert bit_lengths(np.array(powers, np.uint64)).tolist() == [one.bit_length() for one in powers]


def test_terms_at_the_edge_of_the_series() -> None:
    """Both branches give the same beside 1/8, and nothing is ever negative."""
    import mpmath

    mpmath.mp.dps = 50
    points = np.array(
        [-0.1250001, -0.125, -0.1249999, 0.1249999, 0.125, 0.1250001, 1e-17, -1e-17, 0.0, 30.0, -700.0, 700.0]
    )
    for d, value in zip(points.tolist(), k3(points).tolist(), strict=True):
        true = float(mpmath.expm1(mpmath.mpf(d)) - mpmath.mpf(d)) if abs(d) > 1e-9 else d * d / 2
        assert value == pytest.approx(true, rel=3e-15, abs=0) and value >= 0
    gap = probability_gap(np.array([-1.0, -1e-9, -745.0, -5.0]), np.array([-1.0, -2e-9, 0.0, -800.0]))
    assert gap[0] == 0 and gap[1] == pytest.approx(1e-9 * (1 - 1.5e-9), rel=1e-12, abs=0)
    assert gap[2] == 1.0 and gap[3] == pytest.approx(math.exp(-5), rel=1e-15, abs=0)


@pytest.mark.parametrize("largest", [2.0**-30, 0.0039, 0.004, 0.03, 0.1249])
def test_sums_of_powers_are_those_of_the_terms(largest: float) -> None:
    """exp(d) - 1 - d of a sequence by dot products, against 50 digits; also where the block's largest is larger."""
    import mpmath

    mpmath.mp.dps = 50
    rng = np.random.default_rng(2)
    for d in (np.full(40, largest), np.full(40, -largest), rng.uniform(-largest, largest, 300)):
        true = float(mpmath.fsum(mpmath.expm1(mpmath.mpf(one)) - mpmath.mpf(one) for one in d.tolist()))
        alone = Powers(d, Scratch(), largest).total(0, len(d), largest)
        assert alone == pytest.approx(true, rel=3e-15, abs=0)
        beside = Powers(np.concatenate([[0.12], d]), Scratch(), 0.12)
        assert beside.total(1, 1 + len(d), largest) == alone, "a neighbour changes no bit"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.tuples(st.booleans(), st.integers(1, 3)), max_size=8), min_size=1, max_size=5))
def test_runs_per_sequence(rows: list[list[tuple[bool, int]]]) -> None:
    """Each sequence is a list of (differs, step to its position)."""
    flags = np.array([flag for row in rows for flag, _step in row], bool)
    positions = np.array(
        [place for row in rows for place in np.cumsum([step for _flag, step in row]).tolist()], np.int64
    )
    starts = np.cumsum([0, *map(len, rows)])
    texts = ["".join("x" if flag else "." for flag, _step in row) for row in rows]
    assert per_sequence(flags, starts).tolist() == [text.count("x") for text in texts]
    firsts = [begin + text.index("x") if "x" in text else -1 for begin, text in zip(starts, texts, strict=False)]
    assert first_true(flags, starts).tolist() == firsts
    assert longest_runs(flags, starts, None).tolist() == [max(map(len, text.split("."))) for text in texts]
    assert [longest_run(row) for row in np.split(flags, starts[1:-1])] == [
        max(map(len, text.split("."))) for text in texts
    ]
    spread = ["".join(("." if step > 1 else "") + ("x" if flag else ".") for flag, step in row) for row in rows]
    assert longest_runs(flags, starts, positions).tolist() == [max(map(len, text.split("."))) for text in spread]
