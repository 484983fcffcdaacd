"""Comparisons and traces as rows of the store. Meaning of the fields: store/schema/012_comparisons.sql."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tic_daemon import __version__
from tic_daemon.compare import reporting, trace_report, traces
from tic_daemon.compare.comparison import Comparison
from tic_daemon.compare.figures import Figures
from tic_daemon.compare.probes import Probe, Trace
from tic_daemon.compare.version import COMPARATOR
from tic_daemon.comparisons.asked import Asked, Produced
from tic_daemon.comparisons.pair import plain
from tic_daemon.evidence.judge import Standing
from tic_daemon.store.comparison_rows import (
    ComparisonFileRow,
    ComparisonRow,
    ComparisonVersionRow,
    TraceBoundaryRow,
)

BOUNDARIES: Final = 5000
AGREEING: Final = 200
"""Probes that agree and are kept, of the requests that differ: the last before the first difference."""
WORDS: Final = 50
"""Words of one kind that are kept; the report has all."""

_METRICS: Final = (
    "logprob_mae", "logprob_max", "p50", "p95", "p99", "probability_mae", "kl_k1", "kl_k2", "kl_k3", "relative_l2",
    "cosine",
)  # fmt: skip

Values = dict[str, Any]


def comparison(
    asked: Asked, found: Comparison, sides: tuple[Produced, Produced], report: str, took_s: float
) -> ComparisonRow:
    """The row of one judged comparison."""
    run = found.agreed("run")
    floors = found.floors
    values: Values = {
        "run": asked.pair.run or run or "",
        "run_how": asked.pair.run_how if asked.pair.run else "manifest" if run else "",
        "step": asked.pair.step if asked.pair.step is not None else found.agreed("step"),
        "policy": _policy(found),
        "kind": "tokens",
        "goal": str(found.declared.goal),
        **{name: found.agreed(name) for name in ("phase", "rank", "repeat", "scope", "intervention")},
        **_sides(found),
        "kl_is": reporting.kl_word(found) if found.figures else "",
        **(_figures(found.figures) if found.figures is not None else {}),
        "sequences": len({*found.a.sequences, *found.b.sequences}),
        "independent_sequences": found.alignment.independent,
        "valid_tokens": found.alignment.valid,
        "non_finite": found.facts.non_finite,
        "non_finite_at": found.facts.non_finite_at,
        "floor_a": floors[0].value if floors[0] else None,
        "floor_b": floors[1].value if floors[1] else None,
        "noise": tuple(reporting.noise_words(found)),
        **_verdict(found),
        "differs": _some(found.facts.differs),
        "remarks": _some(found.signs.remarks if found.signs else ()),
        "proved": _some(reporting.proved(found)),
        "unproven": _some(reporting.not_proven(found)),
        "next_step": reporting.next_step(found),
        "compare_id": found.id,
        "took_s": round(took_s, 3),
    }
    return ComparisonRow(**{**_heading(asked, sides, report), **values})


def beside(comparison_id: str, found: Comparison) -> list[ComparisonFileRow | ComparisonVersionRow]:
    """What it hangs on besides its sides, and its figures by version of the policy."""
    files = [ComparisonFileRow(comparison_id, one.role, one.path, one.sha256) for one in found.beside]
    versions = found.signs.versions if found.signs is not None else {}
    return [*files, *(ComparisonVersionRow(comparison_id, name, *own) for name, own in versions.items())]


def _heading(asked: Asked, sides: tuple[Produced, Produced], report: str) -> Values:
    """What was known before the files were opened."""
    pair = asked.pair
    values: Values = {"id": asked.id, "content": asked.content}
    values |= {name: getattr(pair, name) for name in ("host", "root", "task", "how", "manifest")}
    values |= {name: getattr(pair, name) for name in ("control", "variant", "plant", "intervention")}
    for letter, path, own in (("a", pair.a, sides[0]), ("b", pair.b or pair.a, sides[1])):
        values |= {
            f"side_{letter}": path, f"produced_{letter}": own.at, f"produced_how_{letter}": own.how,
            f"producer_host_{letter}": own.host, f"producer_pid_{letter}": own.pid,
        }  # fmt: skip
    return {**values, "report": report, "comparator": COMPARATOR, "program": __version__}


def _sides(found: Comparison) -> Values:
    values: Values = {}
    elements = found.alignment.elements
    for letter, side, claims, place in (("a", found.a, found.claims_a, 0), ("b", found.b, found.claims_b, 1)):
        values |= {
            f"part_{letter}": side.part, f"reader_{letter}": side.reader, f"sha256_{letter}": side.sha256,
            f"size_{letter}": side.size, f"provenance_{letter}": side.provenance,
            f"dtype_{letter}": ", ".join(dict.fromkeys(pair[place] for pair in elements)),
            f"basis_{letter}": claims.basis or found.declared.basis or "",
            f"policy_{letter}": claims.policy or found.declared.policy or "",
        }  # fmt: skip
    same = found.claims_a.inputs if found.claims_a.inputs == found.claims_b.inputs else None
    return {**values, "input": same or found.inputs or ""}


def _policy(found: Comparison) -> str | None:
    """What both sides' manifests say, or was declared; else the one version that the dumps name."""
    said = found.agreed("policy")
    if said is None and found.claims_a.policy is None and found.claims_b.policy is None:
        versions = found.alignment.versions
        return versions[0] if len(versions) == 1 else None
    return None if said is None else str(said)


