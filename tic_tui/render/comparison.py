"""Everything about one comparison: verdict, numbers, noise, sizes, what is proved, control groups, both sides."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from tic_tui.age import day_and_clock
from tic_tui.comparison_model import Comparison, VersionRow
from tic_tui.glyphs import Glyphs
from tic_tui.plural import plural
from tic_tui.render import comparisons, response
from tic_tui.render.chrome import panel_head
from tic_tui.render.text import Builder, Line, clean, clip_left, count, short, width_of
from tic_tui.safe import Safe

NAME: Final = 16
_ROWS: Final = 14  # of the histogram
_WIDE: Final = 60
_STEPS: Final = 4  # kinds of distances that are listed one by one
_METRICS: Final = (
    "logprob_mae", "logprob_max", "p50", "p95", "p99", "probability_mae", "kl_k1", "kl_k2", "kl_k3", "relative_l2",
    "cosine",
)  # fmt: skip


def head(one: Comparison, width: int, glyphs: Glyphs) -> list[Line]:
    """Two lines: what it is called and why, and whether it counts."""
    word, tone = comparisons.label(one, glyphs)
    first = Builder(width, glyphs).add(f" {word} ", tone).add(f" {one.reason or 'no reason is given'}", "text")
    stands, stands_tone = comparisons.standing(one, glyphs)
    second = Builder(width, glyphs).add(f" {stands} ", stands_tone)
    if not one.is_evidence:
        second.add(f" {comparisons.why(one)}", "text")
    return [first.line(), second.line()]


def detail(
    one: Comparison, width: int, glyphs: Glyphs, board: Sequence[Line] = (), by_version: Sequence[VersionRow] = ()
) -> list[Line]:
    """All of it, what matters first. `board`: lines of the control groups that it stands among."""
    word, tone = comparisons.label(one, glyphs)
    stands, stands_tone = comparisons.standing(one, glyphs)
    lines = [
        *field("verdict", word, width, glyphs, tone),
        *field("reason", one.reason or "none is given", width, glyphs),
        *field("standing", stands, width, glyphs, stands_tone),
    ]
    if not one.is_evidence:
        lines += field("no evidence", comparisons.why(one), width, glyphs)
    lines += field("next step", one.next_step or "unknown", width, glyphs)
    blank = Builder(width, glyphs).line()
    lines += [blank, panel_head("numbers", "", width, glyphs), *numbers(one, width, glyphs)]
    if one.kind != "trace" and one.valid_tokens:
        lines += [blank, panel_head("noise", "", width, glyphs), *noise(one, width, glyphs)]
        lines += [blank, *versions(by_version, width, glyphs)] if by_version else []
        lines += [blank, *sizes(one, width, glyphs)]
    for title, words in (
        ("not alike on both sides", one.differs), ("remarks, never a verdict", one.remarks),
        ("proved by controls", one.proved), ("not yet proven", one.unproven),
    ):  # fmt: skip
        if words or title in {"proved by controls", "not yet proven"}:
            lines += [blank, panel_head(title, "", width, glyphs), *listed(words or ("nothing",), width, glyphs)]
    lines += [blank, *board] if board else []
    for side in "ab":
        lines += [blank, *_side(one, side, width, glyphs)]
    return [*lines, blank, *_rest(one, width, glyphs)]


def field(name: str, value: object, width: int, glyphs: Glyphs, tone: str = "text") -> list[Line]:
    """A name and its text, in as many lines as it takes."""
    text = "unknown" if value is None or value == "" else value
    shade = "dim" if text == "unknown" else tone
    room = max(8, width - NAME - 1)
    parts = textwrap.wrap(clean(text, glyphs), room, break_on_hyphens=False) or [""]
    lines = []
    for n, part in enumerate(parts):
        lines.append(Builder(width, glyphs).cell("" if n else name, NAME, "head").add(part, shade).line())
    return lines


def path(name: str, value: str | None, width: int, glyphs: Glyphs) -> Line:
    """A path, whose end tells the most."""
    b = Builder(width, glyphs).cell(name, NAME, "head")
    return b.add(
        clip_left(clean(value or "unknown", glyphs), b.room, glyphs.ellipsis), "key" if value else "dim"
    ).line()


def listed(words: Iterable[str], width: int, glyphs: Glyphs) -> list[Line]:
    """Each in as many lines as it takes, behind a dash."""
    lines = []
    for word in words:
        for n, part in enumerate(textwrap.wrap(clean(word, glyphs), max(8, width - 4), break_on_hyphens=False)):
            lines.append(Builder(width, glyphs).add("    " if n else "  - ", "dim").add(part).line())
    return lines


def numbers(one: Comparison, width: int, glyphs: Glyphs) -> list[Line]:
    """All figures of it, each with its name; one without a value says why."""
    if one.kind == "trace":
        said = f"{_known(one.probes)} on each side, {_known(one.probes_differing)} differ"
        return field("probes", said, width, glyphs)
    if not one.valid_tokens:
        return field("nothing", "nothing was compared", width, glyphs)
    sequences = f"{_known(one.sequences)} {plural(one.sequences or 0, 'sequence')}"
    lines = field(
        "valid tokens",
        f"{one.valid_tokens} in {sequences}, independent {_known(one.independent_sequences)}",
        width,
        glyphs,
    )
    if one.mismatched_tokens is None:
        lines += field("bits", "not compared: the element types differ", width, glyphs)
    else:
        of = f"{_known(one.sequences_differing)} {plural(one.sequences_differing or 0, 'sequence')}"
        lines += field(
            "bits differ in", f"{one.mismatched_tokens} {plural(one.mismatched_tokens, 'token')} of {of}", width, glyphs
        )
    if one.first_position is not None:
        lines += field("first by request", f"{one.first_request}:{one.first_position}", width, glyphs)
        lines += field("first position", f"{one.earliest_request}:{_known(one.earliest_position)}", width, glyphs)
        unbroken = f"{_known(one.longest_run_unbroken)} without a mask between"
        said = f"{_known(one.longest_run)} in a row, {unbroken}, of {one.longest_run_request}"
        lines += field("longest run", said, width, glyphs)
    if one.non_finite:
        lines += field("not finite", f"{one.non_finite}, first {one.non_finite_at or 'unknown'}", width, glyphs, "gap")
    classes = [f"{number} {name}" for name, number in _pairs(one.classes, one.class_counts)]
    lines += field("they are", ", ".join(classes).replace("_", " "), width, glyphs) if classes else []
    steps = _pairs(one.ulp_lengths, one.ulp_counts)
    lines += field("numbers apart", _apart(steps), width, glyphs) if steps else []
    reasons = dict(text.partition(": ")[::2] for text in one.undefined or ())
    for name in _METRICS:
        value = getattr(one, name)
        said = f"undefined: {reasons.get(name, 'not finite')}" if value is None else f"{value:.10g}"
        if name == "logprob_max" and value is not None and one.max_position is not None:
            said += f"  at {one.max_request}:{one.max_position}"
        if name.startswith("kl_") and one.kl_is and width >= _WIDE:
            said += f"  ({one.kl_is})"
        lines += field(name, said, width, glyphs, "text" if value is not None else "dim")
        if name == "kl_k3" and one.kl_is and width < _WIDE:
            lines += field("kl_k1 to kl_k3", one.kl_is, width, glyphs)
    return lines


def _pairs(names: Sequence[object] | None, counts: Sequence[int] | None) -> list[tuple[object, int]]:
    return list(zip(names or (), counts or (), strict=False))


def _apart(steps: Sequence[tuple[object, int]]) -> str:
    """How many representable numbers lie between the sides: all, or where there are many the ends and the middle."""
    if len(steps) <= _STEPS:
        return ", ".join(f"{number} by {_span(length)}" for length, number in steps)
    ordered = sorted((int(str(length)), number) for length, number in steps)
    half, seen, middle = -(-sum(number for _, number in ordered) // 2), 0, 0
    for length, number in ordered:
        if seen < half:
            middle = length
        seen += number
    ends = f"least by {_span(ordered[0][0])}, most by {_span(ordered[-1][0])}"
    return f"{ends}, the median by {_span(middle)}"


def _span(length: object) -> str:
    """Distances of that binary length: 1, 2 to 3, 4 to 7."""
    bits = int(str(length))
    return str(bits) if bits < 2 else f"{1 << (bits - 1)} to {(1 << bits) - 1}"


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def noise(one: Comparison, width: int, glyphs: Glyphs) -> list[Line]:
    """The floor of each side, and how often the difference is as large."""
    lines = []
    for name, floor in (("floor of A", one.floor_a), ("floor of B", one.floor_b)):
        lines += field(name, "no repeats show it" if floor is None else f"{floor:.10g}", width, glyphs)
    ratio = (
        "floor 0, no ratio"
        if one.floor == 0
        else None
        if one.noise_ratio is None
        else f"{one.noise_ratio:.4g} x the floor"
    )
    return [*lines, *field("logprob_mae is", ratio, width, glyphs), *listed(one.noise or (), width, glyphs)]


def sizes(one: Comparison, width: int, glyphs: Glyphs) -> list[Line]:
    """The histogram of differences."""
    marks = {
        "mean": one.logprob_mae,
        "p50": one.p50,
        "p95": one.p95,
        "p99": one.p99,
        "max": one.logprob_max,
        "noise floor": one.floor,
    }
    head_line = panel_head("size of the differences, abs(B - A), tokens", "", width, glyphs)
    return [head_line, *response.histogram(one.magnitudes, one.valid_tokens, marks, _ROWS, width, glyphs)]


_BAR: Final = 12


def versions(rows: Sequence[VersionRow], width: int, glyphs: Glyphs) -> list[Line]:
    """Figures of the tokens that each version of the policy sampled; the bars are against the largest share."""
    said = f"{count(len(rows))} in this dump" if len(rows) > 1 else "one in this dump"
    lines = [panel_head("by policy version", said, width, glyphs)]
    bar = "█" if glyphs.braille else "#"
    name = max(7, min(max(width_of(str(row.policy or "unknown")) for row in rows), width - 40))
    head = Builder(width, glyphs).add("  ").cell("version", name, "head").cell("differs", 15, "head", right=True)
    lines.append(head.cell("share", 7, "head", right=True).cell("mae", 9, "head", right=True).line())
    shares = [_share(row) for row in rows]
    most = max((share or 0.0 for share in shares), default=0.0)
    for row, share in zip(rows, shares, strict=True):
        differ, of = row.mismatched_tokens, row.valid_tokens
        tone = "text" if differ is None or differ else "dim"
        b = Builder(width, glyphs).add("  ").cell(str(row.policy or "unknown"), name, tone)
        b.cell(f"{'?' if differ is None else count(differ)}/{'?' if of is None else count(of)}", 15, tone, right=True)
        b.cell("-" if share is None else percent(share), 7, tone, right=True)
        b.cell("-" if row.logprob_mae is None else short(row.logprob_mae), 9, tone, right=True)
        cells = min(_BAR, b.room - 1)
        if share and cells > 3:
            b.add(Safe(bar * max(1, round(cells * share / most))), tone)
        lines.append(b.line())
    if any("+" in str(row.policy or "") for row in rows):
        lines += listed(("with +: of responses that do not say where each version begins",), width, glyphs)
    return lines


def _share(row: VersionRow) -> float | None:
    return row.mismatched_tokens / row.valid_tokens if row.mismatched_tokens is not None and row.valid_tokens else None


def percent(share: float) -> str:
    """A share in a hundred, which is "0 %" for none and "100 %" for all alone."""
    if 0 < share < 0.001:
        return "<0.1 %"
    text = f"{100 * share:.1f}" if share < 0.9995 else "100" if share == 1 else ">99.9"
    return f"{text.removesuffix('.0')} %"


def _side(one: Comparison, side: str, width: int, glyphs: Glyphs) -> list[Line]:
    def of(name: str) -> object:
        return getattr(one, f"{name}_{side}")

    title = "side A, the rollout's" if side == "a" else "side B, the trainer's"
    part = f" [{of('part')}]" if of("part") else ""
    made = of("produced")
    how = {"receipt": "by its producer's receipt", "file": "by the file's time"}.get(str(of("produced_how") or ""), "")
    when = f"{day_and_clock(made)} {how}".rstrip() if isinstance(made, datetime) else "unknown"
    size = of("size")
    return [
        panel_head(title, "", width, glyphs),
        path("file", f"{of('side') or one.side_a or 'unknown'}{part}", width, glyphs)
        if side == "a" or one.side_b
        else path("file", f"{one.side_a or 'unknown'}{part}", width, glyphs),
        *field("dtype", of("dtype"), width, glyphs),
        *field("basis", of("basis"), width, glyphs),
        *field("policy", of("policy"), width, glyphs),
        *field("read as", of("reader"), width, glyphs),
        *field("sha256", of("sha256"), width, glyphs),
        *field("size", None if size is None else f"{size} bytes", width, glyphs),
        *field("made", when, width, glyphs),
    ]


def _rest(one: Comparison, width: int, glyphs: Glyphs) -> list[Line]:
    bound = ""
    if one.criterion_metric:
        bound = str(one.criterion_metric)
        bound += f" at most {one.criterion_at_most:.6g}" if one.criterion_at_most is not None else ""
        bound += f" at least {one.criterion_at_least:.6g}" if one.criterion_at_least is not None else ""
    faults = f"{one.standing or 'unknown'}{f': {one.standing_why}' if one.standing_why else ''}"
    fields: list[tuple[str, object]] = [
        ("criterion", f"{bound}, sha256 {one.criterion_id}" if one.criterion_id else "none was frozen"),
        ("planted error", one.planted_error or "none"),
        ("faults", f"{faults}, when it was judged"),
        ("files now", one.changed or "as they were compared"),
        ("kind", one.kind), ("control group", one.control_group or "none is stated"),
        ("variant", one.variant or "none is stated"),
        ("goal", one.goal), ("provenance", one.dtype_provenance), ("policy", one.policy), ("inputs", one.input),
        ("phase", one.phase), ("scope", one.scope), ("intervention", one.intervention), ("asked for by", one.how),
        ("run_id", one.run_id), ("attempt", one.attempt), ("step", one.step),
        ("took", None if one.took_s is None else f"{one.took_s:.3g} s"), ("comparison", one.comparison_id),
        ("report's name", one.compare_id), ("host", one.host), ("observed_at", day_and_clock(one.observed_at)),
    ]  # fmt: skip
    lines = [panel_head("besides", "", width, glyphs)]
    for name, value in fields:
        lines += field(name, value, width, glyphs)
    return [*lines, path("manifest", one.manifest, width, glyphs), path("report", one.report, width, glyphs)]
