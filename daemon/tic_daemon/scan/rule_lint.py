"""Is a pattern safe to run on any line? Refuses the shapes that make `re` take minutes.

One 256 KiB line cost `re` 77 s with two free repeats next to each other. The scanner shows `re` at most 4 KiB and gives
longer lines to RE2, so what is refused here is what could still blow up within that.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

import re2

WIDE: Final = 256  # a repeat that may run this far is treated as unbounded
SMALL: Final = 16  # a group repeated at most this often may hold bounded repeats of its own

# The standard library's own reading of a pattern: exact, where a second parser of ours could disagree.
_parse = importlib.import_module("re._parser").parse


def complaint(pattern: str) -> str:
    """Why the pattern is refused, or "".

    Raises:
        re.error: it is no regular expression.
    """
    tree = _parse(pattern)
    if _nested(tree, 1):
        return "a repeat stands inside another repeat; bound the outer one to 16 or the inner one, for example {0,40}"
    wides = list(_wides(tree))
    if ("wide", "wide") in itertools.pairwise(wides):
        return "two unbounded repeats without a fixed text between them; bound one of them, for example {0,200}"
    if wides.count("wide") > 1 and not _re2_compiles(pattern):
        return "two unbounded repeats, and RE2 cannot run the pattern (look-around); bound all but one"
    return ""


def re_error(pattern: str) -> str:
    """The message of `re` if the pattern does not compile, else ""."""
    try:
        re.compile(pattern, re.ASCII)  # as the rule itself does, so that this is the one time
    except re.error as error:
        return str(error)
    return ""


def _re2_compiles(pattern: str) -> bool:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error:
        return False
    return True


def _children(op: str, arg: Any) -> list[Any]:
    if op in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
        return [arg[2]]
    if op == "SUBPATTERN":
        return [arg[3]]
    if op == "BRANCH":
        return list(arg[1])
    if op in {"ASSERT", "ASSERT_NOT"}:
        return [arg[1]]
    if op == "ATOMIC_GROUP":
        return [arg]
    return []


def _nested(tree: Any, outer: int) -> bool:
    """Whether a wide repeat lies in a repeat, or a repeat of more than SMALL rounds holds any variable repeat."""
    for op, arg in tree:
        name = str(op)
        if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            low, high = int(arg[0]), int(arg[1])
            variable = high > low and high > 1
            if variable and (outer > SMALL or (outer > 1 and high >= WIDE)):
                return True
            if _nested(arg[2], max(outer, high)):
                return True
        elif any(_nested(child, outer) for child in _children(name, arg)):
            return True
    return False


def _wides(tree: Any) -> Iterator[str]:
    """The pattern from left to right as "wide" repeats and "text": a required character to stop at."""
    for op, arg in tree:
        name = str(op)
        if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            low, high = int(arg[0]), int(arg[1])
            if high >= WIDE:
                yield "wide"
            elif low > 0:
                yield from _wides(arg[2])
            else:
                yield from (mark for mark in _wides(arg[2]) if mark == "wide")
        elif name == "LITERAL":
            yield "text"
        elif name == "SUBPATTERN":
            yield from _wides(arg[3])
        elif name == "BRANCH":
            branches = [list(_wides(branch)) for branch in arg[1]]
            widest = max(branches, key=lambda marks: marks.count("wide"), default=[])
            yield from widest if "wide" in widest else (["text"] if all("text" in marks for marks in branches) else [])
