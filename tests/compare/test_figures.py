"""Every figure against an independent calculation, a hand-derived value, or a property that must hold."""

from __future__ import annotations

import math
import re
import tracemalloc
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compare import made, oracle, ptfile
from tests.compare.oracle import WIDTH
from tic_daemon.compare.align import align
from tic_daemon.compare.figures import Figures, measure
from tic_daemon.compare.reading import Reading
from tic_daemon.compare.sides import Side

RESULTS = Path(__file__).parent.parent / "corpus" / "real_results"
MEANS = ("logprob_mae", "logprob_max", "probability_mae", "kl_k1", "kl_k2", "kl_k3", "relative_l2", "cosine")


def figures(a: Side, b: Side, **sizes: int) -> Figures:
    found = measure(a, b, align(a, b), **sizes)
    assert found is not None
    return found


def _raw(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The pairs of a file of torch.save by its members: storages come in the order of the dict, two a request."""
    with zipfile.ZipFile(path) as archive:
        base = archive.namelist()[0].split("/")[0]
        ids = re.findall(rb"step\d+-p\d+-s\d+", archive.read(f"{base}/data.pkl"))
        return {
            request.decode(): (
                np.frombuffer(archive.read(f"{base}/data/{2 * place}"), "<f4"),
                np.frombuffer(archive.read(f"{base}/data/{2 * place + 1}"), np.bool_),
            )
            for place, request in enumerate(ids)
        }


@pytest.mark.parametrize("step", range(12))
def test_the_real_run_against_numpy(step: int) -> None:
    where = RESULTS / f"step{step:03}"
    rollout, trainer = _raw(where / "rollout_logprobs.pt"), _raw(where / "trainer_logprobs.pt")
    with Reading(where / "rollout_logprobs.pt") as one, Reading(where / "trainer_logprobs.pt") as other:
        found = figures(one.sides[0], other.sides[0])
    order = sorted(rollout)
    keep = np.concatenate([rollout[key][1] for key in order])
    a32, b32 = (np.concatenate([side[key][0] for key in order])[keep] for side in (rollout, trainer))
    a, b = a32.astype(np.float64), b32.astype(np.float64)
    d = b - a
    differ = a32.view(np.int32) != b32.view(np.int32)
    assert (found.valid, found.mismatched) == (len(a), int(differ.sum()))
    expected = {
        "logprob_mae": np.mean(np.abs(d)), "logprob_max": np.max(np.abs(d)),
        "probability_mae": np.mean(np.abs(np.exp(b) - np.exp(a))), "kl_k1": np.mean(-d), "kl_k2": np.mean(d * d / 2),
        "kl_k3": np.mean(np.expm1(d) - d), "relative_l2": np.linalg.norm(d) / np.linalg.norm(b),
        "cosine": a @ b / (np.linalg.norm(a) * np.linalg.norm(b)),
        **{f"p{share}": np.quantile(np.abs(d), share / 100, method="inverted_cdf") for share in (50, 95, 99)},
    }  # fmt: skip
    for name, value in expected.items():
        assert found.metrics[name] == pytest.approx(value, rel=1e-12, abs=0), name
    lengths = [int(rollout[key][1].sum()) for key in order]
    begins = np.concatenate([[0], np.cumsum(lengths)])
    for place, row in enumerate(found.per_sequence):
        own, flags = np.abs(d[begins[place] : begins[place + 1]]), differ[begins[place] : begins[place + 1]]
        assert row.request == order[place] and row.valid == lengths[place]
        assert row.mismatched == flags.sum() and row.max_abs == own.max() and row.max_at == own.argmax()
        assert row.mean_abs == pytest.approx(own.mean(), rel=1e-14, abs=0)
        assert row.first_mismatch == (int(flags.argmax()) if flags.any() else None)
        runs = "".join("x" if flag else " " for flag in flags).split()
        assert row.longest_run == max(map(len, runs), default=0)


def test_step_0_of_the_real_run() -> None:
    where = RESULTS / "step000"
    with Reading(where / "rollout_logprobs.pt") as one, Reading(where / "trainer_logprobs.pt") as other:
        found = figures(one.sides[0], other.sides[0])
    assert found.valid == 1152
    assert f"{found.metrics['logprob_mae']:.10f}" == "0.0021032277"


def test_figures_by_hand() -> None:
    """a = -1, -2, -3, -0.5; b = -1, -2.5, -3.25, -0.5: d = 0, -1/2, -1/4, 0."""
    a = made.of_values({"r": [-1, -2, -3, -0.5]})
    b = made.of_values({"r": [-1, -2.5, -3.25, -0.5]})
    found = figures(a, b)
    assert (found.valid, found.mismatched, found.sequences_differing) == (4, 2, 1)
    assert found.first_mismatch == ("r", 1) and found.longest_run == 2
    metrics = found.metrics
    assert metrics["logprob_mae"] == 0.75 / 4
    assert metrics["logprob_max"] == 0.5 and found.places["logprob_max"] == ("r", 1)
    assert metrics["kl_k1"] == 0.75 / 4
    assert metrics["kl_k2"] == (0.25 + 0.0625) / 2 / 4
    assert metrics["kl_k3"] == pytest.approx((math.exp(-0.5) - 0.5 + math.exp(-0.25) - 0.75) / 4, rel=1e-15, abs=0)
    gap = math.exp(-2) - math.exp(-2.5) + math.exp(-3) - math.exp(-3.25)
    assert metrics["probability_mae"] == pytest.approx(gap / 4, rel=1e-15, abs=0)
    assert metrics["relative_l2"] == pytest.approx(math.sqrt(0.3125 / (1 + 6.25 + 10.5625 + 0.25)), rel=1e-15, abs=0)
    assert metrics["cosine"] == pytest.approx(16 / math.sqrt(14.25 * 18.0625), rel=1e-15, abs=0)
    assert [metrics[name] for name in ("p50", "p95", "p99")] == [0, 0.5, 0.5]
    assert found.places["p50"] == ("r", 0) and found.places["p95"] == ("r", 1)
    assert found.magnitudes == {0: 1, -1: 1}, "1/2 <= 0.5 < 1 and 1/4 <= 0.25 < 1/2"


def test_of_equal_largest_differences_the_first_is_named() -> None:
    """In the order of ids, then of positions: whoever looks finds the same one each time, in any size of blocks."""
    a = made.of_values({"p": [-1, -1], "q": [-1, -2, -3], "r": [-2]})
    b = made.of_values({"p": [-1.25, -1], "q": [-1, -2.5, -3.5], "r": [-1.5]})
    for block in (1, 4, 100):
        found = figures(a, b, block=block)
        assert found.places["logprob_max"] == ("q", 1) and [row.max_at for row in found.per_sequence] == [0, 1, 0]


def test_sequences_that_end_in_zero_are_counted_where_more_stands_before() -> None:
    """An end-of-text token that nobody scored; one token that is 0 may be sure of itself, and a masked one is none."""
    a = made.of_values({"p": [0.0], "q": [-1, 0.0], "r": [-1, -2], "s": [0.0, -1]})
    b = made.of_values({"p": [0.0], "q": [-1, -2], "r": [-1, 0.0], "s": [0.0, -1]})
    assert figures(a, b).ends_in_zero == 2


def test_k1_to_k3_follow_the_direction() -> None:
    """d = +10 and d = -10: exp(10) - 11 is 22015.47, exp(-10) + 9 is 9.000045."""
    up = figures(made.of_values({"r": [-11.0]}), made.of_values({"r": [-1.0]})).metrics
    down = figures(made.of_values({"r": [-1.0]}), made.of_values({"r": [-11.0]})).metrics
    assert up["kl_k3"] == pytest.approx(22015.465794806718, rel=1e-15, abs=0)
    assert down["kl_k3"] == pytest.approx(9.000045399929762, rel=1e-15, abs=0)
    assert (up["kl_k1"], down["kl_k1"]) == (-10, 10) and up["kl_k2"] == down["kl_k2"] == 50


def test_no_difference_is_zero_and_not_minus_zero() -> None:
    same = made.of_values({"r": [-1.0, -2.0]})
    metrics = figures(same, made.of_values({"r": [-1.0, -2.0]})).metrics
    assert [str(metrics[name]) for name in ("logprob_mae", "kl_k1", "kl_k2", "kl_k3", "relative_l2")] == ["0.0"] * 5


@pytest.mark.parametrize(
    ("d", "true"),
    [
        (1e-4, 5.000166670833417e-09),
        (1e-5, 5.000016666708333e-11),
        (-1e-6, 4.999998333333750e-13),
        (1e-9, 5.000000001666667e-19),
    ],
)
def test_k3_keeps_its_digits_where_the_sides_are_near(d: float, true: float) -> None:
    """The series d*d/2 + d**3/6 + d**4/24, of which three terms give sixteen digits here."""
    found = figures(made.of_values({"r": [0.0]}, dtype="float64"), made.of_values({"r": [d]}, dtype="float64"))
    assert found.metrics["kl_k3"] == pytest.approx(true, rel=1e-14, abs=0)


def test_tail_tokens_show_in_log_space_alone() -> None:
    """-12 against -30 and -20 against -40: mean 19 in log space, exp(-12) + exp(-20) halved in probability space."""
    found = figures(made.of_values({"r": [-12, -20]}), made.of_values({"r": [-30, -40]})).metrics
    assert found["logprob_mae"] == 19
    assert found["probability_mae"] == pytest.approx((math.exp(-12) + math.exp(-20)) / 2, rel=1e-7, abs=0)


def test_a_wide_difference_overflows_openly() -> None:
    """exp(d) leaves float64 at d = 709.78; beyond 709 the statistic has no value, and k1, k2 still do."""
    found = figures(made.of_values({"r": [-800.0, -1.0]}), made.of_values({"r": [-1.0, -1.0]}))
    assert found.overflow == 1 and found.metrics["kl_k3"] is None and "709" in found.undefined["kl_k3"]
    assert found.metrics["kl_k1"] == -799 / 2 and found.metrics["kl_k2"] == 799**2 / 4
    at = figures(made.of_values({"r": [-709.0]}), made.of_values({"r": [0.0]}))
    assert at.overflow == 0 and at.metrics["kl_k3"] == pytest.approx(math.exp(709) - 710, rel=1e-15, abs=0)


def test_numbers_at_the_end_of_float64() -> None:
    found = figures(
        made.of_values({"r": [-1.5e308, -1.0]}, dtype="float64"),
        made.of_values({"r": [1.5e308, -1.0]}, dtype="float64"),
    )
    assert found.metrics["logprob_max"] is None and found.metrics["logprob_mae"] is None
    assert found.metrics["cosine"] is None and found.metrics["relative_l2"] is None
    assert set(MEANS) - set(found.undefined) == {"probability_mae"} - set(found.undefined)


def test_zero_norms_are_undefined() -> None:
    zeros, ones = made.of_values({"r": [0.0, 0.0]}), made.of_values({"r": [-1.0, -1.0]})
    both = figures(zeros, zeros)
    assert both.undefined["relative_l2"] == "both_zero" and both.metrics["relative_l2"] is None
    assert both.metrics["cosine"] is None and both.zeros == (("A", "r"), ("B", "r"))
    assert "zero norm" in figures(ones, zeros).undefined["relative_l2"]
    assert figures(zeros, ones).metrics["relative_l2"] == 1 and figures(zeros, ones).metrics["cosine"] is None


def test_equal_sides_have_a_cosine_of_one() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = made.of_values({"r": (-rng.exponential(size=37)).tolist()})
        assert figures(values, values).metrics["cosine"] == 1.0


def test_products_of_both_signs_are_added_exactly() -> None:
    """Products 1, 2**-54 and -1: added in pairs the small one is lost, and the sides would be orthogonal."""
    a, b = (made.of_values({"r": own}, dtype="float64") for own in ([1.0, 2.0**-27, -1.0], [1.0, 2.0**-27, 1.0]))
    assert figures(a, b).metrics["cosine"] == pytest.approx(2.0**-54 / (2 + 2.0**-54), rel=1e-14, abs=0)


def test_differences_below_the_normal_numbers_have_their_power() -> None:
    a, b = (made.of_values({"r": own}, dtype="float64") for own in ([-1e-310, -1.0, -2e-300], [-3e-310, -1.0, -1e-300]))
    assert figures(a, b).magnitudes == {math.frexp(2e-310)[1]: 1, math.frexp(1e-300)[1]: 1}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("block", [1, 1 << 16])
def test_signed_sums_of_the_smallest_numbers(dtype: str, block: int) -> None:
    """From the smallest number of the type on; one of 1/4 beside them in another sequence: kl_k1 is exact."""
    small = float(np.nextafter(np.zeros(1, dtype), np.ones(1, dtype))[0])
    values = {"p": [-small], "q": [-small, -2 * small, -7 * small], "r": [-small, -0.25]}
    others = {"p": [-2 * small], "q": [-3 * small, -2 * small, -small], "r": [-small, -0.25 - 2.0**-10]}
    a, b = made.of_values(values, dtype=dtype), made.of_values(others, dtype=dtype)
    for one, other, sign in ((a, b, 1), (b, a, -1)):
        found = figures(one, other, block=block)
        true = sign * (Fraction(2.0**-10) - Fraction(3 * small)) / 6
        assert found.metrics["kl_k1"] == float(true)


def test_signed_zeros_differ_and_are_named() -> None:
    found = figures(made.of_values({"r": [0.0, -1.0]}), made.of_values({"r": [-0.0, -1.0]}))
    assert found.mismatched == 1 and found.classes == {"signed_zero": 1} and found.ulps == {0: 1}
    assert found.metrics["logprob_mae"] == 0
    assert figures(made.of_values({"r": [0.0, -1.0]}), made.of_values({"r": [-2.0, -1.0]})).classes == {"finite": 1}


def test_types_that_change_from_request_to_request() -> None:
    """Each request is of one type on both sides: bits are compared in their own width, requests in one order."""
    kinds = {"a": "float32", "b": "float64", "c": "float16", "d": "float32"}
    one, other = (
        {key: made.of_values({key: [-1.0, last]}, dtype=kind).sequences[key] for key, kind in kinds.items()}
        for last in (-2.0, -2.5)
    )
    a, b = (Side("x", "", "torch", "native", sequences) for sequences in (one, other))
    found = figures(a, b)
    assert (found.valid, found.mismatched, found.metrics["logprob_mae"]) == (8, 4, 0.25)
    assert [(row.request, row.first_mismatch) for row in found.per_sequence] == [(key, 1) for key in kinds]
    assert align(a, b).same_elements and len(align(a, b).elements) == 3


def test_what_is_not_finite_leaves_no_mean() -> None:
    for a, b, kinds in (
        ([math.nan, -1], [-1, -1], {"A NaN": 1}),
        ([math.nan, -1], [math.nan, -1], {"A NaN": 1, "B NaN": 1}),
        ([-math.inf, -1], [-math.inf, -1], {"A -Inf": 1, "B -Inf": 1}),
        ([-1, math.inf], [-1, -1], {"A +Inf": 1}),
    ):
        found = figures(made.of_values({"q": [-1.0], "r": a}), made.of_values({"q": [-1.0], "r": b}))
        assert found.non_finite == kinds
        assert found.non_finite_at == ("r", 1 if a[0] == -1 else 0)
        assert all(found.metrics[name] is None and "not finite" in found.undefined[name] for name in MEANS)
        assert "p50" not in found.metrics and "logprob_max" not in {
            n for n, v in found.metrics.items() if v is not None
        }
        assert found.per_sequence[1].max_abs is None and found.per_sequence[0].max_abs == 0


def test_positions_are_those_of_the_response() -> None:
    """Positions 0 and 2 are masked: the difference at 3 is the second valid token, and runs bridge a masked position."""
    bits = np.array([-1, -2, -3, -4, -5], np.float32).view(np.uint32)
    other = bits.copy()
    other[[1, 3, 4]] ^= 1
    flags = [False, True, False, True, True]
    found = figures(made.side({"r": (bits.tolist(), flags)}), made.side({"r": (other.tolist(), flags)}))
    assert found.first_mismatch == ("r", 1) and found.longest_run == 3 and found.longest_run_raw == 2
    assert found.valid == 3 and found.per_sequence[0].response_length == 5
    assert found.places["logprob_max"][1] in {3, 4}


def test_first_and_earliest_are_two_things() -> None:
    a = made.of_values({"a": [-1, -2, -3], "b": [-1, -2, -3]})
    b = made.of_values({"a": [-1, -2, -4], "b": [-2, -2, -3]})
    found = figures(a, b)
    assert found.first_mismatch == ("a", 2) and found.earliest_mismatch == ("b", 0)


@st.composite
def pairs(draw: st.DrawFn, dtype: str) -> tuple[made.Bits, made.Bits]:
    """Two sides of few sequences: bits near each other, anywhere, or equal; zeros, NaN and infinities among them."""
    width = WIDTH[dtype]
    any_bits = st.integers(0, (1 << width) - 1)
    a: made.Bits = {}
    b: made.Bits = {}
    for request in draw(st.lists(st.text("abcXYZ019é", min_size=1, max_size=3), min_size=1, max_size=4, unique=True)):
        size = draw(st.integers(1, 9))
        first = draw(st.lists(any_bits, min_size=size, max_size=size))
        second = [
            draw(st.one_of(st.just(bits), any_bits, st.integers(0, 3).map(lambda low, bits=bits: bits ^ low)))
            for bits in first
        ]
        flags = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        a[request], b[request] = (first, flags), (second, flags)
    return a, b


@pytest.mark.parametrize("dtype", sorted(WIDTH))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_against_fractions_and_mpmath(dtype: str, data: st.DataObject) -> None:
    a, b = data.draw(pairs(dtype))
    one, other = made.side(a, dtype), made.side(b, dtype)
    found = measure(one, other, align(one, other))
    true = oracle.figures(a, b, dtype)
    if not true["valid"]:
        assert found is None
        return
    assert found is not None
    assert (found.valid, found.mismatched, found.first_mismatch) == (true["valid"], true["mismatched"], true["first"])
    assert found.earliest_mismatch == true["earliest"]
    assert {row.request: row.longest_run for row in found.per_sequence} == true["runs"]
    assert {row.request: row.longest_run_raw for row in found.per_sequence} == true["raw_runs"]
    assert found.longest_run == max(true["runs"].values())
    assert sum(row.non_finite for row in found.per_sequence) == true["bad"]
    if true["bad"]:
        assert all(found.metrics[name] is None for name in MEANS)
        return
    for name in (*MEANS, "p50", "p95", "p99"):
        value = found.metrics[name]
        if value is None:
            assert found.undefined[name]
            continue
        expected = true[name]
        # d is one rounding away from the true difference, and cancels to fewer digits only in signed sums.
        scale = float(true["logprob_mae"]) if name == "kl_k1" else abs(float(expected))
        assert abs(value - float(expected)) <= 1e-13 * scale + 1e-300, name


@st.composite
def ordinary(draw: st.DrawFn) -> tuple[made.Bits, made.Bits]:
    """Two sides of log-probabilities as runs dump them, with the odd sequence that has other numbers among them."""
    a: made.Bits = {}
    b: made.Bits = {}
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    for place in range(draw(st.integers(1, 5))):
        size = draw(st.sampled_from([1, 2, 9, 130, 700]))
        values = -rng.exponential(size=size) * draw(st.sampled_from([1e-6, 1, 40]))
        apart = rng.normal(size=size) * 10.0 ** rng.uniform(-7, draw(st.sampled_from([-6, -2, 0.5])), size)
        other = np.where(rng.random(size) < draw(st.sampled_from([0, 0.5, 1])), values, -np.abs(values + apart))
        if draw(st.booleans()):
            other[rng.integers(size)] = draw(st.sampled_from([0.0, -0.0, 3e-7, 0.5, -750.0, 2.0]))
        flags = rng.random(size) < draw(st.sampled_from([0.3, 1]))
        for side, own in ((a, values), (b, other)):
            side[f"r{place}"] = (own.astype(np.float32).view(np.uint32).tolist(), flags.tolist())
    return a, b


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ordinary())
def test_ordinary_numbers_against_mpmath(both: tuple[made.Bits, made.Bits]) -> None:
    a, b = both
    one, other = made.side(a), made.side(b)
    found, true = measure(one, other, align(one, other)), oracle.figures(a, b, "float32")
    assert (found is None) == (not true["valid"])
    if found is None:
        return
    assert (found.valid, found.mismatched, found.first_mismatch) == (true["valid"], true["mismatched"], true["first"])
    assert {row.request: row.longest_run_raw for row in found.per_sequence} == true["raw_runs"]
    for name in MEANS:
        value = found.metrics[name]
        if value is None:
            assert found.undefined[name]
            continue
        assert value == pytest.approx(float(true[name]), rel=1e-13, abs=1e-300), name
    for name in ("p50", "p95", "p99"):
        assert found.metrics[name] == true[name]
        request, position = found.places[name]
        u, v = (oracle.value(side[request][0][position], "float32") for side in (a, b))
        assert abs(v - u) == true[name] and a[request][1][position]
    apart = [
        abs(oracle.value(y, "float32") - oracle.value(x, "float32"))
        for request in a
        for x, y, counts in zip(a[request][0], b[request][0], a[request][1], strict=True)
        if counts
    ]
    powers = [math.frexp(gap)[1] for gap in apart if gap]
    assert found.magnitudes == {power: powers.count(power) for power in sorted(set(powers))}


@pytest.mark.parametrize("share", [0.0, 1e-3, 0.6, 1.0])
def test_long_sequences_against_extended_precision(share: float) -> None:
    """Sequences of several pieces; sums of numpy's longdouble, which has 64 bits."""
    rng = np.random.default_rng(8)
    a, b = {}, {}
    for request, size in (("r0", 20_000), ("r1", 8192), ("r2", 8193), ("r3", 1)):
        x = (-rng.exponential(size=size)).astype(np.float32)
        far = np.where(rng.random(size) < 0.01, rng.exponential(3, size), rng.normal(scale=1e-3, size=size))
        y = np.where(rng.random(size) < share, -np.abs(x + far), x).astype(np.float32)
        for side, own in ((a, x), (b, y)):
            side[request] = (own.view(np.uint32).tolist(), [True] * size)
    one, other = made.side(a), made.side(b)
    found = figures(one, other)
    for block in (1, 9000, 1 << 20):
        assert measure(one, other, align(one, other), block=block) == found
    first, second = (
        np.concatenate([np.array(side[request][0], np.uint32).view(np.float32) for request in a]).astype(np.longdouble)
        for side in (a, b)
    )
    d = second - first
    expected = {
        "logprob_mae": np.abs(d).mean(), "logprob_max": np.abs(d).max(), "kl_k1": (-d).mean(), "kl_k2": (d * d / 2).mean(),
        "kl_k3": (np.expm1(d) - d).mean(), "probability_mae": np.abs(np.exp(first) * np.expm1(d)).mean(),
        "relative_l2": np.sqrt((d * d).sum() / (second * second).sum()),
        "cosine": (first * second).sum() / np.sqrt((first * first).sum() * (second * second).sum()),
    }  # fmt: skip
    for name, value in expected.items():
        # The plain form of k3 keeps six digits less where d is 1e-3.
        assert found.metrics[name] == pytest.approx(float(value), rel=1e-12, abs=1e-15), name
    assert found.mismatched == int(np.count_nonzero(d != 0))
    assert found.ulps == ({} if not share else found.ulps) and sum(found.ulps.values()) == found.mismatched
    powers = np.frexp(np.abs(d[d != 0]).astype(np.float64))[1]
    assert found.magnitudes == {int(p): int(n) for p, n in zip(*np.unique(powers, return_counts=True), strict=True)}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_order_size_of_pieces_and_sides(data: st.DataObject) -> None:
    a, b = data.draw(st.one_of(pairs("float32"), ordinary()))
    one, other = made.side(a), made.side(b)
    whole = measure(one, other, align(one, other))
    order = data.draw(st.permutations(sorted(a)))
    shuffled = made.side({key: a[key] for key in order}), made.side({key: b[key] for key in reversed(order)})
    assert measure(*shuffled, align(*shuffled)) == whole
    for block, keep in ((1, 1), (3, 2), (700, 1000)):
        assert measure(one, other, align(one, other), block=block, keep=keep) == whole
    swapped = measure(other, one, align(other, one))
    if whole is None or swapped is None:
        assert whole is swapped
        return
    assert (swapped.mismatched, swapped.first_mismatch, swapped.longest_run) == (
        whole.mismatched,
        whole.first_mismatch,
        whole.longest_run,
    )
    for name in ("logprob_mae", "logprob_max", "probability_mae", "kl_k2", "cosine", "p50", "p95", "p99"):
        assert swapped.metrics.get(name) == whole.metrics.get(name), name
    if whole.metrics["kl_k1"] is not None:
        assert swapped.metrics["kl_k1"] == -whole.metrics["kl_k1"]
    assert swapped.ulps == whole.ulps and swapped.classes == whole.classes


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_flipped_bit_is_found_where_it_is(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(sorted(WIDTH)))
    a, _b = data.draw(pairs(dtype))
    request = data.draw(st.sampled_from(sorted(a)))
    place = data.draw(st.integers(0, len(a[request][0]) - 1))
    bit = data.draw(st.integers(0, WIDTH[dtype] - 1))
    bits, flags = a[request]
    b = {**a, request: ([one ^ (1 << bit) if own == place else one for own, one in enumerate(bits)], flags)}
    one, other = made.side(a, dtype), made.side(b, dtype)
    found, itself = measure(one, other, align(one, other)), measure(one, one, align(one, one))
    if not flags[place]:
        assert found == itself, "what is masked changes nothing"
        return
    assert found is not None and found.mismatched == 1 and found.first_mismatch == (request, place)
    assert itself is not None and itself.mismatched == 0


def test_a_dump_is_read_in_pieces(tmp_path: Path) -> None:
    """Two million tokens a side, 20 MB: what is held at a time is a small part of it, and the figures are the same."""
    rng = np.random.default_rng(9)
    sizes, paths = [8192] * 240, []
    for which in range(2):
        values = {
            f"r{place:03}": (ptfile.T((-rng.exponential(size=size)).astype(np.float32), "float32"), ptfile.T(np.ones(size, bool), "bool"))
            for place, size in enumerate(sizes)
        }  # fmt: skip
        paths.append(ptfile.write(tmp_path / f"{which}.pt", values))
    del values
    with Reading(paths[0]) as one, Reading(paths[1]) as other:
        a, b = one.sides[0], other.sides[0]
        aligned = align(a, b)
        tracemalloc.start()
        found = measure(a, b, aligned, keep=1 << 16)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 << 20 < sum(path.stat().st_size for path in paths) * 0.6, (
            "two hundred bytes a token of a block"
        )
        assert found == measure(a, b, aligned)
