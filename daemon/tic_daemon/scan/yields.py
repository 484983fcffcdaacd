"""From a rule's hit in a peeled line to events."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

from tic_daemon.scan.events import (
    At,
    BenchMark,
    Compilation,
    Device,
    EnvSeen,
    Event,
    ExecState,
    FileSaid,
    Metric,
    StepEvent,
    Timing,
    Transport,
    WandbNamed,
    WeightPhase,
)
from tic_daemon.scan.rule import Rule
from tic_daemon.scan.values import integer, key_values, number, pci

MAX_RAW: Final = 64 * 1024

Groups = Mapping[str, str | None]
NO_GROUPS: Final[Groups] = {}
AtMaker = Callable[[str, Groups, int | None], At]
"""Makes the `At` of an event: the rule's stream, the groups that name the writer, the line's own step if it has one."""


def step_of(rule: Rule, hit: re.Match[str]) -> int | None:
    """The step that a step or metric rule's line prints, or None."""
    return integer((hit[rule.step_field] or "").replace(",", "")) if rule.step_field else None


def step_events(rule: Rule, hit: re.Match[str], payload: str, _node: str, make: AtMaker) -> list[Event]:
    """A step line and its metrics, or a line of metrics alone."""
    step = step_of(rule, hit)
    if rule.yields == "step" and step is None and not rule.step_from:
        return []
    at = make(rule.stream, _who(rule, hit), step)
    if rule.yields == "step" and (at.step is None or at.step_carried):
        return []
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


def _who(rule: Rule, hit: re.Match[str]) -> Groups:
    return hit.groupdict() if rule.tells_who else NO_GROUPS


def _exec_state(rule: Rule, hit: re.Match[str], _payload: str, _node: str, make: AtMaker) -> list[Event]:
    value = rule.state_value(hit)
    if not value:
        return []
    at = make(rule.stream, _who(rule, hit), None)
    if rule.claimed:
        return [ExecState(at, rule.role, rule.field, value, None, rule.name)]
    return [ExecState(at, rule.role, rule.field, None, value, rule.name)]


def _weight_phase(rule: Rule, hit: re.Match[str], _payload: str, _node: str, make: AtMaker) -> list[Event]:
    level, version, duration = rule.level, rule.version, None
    if rule.duration or "{" in level or "{" in version:
        groups = hit.groupdict()
        level, version = rule.render(level, groups), rule.render(version, groups)
        duration = number(rule.render(rule.duration, groups)) if rule.duration else None
    at = make(rule.stream, _who(rule, hit), None)
    return [WeightPhase(at, rule.role, rule.track, rule.phase, level, version, duration, rule.name)]


def _device(rule: Rule, hit: re.Match[str], _payload: str, node: str, make: AtMaker) -> list[Event]:
    groups = hit.groupdict()
    at = make(rule.stream, groups, None)
    return [Device(at, pci(groups.get("bus") or ""), groups.get("node") or node)]


def _timing(rule: Rule, hit: re.Match[str], _payload: str, _node: str, make: AtMaker) -> list[Event]:
    groups = hit.groupdict()
    seconds = number(rule.render(rule.seconds, groups))
    if seconds is None:
        return []
    return [Timing(make(rule.stream, groups, None), rule.render(rule.phase, groups), seconds, rule.cold)]


def _transport(rule: Rule, hit: re.Match[str], _payload: str, _node: str, make: AtMaker) -> list[Event]:
    """What the line alone says; `comms.Comms` adds the communicator. `src` and `dst` are ranks of a channel's ends:
    who receives prints the line as well as who sends, and is the second of them."""
    groups = hit.groupdict()
    said = {name: integer(groups.get(name) or "") for name in ("own", "nranks", "nnodes", "src", "dst", "size")}
    direction = groups.get("direction") or ""
    own, peer = said["own"], None
    if rule.what == "channel":
        own, peer = said["src"], said["dst"]
        if direction == "receive":
            own, peer = peer, own
    mnnvl = groups.get("mnnvl")
    return [
        Transport(
            make(rule.stream, groups, None), rule.what, rule.render(rule.transport, groups)[:200],
            groups.get("channel") or "", peer, direction, groups.get("comm") or "", groups.get("id") or "", "",
            own, said["nranks"], said["nnodes"], None if mnnvl is None else mnnvl == "1",
            groups.get("clique") or "", said["size"], rule.name,
        )
    ]  # fmt: skip


def _compilation(rule: Rule, hit: re.Match[str], _payload: str, _node: str, make: AtMaker) -> list[Event]:
    groups = hit.groupdict()
    seconds = number(rule.render(rule.seconds, groups)) if rule.seconds else None
    who, what = rule.render(rule.compiler, groups), rule.render(rule.what, groups)[:500]
    return [Compilation(make(rule.stream, groups, None), who, what, seconds, rule.stage, rule.name)]


def _bench(rule: Rule, hit: re.Match[str], payload: str, _node: str, make: AtMaker) -> list[Event]:
    what = rule.render(rule.what, hit.groupdict()) or payload
    return [BenchMark(make(rule.stream, _who(rule, hit), None), what[:500], rule.name)]


def _env(rule: Rule, hit: re.Match[str], _payload: str, _node: str, make: AtMaker) -> list[Event]:
    return [EnvSeen(make(rule.stream, _who(rule, hit), None), hit["name"] or "", (hit["value"] or "")[:500], rule.name)]


def _wandb(rule: Rule, hit: re.Match[str], _payload: str, _node: str, make: AtMaker) -> list[Event]:
    path = "/".join(unquote(hit[name] or "") for name in ("entity", "project", "id"))
    return [WandbNamed(make(rule.stream, _who(rule, hit), None), path, hit["url"] or "", rule.name)]


def _file(rule: Rule, hit: re.Match[str], _payload: str, _node: str, make: AtMaker) -> list[Event]:
    at = make(rule.stream, _who(rule, hit), step_of(rule, hit))
    return [FileSaid(at, rule.what, rule.edge, rule.render(rule.path, hit.groupdict()), rule.name)]


_READERS: Final[Mapping[str, Callable[[Rule, re.Match[str], str, str, AtMaker], list[Event]]]] = {
    "step": step_events, "metric": step_events, "device": _device, "exec_state": _exec_state,
    "weight_phase": _weight_phase, "timing": _timing,
    "transport": _transport, "compile": _compilation, "bench": _bench, "env": _env, "wandb": _wandb,
    "file": _file,
}  # fmt: skip


def events(rule: Rule, hit: re.Match[str], payload: str, node: str, make: AtMaker) -> list[Event]:
    """What one hit yields; faults and records are made elsewhere. A `context` rule yields nothing by itself.

    Args:
        payload: the peeled line. node: the host that the wrapper names, where the rule has none.
    """
    reader = _READERS.get(rule.yields)
    return reader(rule, hit, payload, node, make) if reader else []