def _figures(own: Figures) -> Values:
    values: Values = {name: own.metrics.get(name) for name in _METRICS}
    for name, place in (
        ("first", own.first_mismatch), ("earliest", own.earliest_mismatch), ("max", own.places.get("logprob_max")),
    ):  # fmt: skip
        values |= {f"{name}_request": place[0] if place else None, f"{name}_position": place[1] if place else None}
    for name, counts in (("magnitude_powers", own.magnitudes), ("ulp_lengths", own.ulps), ("classes", own.classes)):
        values[name] = tuple(counts)
    return {
        **values,
        "sequences_differing": own.sequences_differing,
        "mismatched_tokens": own.mismatched,
        "longest_run": own.longest_run,
        "longest_run_unbroken": own.longest_run_raw,
        "longest_run_request": own.longest_run_at or None,
        "overflow": own.overflow,
        "undefined": tuple(f"{name}: {why}" for name, why in own.undefined.items()),
        "magnitude_counts": tuple(own.magnitudes.values()),
        "ulp_counts": tuple(own.ulps.values()),
        "class_counts": tuple(own.classes.values()),
    }


def _verdict(found: Comparison) -> Values:
    verdict, own = found.verdict, found.criterion
    return {
        "label": str(verdict.label or ""), "reason": verdict.reason, "rule": verdict.rule,
        "exit_code": int(verdict.exit_code), "standing": str(found.facts.standing),
        "standing_why": found.facts.standing_why, "criterion": own.sha256 if own else "",
        "criterion_metric": own.bound.metric if own else "", "criterion_at_most": own.bound.at_most if own else None,
        "criterion_at_least": own.bound.at_least if own else None,
    }  # fmt: skip


def _some(words: Sequence[str]) -> tuple[str, ...]:
    more = (f"and {len(words) - WORDS} more",) if len(words) > WORDS else ()
    return (*words[:WORDS], *more)


# --- traces ----------------------------------------------------------------------------------------------------------


