"""A manifest as values: which artifacts it names, with size and SHA-256, and what it says of how they came about.

    read(data, ours=...) -> Manifest      never raises; what is wrong is in `problems`
    of_one(data, name) -> Manifest        the same of NAME.meta.json, a manifest of the one file NAME

Forms that are understood, under the key `artifacts` or `files` of a JSON object:

    {"name": {"path": ..., "size": ..., "sha256": ...}}     [{"path": ..., ...}]     {"path": "sha256 in hex"}

`path` is relative to the manifest's directory; without one the name is the path. A hash may stand under `sha256`,
`hash` or `digest`, with or without `sha256:` before it. Every text is from outside: control characters, lengths and
numbers are as whoever wrote it wanted them to be.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tic_daemon.credentials import without_secrets

MAX_BYTES: Final = 32 << 20
MAX_ENTRIES: Final = 100_000
_LISTS: Final = ("artifacts", "files")
_SHA256: Final = re.compile(r"(?:sha-?256:)?([0-9a-f]{64})", re.IGNORECASE)
_TEXT: Final = 4096
_INT64: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Entry:
    """One artifact that a manifest names. `size` and `step` None, `sha256` and `policy` "": its entry does not say."""

    name: str
    path: str
    size: int | None = None
    sha256: str = ""
    step: int | None = None
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong: a kind of view `evidence_gaps`, what in the file it is about ("" the whole), and in words.
    `run`: the run that it is about, if it is not the file's."""

    kind: str
    subject: str
    detail: str
    run: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says; "" or None: not said. `foreign`: it is a manifest of something else, and no results'."""

    run: str = ""
    step: int | None = None
    policy: str = ""
    input_sha256: str = ""
    valid: int | None = None
    hooks: int | None = None
    command: str = ""
    code: str = ""
    image: str = ""
    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    foreign: bool = False
    readable: bool = True


def read(data: bytes, *, ours: bool) -> Manifest:
    """What the bytes of a manifest say.

    Args:
        ours: it lies where results lie, so that what cannot be read is a gap. Elsewhere a file of this name may be of
            any program.
    """
    told = _told(data)
    return told if ours or _surely(told, data) else Manifest(foreign=True)


def of_one(data: bytes, name: str) -> Manifest:
    """What a sidecar says of the one file that it is named after: no artifact if it says neither size nor hash."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return Manifest(readable=False)
    if not isinstance(said, dict):
        return Manifest(readable=False)
    entry = _entry(name, {**said, "path": name})
    if isinstance(entry, str):
        return _heading(said, (), (Problem("meta_malformed", "", entry),))
    return _heading(said, (entry,) if entry.sha256 or entry.size is not None else (), ())


def _surely(told: Manifest, data: bytes) -> bool:
    """Whether it is a manifest of results, wherever it lies: names without a size or hash are a package's, a page's."""
    if not told.readable:
        return b'"artifacts"' in data
    return any(entry.sha256 or entry.size is not None for entry in told.entries)


def _told(data: bytes) -> Manifest:
    try:
        said = json.loads(data, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return _unreadable(f"no valid JSON: {why[:200]}")
    if not isinstance(said, _Pairs):
        return _unreadable("no JSON object")
    listed = next((said[key] for key in _LISTS if isinstance(said.get(key), dict | list)), None)
    if listed is None:
        problem = Problem("manifest_empty", "", "it names no artifact: there is no list `artifacts` or `files` in it")
        return _heading(said, (), (problem,))
    problems = [Problem("manifest_malformed", key[:200], "this key stands in it twice") for key in said.twice]
    if isinstance(listed, _Pairs):
        problems += [Problem("manifest_malformed", key[:200], "it names this artifact twice") for key in listed.twice]
    entries = _entries(listed, problems)
    if not entries and not problems:
        problems.append(Problem("manifest_empty", "", "it names no artifact"))
    return _heading(said, tuple(entries), tuple(problems[:1000]))


def _entries(listed: Mapping[str, Any] | list[Any], problems: list[Problem]) -> list[Entry]:
    """What is named; what is wrong with it goes to `problems`."""
    entries: dict[str, Entry] = {}
    for place, name, value in _items(listed):
        if len(entries) >= MAX_ENTRIES:
            problems.append(Problem("manifest_malformed", "", f"it names more than {MAX_ENTRIES} artifacts"))
            break
        entry = _entry(name, value)
        if isinstance(entry, str):
            problems.append(Problem("manifest_malformed", place, entry))
        elif entries.setdefault(os.path.normpath(entry.path), entry) != entry:  # the first counts, as in comparing
            problems.append(Problem("manifest_malformed", place, f"it names {entry.path[:300]} twice"))
    return list(entries.values())


class _Pairs(dict[str, Any]):
    """A JSON object that remembers keys which stood in it twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice: list[str] = []
        if len(self) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.twice.append(key)
                seen.add(key)


