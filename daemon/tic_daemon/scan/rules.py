"""Rule packs: TOML files into a checked, compiled `RuleSet`.

    RuleSet.load(extra_dirs)    the packs of the program, then those of the user
    read_pack(path)             one file into rules; every refusal names file, rule and what to do

A pack is its own test: each rule carries lines that must and must not yield it. What can be checked from the text alone
is checked here on every load of a user's pack, of the program's own by the tests, which know, too, that their patterns
are harmless; `tic-daemon rules test` sends the lines through the scanner itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from tic_daemon.errors import RuleError
from tic_daemon.scan import rule_lint
from tic_daemon.scan.rule import (
    COMMON_KEYS,
    DENIES_FOR,
    EXEC_FIELDS,
    FILE_KINDS,
    KEYS,
    LOCKS,
    METRIC_FORMS,
    PHASES,
    ROLES,
    SEVERITIES,
    STAGES,
    STEP_FROM,
    TRANSPORT_KINDS,
    YIELDS,
    FaultRule,
    Rule,
    slots,
)

__all__ = ["FaultRule", "Pack", "Rule", "RuleSet", "read_pack"]

BUILT_IN: Final = Path(__file__).with_name("rules")
_MACROS: Final = Path(__file__).with_name("macros.toml")
MIN_LITERAL: Final = 4
_PACK_KEYS: Final = frozenset({"pack", "version", "title", "define", "rule"})
_MACRO: Final = re.compile(r"\{\{(\w+)\}\}")
_ESCAPES: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LISTS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "": {"anchor": ("start", "any"), "stream": ("", "stdout", "stderr"), "step_from": STEP_FROM},
    "fault": {"severity": SEVERITIES, "locks": LOCKS, "match_verdict": ("confirmed", "suspect", "mention")},
    "step": {"metrics": METRIC_FORMS},
    "metric": {"metrics": METRIC_FORMS},
    "exec_state": {"role": ROLES, "field": EXEC_FIELDS},
    "weight_phase": {"role": ROLES, "track": tuple(PHASES)},
    "transport": {"what": TRANSPORT_KINDS},
    "compile": {"stage": STAGES},
    "file": {"what": FILE_KINDS, "edge": ("begin", "end")},
    "context": {"denies_for": DENIES_FOR},
}
_TEXTS: Final = {
    "timing": {"phase": "gen", "seconds": "{s}"},
    "compile": {"compiler": "Triton", "what": "{kernel}"},
}
_GROUPS: Final = {
    "device": {"bus": "a device line names a PCI bus id"},
    "env": {"name": "an env line names a variable", "value": "an env line shows its value"},
    "wandb": dict.fromkeys(("url", "entity", "project", "id"), "a wandb line names server, entity, project and run"),
}
_TEMPLATES: Final = (
    "claimed", "observed", "phase", "level", "version", "duration", "seconds", "transport", "compiler", "path"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pack:
    """One pack file: its name, title and rules in the file's order. `path` is for messages."""

    name: str
    title: str
    version: int
    path: Path
    rules: tuple[Rule, ...]
    overrides: frozenset[str]


