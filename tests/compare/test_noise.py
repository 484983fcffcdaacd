"""Floors of planted noise, and what they may say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.compare.ptfile import f32, mask, write
from tic_daemon.compare.comparison import Comparison, Declared, compare
from tic_daemon.compare.noise import Floor, floor
from tic_daemon.compare.reporting import noise_words, record


def _file(path: Path, *values: float, pid: int | None = None, **said: Any) -> Path:
    write(path, {"r": (f32(*values), mask(*[1] * len(values)))})
    if pid is not None:
        said["producer"] = {"host": "n", "pid": pid, "produced_at": "2026-11-29T12:00:00Z", "command": "score"}
    path.with_name(path.name + ".meta.json").write_text(json.dumps(said))
    return path


def test_the_largest_pair_is_the_floor(tmp_path: Path) -> None:
    """d of the pairs: 1/2 and 0; 0 and 1/4; 1/2 and 1/4: means 1/4, 1/8, 3/8."""
    paths = [
        _file(tmp_path / "1.pt", -1, -2, pid=1), _file(tmp_path / "2.pt", -1.5, -2, pid=2), _file(tmp_path / "3.pt", -1, -2.25, pid=3),
    ]  # fmt: skip
    found = floor("A", "", paths)
    assert (found.repeats, found.pairs, found.mismatched, found.valid) == (3, 3, 2, 2)
    assert found.metrics["logprob_mae"] == 3 / 8 and found.metrics["logprob_max"] == 0.5
    assert found.shown and found.value == 3 / 8


def test_what_is_no_repeat(tmp_path: Path) -> None:
    one = _file(tmp_path / "1.pt", -1, -2, pid=1, policy_version=1)
    shutil.copy(one, tmp_path / "copy.pt")
    assert "one thing" in floor("A", "", [one, tmp_path / "copy.pt"]).undefined
    same = _file(tmp_path / "same.pt", -1, -2, pid=1, policy_version=1)
    assert "one thing" in floor("A", "", [one, same]).undefined, "one receipt is one act of producing"
    equal = floor("A", "", [one, _file(tmp_path / "2.pt", -1, -2, pid=2, policy_version=1)])
    assert equal.value == 0 and equal.mismatched == 0
    later = _file(tmp_path / "3.pt", -1, -2.5, pid=3, policy_version=2)
    assert "different policy versions" in floor("A", "", [one, later]).undefined
    assert "shapes differ" in floor("A", "", [one, _file(tmp_path / "4.pt", -1, pid=4)]).undefined
    nan = floor("A", "", [one, _file(tmp_path / "5.pt", -1, float("nan"), pid=5)])
    assert "not finite" in nan.undefined and nan.value is None
    unsigned = floor("A", "", [one, _file(tmp_path / "6.pt", -1, -2.5)])
    assert unsigned.metrics["logprob_mae"] == 0.25 and not unsigned.shown and unsigned.value is None


def _compared(tmp_path: Path, a: list[float], b: list[float], pid: int | None = 1) -> Comparison:
    """A and B differ by 1 in the first token; repeats of A and B with these first tokens."""
    left, right = _file(tmp_path / "a.pt", -1, -5, pid=pid), _file(tmp_path / "b.pt", -2, -5, pid=pid and 10)
    repeats = [
        tuple(
            _file(tmp_path / f"{name}{place}.pt", value, -5, pid=pid and base + place)
            for place, value in enumerate(values, 1)
        )
        for name, base, values in (("a", 1, a), ("b", 10, b))
    ]
    return compare(left, right, Declared(repeats_a=repeats[0], repeats_b=repeats[1]))


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([-1], [-2], ["both sides repeat themselves bit for bit", "floor 0: 0.5 has no ratio"]),
        (
            [-1],
            [-2.5],
            [
                "side A repeats itself bit for bit and side B does not: look at side B first",
                "beyond noise: 0.5 against a floor of 0.25, 2 times",
            ],
        ),
        ([-4], [-2], ["look at side A first", "within noise: 0.5 against a floor of 1.5, 0.333 times"]),
        ([-1.5], [-2.5], ["neither side repeats itself", "beyond noise"]),
        ([], [-2.5], []),
    ],
)
def test_what_floors_say(tmp_path: Path, a: list[float], b: list[float], words: list[str]) -> None:
    found = _compared(tmp_path, a, b)
    said = noise_words(found)
    assert len(said) == len(words) and all(word in own for word, own in zip(words, said, strict=True)), said
    floors = [own.value if isinstance(own, Floor) else None for own in found.floors]
    noise = "unknown" if None in floors else repr(max(value or 0.0 for value in floors))
    assert f"self_repeat={noise} " in record(found, "")
    assert "self_repeat=unknown" in record(found, "", "logprob_max"), "a floor is one metric's"


def test_without_receipts_nothing_is_within_noise(tmp_path: Path) -> None:
    found = _compared(tmp_path, [-4], [-9], pid=None)
    assert noise_words(found)[-1] == "within noise: not shown, each repeat needs a receipt of its own"
    assert "self_repeat=unknown" in record(found, "")
