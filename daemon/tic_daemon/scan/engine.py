"""Many literals in one pass over a chunk: which of them occur, and where.

    Engine.scan(data) -> [(end, id), ...] in growing order; `end` is the position behind the literal's last byte
    Engine.present    -> ids of those words, asked for beside the literals, that the last chunk holds anywhere

Two implementations with equal results: `HyperscanEngine` (Vectorscan, block mode) and `AhoCorasickEngine`, 2.4 times
slower, for platforms without it. A blank of a literal also stands for colour escapes around it, and escapes may stand
inside square brackets: loggers colour words one by one, and Rich colours brackets. Chunks without an escape byte take
a database without that allowance, which is faster.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

from tic_daemon.errors import RuleError

Hit = tuple[int, int]

_SGR: Final = rb"(?:\x1b\[[0-9;]*m)*"
_ESCAPES: Final = re.compile(rb"\x1b\[[0-9;]*m")
_LINE_OF_ESCAPE: Final = b"\x1b["


class Engine(Protocol):
    """See the module's text."""

    name: str
    present: set[int]

    def scan(self, data: bytes) -> list[Hit]:
        """All hits in a chunk of whole lines."""


def tolerant(literal: bytes) -> bytes:
    """The regular expression (bytes) of a literal whose blanks and brackets may be coloured."""
    return (_SGR + b" " + _SGR).join(_bracketed(word, re.escape) for word in literal.split(b" "))


def _bracketed(word: bytes, quote: Callable[[bytes], bytes]) -> bytes:
    """The regular expression of a word with escapes inside it behind `[` and before `]`."""
    parts = re.split(rb"(?<=.\[)(?=.)|(?<=^\[)(?=.)|(?<=.)(?=\])", word)
    return _SGR.join(quote(part) for part in parts if part)