@dataclass(frozen=True)
class RuleSet:
    """All rules in force, in the order in which they are tried."""

    rules: tuple[Rule, ...]
    packs: tuple[Pack, ...] = ()

    @classmethod
    def load(cls, extra_dirs: Sequence[Path] = ()) -> RuleSet:
        """Load the program's packs, then every `*.toml` of `extra_dirs` in name order.

        A rule of a later pack may replace an earlier one of the same name if it says `override = true`.

        Raises:
            RuleError: a file cannot be read or a rule is refused.
        """
        paths: list[Path] = []
        for folder in extra_dirs:
            if not folder.is_dir():
                raise RuleError(f"rules: {folder} is no directory", "name a directory with *.toml packs in it")
            paths += sorted(folder.glob("*.toml"))
        return cls.of((*_built_in(), *map(read_pack, paths)))

    @classmethod
    def of(cls, packs: Iterable[Pack]) -> RuleSet:
        """Unite packs; later ones may override by name."""
        packs = tuple(packs)
        rules: dict[str, Rule] = {}
        home: dict[str, Path] = {}
        for pack in packs:
            for rule in pack.rules:
                if rule.name in pack.overrides and rule.name not in rules:
                    raise _refuse(pack.path, rule.name, "overrides a rule that does not exist", "remove `override`")
                if rule.name in rules and rule.name not in pack.overrides:
                    raise _refuse(
                        pack.path, rule.name, f"the name is taken by {home[rule.name]}",
                        "choose another name, or say `override = true` to replace that rule",
                    )  # fmt: skip
                rules[rule.name] = rule
                home[rule.name] = pack.path
        for rule in rules.values():
            for name in rule.denies:
                if name not in rules or rules[name].locks != "never":
                    what = "a fault that may lock" if name in rules else "a rule that does not exist"
                    raise _refuse(home[rule.name], rule.name, f"denies {what}: {name}", "name rules that never lock")
        return cls(tuple(sorted(rules.values(), key=lambda rule: rule.order)), packs)

    def fault_rules(self) -> list[FaultRule]:
        """The rows of table fault_rule."""
        return [
            FaultRule(r.name, r.severity, r.locks, r.node_scope, r.title, r.pack, r.product)
            for r in self.rules
            if r.yields == "fault"
        ]

    @cached_property
    def by_name(self) -> Mapping[str, Rule]:
        """Rules by their name."""
        return {rule.name: rule for rule in self.rules}

    @cached_property
    def by_literal(self) -> Mapping[str, tuple[Rule, ...]]:
        """Rules by each of their literals, in the order in which they are tried."""
        table: dict[str, list[Rule]] = {}
        for rule in self.rules:
            for literal in rule.literals:
                table.setdefault(literal, []).append(rule)
        return {literal: tuple(rules) for literal, rules in table.items()}


@cache
def _built_in() -> tuple[Pack, ...]:
    """The program's packs, read once a process: they change with the program only."""
    return tuple(read_pack(path, checked=True) for path in sorted(BUILT_IN.glob("*.toml")))


def read_pack(path: Path, *, checked: bool = False) -> Pack:
    """Read and check one pack file.

    Args:
        checked: its rules were checked before, as this program's own are by its tests: to compile all of their
            patterns takes a tenth of a second, at each start.

    Raises:
        RuleError: it cannot be read, is no TOML, or holds a rule that is refused.
    """
    if path.exists() and not path.is_file():  # opening a pipe would wait for ever
        raise RuleError(f"{path}: no regular file", "move it out of the directory of packs")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RuleError(f"{path}: cannot be read: {error.strerror}", "check the path and its permissions") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RuleError(f"{path}: no valid TOML: {error}", "correct the file at that line") from error
    except RecursionError as error:
        raise RuleError(f"{path}: nested too deeply", "correct the file") from error
    return parse_pack(raw, path, checked=checked)


def parse_pack(raw: Mapping[str, Any], path: Path, *, checked: bool = False) -> Pack:
    """Check a pack that was read from TOML. See `read_pack`."""
    if unknown := set(raw) - _PACK_KEYS:
        raise RuleError(f"{path}: unknown key {sorted(unknown)[0]!r}", f"known are {', '.join(sorted(_PACK_KEYS))}")
    name, title, version = raw.get("pack"), raw.get("title", ""), raw.get("version")
    if not (isinstance(name, str) and name and isinstance(title, str) and isinstance(version, int)):
        raise RuleError(f"{path}: no pack name or version", 'begin the file with pack = "name" and version = 1')
    define, tables = raw.get("define", {}), raw.get("rule", [])
    if not isinstance(define, dict) or not all(isinstance(text, str) for text in define.values()):
        raise RuleError(f"{path}: [define] must hold texts only", "write NAME = 'pattern'")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise RuleError(f"{path}: no rules", "add at least one [[rule]] table")
    define = {**_shared_macros(), **define}
    rules: dict[str, Rule] = {}
    for number, table in enumerate(tables, start=1):
        rule = _rule(table, name, define, path, number, checked=checked)
        if rule.name in rules:
            raise _refuse(path, rule.name, "stands twice in this file", "rename or remove one of them")
        rules[rule.name] = rule
    overrides = frozenset(table["name"] for table in tables if table.get("override") is True)
    return Pack(name, title, version, path, tuple(rules.values()), overrides)


