"""An INDEX.md or summary.md: which files and runs it names, and which verdicts name no evidence.

    read(text) -> Index      never raises

Named are targets of Markdown links, code spans that look like a path, and cells of a table's columns that are headed
"run", "evidence" and the like. A table row that gives a verdict and names nothing rests on words alone. Addresses with
a scheme (https:, wandb:) are left to others, as are placeholders (<run-id>, *, {a,b}).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

MAX_BYTES: Final = 4 << 20
MAX_NAMED: Final = 5000
_LINE: Final = 20_000
"""Of a longer line the first part is read."""
_TARGET: Final = 4096
"""No path is longer."""
_LINK: Final = re.compile(
    r"\[(?:[^\[\]\n]|\[[^\[\]\n]*\])*\]\(\s*(?:<([^<>\n]*)>|([^()\s]+(?:\([^()\s]*\)[^()\s]*)*))[^()\n]*\)"
)
_CODE: Final = re.compile(r"`([^`\n]+)`")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PATH: Final = re.compile(r"[^\s`|<>*?{}$\\\"']+")
_RULE: Final = re.compile(r"\s*:?-+:?\s*")
_RUN_HEAD: Final = re.compile(r"(?:included |baseline |candidate |replacing )?run(?:[ _-]?ids?)?s?")
_EVIDENCE_HEAD: Final = re.compile(r".*\b(?:evidence|artifacts?|manifest|results? path|raw results?|link)\b.*")
_VERDICT: Final = re.compile(
    r"(?i)\W*(?:pass(?:ed)?|fail(?:ed)?|ok|done|complete[d]?|verified|accepted|bitwise(?: equal)?|consistent)\W*"
)
_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_NOTHING: Final = frozenset(
    {
        "",
        "-",
        "–",
        "—",
        "n/a",
        "na",
        "none",
        "tbd",
        "todo",
        "unknown",
        "pending",
        "pending review",
        "not run",
        "?",
        "not yet",
    }
)


@dataclass(frozen=True, slots=True)
class Named:
    """Something that a line names. `kind`: path (of a link or a table's cell, as written), code (a code span that looks
    like a path), or run (an id)."""

    line: int
    kind: str
    target: str


@dataclass(frozen=True, slots=True)
class Index:
    """What a page names. `bare`: (line, the verdict) of table rows that name no evidence. `words`: letters outside of
    headings and comments: a page without any says nothing."""

    named: tuple[Named, ...] = ()
    bare: tuple[tuple[int, str], ...] = ()
    words: int = 0


def read(text: str) -> Index:
    """What the page names, the first `MAX_NAMED`."""
    named: list[Named] = []
    bare: list[tuple[int, str]] = []
    heads: list[str] = []
    words, fenced = 0, False
    for number, whole in enumerate(_without_comments(text).split("\n"), start=1):
        if len(named) >= MAX_NAMED:
            break
        line = whole[:_LINE]
        if _FENCE.match(line):
            fenced = not fenced
        if fenced or line.lstrip().startswith("#"):
            heads = []
            continue
        words += sum(char.isalpha() for char in line)
        cells = _cells(line)
        if cells is None:
            heads = []
            named += _references(number, line)
            continue
        if not heads:
            heads = [cell.lower() for cell in cells]
            continue
        if all(_RULE.fullmatch(cell) for cell in cells):
            continue
        found = _row(number, cells, heads)
        named += found
        verdict = next((cell for cell in cells if _VERDICT.fullmatch(cell)), "")
        if verdict and not found and not _SCHEME.search(" ".join(cells)):
            bare.append((number, verdict.strip()[:40]))
    named = [Named(one.line, one.kind, one.target[:_TARGET]) for one in named]
    return Index(tuple(dict.fromkeys(named))[:MAX_NAMED], tuple(bare[:1000]), words)


def _without_comments(text: str) -> str:
    """The text without <!-- comments -->, on the same lines."""
    kept, at = [], 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin)) >= 0:
        kept += [text[at:begin], "\n" * text.count("\n", begin, end)]
        at = end + 3
    return "".join([*kept, text[at:]])


def _cells(line: str) -> list[str] | None:
    """Cells of a row of a table; None: it is none."""
    line = line.strip()
    if not line.startswith("|") or line.count("|") < 2:
        return None
    return [cell.strip() for cell in line.strip("|").split("|")]


def _row(number: int, cells: list[str], heads: list[str]) -> list[Named]:
    found = _references(number, " | ".join(cells))
    said = {named.target for named in found}
    for head, cell in zip(heads, cells, strict=False):
        plain = cell.strip("`*_ ")
        if plain.lower() in _NOTHING or "](" in cell or plain in said or _SCHEME.match(plain):
            continue
        if _RUN_HEAD.fullmatch(head) and _RUN_ID.fullmatch(plain):
            found.append(Named(number, "run", plain))
        elif _EVIDENCE_HEAD.fullmatch(head):
            found += [Named(number, "path", part) for part in re.split(r"[,;\s]+", plain) if _is_path(part)]
    return found


def _references(number: int, line: str) -> list[Named]:
    found = []
    for match in _LINK.finditer(line):
        target = unquote((match[1] or match[2] or "").partition("#")[0].partition("?")[0]).strip()
        if target and not _SCHEME.match(target) and not set(target) & set("<>*{}$") and "\0" not in target:
            found.append(Named(number, "path", target))
    for match in _CODE.finditer(_LINK.sub(" ", line)):
        if _is_path(match[1]):
            found.append(Named(number, "code", match[1]))
    return found


def _is_path(text: str) -> bool:
    """Whether words without spaces look like a path of files, rather than like `a/b` in prose or an option."""
    if "/" not in text or not _PATH.fullmatch(text) or _SCHEME.match(text) or text.startswith(("//", "-")):
        return False
    first = text.partition("/")[0]
    return first in ("", ".", "..", "steps", "results", "config", "scripts") or bool(
        re.search(r"\.[A-Za-z0-9]{1,12}\Z|/\Z", text)
    )
