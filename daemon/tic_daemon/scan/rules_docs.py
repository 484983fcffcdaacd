"""The reference page of all rules, made from the packs: docs/reference/rules.md is this function's output."""

from __future__ import annotations

from collections.abc import Sequence

from tic_daemon.scan.rule import Rule
from tic_daemon.scan.rules import RuleSet

_HEAD = """# Rules

Made from the packs by `tic-daemon rules list --markdown`; do not edit. What the columns mean:
[teach it a log line](../how-to/add-a-rule.md).

`needs proof`: the line counts as confirmed only if the runtime wrote it. `self`: its shape alone proves that.
Rules of a lower order are tried first; of the fault rules the first that matches a line wins.
"""


def markdown(rules: RuleSet) -> str:
    """The page, one table a pack and kind."""
    parts = [_HEAD]
    for pack in sorted(rules.packs, key=lambda one: one.name):
        parts.append(f"\n## {pack.name}: {pack.title}\n")
        own = [rule for rule in pack.rules if rules.by_name[rule.name] is rule]
        faults = [rule for rule in own if rule.yields == "fault"]
        others = [rule for rule in own if rule.yields != "fault"]
        if faults:
            rows = [
                (f"`{r.name}`", r.severity, r.locks, "needs proof" if r.needs_level else "self", r.title, r.product)
                for r in sorted(faults, key=lambda rule: (rule.order, rule.name))
            ]
            parts.append(_table(("fault", "severity", "locks", "proof", "meaning", "printed by"), rows))
        if others:
            lines = [
                (f"`{r.name}`", r.yields, _yields(r), r.product) for r in sorted(others, key=lambda rule: rule.name)
            ]
            parts.append(_table(("rule", "yields", "what", "printed by"), lines))
    return "\n".join(parts)


def _yields(rule: Rule) -> str:
    if rule.yields == "exec_state":
        values = ", ".join(f"{key} is {value}" for key, value in rule.values.items())
        text = f"{rule.field} {'claimed' if rule.claimed else 'observed'}: {rule.claimed or rule.observed}"
        return f"{text} ({values})" if values else text
    if rule.yields == "weight_phase":
        return f"{rule.track}: {rule.phase}" + (f", level {rule.level}" if rule.level else "")
    if rule.yields == "step":
        return f"{rule.title}; {rule.edge}, {'proves' if rule.gpu else 'does not prove'} GPU work"
    return f"seconds of {rule.phase}" if rule.yields == "timing" else rule.title


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
