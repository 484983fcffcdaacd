"""Which key holds the training step of a W&B row, and what known keys measure: step_keys.toml and metric_keys.toml.

    load(tables, where)      the program's two tables with those of tic.toml before them
    Keys.framework(names)    the framework that keys of a history show; "" if none or several do
    Keys.axis(...)           the key that holds the training step of another one
    Keys.step_of(...)        the training steps of one row, by axis
    Keys.merged(rows)        rows of one training step as one
    Keys.metric(...)         what a key measures

An axis is a key that counts training steps. Frameworks that pass `step=` have one, `_step`; others log their own, and
some of them several: a rollout's number is no optimizer step. Rows of one number on one axis are one training step.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from tic_daemon.errors import ConfigError
from tic_daemon.scan.records import METRICS

STEP: Final = "_step"
OWN: Final = frozenset({"_step", "_runtime", "_timestamp", "_wandb"})
"""What W&B itself puts into a row; never held against another source."""
SPACES: Final = ("log", "probability", "ratio")
BETTER: Final = ("lower", "higher", "near")
_FOLDER: Final = Path(__file__).parent
_MOST: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class StepKey:
    """One entry of step_keys.toml; the meaning of its fields stands there."""

    framework: str
    keys: tuple[str, ...]
    step: str
    main: bool = False
    console: str = ""
    signs: tuple[str, ...] = ()
    file: str = ""
    revision: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class MetricKey:
    """One entry of metric_keys.toml; its fields' meaning stands there. `when`: (beginnings of commits, metric)."""

    framework: str
    key: str
    metric: str
    space: str = ""
    reduction: str = ""
    better: str = "lower"
    perfect: float = 0.0
    traps: str = ""
    when: tuple[tuple[tuple[str, ...], str], ...] = ()
    file: str = ""
    revision: str = ""

    def name_at(self, revision: str) -> str:
        """The canonical name in a revision of the framework; "unknown" while that decides and is not known."""
        for commits, metric in self.when:
            if revision and any(revision.startswith(commit) or commit.startswith(revision) for commit in commits):
                return metric
        return self.metric


_Entry = TypeVar("_Entry", StepKey, MetricKey)
Value = float | int | str | bool | None
Row = Mapping[str, Value]


@dataclass(frozen=True)
class Keys:
    """The two tables. Entries of tic.toml stand first and win."""

    steps: tuple[StepKey, ...]
    metrics: tuple[MetricKey, ...]
    _axes: dict[tuple[str, str], str] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def frameworks(self) -> frozenset[str]:
        return frozenset(entry.framework for entry in self.steps)

    def framework(self, names: Iterable[str]) -> str:
        """The framework whose signs are among `names`: that with the most; "" if none or several have as many."""
        held = set(names)
        found: dict[str, int] = {}
        for entry in self.steps:
            hits = sum(any(_matches(sign, name) for name in held) for sign in entry.signs)
            if hits:
                found[entry.framework] = found.get(entry.framework, 0) + hits
        best = max(found.values(), default=0)
        leading = [name for name, hits in found.items() if hits == best]
        return leading[0] if len(leading) == 1 else ""

    def axes(self, framework: str) -> tuple[str, ...]:
        """Keys that count training steps, the one of the trainer's own step lines first; `_step` of an unknown one."""
        own = [entry for entry in self.steps if entry.framework == framework]
        return tuple(dict.fromkeys(entry.step for entry in sorted(own, key=lambda entry: not entry.main))) or (STEP,)

    def main(self, framework: str) -> str:
        """The axis that the trainer's step lines count."""
        return self.axes(framework)[0]

    def prefix(self, framework: str) -> str:
        """What printed keys lack of W&B's."""
        return next((entry.console for entry in self.steps if entry.framework == framework and entry.console), "")

    def axis(self, framework: str, key: str) -> str:
        """The key that holds the training step of `key`."""
        known = self._axes.get((framework, key))
        if known is None:
            known = self._axes[framework, key] = self._axis(framework, key)
        return known

    def _axis(self, framework: str, key: str) -> str:
        if key in self.axes(framework):
            return key
        best, found = -1, STEP
        for entry in self.steps:
            if entry.framework != framework:
                continue
            for pattern in entry.keys:
                weight = len(pattern) if pattern.endswith("*") else len(pattern) + 1
                if weight > best and _matches(pattern, key):
                    best, found = weight, entry.step
        return found

    def step_of(self, framework: str, values: Row) -> dict[str, int]:
        """The training steps of one row: one for each axis that has keys in it and whose step it tells.

        A row that holds only other keys of an axis, and not its step, is in none: no step is made up for it.
        """
        axes = {self.axis(framework, key) for key in values if key not in OWN} or {self.main(framework)}
        steps = {axis: _integer(values.get(axis)) for axis in axes}
        return {axis: step for axis, step in steps.items() if step is not None}

    def merged(self, framework: str, rows: Iterable[Row]) -> dict[tuple[str, int], dict[str, Value]]:
        """Rows by (axis, training step), in order: of a key that comes again the last value counts.

        Keys of W&B itself and the step keys are left out, and so are nulls: what they say is said by being absent.
        """
        found: dict[tuple[str, int], dict[str, Value]] = {}
        for row in rows:
            steps = self.step_of(framework, row)
            for key, value in row.items():
                if key in OWN or value is None:
                    continue
                axis = self.axis(framework, key)
                if axis in steps and key != axis:
                    found.setdefault((axis, steps[axis]), {})[key] = value
            for axis, step in steps.items():
                found.setdefault((axis, step), {})
        return found

    def metric(self, framework: str, key: str) -> MetricKey | None:
        """What a key measures; None if it is not known. A key without `*` goes before those with one."""
        own = [entry for entry in self.metrics if entry.framework == framework and _matches(entry.key, key)]
        return min(own, key=lambda entry: "*" in entry.key, default=None)