class HyperscanEngine:
    """Vectorscan in block mode. Not to be shared between threads: it owns its scratch memory."""

    name = "hyperscan"

    def __init__(self, literals: Sequence[bytes], words: Sequence[bytes] = ()) -> None:
        import hyperscan  # noqa: PLC0415 - there is no wheel for every platform

        self._literals, self._words = tuple(literals), tuple(words)
        self.present: set[int] = set()
        self._flags = [0] * len(literals) + [hyperscan.HS_FLAG_SINGLEMATCH] * len(words)
        self._plain = self._compiled(hyperscan, _quoted)

    @cached_property
    def _coloured(self) -> Any:
        """Compiling this one takes half a second: not before a log has colours."""
        import hyperscan  # noqa: PLC0415 - as above

        # Words alone can be coloured; a literal that begins or ends with a blank is the same in both.
        return self._compiled(hyperscan, _quoted_tolerant)

    def _compiled(self, hyperscan: Any, quote: Callable[[bytes], bytes]) -> Any:
        patterns = [*map(quote, self._literals), *map(_quoted, self._words)]
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(expressions=patterns, ids=list(range(len(patterns))), flags=self._flags)
        return database

    def scan(self, data: bytes) -> list[Hit]:
        """All hits in a chunk of whole lines."""
        hits: list[Hit] = []
        add, count, present = hits.append, len(self._literals), self.present
        present.clear()

        def found(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            if number < count:
                add((end, number))
            else:
                present.add(number - count)

        (self._coloured if b"\x1b" in data else self._plain).scan(data, match_event_handler=found)
        hits.sort()
        return hits


class AhoCorasickEngine:
    """Aho-Corasick automaton; lines with escapes are searched again without them and checked against the raw bytes."""

    name = "ahocorasick"

    def __init__(self, literals: Sequence[bytes], words: Sequence[bytes] = ()) -> None:
        import ahocorasick_rs  # noqa: PLC0415 - needed where hyperscan is not

        self._words = tuple(words)
        self.present: set[int] = set()
        self._find = ahocorasick_rs.BytesAhoCorasick(
            list(literals), implementation=ahocorasick_rs.Implementation.DFA
        ).find_matches_as_indexes
        self._regex = [re.compile(tolerant(literal)) for literal in literals]

    def scan(self, data: bytes) -> list[Hit]:
        """All hits in a chunk of whole lines."""
        self.present.clear()
        self.present.update(number for number, word in enumerate(self._words) if word in data)
        hits = {(end, number) for number, _start, end in self._find(data, overlapping=True)}
        place = data.find(_LINE_OF_ESCAPE)
        while place >= 0:
            start = data.rfind(b"\n", 0, place) + 1
            stop = data.find(b"\n", place)
            stop = len(data) if stop < 0 else stop
            hits.update(self._coloured(data, start, stop))
            place = data.find(_LINE_OF_ESCAPE, stop)
        return sorted(hits)

    def _coloured(self, data: bytes, start: int, stop: int) -> list[Hit]:
        """Hits of one line that escapes hide."""
        line = data[start:stop]
        bare = bytearray()
        # (position in `bare`, bytes removed before it)
        shifts: list[tuple[int, int]] = [(0, 0)]
        last = 0
        for escape in _ESCAPES.finditer(line):
            bare += line[last : escape.start()]
            last = escape.end()
            shifts.append((len(bare), last - len(bare)))
        bare += line[last:]
        keys = [position for position, _removed in shifts]
        found = []
        for number, first, _end in self._find(bytes(bare), overlapping=True):
            # Escapes in front of the first byte lie before the hit, so the last shift at that position counts.
            begin = first + shifts[bisect_right(keys, first) - 1][1]
            hit = self._regex[number].match(line, begin)
            if hit is not None:
                found.append((start + _end_without_trailing(hit), number))
        return found


def make_engine(literals: Sequence[bytes], engine: str = "auto", words: Sequence[bytes] = ()) -> Engine:
    """An engine by name: auto | hyperscan | ahocorasick. `auto` takes hyperscan where it can be imported.

    Args:
        literals: what `scan` finds. words: what `present` tells of; they cost nothing, however often they occur.

    Raises:
        RuleError: no such engine, or it is not installed.
    """
    if not literals:
        raise RuleError("no rule has a literal to search for", "load at least one pack")
    if engine in {"auto", "hyperscan"}:
        try:
            return HyperscanEngine(literals, words)
        except ImportError as error:
            if engine == "hyperscan":
                raise RuleError(f"the hyperscan engine is not there: {error}", "pip install hyperscan") from error
    if engine in {"auto", "ahocorasick"}:
        try:
            return AhoCorasickEngine(literals, words)
        except ImportError as error:
            raise RuleError(f"no search engine is there: {error}", "pip install ahocorasick-rs") from error
    raise RuleError(f"no search engine named {engine!r}", "one of auto, hyperscan, ahocorasick")


def _quoted(literal: bytes) -> bytes:
    """A literal for hyperscan: every byte that is not a word byte as \\xNN."""
    return b"".join(bytes([c]) if chr(c).isalnum() and c < 128 else b"\\x%02x" % c for c in literal)


def _quoted_tolerant(literal: bytes) -> bytes:
    words = literal.split(b" ")
    pattern = _bracketed(words[0], _quoted)
    for number, word in enumerate(words[1:], start=1):
        # Behind a final blank escapes would only move the end of the hit.
        after = _SGR if word or number < len(words) - 1 else b""
        before = _SGR if any(words[:number]) else b""
        pattern += before + b" " + after + _bracketed(word, _quoted)
    return pattern


def _end_without_trailing(hit: re.Match[bytes]) -> int:
    """End of a tolerant hit without escapes that stand behind a final blank."""
    text = hit[0]
    while (tail := re.search(rb"\x1b\[[0-9;]*m$", text)) is not None:
        text = text[: tail.start()]
    return hit.start() + len(text)
