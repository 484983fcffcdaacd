"""Writes the zip form of torch.save without torch: what `torch.save` writes for dicts, lists, numbers and tensors.

`test_torchfile.py` holds it against the real torch, both ways, where torch is installed.
"""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

STORAGE = {
    "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
    "bool": "BoolStorage", "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage",
    "uint8": "ByteStorage",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class T:
    """A tensor: its bits in an unsigned type of its width (or the numpy type itself), and torch's name of its type."""

    array: np.ndarray
    dtype: str
    stride: tuple[int, ...] | None = None
    offset: int = 0
    shape: tuple[int, ...] | None = None


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def name(module: str, attribute: str) -> bytes:
    return b"c" + f"{module}\n{attribute}\n".encode()


def number(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(9, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def pickled(value: Any, storages: list[bytes]) -> bytes:  # noqa: PLR0911
    """The instructions that build one value; the bytes of tensors go to `storages`."""
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, tuple):
        return tuple_of(*(pickled(one, storages) for one in value))
    if isinstance(value, list):
        return b"](" + b"".join(pickled(one, storages) for one in value) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(pickled(key, storages) + pickled(one, storages) for key, one in value.items()) + b"u"
    assert isinstance(value, T)
    raw = np.ascontiguousarray(value.array)
    key = str(len(storages))
    storages.append(raw.tobytes())
    shape = value.shape if value.shape is not None else raw.shape
    strides = value.stride
    if strides is None:
        strides = tuple(int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape)))
    known = value.dtype in STORAGE
    kind = name("torch", STORAGE[value.dtype]) if known else name("torch.storage", "UntypedStorage")
    length = raw.size if known else raw.nbytes
    stored = tuple_of(text("storage"), kind, text(key), text("cpu"), number(length)) + b"Q"
    rest = () if known else (name("torch", value.dtype),)
    hooks = name("collections", "OrderedDict") + b")R"
    call = name("torch._utils", "_rebuild_tensor_v2" if known else "_rebuild_tensor_v3")
    arguments = tuple_of(
        stored,
        number(value.offset),
        pickled(tuple(shape), storages),
        pickled(tuple(strides), storages),
        b"\x89",
        hooks,
        *rest,
    )
    return call + arguments + b"R"


def write(path: Path, value: Any, *, raw_pickle: bytes | None = None, compress: int = zipfile.ZIP_STORED) -> Path:
    """A file of torch.save with `value` in it, or with any pickle."""
    storages: list[bytes] = []
    body = raw_pickle if raw_pickle is not None else b"\x80\x02" + pickled(value, storages) + b"."
    with zipfile.ZipFile(path, "w", compress) as archive:
        archive.writestr(f"{path.stem}/data.pkl", body)
        archive.writestr(f"{path.stem}/byteorder", "little")
        for key, raw in enumerate(storages):
            archive.writestr(f"{path.stem}/data/{key}", raw)
        archive.writestr(f"{path.stem}/version", "3\n")
    return path


def f32(*values: float) -> T:
    return T(np.array(values, np.float32), "float32")


def mask(*values: int) -> T:
    return T(np.array(values, np.bool_), "bool")
