"""The sanitiser: nothing that a terminal acts on comes through, and nothing is lost without a trace."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tic_tui.render.text import Builder, clean, plain, width_of
from tic_tui.safe import Safe, safe, safe_lines


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b]0;owned\x07", "^[]0;owned^G"),
        ("\x1b]52;c;aGk=\x1b\\", "^[]52;c;aGk=^[\\"),
        ("\x1b[2J\x1b[H", "^[[2J^[[H"),
        ("a\x7fb", "a^?b"),
        ("\x9b31m", "<9B>31m"),
        ("a\u202eb", "a<U+202E>b"),
        ("a\u2066b\u200bc\ufeff", "a<U+2066>b<U+200B>c<U+FEFF>"),
        ("\udc9b", "<U+DC9B>"),
        ("\x00\r", "^@^M"),
        ("tab\tstays", "tab\tstays"),
        ("naïve 中文 ✓ [bold]x[/]", "naïve 中文 ✓ [bold]x[/]"),
        ("\U000e0041", "<U+E0041>"),
    ],
)
def test_control_characters_become_visible(hostile: str, shown: str) -> None:
    assert safe(hostile) == shown


@given(st.text(alphabet=st.characters(codec=None)))
def test_no_control_bidi_or_surrogate_is_left(text: str) -> None:
    # The categories are Unicode's own table, not the pattern of the code under test.
    for char in safe(text):
        assert char == "\t" or unicodedata.category(char) not in {"Cc", "Cs", "Zl", "Zp"}, hex(ord(char))
        assert unicodedata.bidirectional(char) not in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(alphabet=st.characters(codec=None)))
def test_twice_is_once_and_drawable_text_is_untouched(text: str) -> None:
    once = safe(text)
    assert type(once) is Safe and safe(str(once)) == once
    if text.isprintable() and not any(unicodedata.category(c).startswith(("C", "M")) for c in text):
        assert once == text


@given(st.text(), st.integers(0, 60), st.integers(0, 30))
def test_a_line_is_never_wider_than_asked(text: str, width: int, cell: int) -> None:
    line = Builder(width).add(text).cell(text, cell).cell(text, cell, right=True, path=True).right(text).line()
    assert width_of(plain(line)) <= width
    assert "\t" not in plain(line) and "\x1b" not in plain(line)


def test_ascii_shows_everything_as_ascii() -> None:
    from tic_tui.glyphs import ASCII

    assert clean("中\t✓\x1b", ASCII) == "\\u4e2d    \\u2713^["


def test_records_are_split_at_newlines_only() -> None:
    assert safe_lines("a\n b\rc\n\x1bd\n") == ("a", " b^Mc", "^[d")
