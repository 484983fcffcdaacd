"""Files of torch.save, without torch: the zip form that it writes since 1.6.

A file is a zip archive without compression: `NAME/data.pkl` is a pickle that describes tensors, `NAME/data/KEY` holds
the bytes of one storage each. The pickle is read by `pickles`, so nothing in it can run; storages are read when their
tensor is asked for. This is what `torch.load(weights_only=True)` gives for the same file, and less: only tensors,
numpy arrays of plain numbers, and plain Python values come through.

Compressed members, storages of another size than declared, tensors that reach beyond their storage and big-endian files
are refused, and so is the form from before 1.6, which only a real unpickler reads.

Source: torch/csrc/serialization and torch/_utils.py (`_rebuild_tensor_v2`, `_rebuild_tensor_v3`), torch 2.4 to 2.13.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np

from tic_daemon.compare.archive import Member, members
from tic_daemon.compare.elements import ELEMENTS, Bits, Element
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.pickles import Dict, Name, loads
from tic_daemon.compare.sides import Held
from tic_daemon.errors import CompareError

MAX_PICKLE: Final = 1 << 31
_SPREAD: Final = 1 << 24  # elements that a tensor with a stride of zero may stand for
_LOCAL_HEADER: Final = 30
_DIMENSIONS: Final = 64  # torch and numpy have no more
_LENGTHS: Final = Struct("<HH")  # of the name and the extra field, at byte 26 of it

_STORAGES: Final = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "BoolStorage": "bool", "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16",
    "CharStorage": "int8", "ByteStorage": "uint8",
}  # fmt: skip


_KINDS: Final[Mapping[str, Element | None]] = {
    "torch.storage.UntypedStorage": None, **{f"torch.{name}": ELEMENTS[kind] for name, kind in _STORAGES.items()},
}  # fmt: skip


class _Storage(NamedTuple):
    """A storage that the pickle names. `element` is None where the tensor says it. A file has thousands."""

    element: Element | None
    key: str
    length: int


@dataclass(slots=True, eq=False)  # not frozen: a file has thousands, and a frozen one takes thrice as long to make
class Stored:
    """A tensor in the file: where its bytes are, and how they are laid out. Nothing of it is ever set again."""

    file: Opened
    element: Element
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    at: int
    """Byte offset of its first element within the file."""

    def bits(self) -> Bits:
        size = prod(self.shape)
        if size == 0 or self._plain:
            return self.file.bits(self.at, size, self.element.bits)
        reach = 1 + sum((length - 1) * stride for length, stride in zip(self.shape, self.stride, strict=True))
        whole = self.file.bits(self.at, reach, self.element.bits)
        strides = [stride * self.element.size for stride in self.stride]
        return np.lib.stride_tricks.as_strided(whole, self.shape, strides, writeable=False).reshape(-1)

    def into(self, found: Bits) -> None:
        """Fills a contiguous array of its size and type with its bits."""
        if found.size and self._plain:
            self.file.into(self.at, found)
        else:
            found[:] = self.bits()

    @property
    def _plain(self) -> bool:
        """Whether its elements lie one behind the other."""
        if self.stride == (1,):
            return True
        step = 1
        for length, stride in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if length != 1 and stride != step:
                return False
            step *= length
        return True


class Array:
    """A numpy array of a pickle, as the pickle builds it: first empty, then with its state."""

    __slots__ = ("held",)

    def __init__(self, *_made: Any) -> None:
        self.held: Held | None = None

    def built(self, state: Any) -> None:
        """Version, shape, type, whether in Fortran's order, bytes."""
        _version, shape, kind, fortran, raw = state
        if not isinstance(kind, Kind) or not isinstance(raw, bytes) or not _shape(shape):
            raise ValueError("a numpy array that is not of plain numbers")
        element = ELEMENTS[kind.element]
        if prod(shape) * element.size != len(raw):
            raise ValueError("a numpy array of another size than its bytes")
        flat = np.frombuffer(raw, kind.order + element.bits.str[1:]).astype(element.bits)
        if fortran:
            flat = np.ascontiguousarray(flat.reshape(tuple(reversed(shape))).T).reshape(-1)
        self.held = Held(element, tuple(shape), flat)


class Kind:
    """A numpy type of a pickle."""

    __slots__ = ("element", "order")

    def __init__(self, text: Any, *_rest: Any) -> None:
        if text not in _NUMPY:
            raise ValueError(f"a numpy array of {text!r}")
        self.element, self.order = _NUMPY[text], "<"

    def built(self, state: Any) -> None:
        """The byte order is the second item of the state."""
        if state[1] not in {"<", ">", "|", "="}:
            raise ValueError("a numpy array of another byte order")
        self.order = state[1] if state[1] in {"<", ">"} else "<"


_NUMPY: Final = {
    "f8": "float64", "f4": "float32", "f2": "float16", "b1": "bool",
    **{f"i{size}": f"int{8 * size}" for size in (1, 2, 4, 8)},
    **{f"u{size}": f"uint{8 * size}" for size in (1, 2, 4, 8)},
}  # fmt: skip


def _scalar(kind: Any, raw: Any) -> float | int:
    """A numpy number as Python's."""
    array = Array()
    array.built((1, (), kind, False, raw))
    held = array.held
    if held is None:
        raise ValueError("a numpy number without a value")
    if held.element.kind == "float":
        return float(held.element.values(held.flat)[0])
    signed = held.element.name.startswith("int")
    return int(held.flat.view(held.element.bits.str.replace("u", "i") if signed else held.element.bits)[0])


def _encoded(text: Any, encoding: Any) -> bytes:
    """Bytes, as protocol 2 writes them."""
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError("bytes of another encoding")
    return text.encode("latin-1")