def trace(
    asked: Asked,
    found: traces.TraceComparison,
    sides_read: tuple[Trace, Trace],
    files: list[tuple[str, int | None]],
    sides: tuple[Produced, Produced],
    standing: tuple[Standing, str],
    report: str,
    took_s: float,
) -> ComparisonRow:
    """The row of two traces. `files`: SHA-256 and size of each."""
    pair = asked.pair
    values: Values = {
        "run": pair.run, "run_how": pair.run_how, "step": pair.step, "policy": pair.policy, "kind": "trace",
        "goal": pair.goal, "sequences": found.requests, "probes": found.probes,
        "probes_differing": len(found.differences),
        "label": "INVALID" if found.unfit else "" if found.probes else "VACUOUS",
        "reason": trace_report.verdict(found).partition(": ")[2],  # without the label that it begins with
        "exit_code": int(trace_report.exit_code(found)), "standing": str(standing[0]), "standing_why": standing[1],
        "differs": _some(found.unfit), "remarks": _some([word for words in found.notes for word in words]),
        "proved": _some(trace_report.proved(found)), "unproven": _some(trace_report.not_proven(found)),
        "next_step": trace_report.next_step(found), "took_s": round(took_s, 3),
    }  # fmt: skip
    for letter, own, (sha256, size) in zip("ab", sides_read, files, strict=True):
        values |= {
            f"reader_{letter}": own.reader, f"sha256_{letter}": sha256, f"size_{letter}": size,
            f"provenance_{letter}": own.provenance,
            f"dtype_{letter}": ", ".join(sorted({probe.dtype for probe in own.probes})),
        }  # fmt: skip
    return ComparisonRow(**{**_heading(asked, sides, report), **values})


def trace_beside(asked: Asked, found: traces.TraceComparison) -> list[ComparisonFileRow]:
    """What two traces hang on besides their bytes."""
    rows: dict[ComparisonFileRow, None] = {}
    for path, claim in zip((plain(asked.pair.a), plain(asked.pair.b)), found.said, strict=True):
        if claim.source:
            rows[ComparisonFileRow(asked.id, "manifest", claim.source, claim.digest)] = None
            rows[ComparisonFileRow(asked.id, "said", path, claim.said)] = None
    return list(rows)


def boundaries(
    comparison_id: str, found: traces.TraceComparison, one: Sequence[Probe], other: Sequence[Probe]
) -> list[TraceBoundaryRow]:
    """Probes that differ or are missing, and those that agree before them in their requests; in execution order."""
    twins = {probe.key: probe for probe in other}
    own = {probe.key for probe in one}
    differing = {difference.key: difference for difference in found.differences}
    requests = {key[0] for key in differing}
    last = max((nth for nth, probe in enumerate(one) if probe.key == found.first), default=-1)
    rows: list[TraceBoundaryRow] = []
    for nth, probe in enumerate([*one, *(probe for probe in other if probe.key not in own)]):
        difference = differing.get(probe.key)
        missing = probe.key not in own or probe.key not in twins
        near = probe.key[0] in requests and last - AGREEING < nth < last
        if not (missing or difference is not None or near):
            continue
        if len(rows) == BOUNDARIES:
            break
        first, second = (probe if probe.key in own else None), twins.get(probe.key)
        rows.append(_boundary(comparison_id, nth, first, second, difference))
    return rows


def _boundary(
    comparison_id: str,
    nth: int,
    first: Probe | None,
    second: Probe | None,
    difference: traces.Difference | None,
) -> TraceBoundaryRow:
    """One probe; a side that lacks it is None."""
    probe = first or second
    assert probe is not None  # noqa: S101  a side has it
    state = "equal" if difference is None else "downstream" if difference.downstream else "differs"
    inputs = [one.input_sha256 if one is not None else "" for one in (first, second)]
    values: Values = {}
    if difference is not None and (own := difference.figures) is not None:
        values = {
            "elements": own.size, "mismatched": own.mismatched, "first_index": own.first or (), "finite": own.finite,
            "max_abs": own.max_abs, "mean_abs": own.mean_abs, "relative_l2": own.relative_l2, "cosine": own.cosine,
        }  # fmt: skip
    if difference is not None and (vocab := difference.vocab) is not None:
        values |= {
            "vocab_tv_mean": vocab.tv_mean, "vocab_tv_max": vocab.tv_max, "vocab_argmax": vocab.argmax,
            "vocab_logsoftmax_max": vocab.logsoftmax_max,
        }  # fmt: skip
    return TraceBoundaryRow(
        comparison_id, nth, *probe.key, "missing" if first is None or second is None else state,
        difference.operator if difference is not None else "", probe.dtype, probe.shape,
        first.sha256 if first is not None else "", second.sha256 if second is not None else "",
        "unknown" if not all(inputs) else "equal" if inputs[0] == inputs[1] else "differs", probe.discrete, **values,
    )  # fmt: skip
