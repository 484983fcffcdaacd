"""Comparisons of dumps: labels, numbers, the first difference, histograms, traces, control groups; and hints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tic_daemon.errors import UnknownRunError
from tic_daemon.hints.facts import facts_of
from tic_daemon.hints.router import route
from tic_daemon.report import measured
from tic_daemon.report.model import (
    Bars,
    Block,
    Bullets,
    Cell,
    Inline,
    Plot,
    Section,
    Series,
    Word,
    code,
    para,
    some,
    table,
    text,
    word,
)
from tic_daemon.report.moment import Moment, Row

SHOWN: Final = 200
DETAILS: Final = 4
TOKENS: Final = 12
_TOKENS: Final = f"""
SELECT request, position, why, value_a, value_b, bits_a, bits_b, difference, token_id FROM comparison_tokens WHERE comparison_id = ?
ORDER BY abs(difference) DESC NULLS FIRST, request, position LIMIT {TOKENS}"""  # noqa: E501, S608


def of(moment: Moment, run: str) -> list[Row]:
    """Comparisons of dumps of log-probabilities, by step; traces are told apart."""
    return _by_step([row for row in moment.of("comparisons", run) if row["kind"] == "tokens"])


def _by_step(rows: list[Row]) -> list[Row]:
    def place(row: Row) -> tuple[object, ...]:
        names = (row.get(name) for name in ("side_a", "side_b", "part_a", "part_b", "comparison_id"))
        return (
            row.get("attempt") or 0,
            -1 if row["step"] is None else row["step"],
            *(str(name or "") for name in names),
        )

    return sorted(rows, key=place)


def section(moment: Moment, run: str) -> Section:
    """All comparisons of a run."""
    found = of(moment, run)
    blocks: list[Block] = []
    if found:
        blocks += [_table(found), *_over_steps(found)]
        blocks += [_detail(moment, row, number) for number, row in enumerate(chosen(found))]
    else:
        blocks.append(para("No dumps of both sides were compared."))
    blocks += [
        *_traces(_by_step(moment.of("trace_first_divergence", run))),
        *_groups(_by_step(moment.of("control_groups", run))),
        *_waiting(_by_step(moment.of("comparison_queue", run))),
    ]
    return Section("Comparisons", tuple(blocks))


def chosen(rows: Sequence[Row]) -> list[Row]:
    """Which comparisons are told in full: those that FAIL, then the others, of each kind the newest steps."""
    order = {"FAIL": 0, "INVALID": 1, "VACUOUS": 1, None: 2, "PASS": 3}
    ranked = sorted(
        rows,
        key=lambda row: (
            row["planted_error"] is not None,
            order.get(row["label"], 2),
            -(row["step"] or 0),
            row["side_a"],
        ),
    )
    return ranked[:DETAILS]


def _table(rows: Sequence[Row]) -> Block:
    told = [
        (
            text(row["step"]),
            code(row["policy"]),
            row["goal"],
            (*verdict(row), f": {row['reason']}" if row["reason"] else ""),
            f"{text(row['mismatched_tokens'])} of {text(row['valid_tokens'])}",
            text(row["independent_sequences"]),
            text(row["logprob_mae"]),
            text(row["logprob_max"]),
            text(row["noise_ratio"]),
            _first(row),
            _worth(row),
        )
        for row in rows
    ]
    columns = "step|policy|goal|verdict|tokens that differ|independent sequences|logprob_mae|logprob_max|over the noise|first difference|worth"  # noqa: E501
    left = len(told) - SHOWN
    return table(
        columns, told[:SHOWN], f"and {left:,} more, in the bundle's tables/comparisons.parquet" if left > 0 else ""
    )


def verdict(row: Row) -> tuple[Inline, ...]:
    """The label as judged, and what the tables make of it now."""
    planted: tuple[Inline, ...] = (", a planted error: ", code(row["planted_error"])) if row["planted_error"] else ()
    if not row["label"]:
        return (word(row["state"]), ", not judged", *planted)
    now: tuple[Inline, ...] = (", now ", word(row["state"])) if row["label"].lower() != row["state"] else ()
    return (word(row["label"]), *now, *planted)


def _worth(row: Row) -> tuple[Inline, ...]:
    if row["is_evidence"]:
        return ("evidence",)
    lead: tuple[Inline, ...] = (word(row["admissibility"]), "; ") if row["admissibility"] != "admissible" else ()
    return (*lead, f"no evidence: {measured.because(row)}")


def _first(row: Row) -> Cell:
    if row["first_request"] is None:
        return "none" if row["mismatched_tokens"] == 0 else "–"
    return (code(row["first_request"]), f" position {row['first_position']}")


def _over_steps(rows: Sequence[Row]) -> list[Block]:
    points = {
        counted: tuple(
            (float(row["step"]), float(row["logprob_mae"]))
            for row in rows
            if row["step"] is not None
            and row["logprob_mae"] is not None
            and row["planted_error"] is None
            and row["is_evidence"] is counted
        )
        for counted in (True, False)
    }
    series = [Series("evidence", points[True]), Series("no evidence", points[False], filled=False)]
    shown = tuple(one for one in series if one.points)
    if sum(len(one.points) for one in shown) < 2:
        return []
    return [Plot("comparisons", "logprob_mae of the comparisons", "step", "logprob_mae", shown)]


def _detail(moment: Moment, row: Row, number: int) -> Section:
    step = "" if row["step"] is None else f" of step {row['step']}"
    figures: list[tuple[Cell, ...]] = [
        ("sides", (code(row["side_a"]), " and ", code(row["side_b"]))),
        ("verdict", (*verdict(row), f", rule {row['rule']}: {text(row['reason'])}")),
        ("worth", _worth(row)),
        ("criterion", _criterion(row)),
        (
            "compared",
            f"{text(row['valid_tokens'])} valid tokens of {some(row['sequences'], 'sequence')}; {text(row['independent_sequences'])} independent",  # noqa: E501
        ),
        (
            "differing",
            f"{text(row['mismatched_tokens'])} tokens in {text(row['sequences_differing'])} sequences; longest run {text(row['longest_run'])}",  # noqa: E501
        ),
        ("first difference", _first(row)),
        (
            "log-probabilities",
            f"mean {text(row['logprob_mae'])}, largest {text(row['logprob_max'])}, p50 {text(row['p50'])}, p95 {text(row['p95'])}, p99 {text(row['p99'])}",  # noqa: E501
        ),
        ("probabilities", f"mean {text(row['probability_mae'])}"),
        (text(row["kl_is"]), f"k1 {text(row['kl_k1'])}, k2 {text(row['kl_k2'])}, k3 {text(row['kl_k3'])}"),
        ("noise floors", f"a {text(row['floor_a'])}, b {text(row['floor_b'])}, ratio {text(row['noise_ratio'])}"),
        ("types", (code(row["dtype_a"]), " and ", code(row["dtype_b"]), f", {row['dtype_provenance']}")),
        ("basis", (code(row["basis_a"]), " and ", code(row["basis_b"]))),
        ("policy", (code(row["policy_a"]), " and ", code(row["policy_b"]))),
        (
            "made",
            f"a {text(row['produced_a'])} ({text(row['produced_how_a'])}), b {text(row['produced_b'])} ({text(row['produced_how_b'])})",  # noqa: E501
        ),
        ("SHA-256", (code(row["sha256_a"]), " and ", code(row["sha256_b"]))),
    ]
    if row["undefined"]:
        figures.append(("undefined", "; ".join(row["undefined"])))
    if row["non_finite"]:
        figures.append(
            ("not finite", (Word(f"{row['non_finite']}", "bad"), " numbers, the first at ", code(row["non_finite_at"])))
        )
    blocks: list[Block] = [table("of it|says", figures)]
    if row["magnitude_powers"]:
        bars = tuple(
            (f"2^{power}", int(count))
            for power, count in zip(row["magnitude_powers"], row["magnitude_counts"], strict=True)
        )
        blocks.append(
            Bars(
                f"histogram-{number}",
                f"Tokens by abs(difference){step}: each bar is below its power of two",
                "abs(difference) below",
                bars,
            )
        )
    blocks += [
        *_said("What the controls proved", row["proved"]),
        *_said("Not yet proven", row["unproven"]),
        *_said("Remarks", row["remarks"]),
    ]
    if row["next_step"]:
        blocks.append(para(f"Next step: {row['next_step']}."))
    return Section(f"Comparison {row['comparison_id']}{step}", (*blocks, *_tokens(moment, row)))


def _said(title: str, lines: Sequence[str] | None) -> list[Block]:
    return [para(f"{title}:"), Bullets(tuple((line,) for line in lines))] if lines else []


def _criterion(row: Row) -> Cell:
    if row["criterion_id"] is None:
        return "none"
    bound = [f"at most {text(row['criterion_at_most'])}"] if row["criterion_at_most"] is not None else []
    bound += [f"at least {text(row['criterion_at_least'])}"] if row["criterion_at_least"] is not None else []
    return (f"{row['criterion_metric']} {' '.join(bound)}".rstrip() + ", ", code(row["criterion_id"]))


def _tokens(moment: Moment, row: Row) -> list[Block]:
    found = moment.rows(_TOKENS, row["comparison_id"])
    told = [
        (
            code(one["request"]),
            text(one["position"]),
            one["why"],
            text(one["value_a"]),
            text(one["value_b"]),
            text(one["difference"]),
            code(one["bits_a"]),
            code(one["bits_b"]),
            text(one["token_id"]),
        )
        for one in found
    ]
    if not told:
        return []
    note = f"the {TOKENS} largest differences of those that are kept" if len(told) == TOKENS else ""
    return [table("request|position|kept as|a|b|b - a|bits of a|bits of b|token", told, note)]


def _traces(rows: Sequence[Row]) -> list[Block]:
    told = [
        (
            text(row["step"]),
            (code(row["side_a"]), " and ", code(row["side_b"])),
            f"{text(row['probes_differing'])} of {text(row['probes'])}",
            code(row["request"]),
            (code(row["boundary"]), " ", code(row["slice"])),
            text(row["operator"]),
            text(row["input_state"]),
            text(row["max_abs"]),
            code(row["last_equal_boundary"]),
            text(row["next_step"]),
        )
        for row in rows
    ]
    if not told:
        return []
    columns = (
        "step|sides|probes that differ|request|first that differs|operator|its input|largest|last that agrees|next step"
    )
    return [Section("Layer traces", (table(columns, told[:SHOWN]),))]


def _groups(rows: Sequence[Row]) -> list[Block]:
    told = [
        (
            text(row["attempt"]),
            text(row["step"]),
            *(word(row[name]) for name in _SIDES),
            text(row["rules_out"]),
            text(row["look_at"]),
        )
        for row in rows
    ]
    if not told:
        return []
    return [Section("Control groups", (table(f"attempt|step|{'|'.join(_SIDES)}|rules out|look at", told[:SHOWN]),))]


_SIDES: Final = ("inference_alone", "training_alone", "cross_stack", "score_layer")


def _waiting(rows: Sequence[Row]) -> list[Block]:
    told = [
        (text(row["step"]), code(row["side_a"]), code(row["side_b"]), row["state"], text(row["why"])) for row in rows
    ]
    return [Section("Not compared", (table("step|side a|side b|state|why", told[:SHOWN]),))] if told else []


def hints(moment: Moment, run: str) -> tuple[Section, str]:
    """What the pattern of the mismatch asks for, and the next cheapest probe or "". Hints, no verdict."""
    try:
        told = route(facts_of(moment, run))
    except UnknownRunError:
        return Section("Hints", (para("None: nothing is known of the run that a hint could go by."),)), ""
    blocks: list[Block] = [para("Which experiment comes first. These are hints: no verdict, and no cause is proved.")]
    for hint in told.hints:
        blocks.append(
            table(
                "hint|says",
                [("pattern", hint.says), ("seen", hint.seen), ("first step", hint.first_step), ("probe", hint.probe)],
            )
        )
    if not told.hints:
        blocks.append(para("No pattern: nothing that was compared differs."))
    lamps = [(lamp.name, lamp.state, lamp.why) for lamp in told.lamps]
    blocks.append(Section("Handling order, each ruled out before the next", (table("class|state|why", lamps),)))
    if told.ruled_out:
        blocks += [para("Ruled out:"), Bullets(tuple((line,) for line in told.ruled_out))]
    if told.stuck:
        blocks.append(para(f"No new ground: {told.stuck}"))
    if told.next_probe:
        blocks.append(para(f"Next cheapest probe: {told.next_probe}"))
    return Section("Hints", tuple(blocks)), told.next_probe