def has_literal(literal: str, line: str) -> bool:
    """Whether the literal occurs in a line; escapes between its words do not hide it."""
    return literal in line or literal in _ESCAPES.sub("", line)


def _refuse(path: Path, rule: str, what: str, hint: str) -> RuleError:
    return RuleError(f"{path}: rule {rule}: {what}", hint)


@cache
def _shared_macros() -> Mapping[str, str]:
    """Macros that every pack may use: `macros.toml`."""
    return tomllib.loads(_MACROS.read_text(encoding="utf-8"))


def _expand(pattern: str, define: Mapping[str, str], path: Path, rule: str) -> str:
    """Fill `{{NAME}}` macros; macros may use macros, five deep."""
    for _ in range(5):
        if not _MACRO.search(pattern):
            return pattern
        for macro in set(_MACRO.findall(pattern)):
            if macro not in define:
                raise _refuse(path, rule, f"unknown macro {{{{{macro}}}}}", "add it to [define] or correct its name")
        pattern = _MACRO.sub(lambda hit: define[hit[1]], pattern)
    raise _refuse(path, rule, "macros use each other in a circle", "untangle [define]")


def _rule(
    table: Mapping[str, Any], pack: str, define: Mapping[str, str], path: Path, number: int, *, checked: bool
) -> Rule:
    name = table.get("name")
    if checked:
        return _build(table, str(name), pack, _expand(table["pattern"], define, path, str(name)))
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)*", name):
        raise _refuse(path, f"number {number}", f"no usable name: {name!r}", 'write name = "pack.word", lower case')
    yields = table.get("yields")
    if yields not in YIELDS:
        raise _refuse(path, name, f"yields {yields!r} is not known", f"one of {', '.join(YIELDS)}")
    allowed = COMMON_KEYS | KEYS[yields]
    for key, value in table.items():
        if key not in allowed:
            raise _refuse(path, name, f"unknown key {key!r}", f"known for {yields}: {', '.join(sorted(allowed))}")
        _check_type(key, value, path, name)
    for key in ("product", "source", "pattern"):
        if not table.get(key):
            raise _refuse(
                path, name, f"no {key}", f"add {key} = ...: who prints the line, where that was read, how to read it"
            )
    for key in ("literal", "match", "no_match"):
        if not table.get(key):
            raise _refuse(path, name, f"no {key}", f"add {key} = ['...'] with at least one entry")
    pattern = _expand(table["pattern"], define, path, name)
    _check_pattern(pattern, path, name, own=path.parent == BUILT_IN)
    rule = _build(table, name, pack, pattern)
    _check_literals(rule, path)
    _check_words(rule, path)
    return rule


def _check_type(key: str, value: Any, path: Path, name: str) -> None:
    """One key's type. Lists are lists of texts."""
    if key in {"literal", "match", "no_match", "denies", "share"}:
        good = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
        want = "a list of texts"
    elif key in {"needs_level", "node_scope", "gpu", "cold", "override"}:
        good, want = isinstance(value, bool), "true or false"
    elif key == "order":
        good, want = isinstance(value, int) and not isinstance(value, bool), "a whole number"
    elif key == "values":
        good = isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
        want = "a table of texts"
    else:
        good, want = isinstance(value, str), "a text"
    if not good:
        raise _refuse(path, name, f"{key} = {value!r}", f"{key} must be {want}")


