"""The reference page of all rules, made from the packs: docs/reference/rules.md is this function's output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tic_daemon.scan.rule import COMMON_KEYS, EXEC_FIELDS, FILE_KINDS, KEYS, METRIC_FORMS, PHASES, TRANSPORT_KINDS, Rule
from tic_daemon.scan.rules import RuleSet

_HEAD = """# Rules

Made from the packs by `tic-daemon rules list --markdown`; do not edit. What the columns mean:
[teach it a log line](../how-to/add-a-rule.md).

`needs proof`: the line counts as confirmed only if the runtime wrote it. `self`: its shape alone proves that.
Rules of a lower order are tried first; of the fault rules the first that matches a line wins.
"""

KEY_TEXTS: Final[Mapping[str, str]] = {
    "name": "unique, lower case, dotted; of a fault it is the `kind`",
    "yields": f"what a hit becomes: {', '.join(KEYS)}",
    "literal": "texts of 4 bytes or more; one must stand in the line before the pattern is tried",
    "pattern": "Python expression over the peeled line; named groups are fields; `{{NAME}}` is a macro of `[define]` "
    "or one that all packs share (`tic_daemon/scan/macros.toml`)",
    "anchor": "`start` (default): at the payload's start. `any`: also behind a progress bar or another writer's text",
    "order": "rules are tried in growing order, default 100; the first fault rule that matches a line wins",
    "wrap": "a wrapper that must have been peeled: `kernel`, `nccl_warn`, `vllm_record`, ...; `noactor`: no worker's; "
    "`scheduler`: none, but the source's role is that",
    "stream": "`stdout` or `stderr`: where the program prints the line, when nothing else tells",
    "title": "what the line means; faults must say it",
    "product": "which program and versions print the line",
    "source": "the file or page where that was read",
    "match": "lines that must yield the rule; a fault's must come out as `match_verdict`",
    "no_match": "lines that must not",
    "values": "of exec_state: printed text to stored value; a text that is not in it yields nothing",
    "override": "true: replaces a rule of the same name of an earlier pack",
    "severity": "L, LH, N, S, E or I",
    "locks": "`always`, `if_continues` (a member of the collective that goes on computing) or `never`",
    "needs_level": "true (default): confirmed only if the runtime wrote the line. false: its shape alone proves that",
    "node_scope": "true: an event of the node until its GPU is mapped to a run",
    "match_verdict": "`confirmed` (default), `suspect` or `mention`",
    "step_field": "the group that holds the step; default of step rules `step`; of file: of a checkpoint",
    "step_from": "`begun`: the number is that of the step that the writer has begun last. `bar`: it stands on the "
    "progress bar through which the line was printed; without one there is none",
    "edge": "`begin` or `end`: what the line marks",
    "gpu": "true: who finishes this step has a working GPU",
    "metrics": f"how keys and values are read: {', '.join(filter(None, METRIC_FORMS))}; none: by groups `key`, `value`",
    "role": "`rollout` or `trainer`",
    "field": f"of the execution state: {', '.join(EXEC_FIELDS)}",
    "claimed": "template: a printed setting. `{group}` is filled from the pattern",
    "observed": "template: what is in use",
    "share": "names of groups that hold counts: `{share}` in `observed` is the first in percent of all",
    "track": f"of the weight lifecycle: {', '.join(PHASES)}",
    "phase": "of the weight lifecycle: "
    + "; ".join(f"{t}: {' '.join(p)}" for t, p in PHASES.items())
    + ". Of timing: any, a template",
    "level": "template: sleep level, tags, count",
    "version": "template: weight version as printed",
    "duration": "template: seconds",
    "denies": "of context: names of rules whose hits say nothing after this line; of faults only such as never lock",
    "denies_for": "`process` (default): until a new engine begins in this log. `next`: the next hit of each",
    "seconds": "template: seconds",
    "cold": "true: a cold start",
    "what": f"of transport: {', '.join(TRANSPORT_KINDS)}. Of file: {', '.join(FILE_KINDS)}. Of compile and bench a "
    "template: kernel, benchmark",
    "path": "of file, a template: the file that the line names",
    "transport": "template: the label. Groups comm, id, own, nranks, nnodes, channel, src, dst, direction, mnnvl, "
    "clique, size fill the other columns",
    "compiler": "template: who compiles",
    "stage": "`inference` or `start`, if the line tells",
}


def markdown(rules: RuleSet) -> str:
    """The page: the keys of a rule, then one table a pack and kind."""
    parts = [_HEAD, "\n## Keys of a rule\n", _keys()]
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


def _keys() -> str:
    rows = []
    for key, text in KEY_TEXTS.items():
        kinds = "all" if key in COMMON_KEYS else ", ".join(kind for kind, own in KEYS.items() if key in own)
        rows.append((f"`{key}`", kinds, text))
    return _table(("key", "of", "meaning"), rows)


def _yields(rule: Rule) -> str:
    if rule.yields == "exec_state":
        values = ", ".join(f"{key} is {value}" for key, value in rule.values.items())
        text = f"{rule.field} {'claimed' if rule.claimed else 'observed'}: {rule.claimed or rule.observed}"
        return f"{text} ({values})" if values else text
    if rule.yields == "weight_phase":
        return f"{rule.track}: {rule.phase}" + (f", level {rule.level}" if rule.level else "")
    if rule.yields == "step":
        return f"{rule.title}; {rule.edge}, {'proves' if rule.gpu else 'does not prove'} GPU work"
    if rule.yields in {"transport", "file"}:
        return ": ".join(filter(None, (rule.what, rule.transport, rule.edge)))
    if rule.yields == "compile":
        return f"{rule.compiler} compiles {rule.what}" + (f", during {rule.stage}" if rule.stage else "")
    return f"seconds of {rule.phase}" if rule.yields == "timing" else rule.title


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
