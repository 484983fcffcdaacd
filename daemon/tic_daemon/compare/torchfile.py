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

import zipfile
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from tic_daemon.compare.elements import ELEMENTS, Bits, Element
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.pickles import Dict, loads
from tic_daemon.compare.sides import Held
from tic_daemon.errors import CompareError

MAX_PICKLE: Final = 1 << 31
_SPREAD: Final = 1 << 24  # elements that a tensor with a stride of zero may stand for
_LOCAL_HEADER: Final = 30
_DIMENSIONS: Final = 64  # torch and numpy have no more

_STORAGES: Final = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "BoolStorage": "bool", "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16",
    "CharStorage": "int8", "ByteStorage": "uint8",
}  # fmt: skip


class _Storage(NamedTuple):
    """A storage that the pickle names. `element` is None where the tensor says it. A file has thousands."""

    element: Element | None
    key: str
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A tensor in the file: where its bytes are, and how they are laid out."""

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
        if self._plain and found.size:
            self.file.into(self.at, found)
        else:
            found[:] = self.bits()

    @property
    def _plain(self) -> bool:
        """Whether its elements lie one behind the other."""
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


class TorchFile:
    """The root object of a file, with tensors that read themselves from it when asked.

    `root` holds plain Python values, `Dict`s, `Held` numpy arrays and tensors. It is valid while `file` is open.

    Raises:
        CompareError: the file is no such archive, is cut, or asks for more than data.
    """

    def __init__(self, file: Opened) -> None:
        self.file = file
        try:
            with zipfile.ZipFile(Stream(file)) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise CompareError(
                f"{file.path} is no whole file of torch.save: {error}", "it may be cut, or not written to its end yet"
            ) from error
        self._members = {info.filename: info for info in members}
        if len(self._members) < len(members):
            raise CompareError(f"{file.path} has two members of one name: which one is meant is not known")
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
        self.root = loads(file.read(at, size), names, self._storage, str(file.path))

    def _place(self, info: zipfile.ZipInfo) -> tuple[int, int]:
        """Offset and size of a member's bytes: the name and the padding of its own header lie before them."""
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise CompareError(f"{self.file.path} is compressed or encrypted, which torch.save never does")
        header = self.file.head(info.header_offset, _LOCAL_HEADER)
        if header[:4] != b"PK\x03\x04":
            raise CompareError(f"{self.file.path} is malformed: no header where the list of members names one")
        lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        at = info.header_offset + _LOCAL_HEADER + lengths
        if info.file_size != info.compress_size or at + info.file_size > self.file.size:
            raise CompareError(f"{self.file.path} declares {info.file_size} bytes that are not in it: it is cut")
        return at, info.file_size

    def _storage(self, saved: Any) -> _Storage:
        kind, named, key, _device, length = saved
        name = getattr(named, "text", "").rpartition(".")[2]
        if kind != "storage" or not isinstance(key, str) or type(length) is not int or length < 0:
            raise ValueError("a storage that is none")
        if name == "UntypedStorage":
            return _Storage(None, key, length)
        return _Storage(ELEMENTS[_STORAGES[name]], key, length)

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
        if not isinstance(storage, _Storage) or storage.element is None:
            raise ValueError("a tensor without its storage")
        if (
            not _shape(shape)
            or not _shape(stride)
            or len(shape) != len(stride)
            or len(shape) > _DIMENSIONS
            or type(offset) is not int
            or offset < 0
        ):
            raise ValueError("a tensor of a shape that is none")
        info = self._members.get(f"{self._base}data/{storage.key}")
        if info is None:
            raise CompareError(f"{self.file.path} lacks the bytes of storage {storage.key!r}: it is cut or malformed")
        at, size = self._place(info)
        element, length = storage.element, shape[0] if len(shape) == 1 else prod(shape)
        if size < storage.length * element.size:
            raise CompareError(
                f"{self.file.path} declares {storage.length} elements of {element.name} in storage {storage.key!r} and "
                f"holds {size} bytes of it: it is cut or malformed"
            )
        reach = 0
        if length:
            reach = 1 + sum([(extent - 1) * step for extent, step in zip(shape, stride, strict=True)])
        if offset + reach > storage.length or length > max(storage.length, _SPREAD):
            raise CompareError(f"{self.file.path} holds a tensor that reaches beyond its storage {storage.key!r}")
        return Stored(self.file, element, shape, stride, at + offset * element.size)


class Stream:
    """What `zipfile` needs of a file."""

    def __init__(self, file: Opened) -> None:
        self._file, self._place = file, 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = max(0, offset + (0, self._place, self._file.size)[whence])
        return self._place

    def read(self, length: int = -1) -> bytes:
        left = max(0, self._file.size - self._place)
        found = bytes(self._file.read(self._place, left if length < 0 else min(length, left))) if left else b""
        self._place += len(found)
        return found


def plain(value: Any) -> Any:
    """A numpy array that the pickle held, as a tensor; anything else as it is."""
    return value.held if isinstance(value, Array) else value
