"""What another line denies: a rule's hit that says nothing, because the engine has said that it does not hold.

vLLM prints that it fell asleep also where the worker has just warned that sleep mode is not supported and does nothing;
SGLang answers 200 to a release of memory that its own arguments have switched off. A `context` rule with `denies` names
the rules whose hits are then passed over; a fault's becomes a mention, and only of one that never locks:

    denies_for = "process"   until a new engine begins in this log
    denies_for = "next"      the next hit of each, if no other line of the lifecycle comes first

An engine is what prints into one log; SGLang's servers are told apart by the pid that Ray puts before their lines, as
in store/schema/derive/3_state.sql.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tic_daemon.scan.events import Event, WeightPhase
from tic_daemon.scan.rule import Rule

MAX_ENGINES: Final = 1000


@dataclass(slots=True)
class Denials:
    """Names of rules that say nothing now, by engine. `standing`: until it begins anew; `once`: for their next hit."""

    standing: dict[str, list[str]] = field(default_factory=dict)
    once: dict[str, list[str]] = field(default_factory=dict)

    def deny(self, rule: Rule, key: str) -> None:
        """A line of `rule`, written by the process `key`, denies what its rules claim."""
        engine = _engine(rule, key)
        table = self.once if rule.denies_for == "next" else self.standing
        if engine in table or len(table) < MAX_ENGINES:
            table[engine] = sorted({*table.get(engine, ()), *rule.denies})

    def of(self, rule: Rule, key: str) -> bool:
        """Whether a hit of `rule` is denied; a denial of the next one is used up."""
        if not (self.standing or self.once):
            return False
        engine = _engine(rule, key)
        if rule.name in self.once.get(engine, ()):
            self._drop(engine, rule.name)
            return True
        return rule.name in self.standing.get(engine, ())

    def heard(self, rule: Rule, key: str, found: list[Event]) -> None:
        """`rule` gave these events: a line of the lifecycle ends what was denied once, a new engine all of it."""
        if not (self.standing or self.once) or not found or not isinstance(found[0], WeightPhase):
            return
        engine = _engine(rule, key)
        self.once.pop(engine, None)
        if found[0].phase == "new_process":
            self.standing.pop(engine, None)

    def _drop(self, engine: str, name: str) -> None:
        self.once[engine].remove(name)
        if not self.once[engine]:
            del self.once[engine]

    def to_json(self) -> list[dict[str, list[str]]]:
        return [self.standing, self.once] if self.standing or self.once else []

    @classmethod
    def from_json(cls, value: list[Any]) -> Denials:
        return cls(*value)


def _engine(rule: Rule, key: str) -> str:
    outer = key.split(" ", maxsplit=1)[0]
    return outer if outer.startswith("in:") or (rule.pack == "sglang" and outer.startswith("pid:")) else ""
