"""One side in a safetensors file, a numpy archive, or JSON lines.

safetensors and npz: arrays named `REQUEST/logprobs` and `REQUEST/mask`, and where there are any `REQUEST/tokens` and
`REQUEST/prompt`. Their numbers are in their own type, so a claim on bits can be made.

JSON lines: one object a request with `request_id`, `logprobs` and `response_mask`, and where there are any
`token_ids`, `prompt_ids`, `group`, `policy` and `policy_segments`. `dtype` may say "float32": then numbers that
float32 holds exactly are kept as float32 (`json_exact_f32`), since a float32 comes back whole from its decimal text.
`null` is a value that is not finite, never a missing one.

Sources: the format description of safetensors 0.4 (8 bytes of length, a JSON header, bytes); numpy.lib.format
1.0 to 3.0.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any, Final

import numpy as np

from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.said import word
from tic_daemon.compare.sides import Held, Sequence, Tensor, in_order, segments_of
from tic_daemon.compare.torchfile import Stored
from tic_daemon.errors import CompareError

MAX_HEADER: Final = 100_000_000  # the limit of safetensors itself
MAX_LINE: Final = 1 << 28
UNPACKED: Final = 1 << 28
RATIO: Final = 32  # of an archive above UNPACKED; numbers do not compress like that
_CHUNK: Final = 1 << 20

_SAFE: Final = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64",
    "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
_PARTS: Final = ("logprobs", "mask", "tokens", "prompt")
_MALFORMED: Final = (
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    RecursionError,
    MemoryError,
    OverflowError,
    TokenError,
)
"""What numpy raises for a header that is none: it is the text of a Python value."""

Found = tuple[dict[str, Sequence], tuple[str, ...]]


def safetensors(file: Opened) -> Found:
    """The sequences of a safetensors file, and what makes it unfit.

    Raises:
        CompareError: it is cut, malformed, or names arrays that are none of ours.
    """
    length = int.from_bytes(file.read(0, 8), "little")
    if length > MAX_HEADER:
        raise CompareError(f"{file.path} declares a header of {length} bytes: no safetensors file")
    try:
        header = json.loads(file.read(8, length), object_pairs_hook=_once)
        header.pop("__metadata__", None)
        tensors = {name: _safe(file, 8 + length, entry) for name, entry in header.items()}
        _apart(header.values())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CompareError(f"{file.path} is no safetensors file: {error or type(error).__name__}") from error
    return _named(tensors, file)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands in its header twice")
    return found


def _apart(entries: Iterable[Mapping[str, Any]]) -> None:
    """Arrays lie one behind the other, as the format asks. Raises ValueError if they share bytes."""
    reached = 0
    for begin, end in sorted(tuple(entry["data_offsets"]) for entry in entries):
        if begin < reached:
            raise ValueError("two arrays share bytes")
        reached = end


def _safe(file: Opened, base: int, entry: Any) -> Tensor:
    element = ELEMENTS[_SAFE[entry["dtype"]]]
    shape = tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    if not all(type(value) is int and value >= 0 for value in (*shape, begin, end)):
        raise ValueError("an array of a shape that is none")
    if end - begin != prod(shape) * element.size or base + end > file.size:
        raise ValueError("an array of another size than its bytes: the file is cut or malformed")
    return Stored(file, element, shape, _strides(shape), base + begin)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def npz(file: Opened) -> Found:
    """The sequences of a numpy archive. Nothing in it can be pickled; compressed archives are read up to a limit.

    Raises:
        CompareError: it is cut, malformed, unpacks to too much, or names arrays that are none of ours.
    """
    import zipfile  # noqa: PLC0415  it loads compressors, which nothing else here needs
    import zlib  # noqa: PLC0415

    try:
        with zipfile.ZipFile(io.BytesIO(file.read(0, file.size))) as archive:
            members = archive.infolist()
            if sum(info.file_size for info in members) > max(UNPACKED, RATIO * file.size):
                raise CompareError(f"{file.path} unpacks to more than it could hold: not read")
            tensors = {info.filename.removesuffix(".npy"): _array(archive.read(info)) for info in members}
            if len(tensors) < len(members):
                raise CompareError(f"{file.path} has two arrays of one name: which one is meant is not known")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, *_MALFORMED) as error:
        raise CompareError(f"{file.path} is no whole numpy archive: {error or type(error).__name__}") from error
    return _named(tensors, file)


def npy(file: Opened) -> Tensor:
    """The array of a file of numpy.save.

    Raises:
        CompareError: it is cut or malformed, or holds no plain numbers.
    """
    try:
        return _array(bytes(file.read(0, file.size)))
    except (EOFError, *_MALFORMED) as error:
        raise CompareError(f"{file.path} is no whole array of numpy: {error or type(error).__name__}") from error


def _array(raw: bytes) -> Tensor:
    """One array. Its declared shape is held against its bytes before anything is made of it."""
    stream = io.BytesIO(raw)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    if version not in {(1, 0), (2, 0), (3, 0)}:
        raise ValueError(f"an array of format {version}")
    shape, fortran, kind = read(stream)
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError("an array of a shape that is none")
    if kind.name not in ELEMENTS or kind.hasobject:
        raise ValueError(f"an array of {kind}, which cannot be compared")
    element, rest = ELEMENTS[kind.name], raw[stream.tell() :]
    if prod(shape) * element.size != len(rest):
        raise ValueError("an array of another size than its bytes")
    flat = np.frombuffer(rest, kind.newbyteorder("=") if kind.byteorder == "|" else kind)
    array = flat.reshape(shape, order="F" if fortran else "C")
    return Held.of(element, array.astype(kind.newbyteorder("<"), copy=False))


def _named(tensors: Mapping[str, Tensor], file: Opened) -> Found:
    """Sequences of arrays by name."""
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        request, slash, part = name.rpartition("/")
        if not slash or part not in _PARTS:
            raise CompareError(
                f"{file.path} holds an array named {name!r}",
                "name them REQUEST/logprobs and REQUEST/mask (docs/reference/compare.md)",
            )
        parts.setdefault(request, {})[part] = tensor
    found = []
    for request, own in parts.items():
        if "logprobs" not in own or "mask" not in own:
            raise CompareError(f"{file.path} lacks logprobs or mask of request {request!r}")
        found.append(Sequence(request, own["logprobs"], own["mask"], own.get("tokens"), own.get("prompt")))
    return in_order(found)


def lines(file: Opened) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines.

    Raises:
        CompareError: a line is no JSON object, is too long, or the last one has no end and is no whole object.
    """
    rest, offset, number = bytearray(), 0, 0
    while offset < file.size:
        piece = file.read(offset, min(_CHUNK, file.size - offset))
        offset += len(piece)
        whole = piece.split(b"\n")
        rest += whole[0]
        if len(rest) > MAX_LINE:
            raise CompareError(f"{file.path}:{number + 1} is longer than {MAX_LINE} bytes")
        for line in [rest, *whole[1:-1]] if len(whole) > 1 else []:
            number += 1
            if line.strip():
                yield _object(line, file.path, number)
        rest = whole[-1] if len(whole) > 1 else rest
    if rest.strip():
        yield _object(rest, file.path, number + 1)


