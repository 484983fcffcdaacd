"""What a comparison says: the report file, the summary for a person, and the `[mismatch]` record.

A report has exactly four parts: what was observed, what the controls proved, what is not yet proven, and one next step.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from tic_daemon import __version__
from tic_daemon.compare import replay, updates
from tic_daemon.compare.blocks import Place
from tic_daemon.compare.comparison import Comparison
from tic_daemon.compare.figures import Figures
from tic_daemon.compare.manifests import Claims
from tic_daemon.compare.noise import says
from tic_daemon.compare.parts import ending
from tic_daemon.compare.sides import Side
from tic_daemon.compare.version import COMPARATOR
from tic_daemon.evidence.exit_codes import WORDS
from tic_daemon.evidence.judge import Goal, Relation, Standing
from tic_daemon.evidence.labels import Label
from tic_daemon.output import joined

CANNOT_INFER: Final = {
    Goal.REPEATABILITY: "consistency across batches or processes",
    Goal.LAYOUT_INVARIANCE: "that training and inference are the same",
    Goal.PREFILL_DECODE: "that backward or the training update is correct",
    Goal.CROSS_STACK: "that full-vocabulary logits match: sampled tokens alone were compared",
    Goal.TRAINING_LOOP: "convergence or long-term stability",
    Goal.UNKNOWN: "anything beyond these tokens: the goal is not declared",
}
"""What each goal leaves open, as the evidence rules have it."""

DECLARED: Final = "declared"
"""What stands as the reason where a person says that there was no fault."""

Json = dict[str, Any]


def as_json(found: Comparison, made_at: datetime | None = None) -> Json:
    """The report as one JSON object: `identity`, and the four parts."""
    return {
        "identity": {
            "comparison": found.id,
            "comparator": COMPARATOR,
            "program": __version__,
            "made_at": (made_at or datetime.now(UTC)).isoformat(timespec="seconds"),
            "verdict": {
                "label": found.verdict.label,
                "reason": found.verdict.reason,
                "rule": found.verdict.rule,
                "exit_code": int(found.verdict.exit_code),
            },
            "goal": found.declared.goal,
            "planted": found.declared.plant,
            "through": dict(found.through),
            "criterion": _criterion(found),
            "declared": {
                key: str(value) for key, value in asdict(found.declared).items() if value not in (None, "", ())
            },
            "a": _side(found.a, found.claims_a),
            "b": _side(found.b, found.claims_b),
            "inputs": found.inputs or "unknown",
        },
        "observed": _observed(found),
        "controls_proved": proved(found),
        "not_yet_proven": not_proven(found),
        "next_step": next_step(found),
    }


def _criterion(found: Comparison) -> Json | None:
    own = found.criterion
    if own is None:
        return None
    return {
        "file": own.path, "sha256": own.sha256, "metric": own.bound.metric, "at_most": own.bound.at_most,
        "at_least": own.bound.at_least, "goal": own.goal, "steps": own.steps, "path": own.target,
        "execution": dict(own.execution), "older_than_the_numbers": found.facts.bound_shown,
        "planted_error": "judged FAIL" if found.facts.planted else found.not_planted,
    }  # fmt: skip


def _side(side: Side, claims: Claims) -> Json:
    return {
        "file": side.path, "part": side.part, "reader": side.reader, "provenance": side.provenance,
        "sha256": side.sha256, "size": side.size, "files": dict(side.artifacts), "notes": list(side.notes),
        "manifest": claims.source or None, "policy": claims.policy, "basis": claims.basis,
        "receipt": asdict(claims.receipt) if claims.receipt else None,
        "execution": dict(claims.execution) if claims.execution else None,
    }  # fmt: skip


def _observed(found: Comparison) -> Json:
    own, alignment = found.figures, found.alignment
    shape: Json = {
        "requests": len(alignment.requests), "only_in_a": list(alignment.only_a), "only_in_b": list(alignment.only_b),
        "valid_tokens": alignment.valid, "positions": alignment.positions,
        "without_a_valid_token": list(alignment.empty),
        "independent": alignment.independent, "elements": [list(pair) for pair in alignment.elements],
        "differs": list(found.facts.differs),
    }  # fmt: skip
    if own is None:
        return shape
    return {
        **shape,
        "mismatched_tokens": own.mismatched,
        "sequences_differing": own.sequences_differing,
        "first_mismatch": _at(own.first_mismatch),
        "earliest_mismatch": _at(own.earliest_mismatch),
        "longest_run": {"tokens": own.longest_run, "request": own.longest_run_at, "unbroken": own.longest_run_raw},
        "classes": dict(own.classes),
        "ulps": {str(key): value for key, value in own.ulps.items()},
        "magnitudes": {str(key): value for key, value in own.magnitudes.items()},
        "non_finite": dict(own.non_finite),
        "non_finite_at": _at(own.non_finite_at),
        "positive": own.positive,
        "zero_tokens": dict(own.zero_tokens),
        "zero_sequences": [list(one) for one in own.zeros],
        "overflow": own.overflow,
        "metrics": dict(own.metrics),
        "kl_is": kl_word(found),
        "places": {name: _at(place) for name, place in own.places.items()},
        "undefined": dict(own.undefined),
        "signs": asdict(found.signs) if found.signs else None,
        "noise": {own.side: asdict(own) for own in found.floors if own is not None},
        "update": asdict(found.update) if found.update else None,
        "sequences": [asdict(row) for row in own.per_sequence],
    }


def _at(place: Place | None) -> Json | None:
    return {"request": place[0], "position": place[1]} if place else None


def kl_word(found: Comparison) -> str:
    """What k1 to k3 may be called: a KL estimate only of samples that the compared policy itself drew."""
    drawn = {claims.samples_policy for claims in (found.claims_a, found.claims_b)}
    same = found.facts.policy is Relation.EQUAL and found.facts.basis is Relation.EQUAL
    current = same and drawn == {found.agreed("policy")}
    return "KL estimate" if current else "diagnostic statistic"


def proved(found: Comparison) -> list[str]:
    """What the controls of this comparison prove."""
    words = []
    for name, claims in (("A", found.claims_a), ("B", found.claims_b)):
        if claims.source and not claims.gaps:
            words.append(f"file {name} is the one that {claims.source} names")
    if found.facts.inputs is Relation.EQUAL:
        words.append(f"both sides scored the same tokens ({'their ids' if found.inputs else 'by their manifests'})")
    if found.facts.producers is Relation.DIFFERENT:
        words.append("two producers' receipts: the sides are not one thing")
    if facts_clear(found):
        words.append(f"no CUDA fault stands before the numbers ({found.declared.standing_why})")
    if found.facts.planted:
        words.append("the criterion judged a planted error FAIL through the same readers, types and program")
    words += noise_words(found)
    words += updates.says(found.update, found.floors)
    if found.claims_a.replay and found.claims_b.replay and not replay.unshown(found.claims_a, found.claims_b):
        words.append("the replays are frozen: their weights are named, nothing was generated, no optimizer step ran")
    for own in found.signs.siblings if found.signs else ():
        if own.tokens and not own.mismatched:
            words.append(
                f"side {own.side}: {own.pairs} pairs of siblings agree bit for bit over {own.tokens} shared tokens"
            )
    return words


def noise_words(found: Comparison) -> list[str]:
    """What repeats of the sides say of their difference."""
    own = found.figures
    return says(*found.floors, own.mismatched, own.metrics["logprob_mae"]) if own else []


def facts_clear(found: Comparison) -> bool:
    """Whether a store was asked and showed the numbers to be free of faults. A declaration proves nothing."""
    return found.facts.standing is Standing.CLEAR and found.declared.standing_why != DECLARED


def not_proven(found: Comparison) -> list[str]:
    """What this comparison leaves open."""
    facts, words = found.facts, []
    for name, relation in (("basis", facts.basis), ("inputs", facts.inputs), ("policy version", facts.policy)):
        if relation is Relation.UNKNOWN:
            words.append(f"{name}: unknown")
    if facts.producers is Relation.UNKNOWN:
        words.append("producers: no whole receipt of both sides")
    words += [f"{word}: not shown" for word in facts.unshown]
    if facts.standing is Standing.CLEAR and not facts_clear(found):
        words.append("faults of the attempt: that there is none is declared")
    if facts.standing is Standing.UNKNOWN:
        words.append(f"faults of the attempt: {found.declared.standing_why or 'nobody was asked'}")
    if facts.bound is not None and not facts.bound_shown:
        words.append("that the criterion is older than the numbers")
    if facts.bound is not None and not facts.planted:
        words.append(f"that the criterion can fail: {found.not_planted}")
    if None in found.floors:
        lacking = " and ".join(name for name, own in zip("AB", found.floors, strict=True) if own is None)
        words.append(f"the noise of side {lacking}: no repeats")
    words.append(f"cannot be inferred: {CANNOT_INFER[found.declared.goal]}")
    return words


_STEPS: Final = {
    1: "open a new attempt and make the numbers again",
    3: "dump sequences with valid tokens, and compare again",
    4: "give the dumps of two producers",
    5: "save the logits of that request at that position on the side that is not finite",
    6: "show hook count, score source and a negative control for the zeros, or capture the scores again",
    7: "make the run take the path in the declared state, and compare again",
    9: "fix a criterion in a file before the next run, and put its SHA-256 into the run's manifest",
    10: "plant a known error in side B and compare with --plant, then give that report with --planted",
}


def next_step(found: Comparison) -> str:
    """One next step, the smallest."""
    rule, facts = found.verdict.rule, found.facts
    if rule == 2:
        return f"make both sides alike first: {found.verdict.reason.split('; ')[0]}"
    if rule == 8:
        return f"show what is {found.verdict.reason}"
    if rule in _STEPS and not (rule == 9 and facts.mismatched):
        return _STEPS[rule]
    if found.verdict.label is Label.PASS:
        return "repeat it for the next policy version: a pass covers these tokens, this state and this version"
    return _after_a_difference(found.figures)


def _after_a_difference(own: Figures | None) -> str:
    if own is None or not own.mismatched:
        return _STEPS[9]
    if own.sequences_differing is not None and own.sequences_differing < own.sequences:
        return (
            "compare samples of one prompt over their shared prefix: it tells whether the engine's side moves by itself"
        )
    early = sum(
        1 for row in own.per_sequence if row.first_mismatch is not None and row.first_mismatch == row.first_valid
    )
    if early == own.sequences:
        return "score the same tokens twice on each side: whichever two are equal rule out that side"
    return "prefill one request alone and bisect along positions from the first that differs"


def record(found: Comparison, report: str, metric: str = "logprob_mae") -> str:
    """The `[mismatch]` record of one metric. `producer=tic` keeps a daemon that reads it from counting it again."""
    claims_a, claims_b = found.claims_a, found.claims_b
    value = found.figures.metrics.get(metric) if found.figures else None
    inputs = (claims_a.inputs if claims_a.inputs == claims_b.inputs else None) or found.inputs or None
    floors = [own.value if own else None for own in found.floors]
    known = metric == "logprob_mae" and None not in floors
    noise = repr(max(value or 0.0 for value in floors)) if known else None
    scope = found.agreed("scope") or ("fixed-input" if found.facts.inputs is Relation.EQUAL else None)
    fields = {
        "run": found.agreed("run"), "step": found.agreed("step"), "policy": found.agreed("policy"), "input": inputs,
        "phase": found.agreed("phase"), "rank": found.agreed("rank"), "repeat": found.agreed("repeat"), "scope": scope,
        "intervention": found.agreed("intervention"), "metric": metric, "value": None if value is None else repr(value),
        "reference": found.b.path + (f"#{found.b.part}" if found.b.part else ""), "self_repeat": noise,
        "report": report or None, "classification": None, "producer": "tic",
    }  # fmt: skip
    said = [f"{key}={_quoted('unknown' if value is None else str(value))}" for key, value in fields.items()]
    return "[mismatch] " + "\n  ".join(
        (" ".join(said[:7]), " ".join(said[7:9]), " ".join(said[9:12]), " ".join(said[12:]))
    )


def _quoted(text: str) -> str:
    if text and text == text.strip(" ,;.") and not any(char in text for char in " \t\r\n\"'\\"):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ") + '"'


def text(found: Comparison) -> str:
    """The summary for a person: verdict, figures, and the four parts."""
    own, verdict = found.figures, found.verdict
    lines = [f"{found.id}: {verdict.words} (exit code {int(verdict.exit_code)}, {WORDS[verdict.exit_code]})"]
    if found.declared.plant:
        lines.append(f"a planted error, nothing about a candidate: {found.declared.plant}")
    for name, side in (("A", found.a), ("B", found.b)):
        part = f" [{side.part}]" if side.part else ""
        lines.append(f"{name}  {side.path}{part}  {side.reader}, {side.provenance}, {side.sha256[:16]}")
        lines += [f"   {note}" for note in side.notes]
    lines.append("observed")
    if own is not None:
        lines += [f"  {line}" for line in _figure_lines(found, own)]
    lines += [f"  {word}" for word in found.signs.remarks] if found.signs else []
    if own is None:
        lines.append("  nothing was compared")
    return joined([*lines, *ending(proved(found), not_proven(found), next_step(found))])


def _figure_lines(found: Comparison, own: Figures) -> list[str]:
    independent = found.alignment.independent
    lines = [
        f"valid tokens {own.valid} in {own.sequences} sequences, "
        f"independent {'unknown' if independent is None else independent}"
    ]
    if own.mismatched is None:
        lines.append("bits were not compared: the element types differ")
    else:
        lines.append(f"bits differ in {own.mismatched} tokens of {own.sequences_differing} sequences")
    if own.first_mismatch is not None and own.earliest_mismatch is not None:
        lines.append(
            f"first in order of ids {_where(own.first_mismatch)}, smallest position {_where(own.earliest_mismatch)}, "
            f"longest run {own.longest_run}"
        )
    lines += [f"not finite: {kind} {number}" for kind, number in own.non_finite.items()]
    for name, value in own.metrics.items():
        where = f" at {_where(own.places[name])}" if name in own.places else ""
        shown = f"{value:.10g}" if value is not None else f"undefined: {own.undefined.get(name, 'not finite')}"
        word = f" ({kl_word(found)})" if name.startswith("kl_") else ""
        lines.append(f"{name} {shown}{where}{word}")
    return lines


def _where(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


def dumped(found: Comparison, made_at: datetime | None = None) -> str:
    """The report as text of a file."""
    return json.dumps(as_json(found, made_at), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