def _unreadable(detail: str) -> Manifest:
    return Manifest(problems=(Problem("manifest_malformed", "", detail),), readable=False)


def _items(listed: Mapping[str, Any] | list[Any]) -> Iterator[tuple[str, str, Any]]:
    if isinstance(listed, list):
        for number, value in enumerate(listed, start=1):
            yield f"entry {number}", "", value
    else:
        for name, value in listed.items():
            yield name[:300], name, value


def _entry(name: str, value: Any) -> Entry | str:  # noqa: PLR0911  one return a way to be wrong
    """The entry, or what is wrong with it."""
    if isinstance(value, str):
        if not name:  # a list of paths
            return Entry(value, value) if _is_path(value) else "its path is empty, too long, or holds a NUL"
        value = {"sha256": value}
    if not isinstance(value, dict):
        return "no object"
    path = value.get("path", name)
    if not isinstance(path, str) or not _is_path(path):
        return "its path is no text, empty, too long, or holds a NUL"
    size = next((value[key] for key in ("size", "bytes", "size_bytes") if value.get(key) is not None), None)
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < _INT64):
        return "its size is no number of bytes"
    own = number(value, "step"), text(value, "policy_version", "policy")
    said = next((value[key] for key in ("sha256", "hash", "digest") if value.get(key) is not None), None)
    if said is None:
        return Entry(name or path, path, size, "", *own)
    match = _SHA256.fullmatch(said) if isinstance(said, str) else None
    if match is None:
        return "its hash is no SHA-256 of 64 hexadecimal digits"
    return Entry(name or path, path, size, match[1].lower(), *own)


def _is_path(path: str) -> bool:
    return 0 < len(path) <= _TEXT and "\0" not in path


def _heading(said: Mapping[str, Any], entries: tuple[Entry, ...], problems: tuple[Problem, ...]) -> Manifest:
    return Manifest(
        run=text(said, "run", "run_id"),
        step=number(said, "step"),
        policy=text(said, "policy_version", "policy"),
        input_sha256=text(said, "input_sha256", "tokens_sha256"),
        valid=number(said, "valid_tokens", "valid_samples", "n_valid"),
        hooks=number(said, "hook_count", "hook_executions", "hooks"),
        command=without_secrets(text(said, "command", "cmd", "generating_command")),
        code=text(said, "code_version", "code", "commit"),
        image=text(said, "image_digest", "image"),
        entries=entries,
        problems=problems,
    )


def text(said: Mapping[str, Any], *keys: str) -> str:
    """The first of the keys that holds a text or a number, or a list of them (a command); ""."""
    for key in keys:
        value = said.get(key)
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            value = " ".join(value)
        if isinstance(value, str) and value:
            return value[:_TEXT]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)[:_TEXT]
    return ""


def number(said: Mapping[str, Any], *keys: str) -> int | None:
    """The first of the keys that holds an integer that a store can hold; None."""
    for key in keys:
        value = said.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64:
            return value
    return None
