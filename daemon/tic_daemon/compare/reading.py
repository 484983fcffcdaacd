"""Which reader takes a file: decided by its first bytes and its keys, never by its name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tic_daemon.compare import frameworks, plainfiles
from tic_daemon.compare.frameworks import Part
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.sides import Sequence, Side, in_order
from tic_daemon.compare.torchfile import TorchFile, plain
from tic_daemon.errors import CompareError

MAX_FILES: Final = 4096
STABLE: Final = "STABLE"
_PAIR: Final = 2


class TraceFound(CompareError):
    """A file holds a layer trace, no log-probabilities."""


class ScoresFound(CompareError):
    """A file holds scores of problems, no log-probabilities."""


class Reading:
    """A dump that is open: its one or two sides read from it until it is closed.

    Raises:
        CompareError: it cannot be read, is malformed or cut, or asks for what is not safe.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stack = ExitStack()
        self._files: list[Opened] = []
        try:
            self.sides = self._directory() if path.is_dir() else self._file()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Reading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def unchanged(self) -> None:
        """Checks that nothing was written to what was read.

        Raises:
            CompareError: something was.
        """
        for file in self._files:
            file.unchanged()

    def _open(self, path: Path) -> Opened:
        file = self._stack.enter_context(Opened(path))
        self._files.append(file)
        return file

    def _file(self) -> tuple[Side, ...]:
        file = self._open(self.path)
        if file.size == 0:
            raise CompareError(f"{self.path} is empty", "it may not be written yet")
        head = bytes(file.read(0, min(file.size, 16)))
        # Before all others: the length may begin with the bytes of any of them, with a pickle's at 640.
        if head[4:9] == b"\0\0\0\0{":  # the length of a header, below four gigabytes
            return (self._one(file, "safetensors", plainfiles.safetensors(file), "native"),)
        if head[:4] == b"PK\x03\x04":
            return self._zip(file)
        if head[:2] in {b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"}:
            raise CompareError(
                f"{self.path} is a bare pickle or a file of torch.save from before 1.6: it is not read",
                "load it where you trust it, and save tensors with torch.save or safetensors",
            )
        if head[:4] == b"PAR1":
            from tic_daemon.compare.parquetfile import miles_columns  # noqa: PLC0415  it loads pyarrow

            return (self._one(file, "miles-columns", miles_columns(file), "cast_f32", frameworks.ROLLOUT),)
        if head.lstrip()[:1] == b"{":
            return self._lines(plainfiles.lines(file), [file])
        raise CompareError(
            f"{self.path} is of no known form",
            "known are torch.save, safetensors, npz, JSON lines (docs/reference/compare.md)",
        )

    def _directory(self) -> tuple[Side, ...]:
        """A step of prime-rl's token exports: complete once STABLE lies there."""
        try:
            names = sorted(entry.name for entry in self.path.iterdir() if entry.name.startswith("rank_"))
        except OSError as error:
            raise CompareError(f"{self.path} cannot be read: {error.strerror}") from error
        names = [name for name in names if name.endswith(".jsonl")]
        if not names:
            from tic_daemon.compare.trace_reading import is_folder  # noqa: PLC0415  its readers are rarely asked

            if is_folder(self.path):
                raise _trace(self.path)
        if not names or len(names) > MAX_FILES:
            raise CompareError(
                f"{self.path} is a directory without rank_*.jsonl and without a layer trace",
                "give a file, a step of token_exports, or a trace (docs/reference/compare.md)",
            )
        files = [self._open(self.path / name) for name in names]
        return self._lines((line for file in files for line in plainfiles.lines(file)), files)

    def _zip(self, file: Opened) -> tuple[Side, ...]:
        length = int.from_bytes(file.read(26, 2), "little")  # of the first member's name, which follows its header
        if file.read(30, length).endswith(b".npy"):
            return (self._one(file, "npz", plainfiles.npz(file), "native"),)
        root = TorchFile(file).root
        if not isinstance(root, dict):
            raise CompareError(f"{file.path} holds a {type(root).__name__}, no dict of requests")
        if isinstance(next(iter(root), None), tuple) or any(hasattr(plain(value), "bits") for value in root.values()):
            raise _trace(file.path)
        for name, known, read in frameworks.TORCH_LAYOUTS:
            if known(root):
                return self._parts([file], name, read(root, str(file.path)))
        return (self._one(file, "torch", canonical(root, file), "native"),)

    def _lines(self, lines: Iterator[dict[str, Any]], files: list[Opened]) -> tuple[Side, ...]:
        where = str(self.path)
        first = next(lines, None)
        if first is None:
            raise CompareError(f"{where} holds no line")
        if "boundary" in first:
            raise _trace(files[0].path)
        if "problem_id" in first and "score" in first:
            raise ScoresFound(
                f"{files[0].path} holds scores of problems", "compare it with the scores of the other side"
            )
        every = _again(first, lines)
        if "inference_logprobs" in first:
            if not (files[0].path.parent / STABLE).exists():
                raise CompareError(
                    f"{files[0].path.parent} has no {STABLE}: it is not written to its end", "compare it again later"
                )
            return self._parts(files, "prime-rl", frameworks.prime_rl(every, where))
        if self.path != files[0].path:
            raise CompareError(f"{where} is a directory, and no step of token_exports", "give a file")
        if "generation_logprobs" in first:
            return self._parts(files, "nemo-rl", frameworks.nemo_rl(every, where))
        frameworks.refuse_text_only(first, files[0])
        found, provenance = plainfiles.jsonl(every, files[0].path)
        return (self._one(files[0], "jsonl", found, provenance),)

    def _parts(self, files: list[Opened], reader: str, parts: list[Part]) -> tuple[Side, ...]:
        sides = []
        digest, size, artifacts = _digests(files)
        for part in parts:
            sequences, twice = part.ordered()
            notes = tuple(dict.fromkeys(part.notes))
            inode = (files[0].stat.st_dev, files[0].stat.st_ino)
            sides.append(
                Side(
                    str(self.path),
                    part.name,
                    reader,
                    part.provenance,
                    sequences,
                    digest,
                    size,
                    inode,
                    notes,
                    twice,
                    artifacts,
                )
            )
        return tuple(sides)

    def _one(
        self,
        file: Opened,
        reader: str,
        found: tuple[Mapping[str, Sequence], tuple[str, ...]],
        provenance: str,
        part: str = "",
    ) -> Side:
        sequences, twice = found
        digest, size, artifacts = _digests([file])
        inode = (file.stat.st_dev, file.stat.st_ino)
        return Side(str(self.path), part, reader, provenance, sequences, digest, size, inode, (), twice, artifacts)


def _trace(path: Path) -> TraceFound:
    return TraceFound(f"{path} holds a layer trace", "compare it with the trace of the other side")


def canonical(root: Mapping[Any, Any], file: Opened) -> tuple[dict[str, Sequence], tuple[str, ...]]:
    """`{request: (logprobs, mask)}`, ids as texts.

    Raises:
        CompareError: it is something else.
    """
    found = []
    for request, value in root.items():
        if type(request) not in {str, int}:
            raise CompareError(f"{file.path} has a key of type {type(request).__name__}, no request id")
        pair = tuple(plain(one) for one in value) if type(value) in {tuple, list} else ()
        if len(pair) != _PAIR or not all(hasattr(one, "bits") for one in pair):
            raise CompareError(
                f"{file.path}: request {request!r} is no pair of log-probabilities and mask, both tensors",
                "save {request: (logprobs, mask)} (docs/reference/compare.md)",
            )
        found.append(Sequence(str(request), pair[0], pair[1]))
    return in_order(found)


def _again(first: dict[str, Any], rest: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield first
    yield from rest


def _digests(files: list[Opened]) -> tuple[str, int, dict[str, str]]:
    """SHA-256 of one file, or of the hashes of several in the order of their names; bytes; each hash by name."""
    own = {file.path.name: file.sha256() for file in files}
    size = sum(file.size for file in files)
    if len(own) == 1:
        return next(iter(own.values())), size, own
    return hashlib.sha256("".join(own.values()).encode()).hexdigest(), size, own


def token_file(file: Opened) -> dict[str, tuple[Any, Any]]:
    """`{request: (prompt ids, response ids)}` as lists or tensors of integers.

    Raises:
        CompareError: it is something else.
    """
    root = TorchFile(file).root
    found = {}
    for request, value in root.items() if isinstance(root, dict) else ():
        if type(value) not in {tuple, list} or len(value) != _PAIR:
            break
        found[str(request)] = (
            _ids(value[0], f"{file.path}: prompt of {request!r}"),
            _ids(value[1], f"{file.path}: response of {request!r}"),
        )
    if not isinstance(root, dict) or len(found) != len(root):
        raise CompareError(f"{file.path} is no file of {{request: (prompt ids, response ids)}}")
    return found


def _ids(value: Any, where: str) -> Any:
    value = plain(value)
    if hasattr(value, "bits"):
        if value.element.kind != "int":
            raise CompareError(f"{where} holds no token ids")
        return value
    return plainfiles.ids_of(list(value) if isinstance(value, tuple) else value, where)
