"""Globs of tic.toml: `*` and `?` stop at "/", `**` does not.

A glob without "/" is held against the file name alone; a relative one with "/" starts beside tic.toml.
"""

from __future__ import annotations

import re
from functools import lru_cache


def glob_match(pattern: str, path: str, base: str = "/") -> bool:
    """Whether the glob matches the absolute `path`. Rules in the module's docstring."""
    if "/" not in pattern:
        path = path.rsplit("/", 1)[-1]
    elif not pattern.startswith(("/", "**/")):
        pattern = f"{_escape(base.rstrip('/'))}/{pattern.removeprefix('./')}"
    return _compiled(pattern).fullmatch(path) is not None


def _escape(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    out, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        if pattern.startswith("**/", i):
            out.append("(?:.*/)?")
            i += 3
        elif pattern.startswith("**", i):
            out.append(".*")
            i += 2
        elif char == "[" and (end := pattern.find("]", i + 2)) > 0:
            inner = pattern[i + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
            i = end + 1
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char))
            i += 1
    try:
        return re.compile("".join(out), re.DOTALL)
    except re.error:
        return re.compile(re.escape(pattern))
