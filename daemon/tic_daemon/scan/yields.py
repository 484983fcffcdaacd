"""From a rule's hit in a peeled line to events."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from tic_daemon.scan.events import At, Device, Event, ExecState, Metric, StepEvent, Timing, WeightPhase
from tic_daemon.scan.rule import Rule
from tic_daemon.scan.values import integer, key_values, number, pci

MAX_RAW: Final = 64 * 1024

_NO_GROUPS: Final[Mapping[str, str | None]] = {}
AtMaker = Callable[[Rule, int | None, Mapping[str, str | None]], At]
"""Makes the `At` of an event: the rule (for its stream), the line's own step if it has one, the rule's groups."""


def step_of(rule: Rule, hit: re.Match[str]) -> int | None:
    """The step that a step or metric rule's line prints, or None."""
    return integer((hit[rule.step_field] or "").replace(",", "")) if rule.step_field else None


def step_events(rule: Rule, hit: re.Match[str], payload: str, make: AtMaker) -> list[Event]:
    """A step line and its metrics, or a line of metrics alone."""
    step = step_of(rule, hit)
    if rule.yields == "step" and step is None:
        return []
    at = make(rule, step, hit.groupdict() if len(rule.regex.groupindex) > 1 else _NO_GROUPS)
    found: list[Event] = []
    if rule.yields == "step":
        found.append(StepEvent(at, rule.edge, rule.gpu, rule.name, payload[:MAX_RAW]))
    if rule.metrics:
        start = hit.end()
        if rule.metrics == "dict":
            start = max(payload.find("{", hit.start()), 0)
        for key, value, printed in key_values(rule.metrics, payload[start:]):
            found.append(Metric(at, key, value, printed, f"{key}:{printed}"))
    elif rule.yields == "metric" and (name := hit.groupdict().get("key")):
        text = hit.groupdict().get("value") or ""
        found.append(Metric(at, name, number(text), text, f"{name}:{text}"))
    return found


def _groups(rule: Rule, hit: re.Match[str]) -> Mapping[str, str | None]:
    return hit.groupdict() if rule.regex.groups else _NO_GROUPS


def _filled(rule: Rule, template: str, groups: Mapping[str, str | None]) -> str:
    return rule.render(template, groups) if "{" in template else template


def _exec_state(rule: Rule, hit: re.Match[str], make: AtMaker) -> list[Event]:
    groups = _groups(rule, hit)
    value = rule.state_value(groups)
    if not value:
        return []
    claimed, observed = (value, None) if rule.claimed else (None, value)
    return [ExecState(make(rule, None, groups), rule.role, rule.field, claimed, observed, rule.name)]


def _weight_phase(rule: Rule, hit: re.Match[str], make: AtMaker) -> list[Event]:
    groups = _groups(rule, hit)
    level, version = _filled(rule, rule.level, groups), _filled(rule, rule.version, groups)
    duration = number(_filled(rule, rule.duration, groups)) if rule.duration else None
    at = make(rule, None, groups)
    return [WeightPhase(at, rule.role, rule.track, rule.phase, level, version, duration, rule.name)]


def device(rule: Rule, hit: re.Match[str], node: str, make: AtMaker) -> list[Event]:
    """A process on a GPU. `node`: the host that the wrapper names, where the rule has none."""
    groups = hit.groupdict()
    return [Device(make(rule, None, groups), pci(groups.get("bus") or ""), groups.get("node") or node)]


def _timing(rule: Rule, hit: re.Match[str], make: AtMaker) -> list[Event]:
    groups = hit.groupdict()
    seconds = number(rule.render(rule.seconds, groups))
    return [] if seconds is None else [Timing(make(rule, None, groups), rule.phase, seconds, rule.cold)]


_OTHERS: Final[Mapping[str, Callable[[Rule, re.Match[str], AtMaker], list[Event]]]] = {
    "exec_state": _exec_state, "weight_phase": _weight_phase, "timing": _timing,
}  # fmt: skip


def events(rule: Rule, hit: re.Match[str], payload: str, node: str, make: AtMaker) -> list[Event]:
    """What one hit yields; faults and records are made elsewhere. A `context` rule yields nothing by itself."""
    if rule.yields in {"step", "metric"}:
        return step_events(rule, hit, payload, make)
    if rule.yields == "device":
        return device(rule, hit, node, make)
    other = _OTHERS.get(rule.yields)
    return other(rule, hit, make) if other else []
