"""The symptom router: facts of a run in, hints out. Pure; what it knows is router.toml.

A hint says what was seen and which experiment comes first. It proves no cause and passes nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

RULED_OUT: Final = "ruled out"
SUSPECTED: Final = "suspected"
OPEN: Final = "open"
NOT_REACHED: Final = "not reached"
GROUPS: Final = ("inference_alone", "training_alone", "score_layer")


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison of both stacks that may be looked at.

    Attributes:
        step: trainer step; None: not known. valid, differing: tokens; differing None: bits cannot be compared.
        sequences, sequences_differing: counts. inputs_known: the hash of the tokens that both sides scored is known.
        differs: what both sides do not have alike, though they must. same_policy: True, False, None: not known.
        floor: the larger noise floor of the sides, of the mean difference; None: not known.
    """

    id: str
    step: int | None
    valid: int
    differing: int | None
    sequences: int
    sequences_differing: int | None
    inputs_known: bool = False
    differs: tuple[str, ...] = ()
    same_policy: bool | None = None
    mean: float | None = None
    floor: float | None = None

    @property
    def share(self) -> float | None:
        """Share of the tokens that differ."""
        return self.differing / self.valid if self.differing is not None and self.valid else None


@dataclass(frozen=True, slots=True)
class Sequence_:
    """A sequence of a comparison that differs. `first`: position in the response of its first difference."""

    request: str
    valid: int
    differing: int
    first: int
    prompt: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """The first divergence of a comparison of layer traces. `boundary` "": none diverges."""

    boundary: str
    input_state: str
    discrete: bool
    discrete_equal: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a run.

    Attributes:
        compared: comparisons of both stacks. sequences: the differing ones of each comparison by id.
        groups: state of each control group, as view control_groups has it, the worst of all steps.
        findings: what is wrong with the life of the weights, in words. weights: state of the record's field
            weights.content: agree, disagree, worker only, launcher only, unknown.
        quantized: how the rollout is quantized, "" not at all or not known. communication: faults of NCCL, in words.
        rounds: comparisons of the same input that differ, since a trace, control group or case last said more.
        ruled_out: hypotheses that fell, as people said.
    """

    compared: tuple[Compared, ...] = ()
    sequences: Mapping[str, tuple[Sequence_, ...]] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    traces: tuple[Trace, ...] = ()
    findings: tuple[str, ...] = ()
    weights: str = "unknown"
    quantized: str = ""
    communication: tuple[str, ...] = ()
    rounds: int = 0
    ruled_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hint:
    """One pattern that was seen: what of it, what to do first, and the cheapest probe."""

    name: str
    says: str
    seen: str
    first_step: str
    probe: str


@dataclass(frozen=True, slots=True)
class Lamp:
    """One class in the handling order. `state`: ruled out, suspected, open, not reached."""

    name: str
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class Routing:
    """All hints of a run. `next_probe`: the cheapest of all. `stuck`: why one more round would show nothing; ""."""

    hints: tuple[Hint, ...]
    lamps: tuple[Lamp, ...]
    next_probe: str
    stuck: str
    ruled_out: tuple[str, ...]


@cache
def data() -> Mapping[str, Any]:
    """router.toml, with symptoms and lamps by name."""
    read = tomllib.loads(Path(__file__).with_name("router.toml").read_text(encoding="utf-8"))
    return {
        "limits": read["limits"],
        "symptoms": {entry["name"]: entry for entry in read["symptom"]},
        "lamps": {entry["name"]: entry for entry in read["lamp"]},
    }


def route(facts: Facts) -> Routing:
    """What the facts ask for."""
    hints = tuple(
        Hint(name, told["says"], seen, told["first_step"], told["probe"])
        for name, told in data()["symptoms"].items()
        if (seen := _SEEN[name](facts))
    )
    lamps = _lamps(facts)
    return Routing(hints, lamps, _next(facts, hints, lamps), _stuck(facts), _ruled_out(facts))


# --- patterns -----------------------------------------------------------------------------------------------------


def _series(facts: Facts) -> list[Compared]:
    """Comparisons with bits, by step; those without a step come first. None that is known to be of other inputs."""
    known = [one for one in facts.compared if one.share is not None and not one.differs]
    return sorted(known, key=lambda one: (-1 if one.step is None else one.step, one.id))


def _earliest(facts: Facts) -> Compared | None:
    """The earliest comparison that differs: later differences may spring from earlier ones."""
    return next((one for one in _series(facts) if one.differing), None)


def _step(one: Compared) -> str:
    return "step unknown" if one.step is None else f"step {one.step}"


def _tokens(one: Compared) -> str:
    return f"{one.differing} of {one.valid} tokens"


def _differs_at_start(facts: Facts) -> str:
    series = _series(facts)
    if not series or not series[0].differing:
        return ""
    return f"{_tokens(series[0])} differ at {_step(series[0])}, the first that was compared"


def _some_sequences(facts: Facts) -> str:
    one = _earliest(facts)
    if one is None or not one.sequences_differing or one.sequences_differing == one.sequences:
        return ""
    if one.sequences_differing > data()["limits"]["few"] * one.sequences:
        return ""
    return f"{one.sequences_differing} of {one.sequences} sequences differ at {_step(one)}"


def _first_token(facts: Facts) -> str:
    one = _earliest(facts)
    told = facts.sequences.get(one.id, ()) if one is not None else ()
    at_once = [sequence for sequence in told if sequence.first == 0]
    if one is None or not at_once or len(at_once) < data()["limits"]["first"] * len(told) or _all_of(one):
        return ""
    return f"{len(at_once)} of {len(told)} differing sequences differ from position 0 on at {_step(one)}"


def _all_of(one: Compared) -> bool:
    """Whether so many sequences differ that they are all of them; of one alone nothing can be said."""
    differing = one.sequences_differing or 0
    return one.sequences > 1 and differing >= data()["limits"]["all"] * one.sequences


def _from_position(facts: Facts) -> str:
    one = _earliest(facts)
    told = facts.sequences.get(one.id, ()) if one is not None else ()
    dense = [
        sequence
        for sequence in told
        if sequence.first > 0
        and sequence.differing >= data()["limits"]["dense"] * max(1, sequence.valid - sequence.first)
    ]
    if one is None or not dense or 2 * len(dense) <= len(told):
        return ""
    places = sorted({sequence.first for sequence in dense})
    words = f"{len(dense)} of {len(told)} differing sequences are wrong from a position on at {_step(one)}"
    if len(places) == 1:
        return f"{words}: all from position {places[0]} of the response"
    if size := _boundary(dense):
        return f"{words}: each begins at a multiple of {size} tokens, the prompt counted"
    return f"{words}: the first from position {places[0]} of the response"


def _boundary(sequences: Sequence[Sequence_]) -> int:
    """The largest chunk or page at whose beginnings all of them begin to differ; 0: none."""
    if any(one.prompt is None for one in sequences):
        return 0
    starts = [(one.prompt or 0) + one.first for one in sequences]
    return max(
        (size for size in data()["limits"]["boundaries"] if all(start % size == 0 for start in starts)), default=0
    )


def _all_drift(facts: Facts) -> str:
    one = _earliest(facts)
    if one is None or not _all_of(one) or _from_position(facts):
        return ""
    words = f"{one.sequences_differing} of {one.sequences} sequences differ, {_tokens(one)}, at {_step(one)}"
    if one.mean is None:
        return words
    if one.floor is None:
        return f"{words}; mean difference {one.mean:.3g}, noise floor not known"
    within = "within" if one.mean <= one.floor else "above"
    return f"{words}; mean difference {one.mean:.3g}, {within} the noise floor of {one.floor:.3g}"


def _grows_with_updates(facts: Facts) -> str:
    series = [one for one in _series(facts) if one.step is not None]
    steps = sorted({one.step for one in series if one.step is not None})
    if len(steps) < data()["limits"]["points"]:
        return ""
    worst = [max(one.share or 0.0 for one in series if one.step == step) for step in steps]
    falls = sum(later < earlier for earlier, later in pairwise(worst))
    first, last = worst[0], worst[-1]
    grown = last > 0 and (first == 0 or last >= data()["limits"]["grows"] * first)
    if not grown or falls > data()["limits"]["falls"] * (len(worst) - 1):
        return ""
    return (
        f"{first:.3g} of the tokens differ at step {steps[0]}, {last:.3g} at step {steps[-1]}, over {len(steps)} steps"
    )


def _same_operator_input(facts: Facts) -> str:
    named = [one.boundary for one in facts.traces if one.boundary and one.input_state == "equal" and not one.discrete]
    return f"at {named[0]}, the first boundary that differs" if named else ""


def _communication(facts: Facts) -> str:
    return "; ".join(facts.communication[:3])


def _nothing_saved(facts: Facts) -> str:
    return "" if facts.compared or facts.traces else "no comparison of both sides"


_SEEN: Final = {
    "differs_at_start": _differs_at_start,
    "some_sequences": _some_sequences,
    "first_token": _first_token,
    "from_position": _from_position,
    "all_drift": _all_drift,
    "grows_with_updates": _grows_with_updates,
    "same_operator_input": _same_operator_input,
    "communication": _communication,
    "nothing_saved": _nothing_saved,
}


# --- the handling order ---------------------------------------------------------------------------------------------


def _lamps(facts: Facts) -> tuple[Lamp, ...]:
    """Each class with what is known of it. Behind one that is not ruled out only a suspicion is shown."""
    out: list[Lamp] = []
    blocked = ""
    for name in data()["lamps"]:
        state, why = _CLASSES[name](facts)
        if blocked and state != SUSPECTED:
            state, why = NOT_REACHED, f"{blocked} is not ruled out"
        elif blocked:
            why = f"{why}; {blocked} is not ruled out"
        out.append(Lamp(name, state, why))
        if not blocked and state != RULED_OUT:
            blocked = name
    return tuple(out)


_INPUT: Final = ("token", "request", "mask", "position", "shape", "prompt", "input")


def _input(facts: Facts) -> tuple[str, str]:
    wrong = [word for one in facts.compared for word in one.differs if any(key in word.lower() for key in _INPUT)]
    if wrong:
        return SUSPECTED, wrong[0]
    if facts.compared and all(one.inputs_known and not one.differs for one in facts.compared):
        return RULED_OUT, "both sides scored the same tokens under the same masks"
    return OPEN, "nothing shows that both sides scored the same tokens"


def _weight(facts: Facts) -> tuple[str, str]:
    if facts.findings:
        return SUSPECTED, facts.findings[0]
    if any(one.same_policy is False for one in facts.compared):
        return SUSPECTED, "the sides are of different policy versions"
    if facts.weights == "disagree":
        return SUSPECTED, "launcher and workers, or workers, name different weights"
    if facts.compared and facts.weights in ("agree", "worker only") and all(one.same_policy for one in facts.compared):
        return RULED_OUT, "one policy version, and workers name the content of the weights"
    return OPEN, "nothing shows the content of the weights that both sides used"


def _discrete(facts: Facts) -> tuple[str, str]:
    if any(one.boundary and one.discrete for one in facts.traces):
        return SUSPECTED, "a discrete decision is the first that differs: fix it, then go on"
    if facts.traces and all(one.discrete_equal for one in facts.traces):
        return RULED_OUT, "all discrete decisions that were traced agree"
    return OPEN, "no trace shows the discrete decisions"


def _kernel(facts: Facts) -> tuple[str, str]:
    if seen := _same_operator_input(facts):
        return SUSPECTED, f"same input, other output {seen}"
    if facts.traces and all(not one.boundary for one in facts.traces):
        return RULED_OUT, "no boundary that was traced differs"
    return OPEN, "no operator was given the same input on both sides"


def _precision(facts: Facts) -> tuple[str, str]:
    if facts.quantized:
        return OPEN, f"the rollout is quantized ({facts.quantized}): only a same-input control may blame it"
    return OPEN, "comes last"


_CLASSES: Final = {
    "input": _input, "weight": _weight, "discrete": _discrete, "kernel": _kernel, "precision": _precision,
}  # fmt: skip


# --- what comes next ------------------------------------------------------------------------------------------------


def _next(facts: Facts, hints: Sequence[Hint], lamps: Sequence[Lamp]) -> str:
    """The cheapest probe: the side is isolated before anything is bisected, and classes are ruled out in order."""
    known = {hint.name: hint for hint in hints}
    for name in ("communication", "nothing_saved"):
        if name in known:
            return known[name].probe
    if not any(one.differing for one in facts.compared) and not facts.traces:
        return ""
    first = lamps[0]
    if first.state == SUSPECTED:
        return str(data()["lamps"][first.name]["probe"])
    missing = [name for name in GROUPS if facts.groups.get(name, "not run") in ("not run", "inconclusive")]
    if missing:
        return f"control group {missing[0].replace('_', ' ')}: score the same tokens again, nothing else changed"
    lamp = next((lamp for lamp in lamps if lamp.state != RULED_OUT), None)
    return str(data()["lamps"][lamp.name]["probe"]) if lamp is not None else ""


def _stuck(facts: Facts) -> str:
    if facts.rounds < data()["limits"]["rounds"]:
        return ""
    return (
        f"{facts.rounds} comparisons of the same input show only that the score differs: add observation points, or"
        " check the mapping of the samples again, instead of another full run"
    )


def _ruled_out(facts: Facts) -> tuple[str, ...]:
    groups = [f"{name.replace('_', ' ')}: equal" for name in GROUPS if facts.groups.get(name) == "equal"]
    return (*groups, *dict.fromkeys(facts.ruled_out))
