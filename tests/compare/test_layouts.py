"""The same numbers in another layout are the same: rows relabelled, padded, packed, in other files; one bit is never lost.

Each example goes through files, as dumps do.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compare.oracle import WIDTH
from tests.compare.ptfile import T, write
from tic_daemon.compare.align import align
from tic_daemon.compare.figures import Figures, measure
from tic_daemon.compare.reading import Reading

Rows = dict[int, tuple[np.ndarray, np.ndarray]]
"""Bits and mask by request."""

LAYOUTS = ("plain", "relabelled", "padded", "packed", "safetensors", "npz")
_SAFE = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}  # fmt: skip


@st.composite
def rows(draw: st.DrawFn, dtype: str) -> Rows:
    """A few sequences of finite numbers, each with a valid token."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    found: Rows = {}
    for request in draw(st.lists(st.integers(0, 120), min_size=1, max_size=4, unique=True)):
        size = draw(st.integers(1, 12))
        bits = rng.integers(0, 1 << WIDTH[dtype], size, dtype=np.uint64)
        # Exponents away from the top: no NaN and no infinity in any of the types.
        bits &= ~np.uint64(1 << WIDTH[dtype] - 2)
        if dtype.endswith("fnuz"):
            bits &= np.uint64(0x7F)
        mask = rng.random(size) < 0.7
        mask[draw(st.integers(0, size - 1))] = True
        found[request] = bits.astype(f"<u{WIDTH[dtype] // 8}"), mask
    return found


def _file(path: Path, own: Rows, dtype: str, layout: str) -> Path:
    if layout == "safetensors":
        return _safetensors(path, own, dtype)
    if layout == "npz":
        kind = {"float64": "<f8", "float32": "<f4", "float16": "<f2"}[dtype]
        arrays = {f"{request}/logprobs": bits.view(kind) for request, (bits, _mask) in own.items()}
        np.savez(path, **arrays, **{f"{request}/mask": mask for request, (_bits, mask) in own.items()})  # type: ignore[arg-type]
        return Path(f"{path}.npz")
    if layout == "relabelled":
        return write(path, {str(key): [T(own[key][0], dtype), T(own[key][1], "bool")] for key in reversed(list(own))})
    if layout == "packed":
        # One storage for all, each tensor a view of its part: what unpacked batches are.
        flat, flags = (np.concatenate([row[part] for row in own.values()]) for part in (0, 1))
        starts = np.concatenate([[0], np.cumsum([len(row[0]) for row in own.values()])]).tolist()
        return write(path, {
            key: (T(flat, dtype, (1,), start, (len(bits),)), T(flags, "bool", (1,), start, (len(bits),)))
            for start, (key, (bits, _mask)) in zip(starts, own.items(), strict=False)
        })  # fmt: skip
    if layout == "padded":
        # Columns of a batch that is padded to the right and transposed: views with a stride, padding cut off.
        wide = max(len(bits) for bits, _mask in own.values()) + 3
        batch, flags = np.zeros((wide, len(own)), next(iter(own.values()))[0].dtype), np.zeros((wide, len(own)), bool)
        for place, (bits, mask) in enumerate(own.values()):
            batch[: len(bits), place], flags[: len(bits), place] = bits, mask
        return write(path, {
            key: (T(batch, dtype, (len(own),), place, (len(bits),)), T(flags, "bool", (len(own),), place, (len(bits),)))
            for place, (key, (bits, _mask)) in enumerate(own.items())
        })  # fmt: skip
    return write(path, {key: (T(bits, dtype), T(mask, "bool")) for key, (bits, mask) in own.items()})


def _safetensors(path: Path, own: Rows, dtype: str) -> Path:
    header, body = {}, b""
    for request, (bits, mask) in own.items():
        for name, kind, raw in (("logprobs", _SAFE[dtype], bits.tobytes()), ("mask", "BOOL", mask.tobytes())):
            header[f"{request}/{name}"] = {
                "dtype": kind,
                "shape": [len(bits)],
                "data_offsets": [len(body), len(body) + len(raw)],
            }
            body += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


@dataclass(frozen=True)
class Flip:
    """One bit of one token."""

    request: int
    place: int
    bit: int


def compared(a: Rows, b: Rows, dtype: str, layouts: tuple[str, str]) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            _file(Path(folder) / name, own, dtype, layout)
            for name, own, layout in zip(("a.pt", "b.pt"), (a, b), layouts, strict=True)
        ]
        with Reading(paths[0]) as one, Reading(paths[1]) as other:
            left, right = one.sides[0], other.sides[0]
            aligned = align(left, right)
            assert not aligned.differs
            found = measure(left, right, aligned)
    assert found is not None
    return found


def _possible(dtype: str) -> list[str]:
    return [
        own
        for own in LAYOUTS
        if (own != "npz" or dtype in {"float64", "float32", "float16"}) and (own != "safetensors" or dtype in _SAFE)
    ]


@pytest.mark.parametrize("dtype", sorted(WIDTH))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_layout_changes_nothing_and_a_bit_is_found(dtype: str, data: st.DataObject) -> None:
    own = data.draw(rows(dtype))
    layouts = data.draw(st.tuples(st.sampled_from(_possible(dtype)), st.sampled_from(_possible(dtype))))
    same = compared(own, own, dtype, layouts)
    assert (same.mismatched, same.longest_run, same.first_mismatch) == (0, 0, None)
    assert all(value in {0, None} for name, value in same.metrics.items() if name not in {"cosine", "relative_l2"})
    assert same.valid == sum(int(mask.sum()) for _bits, mask in own.values())
    flip = Flip(
        data.draw(st.sampled_from(sorted(own))),
        data.draw(st.integers(0, 11)),
        data.draw(st.integers(0, WIDTH[dtype] - 3)),
    )
    bits, mask = own[flip.request]
    place = flip.place % len(bits)
    other = bits.copy()
    other[place] ^= other.dtype.type(1 << flip.bit)
    for a, b in ((own, {**own, flip.request: (other, mask)}), ({**own, flip.request: (other, mask)}, own)):
        found = compared(a, b, dtype, layouts)
        if mask[place]:
            assert (found.mismatched, found.first_mismatch) == (1, (str(flip.request), place))
            assert found.sequences_differing == found.longest_run == 1
        else:
            assert found == same, "what is masked changes nothing"