def _shape(value: Any) -> bool:
    if type(value) is not tuple:
        return False
    for length in value:  # noqa: SIM110  thousands of short ones are asked, and a generator costs more than they do
        if type(length) is not int or length < 0:
            return False
    return True


def _size(value: Any) -> bool:
    return type(value) is int and value >= 0


class TorchFile:
    """The root object of a file, with tensors that read themselves from it when asked.

    `root` holds plain Python values, `Dict`s, `Held` numpy arrays and tensors. It is valid while `file` is open.

    Raises:
        CompareError: the file is no such archive, is cut, or asks for more than data.
    """

    def __init__(self, file: Opened) -> None:
        self.file = file
        self._members = members(file)
        pickles = [name for name in self._members if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(pickles) != 1:
            raise CompareError(f"{file.path} is a zip file without the data of one torch.save")
        self._base = pickles[0].removesuffix("data.pkl")
        order = self._members.get(f"{self._base}byteorder")
        if order is not None and bytes(file.read(*self._place(order))) != b"little":
            raise CompareError(f"{file.path} was written on a big-endian machine: not supported")
        at, size = self._place(self._members[pickles[0]])
        if size > MAX_PICKLE:
            raise CompareError(f"{file.path} holds a description of {size} bytes, over the limit of {MAX_PICKLE}")
        names: dict[str, Any] = {
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "torch._utils._rebuild_tensor_v3": self._typed_tensor,
            "torch._utils._rebuild_parameter": lambda tensor, *_rest: tensor,
            "collections.OrderedDict": Dict,
            "torch.Size": tuple,
            "torch.storage.UntypedStorage": None,
            **{f"torch.{name}": None for name in _STORAGES},
            **{f"torch.{name}": None for name in ELEMENTS},
            "_codecs.encode": _encoded,
            "numpy.dtype": Kind,
            "numpy.ndarray": None,
        }
        for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            names[f"{module}._reconstruct"] = Array
            names[f"{module}.scalar"] = _scalar
        self.root = loads(file.head(at, size), names, self._storage, str(file.path))

    def _place(self, member: Member) -> tuple[int, int]:
        """Offset and size of a member's bytes: the name and the padding of its own header lie before them."""
        offset, size, packed, method, encrypted = member
        if method or encrypted:
            raise CompareError(f"{self.file.path} is compressed or encrypted, which torch.save never does")
        header = self.file.head(offset, _LOCAL_HEADER)
        if header[:4] != b"PK\x03\x04":
            raise CompareError(f"{self.file.path} is malformed: no header where the list of members names one")
        named, extra = _LENGTHS.unpack_from(header, 26)
        at = offset + _LOCAL_HEADER + named + extra
        if size != packed or at + size > self.file.size:
            raise CompareError(f"{self.file.path} declares {size} bytes that are not in it: it is cut")
        return at, size

    def _storage(self, saved: Any) -> _Storage:
        kind, named, key, _device, length = saved
        if kind != "storage" or type(named) is not Name or type(key) is not str or not _size(length):
            raise ValueError("a storage that is none")
        return _Storage(_KINDS[named.text], key, length)

    def _typed_tensor(
        self, storage: Any, offset: Any, shape: Any, stride: Any, _grad: Any, _hooks: Any, named: Any, marks: Any = None
    ) -> Stored:
        name = getattr(named, "text", "").rpartition(".")[2]
        element = ELEMENTS.get(name)
        if element is None:
            raise CompareError(f"{self.file.path} holds a tensor of {name or 'an unknown type'}: not supported")
        if not isinstance(storage, _Storage) or storage.length % element.size:
            raise ValueError("a tensor without its storage")
        whole = _Storage(element, storage.key, storage.length // element.size)
        return self._tensor(whole, offset, shape, stride, False, None, marks)

    def _tensor(
        self, storage: Any, offset: Any, shape: Any, stride: Any, _grad: Any, _hooks: Any, marks: Any = None
    ) -> Stored:
        if marks:  # a view that negates (or conjugates) is saved as the bytes of what it negates, and a mark
            raise CompareError(
                f"{self.file.path} holds a tensor whose bytes are not its numbers: {', '.join(map(str, marks))}",
                "save it after .resolve_neg() and .resolve_conj()",
            )
        element, key, held = storage if type(storage) is _Storage else (None, "", 0)
        if element is None:
            raise ValueError("a tensor without its storage")
        if not _shape(shape) or not _shape(stride) or not _size(offset) or not len(shape) == len(stride) <= _DIMENSIONS:
            raise ValueError("a tensor of a shape that is none")
        member = self._members.get(f"{self._base}data/{key}")
        if member is None:
            raise CompareError(f"{self.file.path} lacks the bytes of storage {key!r}: it is cut or malformed")
        at, size = self._place(member)
        if size < held * element.size:
            raise CompareError(
                f"{self.file.path} declares {held} elements of {element.name} in storage {key!r} and "
                f"holds {size} bytes of it: it is cut or malformed"
            )
        if len(shape) == 1:
            length = shape[0]
            reach = 1 + (length - 1) * stride[0] if length else 0
        else:
            length = prod(shape)
            reach = 1 + sum([(extent - 1) * step for extent, step in zip(shape, stride, strict=True)]) if length else 0
        if offset + reach > held or length > max(held, _SPREAD):
            raise CompareError(f"{self.file.path} holds a tensor that reaches beyond its storage {key!r}")
        return Stored(self.file, element, shape, stride, at + offset * element.size)


def plain(value: Any) -> Any:
    """A numpy array that the pickle held, as a tensor; anything else as it is."""
    return value.held if isinstance(value, Array) else value
