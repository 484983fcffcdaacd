"""What a manifest says of one file, as plain values: which manifest speaks for it, which keys count, and their hash.

A file F is described by `F.meta.json` beside it, else by the entry that names it in `artifacts` (or `files`) of the
manifest that is known to name it, or of `manifest.json` in its directory. A key that an entry lacks is looked for at
the top of the manifest; `producer`, size and hash stand in the entry alone. What has no key here is not read by any
comparison: so a manifest may grow, and of the files that it named before the same is said as before.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

SHARED: Final = (
    "run", "step", "phase", "rank", "repeat", "scope", "intervention", "policy_version", "input_sha256", "basis",
    "bypass", "hook_count", "score_source", "negative_control", "path_hits", "execution", "criterion_sha256",
    "samples_policy", "replay", "graph_captures", "forward_steps", "policy_segments",
)  # fmt: skip
OWN: Final = ("size", "bytes", "size_bytes", "sha256", "hash", "digest", "producer")
_LISTS: Final = ("artifacts", "files")

Said = dict[str, Any]


def word(value: Any) -> str | None:
    """A text or an integer as text; None where it says nothing: it is empty, or the word `unknown`. Whoever writes that
    on both sides has shown nothing to be equal."""
    if type(value) not in {str, int}:
        return None
    found = str(value)
    return None if found.strip().lower() in {"", "unknown"} else found


def source_of(path: str, known: str = "") -> str:
    """The manifest that speaks for a file, or "". `known`: one that is known to name it."""
    own = f"{path}.meta.json"
    beside = os.path.join(os.path.dirname(path), "manifest.json")  # noqa: PTH118, PTH120  names need not be valid text
    found = (own, known if known and known != own else beside)
    return next((one for one in found if os.path.exists(one)), "")  # noqa: PTH110


def of(whole: Mapping[str, Any], source: str, path: str) -> Said | None:
    """What a manifest says of a file; None: it does not name it."""
    wanted = os.path.normpath(path)
    return next((found for name, found in each(whole, source) if name == wanted), None)


def each(whole: Mapping[str, Any], source: str) -> Iterator[tuple[str, Said]]:
    """(file, what is said of it) of all that a manifest names; of a sidecar the one file that it lies beside."""
    if source.endswith(".meta.json") and not source.endswith("/.meta.json"):
        yield os.path.normpath(source.removesuffix(".meta.json")), _merged(whole, {})
        return
    directory = os.path.dirname(source)  # noqa: PTH120
    listed = next((whole[key] for key in _LISTS if isinstance(whole.get(key), dict | list)), None)
    items = listed.items() if isinstance(listed, dict) else [("", one) for one in listed or ()]
    seen = set[str]()
    for name, value in items:
        entry = {"sha256" if name else "path": value} if isinstance(value, str) else value
        path = entry.get("path", name) if isinstance(entry, dict) else None
        if isinstance(path, str) and path:
            place = os.path.normpath(os.path.join(directory, path))  # noqa: PTH118
            if place not in seen:  # of two entries the first counts
                seen.add(place)
                yield place, _merged(entry, whole)


def digest(found: Said | None) -> str:
    """32 hex digits of what is said; "" of nothing."""
    if found is None:
        return ""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:32]


def _merged(entry: Mapping[str, Any], whole: Mapping[str, Any]) -> Said:
    found = {key: entry[key] for key in OWN if entry.get(key) is not None}
    for key in SHARED:
        value = entry[key] if entry.get(key) is not None else whole.get(key)
        if value is not None:
            found[key] = value
    return found
