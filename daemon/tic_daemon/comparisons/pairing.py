"""Which files form a comparison. Pure: rows and declarations in, pairs out; what cannot be paired is one with a reason.

Nothing is guessed. A pair comes from

    manifest   entries of one directory whose names are `rollout` and `trainer` with the same rest, as in
               `rollout_logprobs.pt` and `trainer_logprobs.pt`. An entry `token_ids` or `tokens` holds their tokens
               and from the list `comparisons` of a manifest: {"a": NAME, "b": NAME, "control": ..., ...}
    alone      a file that holds both sides: a step of prime-rl's token exports, or what `alone` knows by its keys
    declared   `[[comparison]]` of tic.toml

A pair that is declared, in tic.toml or in a manifest, counts in place of the same one made by names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tic_daemon.comparisons.pair import Pair
from tic_daemon.config import CONTROLS, GOALS, PLACE, ComparisonConfig
from tic_daemon.evidence.judge import Goal
from tic_daemon.results import layout
from tic_daemon.store.rows import ArtifactRow

MANIFEST: Final = "manifest"
ALONE: Final = "alone"
DECLARED: Final = "declared"

_SIDE: Final = re.compile(r"(?i)(rollout|trainer)(.*)", re.DOTALL)
_EXTENSION: Final = re.compile(r"(?i)\.(?:pt|pth|jsonl|json|npz|safetensors|parquet)\Z")
_TOKENS: Final = frozenset({"token_ids", "tokens"})
_PLACE: Final = PLACE
_SAYS: Final = (
    "tokens", "repeats_a", "repeats_b", "goal", "basis", "policy", "intervention", "criterion", "planted", "step"
)  # fmt: skip
_WORDS: Final = ("control", "variant", "goal", "basis", "policy", "intervention", "plant", "tokens")
MOST: Final = 20_000
"""Pairs of one daemon; more are not looked at, and that is said."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a manifest says of comparisons. `comparisons`: as it stands there, of any type."""

    comparisons: Sequence[Any] = ()
    goal: str = ""


@dataclass(slots=True)
class Known:
    """What pairs are made of.

    Attributes:
        artifacts: the newest row of each that is named.
        said: by manifest.
        both: readers of artifacts that hold both sides, by (path, SHA-256); "" for those that do not.
        on_disk: of each `[[comparison]]`, by its place, files that its `a` matches, with their watched root.
        run_for: the run that the configuration gives to a path.
        criterion, planted: that judge where a pair names none; criterion_goal: what that criterion is for, "" anything.
    """

    host: str
    artifacts: Sequence[ArtifactRow]
    said: Mapping[str, Said] = field(default_factory=dict)
    both: Mapping[tuple[str, str], str] = field(default_factory=dict)
    declared: Sequence[ComparisonConfig] = ()
    on_disk: Sequence[Sequence[tuple[str, str]]] = ()
    run_for: Callable[[str], str] = lambda _: ""
    base: str = "/"
    criterion: str = ""
    planted: str = ""
    criterion_goal: str = ""


def pairs(known: Known) -> list[Pair]:
    """All pairs, each once, in the order of runs and steps."""
    found: dict[str, Pair] = {}
    taken: set[tuple[str, str]] = set()
    by_path = {row.path: row for row in known.artifacts}
    for nth, entry in enumerate(known.declared):
        for pair in _declared(known, entry, known.on_disk[nth] if nth < len(known.on_disk) else (), by_path):
            _add(found, pair)
            taken.add((pair.a, pair.b))
    groups: dict[str, list[ArtifactRow]] = {}
    for row in known.artifacts:
        groups.setdefault(row.manifest.rpartition("/")[0], []).append(row)
    for rows in groups.values():
        for manifest in dict.fromkeys(row.manifest for row in rows):
            for pair in _listed(known, manifest, [row for row in rows if row.manifest == manifest]):
                if (pair.a, pair.b) not in taken or pair.refused:
                    _add(found, pair)
    taken |= {(pair.a, pair.b) for pair in found.values()}
    used = {path for pair in found.values() for path in pair.files}
    for directory, rows in groups.items():
        for pair in _by_name(known, directory, rows):
            if (pair.a, pair.b) not in taken and not (pair.refused and pair.a in used):
                found.setdefault(pair.task, pair)
    ordered = sorted(found.values(), key=lambda one: (one.run, one.step is None, one.step or 0, one.a, one.b))
    if len(ordered) > MOST:
        why = f"there are more than {MOST} pairs: this one and {len(ordered) - MOST - 1} after it are not compared"
        ordered[MOST:] = [replace(ordered[MOST], refused=why)]
    return ordered


