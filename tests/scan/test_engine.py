"""The two engines find the same, and what a plain search finds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tic_daemon.errors import RuleError
from tic_daemon.scan.engine import AhoCorasickEngine, HyperscanEngine, make_engine, tolerant

LITERALS = [
    b"CUDA error: an illegal",
    b"[mismatch] ",
    b"step:",
    b" pid=",
    b"illegal memory access",
    b"error: an",
    b"a.b*c(",
]
HYPERSCAN = HyperscanEngine(LITERALS)
AHO = AhoCorasickEngine(LITERALS)
WORDS = [b"pid=", b"\x1b[0m", b"acc"]
HYPERSCAN_WORDS = HyperscanEngine(LITERALS, WORDS)
AHO_WORDS = AhoCorasickEngine(LITERALS, WORDS)
PARTS = [
    b"CUDA",
    b" ",
    b"error:",
    b"an",
    b"illegal",
    b"\x1b[31m",
    b"\x1b[0m",
    b"[mismatch]",
    b"step:",
    b"memory",
    b"access",
    b" pid=",
    b"\n",
    b"x",
    b"\r",
    b"\xff",
    b"\0",
    b"a.b*c(",
    b"aXbbc(",
    b"\x1b[K",
    b"\x1b",
    b"\x1b[3",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PARTS), max_size=40).map(b"".join))
def test_equal(data: bytes) -> None:
    assert HYPERSCAN.scan(data) == AHO.scan(data)


@given(st.lists(st.sampled_from(PARTS), max_size=40).map(b"".join))
def test_words_are_told_but_are_no_hits(data: bytes) -> None:
    there = {number for number, word in enumerate(WORDS) if word in data}
    for engine in (HYPERSCAN_WORDS, AHO_WORDS):
        assert (engine.scan(data), engine.present) == (HYPERSCAN.scan(data), there)


@given(st.lists(st.sampled_from([part for part in PARTS if b"\x1b" not in part]), max_size=40).map(b"".join))
def test_equal_to_a_plain_search(data: bytes) -> None:
    plain = {
        (hit.start() + len(literal), number)
        for number, literal in enumerate(LITERALS)
        for hit in re.finditer(b"(?=" + re.escape(literal) + b")", data)
    }
    assert set(HYPERSCAN.scan(data)) == plain


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PARTS), max_size=40).map(b"".join))
def test_equal_to_a_search_that_allows_escapes(data: bytes) -> None:
    """Each literal's regular expression at every place; escapes behind a final blank are not of the hit."""
    found = {
        (hit.start() + len(re.sub(rb"(?:\x1b\[[0-9;]*m)+\Z", b"", hit[1])), number)
        for number, literal in enumerate(LITERALS)
        for hit in re.finditer(b"(?=(" + tolerant(literal) + b"))", data)
    }
    assert HYPERSCAN.scan(data) == sorted(found)


def test_many_literals_compile_at_once_for_coloured_text_too() -> None:
    """Patterns that allow escapes took minutes of compiling for so many."""
    many = [b"plant number %d reports a state" % number for number in range(20_000)]
    data = b"plant number 7 reports a state, \x1b[1mplant\x1b[0m number 19999 \x1b[3mreports a state\n"
    assert HyperscanEngine(many).scan(data) == [(30, 7), (len(data) - 1, 19999)]


def test_coloured_words() -> None:
    data = b"x\n\x1b[1mCUDA\x1b[0m \x1b[31merror:\x1b[0m an illegal\n"
    assert HYPERSCAN.scan(data) == AHO.scan(data) == [(len(data) - 9, 5), (len(data) - 1, 0)]


def test_unknown_engine_and_no_literals() -> None:
    with pytest.raises(RuleError, match="no search engine named"):
        make_engine([b"abcd"], "magic")
    with pytest.raises(RuleError, match="literal"):
        make_engine([])
