"""One rule of a pack: what it looks for and what it yields.

A rule is data. `literals` say which lines are worth a look (one must be among the line's bytes), `regex` reads the line
behind its wrappers, the other keys say what the line means. Which keys go with which yield stands in `KEYS`; how a pack
file becomes rules is in `rules.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Final

YIELDS: Final = (
    "fault", "step", "mismatch", "exec_state", "weight_phase", "device", "metric", "timing", "transport", "compile",
    "bench", "env", "wandb", "file", "context",
)  # fmt: skip
SEVERITIES: Final = ("L", "LH", "N", "S", "E", "I")
LOCKS: Final = ("always", "if_continues", "never")
ROLES: Final = ("rollout", "trainer")
STEP_FROM: Final = ("", "begun", "bar")
METRIC_FORMS: Final = ("", "verl", "dict", "pipe", "titan")
EXEC_FIELDS: Final = (
    "graph_mode", "capture_sizes", "step_kind", "prefix_cache", "prefix_hit_rate", "attention_backend", "moe_backend",
    "compile_mode", "batch_invariant", "spec_decode", "dtype", "quantization", "parallel_layout",
)  # fmt: skip
PHASES: Final[Mapping[str, tuple[str, ...]]] = {
    "residency": ("cold_load", "asleep", "awake", "reloading", "reloaded", "new_process"),
    "version": ("updated",),
    "cache": ("reset", "reset_refused"),
    "graph": ("captured", "replayed"),
}

TRANSPORT_KINDS: Final = ("comm", "topology", "fabric", "channel", "network", "nvls", "version", "all2all", "nvshmem")
STAGES: Final = ("", "inference", "start")
FILE_KINDS: Final = ("checkpoint", "flight_recorder")
DENIES_FOR: Final = ("process", "next")

COMMON_KEYS: Final = frozenset({
    "name", "yields", "literal", "pattern", "anchor", "order", "wrap", "stream", "title", "product", "source",
    "match", "no_match", "values", "override",
})  # fmt: skip
KEYS: Final[Mapping[str, frozenset[str]]] = {
    "fault": frozenset({"severity", "locks", "needs_level", "node_scope", "match_verdict"}),
    "step": frozenset({"step_field", "step_from", "edge", "gpu", "metrics"}),
    "mismatch": frozenset(),
    "exec_state": frozenset({"role", "field", "claimed", "observed", "share"}),
    "weight_phase": frozenset({"role", "track", "phase", "level", "version", "duration"}),
    "device": frozenset(),
    "metric": frozenset({"metrics", "step_field", "step_from"}),
    "timing": frozenset({"phase", "seconds", "cold", "step_from"}),
    "transport": frozenset({"what", "transport"}),
    "compile": frozenset({"compiler", "what", "seconds", "stage"}),
    "bench": frozenset({"what"}),
    "env": frozenset(),
    "wandb": frozenset(),
    "file": frozenset({"what", "edge", "path", "step_field"}),
    "context": frozenset({"denies", "denies_for"}),
}

# Text before a marker that is cited, not printed: `"`, `log:77:`, `+`, "saw ", an escaped newline, an indented block.
_CITED = re.compile(r"""[`'"“”‘’(:=>|#*+-] *$|[A-Za-z,.;] +$|\\n$|^ {2,}$""")
_WHO: Final = frozenset({"pid", "rank"})
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, checked.

    Attributes:
        name: unique; for faults the `kind` of the event ("cuda.illegal_address").
        pack: pack that it came from.
        yields: one of `YIELDS`.
        literals: at least one must occur in the line's bytes; a blank in it may also stand for an ANSI escape.
        pattern: the regular expression, macros expanded.
        regex: `pattern` compiled, when it is asked for first: few of all rules ever see a line. Applied to the peeled
            text.
        anchor: "start": at the payload's start. "any": also in the middle of a line, for what the C side prints without
            a newline of its own; for faults not behind a quote, a colon or a word and a blank, which is how people and
            tools cite it. Use `find`, which knows.
        order: rules are tried in growing order; the first fault rule that matches a line wins (catch-alls last).
        wrap: class of wrapper that must have been peeled: "" (any) | kernel | noactor | nccl_warn | ...
        stream: stream to which the program prints the line when nothing else tells: stdout | stderr | "".
        title: what the line means, in words.
        product: program and versions that print it; `source`: the file or page where that was read.
        match, no_match: lines (or several lines in one string) that must, or must not, yield this rule.
        values: maps a rendered `claimed` or `observed` text to the stored one; a text that is not in it yields nothing.
        severity, locks, needs_level, node_scope: faults; `needs_level` False: the line's shape alone proves that the
            runtime printed it. `match_verdict`: the verdict that `match` lines must come out with.
        step_field, edge, gpu, metrics: steps and metrics: the group that holds the step; "begin" or "end"; whether
            finishing the step proves GPU work; how the key/values on the line are read.
        step_from: where a number that the line lacks comes from: "begun" is the step that the writer has begun last,
            "bar" that of the progress bar through which the line was printed. See `step_from`.
        role, field, claimed, observed: execution state; templates over groups.
        share: groups that hold counts: `{share}` is the first of them in percent of all, with one decimal; a line whose
            counts are all zero yields nothing.
        track, phase, level, version, duration: weight phase; the last three are templates.
        seconds, cold: timing; template, and whether the line is a cold start. `seconds` of compile: may be "".
        what, transport: transport: one of `TRANSPORT_KINDS`, and a template; further fields come from the groups comm,
            id, own, nranks, nnodes, channel, src, dst, direction, mnnvl, clique, size. Of compile and bench, `what` is
            a template: the kernel, the benchmark.
        compiler, stage: compile: who compiles, a template; one of `STAGES`.
        denies, denies_for: context: rules whose hits say nothing after this line, and how long; see `denials`.
        path: file: template; `what` is one of `FILE_KINDS`, `edge` as of a step.
        tells_who: a group of the pattern names the writer. Follows from the pattern.
        said_by: the group that is all that `claimed` or `observed` renders, "" if there is none. Follows from them.
    """

    name: str
    pack: str
    yields: str
    literals: tuple[str, ...]
    pattern: str
    anchor: str = "start"
    order: int = 100
    wrap: str = ""
    stream: str = ""
    title: str = ""
    product: str = ""
    source: str = ""
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()
    values: Mapping[str, str] = dataclass_field(default_factory=dict)
    severity: str = ""
    locks: str = "never"
    needs_level: bool = True
    node_scope: bool = False
    match_verdict: str = "confirmed"
    step_field: str = ""
    step_from: str = ""
    edge: str = ""
    gpu: bool = False
    metrics: str = ""
    role: str = ""
    field: str = ""
    claimed: str = ""
    observed: str = ""
    share: tuple[str, ...] = ()
    track: str = ""
    phase: str = ""
    level: str = ""
    version: str = ""
    duration: str = ""
    seconds: str = ""
    cold: bool = False
    what: str = ""
    transport: str = ""
    compiler: str = ""
    stage: str = ""
    path: str = ""
    denies: tuple[str, ...] = ()
    denies_for: str = "process"
    regex: re.Pattern[str] = dataclass_field(init=False, repr=False, compare=False)
    tells_who: bool = dataclass_field(init=False, repr=False, compare=False)
    said_by: str = dataclass_field(init=False, repr=False, compare=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """What follows from the pattern, worked out once."""
            if name == "regex":
                value = re.compile(self.pattern, re.ASCII)
            elif name == "tells_who":
                value = not _WHO.isdisjoint(self.regex.groupindex)
            elif name == "said_by":
                slot = _SLOT.fullmatch(self.claimed or self.observed)
                value = slot[1] if slot is not None and slot[1] in self.regex.groupindex else ""
            else:
                raise AttributeError(name)
            object.__setattr__(self, name, value)
            return value

    def find(self, text: str) -> re.Match[str] | None:
        """The rule's hit in a peeled text, as `anchor` asks."""
        if self.anchor == "start":
            return self.regex.match(text)
        if self.yields != "fault":
            return self.regex.search(text)
        return next(
            (
                hit
                for hit in self.regex.finditer(text)
                if not _CITED.search(text, max(0, hit.start() - 80), hit.start())
            ),
            None,
        )

    def render(self, template: str, groups: Mapping[str, str | None]) -> str:
        """Fill `{group}` slots; a group that took no part is ""."""
        if "{" not in template:
            return template
        if template[1:-1] in groups:  # one slot and nothing else
            return groups[template[1:-1]] or ""
        return _SLOT.sub(lambda slot: groups.get(slot[1]) or "", template)

    def state_value(self, hit: re.Match[str]) -> str | None:
        """The value that an exec_state rule claims or observes, or None if `values` does not know the text."""
        if self.said_by:
            text = hit[self.said_by] or ""
            return self.values.get(text) if self.values else text
        groups: Mapping[str, str | None] = hit.groupdict()
        if self.share:
            counts = [float(groups[name] or 0) for name in self.share]
            if not (whole := sum(counts)):
                return None
            groups = {**groups, "share": f"{100 * counts[0] / whole:.1f}"}
        text = self.render(self.claimed or self.observed, groups)
        return self.values.get(text) if self.values else text


@dataclass(frozen=True, slots=True)
class FaultRule:
    """What the store keeps of a fault rule: severity and locking are looked up by `kind` when a view is read."""

    kind: str
    severity: str
    locks: str
    node_scope: bool
    title: str
    pack: str
    product: str


def slots(template: str) -> set[str]:
    """Names of the groups that a template uses."""
    return set(_SLOT.findall(template))