def _add(found: dict[str, Pair], pair: Pair) -> None:
    """A declared pair. The first of a name counts; another that says otherwise is refused."""
    first = found.setdefault(pair.task, pair)
    if any(getattr(first, name) != getattr(pair, name) for name in _SAYS):
        why = "the same files with the same control and variant are declared twice, with other words: the first counts"
        twin = replace(pair, refused=f"{why}; give this one a `variant`")
        found.setdefault(twin.task, twin)


def unpaired(known: Known, made: Iterable[Pair]) -> list[ArtifactRow]:
    """Artifacts that stand in no pair: each may hold both sides, which only its content tells."""
    used = {path for pair in made for path in pair.files}
    stable = {row.manifest.rpartition("/")[0] for row in known.artifacts if row.manifest.endswith("/STABLE")}
    return [
        row
        for row in known.artifacts
        if row.path not in used and row.manifest.rpartition("/")[0] not in stable and not _is_tokens(row)
    ]


def stem(name: str) -> str:
    """The name of an artifact without directories and the extension."""
    return _EXTENSION.sub("", name.rpartition("/")[2])


def names_side(row: ArtifactRow) -> bool:
    """Whether the name of an artifact says that it is one side."""
    return _SIDE.fullmatch(stem(row.name or row.path)) is not None


def _is_tokens(row: ArtifactRow) -> bool:
    return stem(row.name or row.path) in _TOKENS


def _heading(known: Known, row: ArtifactRow, said: Said | None, **more: Any) -> Pair:
    """A pair of the manifest of an artifact."""
    values: dict[str, Any] = {
        "host": known.host, "root": row.root, "manifest": row.manifest, "run": row.run, "run_how": row.run_how,
        "step": row.step,
        "goal": said.goal if said is not None and said.goal in GOALS else "unknown",
    }  # fmt: skip
    return _judged(known, Pair(**{**values, **more}))


def _judged(known: Known, pair: Pair) -> Pair:
    """The pair with the criterion that judges where it names none: not if that is for something else.

    A side held against itself, or two scorers on the same logits, show nothing of the stacks.
    """
    alone = pair.control not in ("", "cross_stack")
    of_stacks = known.criterion_goal in (Goal.CROSS_STACK, Goal.TRAINING_LOOP)
    other = pair.goal not in ("unknown", known.criterion_goal) or (pair.goal == "unknown" and alone and of_stacks)
    if known.criterion_goal and other:
        return pair
    return replace(pair, criterion=pair.criterion or known.criterion, planted=pair.planted or known.planted)


# --- by the names of a manifest's entries ----------------------------------------------------------------------------


def _by_name(known: Known, directory: str, rows: Sequence[ArtifactRow]) -> list[Pair]:
    stable = next((row for row in rows if row.manifest.endswith("/STABLE")), None)
    if stable is not None:
        return [_heading(known, stable, None, how=ALONE, a=directory, control="cross_stack")]
    found: list[Pair] = []
    sides: dict[str, dict[str, list[ArtifactRow]]] = {}
    tokens: list[ArtifactRow] = []
    for row in {one.path: one for one in rows}.values():
        match = _SIDE.fullmatch(stem(row.name or row.path))
        if match:
            sides.setdefault(match[2].lower(), {}).setdefault(match[1].lower(), []).append(row)
        elif _is_tokens(row):
            tokens.append(row)
        elif known.both.get((row.path, row.sha256)):
            said = known.said.get(row.manifest)
            found.append(_heading(known, row, said, how=ALONE, a=row.path, control="cross_stack"))
    for rest, by_side in sides.items():
        for alike in _in_one_directory(by_side):
            found += _sides(known, rest, alike, tokens)
    return found


