"""What a candidate is: the hash of its closure, from the object, the execution on both sides and the path.

    of(fields) -> Closure             the hash, with what is unknown listed
    changes(before, after)            which fields differ, and which are not shown to be equal

The fields are those of closure.toml. The policy version is none of them: it belongs to a row of evidence. A mapping
may hold other fields besides; they are part of the hash and of no class, so that a change of one makes every gate
stale. What is unknown is no part of the hash: a program that knows more fields gives an old closure the same name.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tic_daemon.ledger.canon import canonical

UNKNOWN: Final = "unknown"
_NAME: Final = re.compile(r"[a-z][a-z0-9_.]{0,99}")
VALUE: Final = 4000
"""The longest value."""
_REFUSED: Final = ("policy", "policy_version", "policy_content_id", "policy_manifest_sha256")


@dataclass(frozen=True, slots=True)
class _Names:
    """What closure.toml names."""

    groups: Mapping[str, tuple[str, ...]]
    declared: Mapping[str, str]
    left_out: Mapping[str, str]

    @property
    def recorded(self) -> tuple[str, ...]:
        """Names that the run record has."""
        return tuple(name for group in self.groups.values() for name in group)


def _load() -> _Names:
    with Path(__file__).with_name("closure.toml").open("rb") as file:
        said = tomllib.load(file)
    groups = {group: tuple(said[group]) for group in ("object", "execution", "path")}
    return _Names(groups, said["declared"], said["left_out"])


NAMES: Final = _load()
FIELDS: Final = frozenset({*NAMES.recorded, *NAMES.declared})
"""Names of all fields of a closure."""


@dataclass(frozen=True, slots=True)
class Closure:
    """`fields` by name, all of FIELDS among them; `unknown` names those that nobody told."""

    sha256: str
    fields: Mapping[str, str]
    unknown: tuple[str, ...]

    @property
    def screening(self) -> bool:
        """Whether it serves fixed weights, so that it is good for screening alone."""
        return self.fields["rollout.lifecycle"].lower() == "none"

    @property
    def lacking(self) -> tuple[str, ...]:
        """Which of object, execution and path nothing is known of: two such closures are not shown to be one."""
        return tuple(
            group
            for group, names in NAMES.groups.items()
            if all(self.fields.get(name, UNKNOWN) == UNKNOWN for name in names)
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """`changed`: fields that differ, or that one side alone knows. `unshown`: neither side knows them."""

    changed: tuple[str, ...]
    unshown: tuple[str, ...]


def of(said: Mapping[str, str]) -> Closure:
    """The closure of these fields.

    Raises:
        ValueError: a name or a value cannot be used; or a policy version is among them.
    """
    for name, value in said.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:60]!r} is no name of a field")
        if name in _REFUSED:
            raise ValueError(f"{name} is no part of a candidate: a row of evidence binds it")
        if not isinstance(value, str) or len(value) > VALUE:
            raise ValueError(f"field {name} is no text of up to {VALUE} characters")
    found = {name: said.get(name, "").strip() or UNKNOWN for name in sorted({*FIELDS, *said})}
    known = {name: value for name, value in found.items() if value != UNKNOWN}
    digest = hashlib.sha256(canonical(known).encode()).hexdigest()
    return Closure(digest, found, tuple(name for name, value in found.items() if value == UNKNOWN))


def fitting(value: str) -> str:
    """A value as a closure holds it: a longer one by its hash."""
    return value if len(value) <= VALUE else f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Changes:
    """What differs between two closures' fields. What is unknown is never taken for equal."""
    changed, unshown = [], []
    for name in sorted({*before, *after}):
        first, second = before.get(name, UNKNOWN), after.get(name, UNKNOWN)
        if first != second:
            changed.append(name)
        elif first == UNKNOWN:
            unshown.append(name)
    return Changes(tuple(changed), tuple(unshown))
