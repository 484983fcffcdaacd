"""Writes the zip form of torch.save without torch: what `torch.save` writes for dicts, lists, numbers and tensors.

`test_torchfile.py` holds it against the real torch, both ways, where torch is installed.
"""

from __future__ import annotations

import io
import pickle
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
    """A tensor: its bits in an unsigned type of its width (or the numpy type itself), and torch's name of its type.
    `marks`: what torch notes of a view whose bytes are not its numbers."""

    array: np.ndarray
    dtype: str
    stride: tuple[int, ...] | None = None
    offset: int = 0
    shape: tuple[int, ...] | None = None
    marks: dict[str, bool] | None = None


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
    if value.marks is not None:
        rest += (pickled(value.marks, storages),)
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


class _Named:
    """A class or function that a pickle names."""

    def __init__(self, module: str, attribute: str) -> None:
        self.words = name(module, attribute)


class _Call:
    """A call of one."""

    def __init__(self, function: _Named, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments


class _Remembering(pickle._Pickler):  # the one in Python, whose instructions can be added to
    """Python's own pickler, which remembers each object as torch.save does; `pickled` remembers none."""

    def __init__(self, file: io.BytesIO, storages: list[bytes]) -> None:
        super().__init__(file, 2)
        self.storages = storages
        self.names: dict[tuple[str, str], _Named] = {}

    def named(self, module: str, attribute: str) -> _Named:
        return self.names.setdefault((module, attribute), _Named(module, attribute))

    def persistent_id(self, value: Any) -> Any:
        return value if isinstance(value, tuple) and value[:1] == ("storage",) else None

    def save(self, value: Any, save_persistent_id: bool = True) -> None:
        if isinstance(value, _Named):
            if (known := self.memo.get(id(value))) is not None:
                self.write(self.get(known[0]))
            else:
                self.write(value.words)
                self.memoize(value)
        elif isinstance(value, _Call):
            self.save_reduce(value.function, value.arguments, obj=value)
        elif isinstance(value, T):
            raw = np.ascontiguousarray(value.array)
            key = str(len(self.storages))
            self.storages.append(raw.tobytes())
            stored = ("storage", self.named("torch", STORAGE[value.dtype]), key, "cpu", raw.size)
            steps = tuple(int(np.prod(raw.shape[axis + 1 :], dtype=np.int64)) for axis in range(raw.ndim))
            hooks = _Call(self.named("collections", "OrderedDict"))
            made = _Call(self.named("torch._utils", "_rebuild_tensor_v2"), stored, 0, raw.shape, steps, False, hooks)
            self.kept.append((stored, made, hooks))  # what is remembered by its address must not give it away
            self.save(made)
        else:
            super().save(value, save_persistent_id)

    kept: list[Any]

    def save_reduce(self, func: Any, args: Any, *rest: Any, obj: Any = None, **more: Any) -> None:
        self.save(func)
        self.save(args)
        self.write(pickle.REDUCE)
        self.memoize(obj)


def remembered(value: Any, storages: list[bytes]) -> bytes:
    """The whole pickle as torch.save writes it for whole, contiguous tensors, byte by byte."""
    file = io.BytesIO()
    pickler = _Remembering(file, storages)
    pickler.kept = []
    pickler.dump(value)
    return file.getvalue()


def write(
    path: Path,
    value: Any,
    *,
    raw_pickle: bytes | None = None,
    compress: int = zipfile.ZIP_STORED,
    remember: bool = False,
) -> Path:
    """A file of torch.save with `value` in it, or with any pickle. `remember`: as torch.save pickles, which is slow here."""
    storages: list[bytes] = []
    body = raw_pickle
    if body is None:
        body = remembered(value, storages) if remember else b"\x80\x02" + pickled(value, storages) + b"."
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
