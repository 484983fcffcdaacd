"""No text makes a report anything but a page with that text: any text, in every place, in both forms."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.report.conftest import HOSTILE
from tic_daemon.report import html, markdown, svg
from tic_daemon.report.model import Bars, Bullets, Code, Document, Plot, Section, Series, Word, para, spans, table

LIVELY = [
    "<b>",
    "&amp;",
    "|",
    "`",
    "``",
    "*",
    "_",
    "[a](b)",
    "![",
    "http://",
    "www.",
    "@me",
    "#1",
    "~~",
    "$x$",
    "\\",
    "\n",
    "\t",
    " ",
    "-",
    "1.",
    "#",
    ">",
    "é",
    "\x1b[31m",
    "\u202e",
    "\ud800",
]
TEXTS = st.text(max_size=12) | st.lists(st.sampled_from(LIVELY), max_size=6).map("".join)
GITHUB = MarkdownIt("gfm-like")
"""With tables, strikethrough, and links out of bare addresses."""


def shown(text: str) -> str:
    """What a reader is to see: control characters, and those that hide or reorder, as escapes."""
    unsafe = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
    return re.sub(unsafe, lambda match: ascii(match.group())[1:-1], text).replace("\n", "\\n")


def document(text: str) -> Document:
    blocks = (
        para(text, "."),
        para(Code(text)),
        Bullets((("x ", text), (Code(text),))),
        table("a|b", [(Code(text), text), (Word(text or "-", "bad"), ("y ", Code(text)))], text),
        Section(text or "t", (para("z"),)),
    )
    return Document(("Run ", Code(text)), blocks)


@given(TEXTS)
@example(HOSTILE)
@example("- x")
@example("1. x")
@example("    x")
@example("`")
@example("a\\|b")
def test_markdown(text: str) -> None:
    tokens = GITHUB.parse(markdown.render(document(text)))
    kinds = {token.type.removesuffix("_open") for token in tokens if token.nesting >= 0}
    assert kinds <= {
        "heading",
        "inline",
        "paragraph",
        "bullet_list",
        "list_item",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    assert (
        sum(token.type == "tr_open" for token in tokens) == 3 and sum(token.type == "td_open" for token in tokens) == 4
    )
    assert (
        sum(token.type == "heading_open" for token in tokens) == 2
        and sum(token.type == "list_item_open" for token in tokens) == 2
    )
    children = [child for token in tokens for child in token.children or []]
    assert {child.type for child in children} <= {
        "text",
        "code_inline",
        "strong_open",
        "strong_close",
        "text_special",
        "softbreak",
    }
    lines = ["".join(child.content for child in token.children or []) for token in tokens if token.type == "inline"]
    seen = shown(text).replace("\t", " ")
    whole = seen if seen.strip(" ") else f'"{seen}"'
    assert lines[0] == f"Run {whole}"
    assert lines[1].strip() == f"{seen}.".strip() and lines[2] == whole and lines[3].strip() == f"x {seen}".strip()
    assert lines[4] == whole and lines[7] == whole.replace("|", "\\x7c"), "in a table a bar is an escape"
    assert lines[8].strip() in (seen.strip(), seen.replace("|", "\\x7c").strip())


class Cells(HTMLParser):
    """The texts of a page by their tag, and all tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[tuple[str, str]] = [("", "")]
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        self.texts.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self.texts.append(("", ""))

    def handle_data(self, data: str) -> None:
        tag, before = self.texts[-1]
        self.texts[-1] = (tag, before + data)


@given(TEXTS)
@example(HOSTILE)
def test_html(text: str) -> None:
    page = Cells(html.render(document(text)))
    assert page.tags <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "nav", "a", "p", "ul", "li", "div", "table", "thead", "tbody", "tr",
        "th", "td", "code", "span",
    }  # fmt: skip
    assert [said for tag, said in page.texts if tag == "code"].count(shown(text)) >= 4
    assert f"x {shown(text)}" in {said for tag, said in page.texts if tag == "li"} | {
        f"{said}" for _, said in page.texts
    }


@given(TEXTS)
def test_plots(text: str) -> None:
    """One file of XML with the words in it, whatever they are."""
    from xml.etree import ElementTree

    plot = Plot("p", text, text, text, (Series(text, ((0.0, 1.0), (1.0, 2.0))),), ((0.5, text),))
    for block in (plot, Bars("b", text, text, ((text, 3),))):
        tree = ElementTree.fromstring(svg.drawn(block, alone=True))  # noqa: S314  see above
        assert {one.tag.rpartition("}")[2] for one in tree.iter()} <= {
            "svg",
            "title",
            "text",
            "path",
            "circle",
            "polygon",
            "polyline",
            "rect",
        }
        assert shown(text) in [one.text or "" for one in tree.iter() if one.tag.endswith("title")]


FLOATS = st.floats(allow_nan=True, allow_infinity=True)


@given(
    st.lists(st.tuples(FLOATS, FLOATS), max_size=8), st.lists(FLOATS.filter(lambda one: abs(one) < 1e300), max_size=2)
)
@example([(0.0, 5e-324)], [])
@example([(0.0, -1.7e308), (1.0, 1.7e308)], [])
def test_every_point_lies_on_the_paper(points: list[tuple[float, float]], marks: list[float]) -> None:
    drawn = svg.drawn(Plot("p", "t", "x", "y", (Series("s", tuple(points)),), tuple((mark, "m") for mark in marks)))
    for x, y in re.findall(r'cx="([^"]+)" cy="([^"]+)"', drawn):
        assert 0 <= float(x) <= svg.WIDTH and 0 <= float(y) <= svg.HEIGHT
    assert "nan" not in drawn and "inf" not in drawn.replace("no finite value", "")


def test_a_higher_value_stands_higher() -> None:
    drawn = svg.drawn(Plot("p", "t", "x", "y", (Series("s", ((0.0, 1.0), (1.0, 3.0), (2.0, 2.0))),)))
    places = [(float(x), float(y)) for x, y in re.findall(r'cx="([^"]+)" cy="([^"]+)"', drawn)]
    (left, low), (middle, high), (right, between) = places[:3]  # behind them that of the legend
    assert left < middle < right and high < between < low, "SVG counts downwards"
    assert abs((low - between) - (between - high)) < 0.02 and abs((middle - left) - (right - middle)) < 0.02


def test_spans() -> None:
    assert spans([3, 1, 2, 7, 2, 9, 10]) == "1 to 3, 7, 9 to 10" and spans([]) == ""
