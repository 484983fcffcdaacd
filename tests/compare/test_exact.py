"""Exact sums against Python's fractions, quantiles against sorting, element types against their definitions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compare import oracle
from tic_daemon.compare.blocks import Scratch, dots, partial
from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.exact import ExactSum, ratio, select
from tic_daemon.compare.runs import first_true, longest_runs, per_sequence, runs_but_few, runs_of_few
from tic_daemon.compare.terms import Powers, bit_lengths, distance_lengths, k3, probability_gap

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


@pytest.mark.parametrize("size", [1 << 15, (1 << 15) + 1, 100_000])
def test_the_fullest_layer_is_exact(size: int) -> None:
    """All numbers just below a power of two, of one sign: no more fits into float64; zeros of both signs beside them."""
    values = np.full(size, np.nextafter(2.0**-7, 0))
    values[1::1000] = -0.0
    values[2::1000] = 0.0
    values[3::7] = np.nextafter(2.0**-46, 0)
    true = sum(map(Fraction, values.tolist()), Fraction())
    for peak, work in ((None, None), (2.0**-7, np.empty(1 << 15)), (float(values.max()), np.empty(5))):
        for sign in (1, -1):
            found = ExactSum()
            found.add(sign * values, peak, work)
            assert Fraction(found.scaled, 1 << 1074) == sign * true


@pytest.mark.parametrize(
    "sizes", [[1] * 9, [7] * 5, [128] * 4, [8192] * 3, [8193] * 2, [3, 0, 5], [0, 4], [4, 0], [9000, 9000]]
)
def test_sums_and_products_hang_on_their_sequence_alone(sizes: list[int]) -> None:
    """To the last bit, whether all sequences of a block are of one length or not; and against fsum."""
    rng = np.random.default_rng(4)
    one, other = (-rng.exponential(size=sum(sizes)) for _ in range(2))
    edges = np.cumsum([0, *sizes])
    found, added = dots(one, other, edges.tolist()), partial(one, edges, edges.tolist())
    for place, (begin, end) in enumerate(zip(edges.tolist(), edges.tolist()[1:], strict=False)):
        x, y = one[begin:end], other[begin:end]
        beside = np.append(x, -1.0), np.append(y, -1.0)
        assert dots(*beside, [0, len(x), len(x) + 1])[0] == found[place]
        assert partial(beside[0], np.array([0, len(x), len(x) + 1]), [0, len(x), len(x) + 1])[0] == added[place]
        assert found[place] == pytest.approx(math.fsum((x * y).tolist()), rel=1e-14, abs=0)
        assert added[place] == pytest.approx(math.fsum(x.tolist()), rel=1e-14, abs=0)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(-1074, 900), st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=30), st.integers(1, 300),
    st.sampled_from([0, 12, 30, 52]),
)  # fmt: skip
def test_sums_of_known_multiples(unit: int, numbers: list[int], times: int, shift: int) -> None:
    """Whole multiples of a power of two: added at once where that is exact, and exactly where it is not."""
    values = np.array([math.ldexp(own >> shift, unit) for own in numbers] * times)
    values = values[np.isfinite(values)]
    true = sum(map(Fraction, values.tolist()), Fraction())
    found = ExactSum()
    found.add(values, float(np.abs(values).max(initial=0.0)), None, unit)
    assert Fraction(found.scaled, 1 << 1074) == true


def test_sums_that_are_too_long_for_one_pass() -> None:
    """54 to 56 bits, the last of them set: float64 would round them."""
    for number in (2, 3, 8):
        values = np.full(number, 2.0**53 - 1)
        values[-1] = 2.0**53 - 2
        found = ExactSum()
        found.add(values, 2.0**53, None, 0)
        assert found.scaled >> 1074 == number * (2**53 - 1) - 1


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


@pytest.mark.parametrize("name", sorted(oracle.WIDTH))
def test_all_numbers_from_a_size_on_are_multiples_of_one_power_of_two(name: str) -> None:
    """The significant bits of a type: what is at least 2**(e - 1) is a whole multiple of 2**(e - digits)."""
    element, width = ELEMENTS[name], oracle.WIDTH[name]
    rng = np.random.default_rng(7)
    bits = np.concatenate([rng.integers(0, 1 << width, 500, dtype=np.uint64), np.arange(40, dtype=np.uint64)])
    values = [own for own in map(abs, element.values(bits.astype(element.bits)).tolist()) if own and math.isfinite(own)]
    odd = 0
    for own in values:
        multiple = Fraction(own) / Fraction(2) ** (math.frexp(own)[1] - element.digits)
        assert multiple.denominator == 1
        odd += multiple.numerator % 2
    assert odd > 40, "one bit less would not do"


@pytest.mark.parametrize("name", sorted(oracle.WIDTH))
@pytest.mark.parametrize("sign", [0, 1, None])
def test_lengths_of_distances(name: str, sign: int | None) -> None:
    """Magnitudes at both ends of the type among them; of one sign on both sides, and of any."""
    element, width = ELEMENTS[name], oracle.WIDTH[name]
    top = 1 << width - 1
    rng = np.random.default_rng(6)
    magnitudes = [[int(own) % top for own in rng.integers(0, 1 << 63, 300, dtype=np.uint64)] for _ in range(2)]
    magnitudes[0] += [0, top - 1, 0, top - 1, 5, 5, 8, 7]
    magnitudes[1] += [top - 1, 0, 0, top - 1, 5, 4, 4, 11]
    near = [(own, min(top - 1, own + (1 << place % width))) for place, own in enumerate(magnitudes[0][:100])]
    pairs = list(zip(*magnitudes, strict=True)) + near
    signs = [(sign, sign) if sign is not None else (place % 2, place // 2 % 2) for place in range(len(pairs))]
    expected: dict[int, int] = {}
    for (one, other), (first, second) in zip(pairs, signs, strict=True):
        length = abs((-one if first else one) - (-other if second else other)).bit_length()
        expected[length] = expected.get(length, 0) + 1
    a, b = (
        np.array([pair[side] | (own[side] << width - 1) for pair, own in zip(pairs, signs, strict=True)], element.bits)
        for side in (0, 1)
    )
    for known in (False, True) if sign is not None else (False,):
        found = distance_lengths(element, a, b, Scratch(), one_sign=known)
        assert {length: int(found[length]) for length in np.flatnonzero(found).tolist()} == expected


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


@pytest.mark.parametrize("largest", [2.0**-30, 0.0039, 0.004, 0.03, 0.0313, 0.1249])
def test_sums_of_powers_are_those_of_the_terms(largest: float) -> None:
    """exp(d) - 1 - d of a sequence by dot products, against 50 digits; also where the block's largest is larger."""
    import mpmath

    mpmath.mp.dps = 50
    rng = np.random.default_rng(2)
    for d in (np.full(40, largest), np.full(40, -largest), rng.uniform(-largest, largest, 300)):
        true = float(mpmath.fsum(mpmath.expm1(mpmath.mpf(one)) - mpmath.mpf(one) for one in d.tolist()))
        (squares,), (alone,) = Powers(d, Scratch(), largest).totals([0, len(d)], [largest])
        assert squares == pytest.approx(math.fsum((d * d).tolist()), rel=3e-15, abs=0)
        assert alone == pytest.approx(true, rel=3e-15, abs=0)
        beside = Powers(np.concatenate([[0.12], d]), Scratch(), 0.12).totals([0, 1, 1 + len(d)], [0.12, largest])
        assert (beside[0][1], beside[1][1]) == (squares, alone), "a neighbour changes no bit"


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
    edges = starts.tolist()
    assert per_sequence(flags, edges) == [text.count("x") for text in texts]
    firsts = [begin + text.index("x") if "x" in text else -1 for begin, text in zip(edges, texts, strict=False)]
    assert first_true(flags, edges) == firsts
    longest = [max(map(len, text.split("."))) for text in texts]
    for places, runs in (
        (np.flatnonzero(flags), runs_of_few),
        (np.flatnonzero(~flags), lambda places, cuts: runs_but_few(places, cuts, starts)),
    ):
        assert runs(places, np.searchsorted(places, starts)) == longest
    spread = ["".join(("." if step > 1 else "") + ("x" if flag else ".") for flag, step in row) for row in rows]
    assert longest_runs(flags, starts, positions) == [max(map(len, text.split("."))) for text in spread]