def _in_one_directory(by_side: Mapping[str, list[ArtifactRow]]) -> Iterator[dict[str, list[ArtifactRow]]]:
    """Files of both sides that lie in one directory, as those of each step of a run do; then all others together."""
    where: dict[str, dict[str, list[ArtifactRow]]] = {}
    for side, rows in by_side.items():
        for row in rows:
            where.setdefault(row.path.rpartition("/")[0], {}).setdefault(side, []).append(row)
    yield from (own for own in where.values() if len(own) > 1)
    others: dict[str, list[ArtifactRow]] = {}
    for own in (own for own in where.values() if len(own) == 1):
        for side, rows in own.items():
            others.setdefault(side, []).extend(rows)
    if others:
        yield others


def _tokens_of(row: ArtifactRow, tokens: Sequence[ArtifactRow]) -> str:
    """The tokens of a pair: what lies beside its sides, else the only ones that the manifest names."""
    beside = [one for one in tokens if one.path.rpartition("/")[0] == row.path.rpartition("/")[0]]
    found = beside or [one for one in tokens if one.manifest.rpartition("/")[0] == one.path.rpartition("/")[0]]
    return found[0].path if len(found) == 1 else ""


def _sides(
    known: Known, rest: str, by_side: Mapping[str, list[ArtifactRow]], tokens: Sequence[ArtifactRow]
) -> list[Pair]:
    first, second = by_side.get("rollout", []), by_side.get("trainer", [])
    row = (first or second)[0]
    said = known.said.get(row.manifest)
    if len(first) == len(second) == 1:
        sides = {"a": row.path, "b": second[0].path, "tokens": _tokens_of(row, tokens)}
        return [_heading(known, row, said, how=MANIFEST, control="cross_stack", **sides)]
    if not first or not second:
        alone = first or second
        if len(alone) == 1 and known.both.get((alone[0].path, alone[0].sha256)):
            return [_heading(known, row, said, how=ALONE, a=alone[0].path, control="cross_stack")]
        if len(alone) == 1 and (alone[0].path, alone[0].sha256) not in known.both:
            return []  # whether it holds both sides is not looked at yet
        other = "trainer" if first else "rollout"
        why = f"{other}{rest} is named by no manifest beside it: it has no other side"
    else:
        side = "rollout" if len(first) > 1 else "trainer"
        why = f"several entries are named {side}{rest}: declare which belong together"
    return [_heading(known, row, said, how=MANIFEST, a=row.path, refused=why)]


# --- by a manifest's list -------------------------------------------------------------------------------------------


def _listed(known: Known, manifest: str, rows: Sequence[ArtifactRow]) -> list[Pair]:
    said = known.said.get(manifest)
    if said is None:
        return []
    names: dict[str, str] = {}
    for row in rows:
        names[os.path.relpath(row.path, manifest.rpartition("/")[0])] = row.path
        names[row.name] = row.path
    found = []
    for number, entry in enumerate(said.comparisons, start=1):
        values = _entry(entry, names)
        if isinstance(values, str):
            why = f"entry {number} of `comparisons` in {manifest}: {values}"
            found.append(_heading(known, rows[0], None, how=MANIFEST, a=manifest, variant=str(number), refused=why))
        else:
            row = next(one for one in rows if one.path == values["a"])
            found.append(_heading(known, row, said, how=MANIFEST, **values))
    return found