@lru_cache(maxsize=4)
def built_in() -> Keys:
    """The program's own tables."""
    return Keys(
        _entries(_read(_FOLDER / "step_keys.toml"), "step_key", StepKey, "step_keys.toml"),
        _entries(_read(_FOLDER / "metric_keys.toml"), "metric_key", MetricKey, "metric_keys.toml"),
    )


def load(tables: Mapping[str, Any] | None = None, where: str = "tic.toml") -> Keys:
    """The program's tables with the `step_key` and `metric_key` entries of `tables` before them.

    What tic.toml says of a framework's steps replaces all that the program knows of them.

    Raises:
        ConfigError: an entry cannot be used; says which, where, and what is allowed.
    """
    own = built_in()
    if not tables:
        return own
    steps = _entries(tables, "step_key", StepKey, where)
    metrics = _entries(tables, "metric_key", MetricKey, where)
    said = {entry.framework for entry in steps}
    named = {(entry.framework, entry.key) for entry in metrics}
    return Keys(
        steps + tuple(entry for entry in own.steps if entry.framework not in said),
        metrics + tuple(entry for entry in own.metrics if (entry.framework, entry.key) not in named),
    )


def _read(path: Path) -> Mapping[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


def _entries(tables: Mapping[str, Any], name: str, cls: type[_Entry], where: str) -> tuple[_Entry, ...]:
    rows = tables.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{where}: {name} must be a list of tables", f"Write [[wandb.{name}]].")
    return tuple(_entry(row, cls, f"{where}: [[{name}]] number {number}") for number, row in enumerate(rows, 1))


def _entry(row: Mapping[str, Any], cls: type[_Entry], where: str) -> _Entry:
    allowed = {each.name: each.type for each in fields(cls)}
    for key, value in row.items():
        if key not in allowed:
            raise ConfigError(f"{where}: unknown key {key!r}", f"Allowed: {', '.join(allowed)}.")
        kind = str(allowed[key])
        wanted: Any = {"str": str, "bool": bool, "float": (int, float), "tuple[str, ...]": list}.get(kind, list)
        if not isinstance(value, wanted) or (kind == "float" and isinstance(value, bool)):
            raise ConfigError(f"{where}: {key} has the wrong type", _KINDS.get(kind, "A list of tables."))
        if kind == "tuple[str, ...]" and not all(isinstance(item, str) and item for item in value):
            raise ConfigError(f"{where}: {key} must hold text that is not empty", _KINDS[kind])
    missing = [key for key in _NEEDED[cls.__name__] if not row.get(key) and key != "metric"]
    missing += ["metric"] if "metric" in _NEEDED[cls.__name__] and "metric" not in row else []
    if missing:
        raise ConfigError(f"{where}: {missing[0]} is missing", f"Needed: {', '.join(_NEEDED[cls.__name__])}.")
    make: Any = cls
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    if cls is StepKey:
        if bad := [pattern for pattern in values["keys"] if "*" in pattern[:-1]]:
            raise ConfigError(f"{where}: {bad[0]!r}: `*` stands at the end alone", 'Write "train/*" or a whole key.')
        return make(**values)  # type: ignore[no-any-return]
    values["when"] = tuple(_when(item, where) for item in row.get("when", []))
    for metric in (row["metric"], *(name for _, name in values["when"])):
        if metric not in ("", "unknown") and metric not in METRICS:
            raise ConfigError(
                f"{where}: no metric is called {metric!r}", f'Allowed: "", unknown, {", ".join(sorted(METRICS))}.'
            )
    if row.get("space", "log") not in SPACES or row.get("better", "lower") not in BETTER:
        raise ConfigError(
            f"{where}: space or better is none of those allowed",
            f"space: {', '.join(SPACES)}; better: {', '.join(BETTER)}.",
        )
    return make(**values)  # type: ignore[no-any-return]


def _when(item: Any, where: str) -> tuple[tuple[str, ...], str]:
    if isinstance(item, dict) and set(item) == {"revision", "metric"}:
        commits, metric = item["revision"], item["metric"]
        if isinstance(metric, str) and isinstance(commits, list) and all(_is_commit(commit) for commit in commits):
            return tuple(commits), metric
    raise ConfigError(
        f"{where}: `when` is not understood", 'Write when = [{ revision = ["1dda039"], metric = "kl_k1" }].'
    )


def _is_commit(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{7,40}", value) is not None


_KINDS: Final = {
    "str": "Text in quotes.", "bool": "true or false.", "float": "A number.", "tuple[str, ...]": 'A list: ["a", "b"].',
}  # fmt: skip
_NEEDED: Final = {"StepKey": ("framework", "keys", "step"), "MetricKey": ("framework", "key", "metric")}


@lru_cache(maxsize=4096)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in glob.split("*")), re.DOTALL)


def _matches(glob: str, key: str) -> bool:
    return glob == key if "*" not in glob else _pattern(glob).fullmatch(key) is not None


def _integer(value: Value) -> int | None:
    """A step as a row holds it: 7 and 7.0 are one; what is no whole number is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) <= _MOST else None