def _check_pattern(pattern: str, path: Path, name: str, *, own: bool) -> None:
    if message := rule_lint.re_error(pattern):
        raise _refuse(path, name, f"the pattern does not compile: {message}", f"correct it: {pattern}")
    if not own and (message := rule_lint.complaint(pattern)):
        raise _refuse(path, name, "the pattern can take minutes on one line", message)


def _build(table: Mapping[str, Any], name: str, pack: str, pattern: str) -> Rule:
    """The rule with the kind's defaults. Checked values only."""
    rest = {key: value for key, value in table.items() if key not in {"name", "literal", "pattern", "override"}}
    rest["match"], rest["no_match"] = tuple(table["match"]), tuple(table["no_match"])
    rest.update({key: tuple(table[key]) for key in ("denies", "share") if key in table})
    if table["yields"] == "step" and not table.get("step_from"):
        rest.setdefault("step_field", "step")
    return Rule(
        name=name,
        pack=pack,
        literals=tuple(table["literal"]),
        pattern=pattern,
        **rest,
    )


def _check_literals(rule: Rule, path: Path) -> None:
    for literal in rule.literals:
        if len(literal.encode()) < MIN_LITERAL:
            raise _refuse(
                path, rule.name, f"literal {literal!r} is shorter than 4 bytes", "choose a longer part of the line"
            )
        if not any(has_literal(literal, line) for line in rule.match):
            raise _refuse(
                path, rule.name, f"no match line holds the literal {literal!r}", "add such a line, or drop the literal"
            )
    for line in rule.match:
        if not any(has_literal(literal, line) for literal in rule.literals):
            raise _refuse(
                path, rule.name, f"match line holds none of the literals: {line!r}", "add a literal that it holds"
            )
        if not any(rule.regex.search(_ESCAPES.sub("", part)) for part in line.split("\n")):
            raise _refuse(
                path, rule.name, f"the pattern does not match its own line: {line!r}", "correct one of the two"
            )


def _check_words(rule: Rule, path: Path) -> None:
    """Closed lists, and texts and groups that the kind of event and templates need."""

    def group(name: str, why: str) -> None:
        if name not in rule.regex.groupindex:
            raise _refuse(path, rule.name, f"the pattern has no group {name!r}", f"{why}: write (?P<{name}>...)")

    lists = {**_LISTS[""], **_LISTS.get(rule.yields, {})}
    if rule.yields == "step":
        lists["edge"] = ("end",) if rule.step_from else ("begin", "end")
    elif rule.yields == "weight_phase":
        lists["phase"] = PHASES.get(rule.track, ())
    for key, allowed in lists.items():
        if (value := getattr(rule, key)) not in allowed:
            raise _refuse(
                path, rule.name, f"{key} = {value!r}", f"{key} must be one of {', '.join(map(repr, allowed))}"
            )
    if rule.yields == "fault" and not rule.title:
        raise _refuse(path, rule.name, "no title", "say in a few words what the line means")
    if rule.yields == "exec_state" and bool(rule.claimed) == bool(rule.observed):
        raise _refuse(
            path, rule.name, "needs either claimed or observed", "a printed setting is claimed, a use is observed"
        )
    if rule.yields in {"step", "metric", "file"} and rule.step_field:
        group(rule.step_field, "the step's number comes from it")
    if rule.yields in _TEXTS and not all(getattr(rule, key) for key in _TEXTS[rule.yields]):
        keys = _TEXTS[rule.yields]
        hint = " and ".join(f'{key} = "{example}"' for key, example in keys.items())
        raise _refuse(path, rule.name, f"needs {' and '.join(keys)}", f"write {hint}")
    for name, why in _GROUPS.get(rule.yields, {}).items():
        group(name, why)
    for name in rule.share:
        group(name, "a share is counted from it")
    for template in (getattr(rule, key) for key in _TEMPLATES):
        for slot in slots(template) - ({"share"} if rule.share else set()):
            group(slot, "a template uses it")
