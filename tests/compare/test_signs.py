"""Diagnostics against planted causes: a shift, an uncounted last token, another temperature, a page edge, siblings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compare import made
from tic_daemon.compare.align import align
from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.figures import measure
from tic_daemon.compare.sides import Held, Side
from tic_daemon.compare.signs import Signs, signs
from tic_daemon.compare.sweep import Sweep


def found(a: Side, b: Side, block: int = 1 << 18) -> Signs:
    alignment = align(a, b)
    sweep = Sweep(a, b, alignment)
    figures = measure(a, b, alignment, block=block, also=sweep.add)
    assert figures is not None
    return signs(a, b, alignment, figures, sweep)


def _values(rng: np.random.Generator, size: int) -> list[float]:
    return (-rng.exponential(size=size)).astype(np.float32).tolist()


@pytest.mark.parametrize("shift", [-2, -1, 1, 2])
def test_a_shifted_side_is_seen_at_its_offset(shift: int) -> None:
    """B[t] is A[t + shift]: at that offset nothing differs, at the others much does."""
    rng = np.random.default_rng(shift + 5)
    a = {request: _values(rng, 40) for request in "pqr"}
    b = {request: np.roll(values, -shift).tolist() for request, values in a.items()}
    shown = found(made.of_values(a), made.of_values(b))
    by_offset = {offset.k: offset for offset in shown.offsets}
    assert by_offset[shift].mismatched == 0 and by_offset[shift].mae == 0
    assert by_offset[shift].tokens == 3 * (40 - abs(shift))
    assert all((offset.mae or 0) > 0.1 for k, offset in by_offset.items() if k != shift)
    assert any(f"shifted by {shift:+d}" in remark for remark in shown.remarks)


def test_offsets_look_at_pairs_of_valid_positions_alone() -> None:
    """By hand: A = 1 2 3 4, B = 9 1 2 8, position 2 masked. At -1 B[1] meets A[0]: equal; B[3] would meet the masked A[2]."""
    flags = [True, True, False, True]
    a, b = (np.array(own, np.float32).view(np.uint32).tolist() for own in ([-1, -2, -3, -4], [-9, -1, -2, -8]))
    shown = found(made.side({"r": (a, flags)}), made.side({"r": (b, flags)}))
    by_offset = {offset.k: (offset.tokens, offset.mismatched, offset.mae) for offset in shown.offsets}
    assert by_offset[-1] == (1, 0, 0.0), "A[0] and B[1]; A[1] is beside the masked B[2]"
    assert by_offset[1] == (1, 1, 7.0), "A[1] = -2 against B[0] = -9"
    assert by_offset[2] == (1, 1, 3.0), "A[3] = -4 against B[1] = -1"
    assert by_offset[-2] == (1, 1, 6.0), "A[1] = -2 against B[3] = -8"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from([0.4, 1.0])), min_size=1, max_size=5), st.integers(0, 999)
)
def test_shifts_and_places_position_by_position(shapes: list[tuple[int, float]], seed: int) -> None:
    """Sequences with and without masked positions, in blocks of any size, against plain loops."""
    rng = np.random.default_rng(seed)
    rows = {
        f"r{place}": (
            *(-rng.integers(1, 4, (2, size)).astype(np.float32)),
            np.append(rng.random(size - 1) < share, True),
        )
        for place, (size, share) in enumerate(shapes)
    }
    a, b = (
        made.side({key: (row[own].view(np.uint32).tolist(), row[2].tolist()) for key, row in rows.items()})
        for own in (0, 1)
    )
    expected: dict[int, list[float]] = {k: [] for k in (-2, -1, 1, 2)}
    reach: dict[int, tuple[int, int]] = {}
    for x, y, valid in rows.values():
        for t in range(len(x)):
            for k, gaps in expected.items():
                if 0 <= t + k < len(x) and valid[t] and valid[t + k]:
                    gaps.append(float(abs(y[t] - x[t + k])))
            if valid[t]:
                bad, every = reach.get(t.bit_length(), (0, 0))
                reach[t.bit_length()] = bad + int(x[t] != y[t]), every + 1
    for block in (1, 30, 1000):
        shown = found(a, b, block)
        if shown.offsets:
            assert {offset.k: (offset.tokens, offset.mismatched) for offset in shown.offsets} == {
                k: (len(gaps), sum(gap != 0 for gap in gaps)) for k, gaps in expected.items()
            }
            for offset in shown.offsets:
                gaps = expected[offset.k]
                assert offset.mae == (pytest.approx(sum(gaps) / len(gaps), rel=1e-14, abs=0) if gaps else None)
        assert shown.reach == dict(sorted(reach.items()))


@pytest.mark.parametrize("number", [254, 255, 256, 600])
def test_many_sequences_that_differ_at_one_place_are_all_counted(number: int) -> None:
    """Position 2 differs in each, position 0 in every third: by hand."""
    a = {f"r{place:03}": [-1.0, -2.0, -3.0] for place in range(number)}
    b = {request: [-1.0 - (place % 3 == 0), -2.0, -3.5] for place, request in enumerate(a)}
    shown = found(made.of_values(a), made.of_values(b), block=100)
    assert shown.reach == {0: (-(-number // 3), number), 1: (0, number), 2: (number, number)}


def test_equal_sides_show_nothing() -> None:
    a = made.of_values({"r": _values(np.random.default_rng(0), 300)})
    shown = found(a, a)
    assert not shown.offsets and not shown.remarks and not shown.lanes
    assert shown.slope == 1 and shown.correlation == 1


def test_what_came_before_the_first_difference_is_shifted_too() -> None:
    rng = np.random.default_rng(6)
    values = {f"r{place}": _values(rng, 9) for place in range(5)}
    other = {**values, "r3": [*values["r3"][:4], values["r3"][4] - 0.5, *values["r3"][5:]]}
    whole = found(made.of_values(values), made.of_values(other))
    assert [offset.tokens for offset in whole.offsets] == [5 * 7, 5 * 8, 5 * 8, 5 * 7]
    for block in (1, 9, 20):
        assert found(made.of_values(values), made.of_values(other), block) == whole


def test_only_the_last_token_differs() -> None:
    rng = np.random.default_rng(1)
    a = {request: _values(rng, 12) for request in "pq"}
    b = {request: [*values[:-1], 0.0] for request, values in a.items()}
    shown = found(made.of_values(a), made.of_values(b))
    assert shown.last_only == 2
    assert any("end-of-text" in remark for remark in shown.remarks)
    assert any("exactly 0" in remark for remark in shown.remarks)


def test_another_temperature_is_a_slope() -> None:
    rng = np.random.default_rng(2)
    a = _values(rng, 500)
    b = (np.array(a) / 0.5).astype(np.float32).tolist()
    shown = found(made.of_values({"r": a}), made.of_values({"r": b}), block=64)
    assert shown.slope == pytest.approx(2, rel=1e-12, abs=0) and shown.correlation == pytest.approx(1, rel=1e-12, abs=0)
    assert any("hypothesis only" in remark for remark in shown.remarks)


def test_the_line_is_numpys(seed: int = 3) -> None:
    rng = np.random.default_rng(seed)
    a = np.array(_values(rng, 200))
    b = (0.9 * a + rng.normal(size=200) * 0.01 - 0.3).astype(np.float32).astype(float)
    shown = found(made.of_values({"r": a.tolist()}), made.of_values({"r": b.tolist()}))
    slope = np.cov(a, b)[0, 1] / np.var(a, ddof=1)
    assert shown.slope == pytest.approx(slope, rel=1e-12, abs=0)
    assert shown.correlation == pytest.approx(np.corrcoef(a, b)[0, 1], rel=1e-12, abs=0)
    constant = found(made.of_values({"r": [-0.1] * 7}), made.of_values({"r": [-0.1, -0.2, -0.3, -1, -2, -3, -4]}))
    assert constant.slope is None and constant.correlation is None


def test_a_page_edge_is_a_lane() -> None:
    rng = np.random.default_rng(4)
    a = _values(rng, 640)
    b = [value * 1.5 if place % 64 == 0 else value for place, value in enumerate(a)]
    b = np.array(b, np.float32).tolist()
    shown = found(made.of_values({"r": a}), made.of_values({"r": b}), block=100)
    lanes = {lane.block: lane for lane in shown.lanes}
    assert (lanes[64].residue, lanes[64].mismatched, lanes[64].tokens) == (0, 10, 10)
    assert lanes[64].times == pytest.approx(64)
    assert (lanes[16].residue, lanes[16].mismatched, lanes[16].tokens) == (0, 10, 40)
    assert any("0 modulo 64" in remark for remark in shown.remarks)
    assert (
        sum(bad for bad, _all in shown.reach.values()) == 10
        and sum(total for _bad, total in shown.reach.values()) == 640
    )
    assert shown.reach[0] == (1, 1) and shown.reach[7] == (1, 64), "position 0; positions 64 to 127"


def _tokens(*ids: int) -> Held:
    return Held.of(ELEMENTS["int64"], np.array(ids, np.int64))


def _with_tokens(side: Side, prompts: dict[str, Held], tokens: dict[str, Held]) -> Side:
    return replace(
        side,
        sequences={
            request: replace(sequence, prompt=prompts[request], tokens=tokens[request])
            for request, sequence in side.sequences.items()
        },
    )


def test_siblings_are_held_against_each_other_up_to_the_fork() -> None:
    """Two samples of one prompt share two tokens; the third differs, and so may its number. Another prompt is no sibling."""
    prompts = {"a": _tokens(1, 2), "b": _tokens(1, 2), "c": _tokens(1, 3)}
    tokens = {"a": _tokens(5, 6, 7), "b": _tokens(5, 6, 8), "c": _tokens(5, 6, 7)}
    clean = {"a": [-1.0, -2.0, -3.0], "b": [-1.0, -2.0, -9.0], "c": [-4.0, -4.0, -4.0]}
    moved = {**clean, "b": [-1.0, -2.5, -9.0]}
    left, right = (_with_tokens(made.of_values(values), prompts, tokens) for values in (clean, moved))
    one, other = found(left, right).siblings
    assert (one.side, one.pairs, one.tokens, one.mismatched, one.first) == ("A", 1, 2, 0, None)
    assert (other.side, other.tokens, other.mismatched, other.first) == ("B", 2, 1, ("a", "b", 1))
    assert any("side B: 1 of 2 tokens differ" in remark for remark in found(left, right).remarks)


def test_siblings_that_share_nothing_are_vacuous() -> None:
    prompts = {"a": _tokens(1), "b": _tokens(1)}
    tokens = {"a": _tokens(5, 6), "b": _tokens(6, 6)}
    side = _with_tokens(made.of_values({"a": [-1.0, -2.0], "b": [-1.0, -2.0]}), prompts, tokens)
    (own, _other) = found(side, side).siblings
    assert (own.pairs, own.tokens) == (1, 0)
    assert any("VACUOUS" in remark for remark in found(side, side).remarks)


def test_without_prompts_there_are_no_siblings() -> None:
    side = made.of_values({"a": [-1.0], "b": [-1.0]})
    assert found(side, side).siblings == ()


def test_versions_are_told_apart() -> None:
    a, b = made.of_values({"a": [-1.0, -2.0], "b": [-1.0]}), made.of_values({"a": [-1.0, -2.0], "b": [-1.5]})
    versions = {"a": ("7",), "b": ("7", "8")}
    a, b = (
        replace(side, sequences={key: replace(own, policy=versions[key]) for key, own in side.sequences.items()})
        for side in (a, b)
    )
    assert found(a, b).versions == {"7": (2, 0, 0.0), "7+8": (1, 1, 0.5)}