def _entry(entry: Any, names: Mapping[str, str]) -> dict[str, Any] | str:  # noqa: PLR0911  one return a way to be wrong
    """What an entry says, or what is wrong with it."""
    if not isinstance(entry, dict):
        return "no object"
    values: dict[str, Any] = {}
    for key in ("a", "b", "tokens"):
        name = entry.get(key)
        if name is None and key != "a":
            continue
        if not isinstance(name, str) or name not in names:
            return f"`{key}` is no artifact of this manifest"
        values[key] = names[name]
    for key in ("repeats_a", "repeats_b"):
        listed = entry.get(key, [])
        if not isinstance(listed, list) or not all(isinstance(name, str) and name in names for name in listed):
            return f"`{key}` is no list of artifacts of this manifest"
        values[key] = tuple(names[name] for name in listed)
    for key in _WORDS:
        value = entry.get(key)
        if key == "tokens" or value is None:
            continue
        if not isinstance(value, str) or not value:
            return f"`{key}` is no text"
        values[key] = value[:500]
    if values.get("control") not in (None, *CONTROLS):
        return f"`control` is none of {', '.join(CONTROLS)}"
    if values.get("goal") not in (None, *GOALS):
        return f"`goal` is none of {', '.join(GOALS)}"
    return values


# --- by tic.toml -----------------------------------------------------------------------------------------------------


def pattern(entry: ComparisonConfig, base: str) -> re.Pattern[str]:
    """What `a` matches, as an absolute path. `{name}` is a part of a name; the same one twice is the same text."""
    text, seen = os.path.normpath(os.path.join(base, entry.a)), set[str]()  # noqa: PTH118  no file is touched
    out = ""
    for part in re.split(r"(\{[A-Za-z_]\w*\}|\*\*/|\*\*|\*|\?)", text, flags=re.ASCII):
        if match := _PLACE.fullmatch(part):
            name = match[1]
            body = r"\d{1,12}" if name == "step" else "[^/]+"
            out += f"(?P={name})" if name in seen else f"(?P<{name}>{body})"
            seen.add(name)
        else:
            out += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part) or re.escape(part)
    return re.compile(out, re.DOTALL)


def _declared(
    known: Known, entry: ComparisonConfig, on_disk: Sequence[tuple[str, str]], by_path: Mapping[str, ArtifactRow]
) -> list[Pair]:
    matching = pattern(entry, known.base)
    places = {path: row.root for path, row in by_path.items() if matching.fullmatch(path)}
    places |= dict(on_disk)
    found = []
    for path, root in sorted(places.items()):
        match = matching.fullmatch(path)
        if match is None:
            continue
        names = match.groupdict()

        def place(text: str, names: Mapping[str, str] = names) -> str:
            filled = _PLACE.sub(lambda one: names.get(one[1], one[0]), text)
            return os.path.normpath(os.path.join(known.base, filled)) if text else ""  # noqa: PTH118

        row = by_path.get(path) or by_path.get(place(entry.b))
        step = entry.step if entry.step is not None else row.step if row is not None else None
        if step is None:
            step = int(names["step"]) if "step" in names else layout.step_of(path)
        run, run_how = _run(known, entry, path, row)
        pair = Pair(
                known.host, root, DECLARED, path, place(entry.b), row.manifest if row is not None else "", run, run_how,
                step, place(entry.tokens), tuple(map(place, entry.repeats_a)), tuple(map(place, entry.repeats_b)),
                entry.control, entry.variant, entry.goal, entry.basis, entry.policy, entry.intervention,
                str(entry.criterion or ""), str(entry.planted or ""), entry.plant,
        )  # fmt: skip
        # Whoever names a criterion for a pair says what it is judged by; the report of a planted error may be shared.
        found.append(replace(pair, planted=pair.planted or known.planted) if pair.criterion else _judged(known, pair))
    return found


def _run(known: Known, entry: ComparisonConfig, path: str, row: ArtifactRow | None) -> tuple[str, str]:
    if entry.run:
        return entry.run, "config"
    if row is not None and row.run:
        return row.run, row.run_how
    if run := known.run_for(path):
        return run, "config"
    if run := layout.run_of(path):
        return run, "path"
    return "", ""
