"""A `.meta.json` sidecar: where results came from, and what of that it does not say.

    read(data) -> Sidecar       never raises

Asked for are branch, snapshot commit, base commit, patch, tree hash and image digest: a branch name alone is no
provenance. Keys may be nested (`git.commit`) and have any of their usual names. A value under a key that looks like a
secret's is a gap unless it is a reference to one; the value itself is told to nobody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tic_daemon.credentials import without_secrets
from tic_daemon.results.manifest import Problem

MAX_BYTES: Final = 4 << 20
_ASKED: Final = (
    ("snapshot commit", re.compile(r"(?:.*\.)?(?:snapshot_?commit|snapshot_?sha|snapshot|commit|commit_?sha|sha)")),
    ("base commit", re.compile(r"(?:.*\.)?(?:base|base_?sha|base_?commit|merge_?base)")),
    ("patch", re.compile(r"(?:.*\.)?(?:patch|diff|dirty_?patch)(?:[._]?(?:sha|sha256|hash|path|file))?")),
    ("tree hash", re.compile(r"(?:.*\.)?tree(?:[._]?(?:hash|sha|sha256))?")),
    (
        "image digest",
        re.compile(r"(?:.*\.)?(?:image|container|docker)(?:[._]?(?:digest|sha256|id|image|image_digest))?"),
    ),
)
_BRANCH: Final = re.compile(r"(?:.*\.)?branch")
_SECRET: Final = re.compile(
    r"(?i)(?:\A|[._-])(?:\w*_)?(?:api_?key|token|secret|passw(?:or)?d|credentials?|private_?key)\Z"
)
_REFERENCE: Final = re.compile(
    r"(?i)\$\{?\w+\}?|(?:env|file|vault|secret|secrets|ref|arn|op|k8s|aws|gcp|azure)[:/].*|<[^<>]*>|\*+|\[?redacted\]?|x+|-|none|null"
)
_UNKNOWN: Final = frozenset({"", "unknown", "n/a", "none", "null", "-", "?", "todo"})
_DEPTH: Final = 8
_FLAT: Final = 20_000


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What a sidecar says; "": not said. `code` is the snapshot commit."""

    run: str = ""
    code: str = ""
    image: str = ""
    command: str = ""
    problems: tuple[Problem, ...] = ()
    readable: bool = True


def read(data: bytes) -> Sidecar:
    """What the bytes of a sidecar say."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return _unreadable(f"no valid JSON: {why[:200]}")
    if not isinstance(said, dict):
        return _unreadable("no JSON object")
    flat = dict(_flat(said))
    problems: list[Problem] = []
    found = {what: _first(flat, pattern) for what, pattern in _ASKED}
    if missing := [what for what, value in found.items() if not value]:
        alone = "; a branch name is no provenance" if _first(flat, _BRANCH) and len(missing) == len(found) else ""
        problems.append(Problem("meta_incomplete", "", f"it does not say {', '.join(missing)}{alone}"))
    for key, value in flat.items():
        if isinstance(value, str) and value and _SECRET.search(key) and not is_reference(value):
            problems.append(
                Problem("meta_secret", key[:200], "this key holds what looks like a secret; a reference belongs there")
            )
    return Sidecar(
        run=_text(flat, "run", "run_id"),
        code=found["snapshot commit"],
        image=found["image digest"],
        command=without_secrets(_text(flat, "command", "cmd", "launch_command")),
        problems=tuple(problems[:100]),
    )


def is_reference(text: str) -> bool:
    """Whether a text under a secret's key is no secret but says where it is, or that there is none."""
    return _REFERENCE.fullmatch(text.strip()) is not None


def _unreadable(detail: str) -> Sidecar:
    return Sidecar(problems=(Problem("meta_malformed", "", detail),), readable=False)


def _flat(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """(dotted lower-case key, value) of everything that is no object, the first `_FLAT` of them."""
    left = _FLAT
    stack: list[tuple[str, Any, int]] = [("", value, 0)]
    while stack and left:
        prefix, node, depth = stack.pop()
        for key, child in node.items():
            name = f"{prefix}.{key}" if prefix else str(key)
            if isinstance(child, dict) and depth < _DEPTH:
                stack.append((name, child, depth + 1))
            elif left:
                left -= 1
                yield name.lower(), child


def _first(flat: dict[str, Any], pattern: re.Pattern[str]) -> str:
    for key, value in flat.items():
        if pattern.fullmatch(key) and isinstance(value, str) and value.strip().lower() not in _UNKNOWN:
            return value[:4096]
    return ""


def _text(flat: dict[str, Any], *keys: str) -> str:
    for key in keys:
        value = flat.get(key)
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            value = " ".join(value)
        if isinstance(value, str) and value:
            return value[:4096]
    return ""