def _object(line: bytearray, path: Path, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CompareError(
            f"{path}:{number} is no JSON: {error}", "the file may be cut or still being written"
        ) from error
    if not isinstance(found, dict):
        raise CompareError(f"{path}:{number} is no JSON object")
    return found


def numbers(values: Any, where: str, float32: bool) -> tuple[Held, bool]:
    """A list of JSON numbers, and whether float32 holds them all exactly. `null` becomes NaN.

    Args:
        float32: keep them as float32 if it does.

    Raises:
        CompareError: it is no list of numbers.
    """
    if not isinstance(values, list) or not all(value is None or type(value) in {int, float} for value in values):
        raise CompareError(f"{where} is no list of numbers")
    try:
        wide = np.array([float("nan") if value is None else value for value in values], np.float64)
    except OverflowError as error:
        raise CompareError(f"{where} holds a number beyond float64") from error
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    exact = bool(np.array_equal(narrow.astype(np.float64), wide, equal_nan=True))
    if exact and float32:
        return Held.of(ELEMENTS["float32"], narrow), True
    return Held.of(ELEMENTS["float64"], wide), exact


def mask_of(values: Any, where: str) -> Held:
    """A mask as bool from a list of booleans or of zeros and ones.

    Raises:
        CompareError: it is something else.
    """
    if not isinstance(values, list) or not all(
        type(value) in {bool, int, float} and value in {0, 1} for value in values
    ):
        raise CompareError(f"{where} is no list of booleans")
    return Held.of(ELEMENTS["bool"], np.array(values, np.bool_))


def ids_of(values: Any, where: str) -> Held:
    """Token ids.

    Raises:
        CompareError: it is no list of 64-bit integers.
    """
    if not isinstance(values, list) or not all(type(value) is int and -(2**63) <= value < 2**63 for value in values):
        raise CompareError(f"{where} is no list of token ids")
    return Held.of(ELEMENTS["int64"], np.array(values, np.int64))


def jsonl(lines_: Iterable[Mapping[str, Any]], path: Path) -> tuple[Found, str]:
    """The sequences of a file of JSON lines, and the provenance of its numbers.

    Raises:
        CompareError: a line is malformed.
    """
    found, all_exact = [], True
    for number, line in enumerate(lines_, 1):
        where = f"{path}: object {number}"
        request = line.get("request_id")
        if type(request) not in {str, int} or "logprobs" not in line or "response_mask" not in line:
            raise CompareError(
                f"{where} lacks request_id, logprobs or response_mask", "see docs/reference/compare.md for the keys"
            )
        segments = (
            segments_of(line["policy_segments"], f"{where}: policy_segments") if "policy_segments" in line else ()
        )
        logprobs, exact = numbers(line["logprobs"], f"{where}: logprobs", float32=line.get("dtype") == "float32")
        all_exact &= exact and line.get("dtype") == "float32"
        found.append(
            Sequence(
                str(request),
                logprobs,
                json_mask(line["response_mask"], where),
                ids_of(line["token_ids"], f"{where}: token_ids") if "token_ids" in line else None,
                ids_of(line["prompt_ids"], f"{where}: prompt_ids") if "prompt_ids" in line else None,
                group=str(line.get("group", "")),
                policy=versions([version for _start, version in segments] or line.get("policy")),
                segments=segments,
            )
        )
    return in_order(found), "json_exact_f32" if all_exact and found else "unknown"


def json_mask(values: Any, where: str) -> Held:
    """The mask of a line: booleans are a mask, integers are kept as integers, which no comparison takes for one."""
    if isinstance(values, list) and values and all(type(value) is int for value in values):
        return ids_of(values, f"{where}: response_mask")
    return mask_of(values, f"{where}: response_mask")


def versions(value: Any) -> tuple[str, ...]:
    """Policy versions as texts, in order and each once; none where one of them is not known."""
    several = value if isinstance(value, list | tuple) else [value]
    if any(one is None or (isinstance(one, str) and word(one) is None) for one in several):
        return ()
    return tuple(dict.fromkeys(str(one) for one in several))
