"""The fields of a run record, as data: fields.toml.

    FIELDS         in the order in which they are shown
    as_sql()       the two views that the store matches with: `i_record_field` and `i_record_pattern`

A key is compared in lower case, by equality, beginning and end alone: the store has hundreds of thousands of keys, and
an expression that is not constant would be compiled for each of them. `matches` is the plain twin of what the store
does.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

PREFIXES: Final = ("trainer.", "rollout.", "record.", "run.", "provenance.", "env.", "environment.")
"""What may stand before a key whose pattern begins with `~`."""
_CLOSURES: Final = frozenset({"", "object", "execution", "path", "workload", "criterion"})
_ALLOWED: Final = frozenset(
    {"name", "heading", "says", "needs", "fingerprint", "closure", "many", "keys", "states", "env", "facts"}
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Where a value of a field is found.

    Attributes:
        kind: name (a whole key) | glob (a key with `*`) | state | env | fact.
        leaf: the whole key; of a glob its last level, "" if that may be any; the field of exec_states, the variable, or
            the fact's name.
        prefixed: one of PREFIXES may stand before the key.
        head, mid, tail: of a glob: how it begins, what it holds, how it ends. Of a state `head` is the role.
        part: of a state: the letters before the number that counts, e.g. TP; "".
        when, gives: of a key: only this value counts, and means `gives`; "" and "": every value, as it is.
    """

    kind: str
    leaf: str
    prefixed: bool = False
    head: str = ""
    mid: str = ""
    tail: str = ""
    part: str = ""
    when: str = ""
    gives: str = ""

    def matches(self, key: str) -> bool:
        """Whether a key in lower case is one of these."""
        bare = next((key[len(prefix) :] for prefix in PREFIXES if key.startswith(prefix)), key)
        names = {key, bare} if self.prefixed else {key}
        if self.kind == "name":
            return self.leaf in names
        return self.kind == "glob" and any(
            self.leaf in ("", name.rpartition(".")[2])
            and name.startswith(self.head)
            and self.mid in name
            and name.endswith(self.tail)
            for name in names
        )


@dataclass(frozen=True, slots=True)
class Field:
    """One field. Meaning: the head of fields.toml."""

    name: str
    heading: str
    says: str
    needs: str
    fingerprint: bool
    closure: str
    many: bool
    patterns: tuple[Pattern, ...]


def load(text: str) -> tuple[Field, ...]:
    """Fields of a TOML text.

    Raises:
        ValueError: a field is not as the head of fields.toml says.
    """
    found = tuple(_field(entry) for entry in tomllib.loads(text)["field"])
    names = [field.name for field in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"field {sorted(twice)[0]} stands there twice")
    return found


def _field(entry: dict[str, Any]) -> Field:
    name = str(entry.get("name", ""))
    if unknown := set(entry) - _ALLOWED:
        raise ValueError(f"field {name}: unknown key {sorted(unknown)[0]}")
    if not re.fullmatch(r"[a-z_]+(\.[a-z0-9_]+)?", name):
        raise ValueError(f"field {name!r}: no usable name")
    if entry.get("needs") not in ("worker", "any") or entry.get("closure", "") not in _CLOSURES:
        raise ValueError(f"field {name}: needs is worker or any, closure one of {', '.join(sorted(_CLOSURES))}")
    patterns = [_key(f"~{name}")]
    for key in entry.get("keys", ()):
        if isinstance(key, str):
            patterns.append(_key(key))
        else:
            patterns += [_key(key["key"], str(when).lower(), str(gives)) for when, gives in key["values"].items()]
    patterns += [
        Pattern("state", str(state["field"]), head=str(state["role"]), part=str(state.get("part", "")))
        for state in entry.get("states", ())
    ]
    patterns += [Pattern("env", str(variable)) for variable in entry.get("env", ())]
    patterns += [Pattern("fact", str(fact)) for fact in entry.get("facts", ())]
    return Field(
        name,
        str(entry["heading"]),
        str(entry["says"]),
        str(entry["needs"]),
        bool(entry.get("fingerprint", False)),
        str(entry.get("closure", "")),
        bool(entry.get("many", False)),
        tuple(dict.fromkeys(patterns)),
    )


def _key(pattern: str, when: str = "", gives: str = "") -> Pattern:
    prefixed, pattern = pattern.startswith("~"), pattern.removeprefix("~").lower()
    if "*" not in pattern:
        return Pattern("name", pattern, prefixed, when=when, gives=gives)
    parts = pattern.split("*")
    if len(parts) > 3:
        raise ValueError(f"{pattern} holds more than two *")
    leaf = pattern.rpartition(".")[2]
    return Pattern(
        "glob", "" if "*" in leaf else leaf, prefixed, parts[0], parts[1] if len(parts) == 3 else "", parts[-1],
        when=when, gives=gives,
    )  # fmt: skip


@cache
def fields() -> tuple[Field, ...]:
    """The fields of this program."""
    return load(Path(__file__).with_name("fields.toml").read_text(encoding="utf-8"))


@cache
def _by_leaf() -> Mapping[str, tuple[Pattern, ...]]:
    found: dict[str, list[Pattern]] = {}
    for field in fields():
        for pattern in field.patterns:
            if pattern.kind in ("name", "glob"):
                found.setdefault(pattern.leaf.rpartition(".")[2], []).append(pattern)
    return {leaf: tuple(patterns) for leaf, patterns in found.items()}


def is_asked_for(key: str) -> bool:
    """Whether a field may be told by a key in lower case."""
    by_leaf = _by_leaf()
    candidates = (*by_leaf.get(key.rpartition(".")[2], ()), *by_leaf.get("", ()))
    return any(pattern.matches(key) for pattern in candidates)


def as_sql(what: str) -> str:
    """A SELECT of all fields (`what` is "fields") or of all patterns ("patterns"), for views."""
    # As one text: thousands of constants would be bound again with each view that reads this one.
    rows: list[dict[str, object]]
    if what == "fields":
        rows = [
            {
                "position": number, "field": one.name, "heading": one.heading, "item": one.says, "needs": one.needs,
                "in_fingerprint": one.fingerprint, "closure": one.closure, "many": one.many,
            }
            for number, one in enumerate(fields(), 1)
        ]  # fmt: skip
    else:
        rows = [
            {
                "field": one.name, "kind": where.kind, "leaf": where.leaf, "prefixed": where.prefixed,
                "head": where.head, "mid": where.mid, "tail": where.tail, "part": where.part, "when": where.when,
                "gives": where.gives,
            }
            for one in fields()
            for where in one.patterns
        ]  # fmt: skip
    kinds = {str: "VARCHAR", int: "INTEGER", bool: "BOOLEAN"}
    shape = json.dumps([{name: kinds[type(value)] for name, value in rows[0].items()}])
    return f"SELECT one.* FROM (SELECT unnest(from_json({_quoted(json.dumps(rows))}, {_quoted(shape)})) AS one)"  # noqa: S608


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
