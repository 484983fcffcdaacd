"""Many literals in one pass over a chunk: which of them occur, and where.

    Engine.scan(data) -> [(end, id), ...] in growing order; `end` is the position behind the literal's last byte
    Engine.present    -> ids of those words, asked for beside the literals, that the last chunk holds anywhere

Two implementations with equal results: `HyperscanEngine` (Vectorscan, block mode) and `AhoCorasickEngine`, 2.4 times
slower, for platforms without it. A blank of a literal also stands for colour escapes around it, and escapes may stand
inside square brackets: loggers colour words one by one, and Rich colours brackets. A chunk with escapes is searched a
second time without them, and what only that finds is held against the bytes as they are. (A database of patterns that
allow escapes finds them in one pass, but takes 0.65 s to compile for 300 rules and 6 s for 800.)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, Protocol

from tic_daemon.errors import RuleError
from tic_daemon.scan import compiled

Hit = tuple[int, int]

_SGR: Final = rb"(?:\x1b\[[0-9;]*m)*"
_ESCAPES: Final = re.compile(rb"(\x1b\[[0-9;]*m)")
_ESCAPE: Final = b"\x1b["
_WITHIN: Final = b"\x1b[0123456789;"


class Engine(Protocol):
    """See the module's text."""

    name: str
    present: set[int]

    def scan(self, data: bytes) -> list[Hit]:
        """All hits in a chunk of whole lines."""


def tolerant(literal: bytes) -> bytes:
    """The regular expression (bytes) of a literal whose blanks and brackets may be coloured."""
    return (_SGR + b" " + _SGR).join(_bracketed(word) for word in literal.split(b" "))


def _bracketed(word: bytes) -> bytes:
    """The regular expression of a word with escapes inside it behind `[` and before `]`."""
    parts = re.split(rb"(?<=.\[)(?=.)|(?<=^\[)(?=.)|(?<=.)(?=\])", word)
    return _SGR.join(re.escape(part) for part in parts if part)


class HyperscanEngine:
    """Vectorscan in block mode. Not to be shared between threads: it owns its scratch memory."""

    name = "hyperscan"

    def __init__(self, literals: Sequence[bytes], words: Sequence[bytes] = ()) -> None:
        self.present: set[int] = set()
        self._lengths = list(map(len, literals))
        self._coloured = _Coloured(literals)
        self._database = compiled.database(tuple(map(_quoted, (*literals, *words))), len(words))

    def scan(self, data: bytes) -> list[Hit]:
        """All hits in a chunk of whole lines."""
        hits: list[Hit] = []
        add, count, present = hits.append, len(self._lengths), self.present
        present.clear()

        def found(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            if number < count:
                add((end, number))
            else:
                present.add(number - count)

        self._database.scan(data, match_event_handler=found)
        if _has_escape(data):
            return self._coloured.with_hidden(data, hits, self._bare)
        hits.sort()
        return hits

    def _bare(self, data: bytes) -> list[Hit]:
        """(start, id) of all literals in a text without escapes."""
        hits: list[Hit] = []
        add, lengths, count = hits.append, self._lengths, len(self._lengths)

        def found(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            if number < count:
                add((end - lengths[number], number))

        self._database.scan(data, match_event_handler=found)
        return hits


class AhoCorasickEngine:
    """Aho-Corasick automaton."""

    name = "ahocorasick"

    def __init__(self, literals: Sequence[bytes], words: Sequence[bytes] = ()) -> None:
        import ahocorasick_rs  # noqa: PLC0415 - needed where hyperscan is not

        self._words = tuple(words)
        self.present: set[int] = set()
        self._coloured = _Coloured(literals)
        self._find = ahocorasick_rs.BytesAhoCorasick(
            list(literals), implementation=ahocorasick_rs.Implementation.DFA
        ).find_matches_as_indexes

    def scan(self, data: bytes) -> list[Hit]:
        """All hits in a chunk of whole lines."""
        self.present.clear()
        self.present.update(number for number, word in enumerate(self._words) if word in data)
        hits = [(end, number) for number, _start, end in self._find(data, overlapping=True)]
        if _has_escape(data):
            return self._coloured.with_hidden(data, hits, self._bare)
        hits.sort()
        return hits

    def _bare(self, data: bytes) -> list[Hit]:
        """(start, id) of all literals in a text without escapes."""
        return [(start, number) for number, start, _end in self._find(data, overlapping=True)]


class _Coloured:
    """What escapes hide of literals. A literal's regular expression is compiled when escapes stand within it first."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = tuple(literals)
        self._plain = not any(_ESCAPE in literal for literal in literals)
        self._regex: dict[int, re.Pattern[bytes]] = {}

    def with_hidden(self, data: bytes, hits: list[Hit], bare: Callable[[bytes], list[Hit]]) -> list[Hit]:
        """`hits` of `data` as it is, and those that its escapes hide, in order."""
        found = bare(_ESCAPES.sub(b"", data))
        if len(found) == len(hits) and self._plain and not any(self._swallowed(data, hit) for hit in hits):
            return sorted(hits)  # each of them was found without the escapes, too, and nothing else
        return sorted({*hits, *self._hidden(data, found)})

    def _hidden(self, data: bytes, found: Iterable[Hit]) -> Iterator[Hit]:
        parts = _ESCAPES.split(data)  # text, escape, text, escape, ..., text
        in_bare = [0, *accumulate(map(len, parts[::2]))]  # where each text begins, and the end
        in_data = [0, *accumulate(map(len, parts))]
        for first, number in found:
            # Escapes in front of the first byte lie before the hit, so the last text that begins there counts.
            text = bisect_right(in_bare, first, 0, len(in_bare) - 1) - 1
            if first + len(self._literals[number]) <= in_bare[text + 1]:
                continue  # no escape within: found in the data as it is
            hit = self._of(number).match(data, in_data[2 * text] + first - in_bare[text])
            if hit is not None:
                yield _end_without_trailing(hit), number

    def _swallowed(self, data: bytes, hit: Hit) -> bool:
        """Whether an escape in front of a hit may reach into it."""
        return data[hit[0] - len(self._literals[hit[1]]) - 1] in _WITHIN

    def _of(self, number: int) -> re.Pattern[bytes]:
        if number not in self._regex:
            self._regex[number] = re.compile(tolerant(self._literals[number]))
        return self._regex[number]


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


def _has_escape(data: bytes) -> bool:
    """Whether an escape sequence may begin somewhere. One byte is looked for first: that runs at the speed of memory,
    two of which the second is common do not."""
    return b"\x1b" in data and _ESCAPE in data


def _quoted(literal: bytes) -> bytes:
    """A literal for hyperscan: every byte that is not a word byte as \\xNN."""
    return b"".join(bytes([c]) if chr(c).isalnum() and c < 128 else b"\\x%02x" % c for c in literal)


def _end_without_trailing(hit: re.Match[bytes]) -> int:
    """End of a tolerant hit without escapes that stand behind a final blank."""
    text = hit[0]
    while (tail := re.search(rb"\x1b\[[0-9;]*m$", text)) is not None:
        text = text[: tail.start()]
    return hit.start() + len(text)
