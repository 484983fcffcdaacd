"""The bottom of a comparison: one token with both values and their bits, one probe, and the files they come from."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from tic_tui.age import day_and_clock
from tic_tui.bits import Spelled, apart, differing, spell
from tic_tui.comparison_model import Artifact, Boundary, Comparison, TokenRow
from tic_tui.glyphs import Glyphs
from tic_tui.plural import plural
from tic_tui.render.chrome import panel_head
from tic_tui.render.comparison import NAME, field, path
from tic_tui.render.text import Builder, Line

WIDEST = 100
"""Cells that float64's bits take with their names; a narrower screen scrolls sideways."""


def token(one: Comparison, row: TokenRow, width: int, glyphs: Glyphs) -> list[Line]:
    """Both values, their bits one above the other with what differs, then each spelled."""
    blank = Builder(width, glyphs).line()
    a, b = spell(str(one.dtype_a), row.bits_a), spell(str(one.dtype_b), row.bits_b)
    sides = (
        ("A", "the rollout's", row.value_a, row.bits_a, one.dtype_a, a),
        ("B", "the trainer's", row.value_b, row.bits_b, one.dtype_b, b),
    )
    lines = [
        *field("request", row.request, width, glyphs),
        *field("position", f"{row.position} of the response, from 0", width, glyphs),
        *field("token id", row.token_id, width, glyphs),
    ]
    for side, _, value, bits, _, spelled in sides:
        shown = f"{_value(value, spelled)}  {spelled.hex if spelled is not None else bits or ''}".rstrip()
        lines += field(f"value of {side}", shown, width, glyphs, "rollout" if side == "A" else "trainer")
    lines += field("B - A", None if row.difference is None else repr(row.difference), width, glyphs)
    lines += [*field("apart", _apart(a, b), width, glyphs), blank]
    lines += [_digits(f"bits of {side}", bits, spelled, width, glyphs) for side, _, _, bits, _, spelled in sides]
    if a is not None and b is not None and a.layout == b.layout:
        marks = differing(a, b) or "nothing: the same bits"
        lines.append(Builder(width, glyphs).cell("these differ", NAME, "head").add(marks, "suspect").line())
    for side, whose, _, _, dtype, spelled in sides:
        lines += [blank, panel_head(f"side {side}, {whose}:", str(dtype or "type unknown"), width, glyphs)]
        lines += _spelled(spelled, width, glyphs)
    return lines


def _value(value: float | None, spelled: Spelled | None) -> str:
    if value is None or isnan(value):
        return spelled.words if spelled is not None and spelled.kind in {"NaN", "infinite"} else "unknown"
    return repr(value)


def _digits(name: str, bits: object, spelled: Spelled | None, width: int, glyphs: Glyphs) -> Line:
    """Sign, exponent and mantissa in one line."""
    b = Builder(width, glyphs).cell(name, NAME, "head")
    if spelled is not None:
        return b.add(spelled.digits).line()
    return b.add(f"{bits}, not spelled: its type is not known here" if bits else "not recorded", "dim").line()


def _spelled(spelled: Spelled | None, width: int, glyphs: Glyphs) -> list[Line]:
    if spelled is None:
        return field("bits", None, width, glyphs)
    layout, kind = spelled.layout, spelled.kind
    sign = "negative" if spelled.sign == "1" else "positive"
    raw = int(spelled.exponent, 2)
    power = f", 2^{max(raw, 1) - layout.bias}" if kind in {"normal", "subnormal"} else ""
    lead = {"normal": "1.", "subnormal": "0."}.get(kind, "")
    return [
        *field("means", f"{spelled.words}, {kind}" if power else spelled.words, width, glyphs),
        *field("sign", f"{spelled.sign}, {sign}", width, glyphs),
        *field("exponent", f"{spelled.exponent} = {raw}, bias {layout.bias}{power}", width, glyphs),
        *field("mantissa", f"{lead}{spelled.mantissa}", width, glyphs),
    ]


def _apart(a: Spelled | None, b: Spelled | None) -> str:
    if a is None or b is None:
        return "unknown: not both bits are known"
    if a.layout != b.layout:
        return "not comparable: the element types differ"
    number = apart(a, b)
    if number is None:
        return "not comparable: NaN"
    if number == 0:
        return "0: the same bits" if a.code == b.code else "0: +0 and -0, other bits"
    return f"{number} representable {plural(number, 'number')}"


def probe(row: Boundary, said: str, width: int, glyphs: Glyphs) -> list[Line]:
    """One probe of a trace: its state, both hashes, and what was measured."""
    shape = "unknown" if row.shape is None else " x ".join(str(n) for n in row.shape) or "a single number"
    fields: list[tuple[str, object]] = [
        ("state", said), ("boundary", row.boundary), ("slice", row.slice), ("request", row.request),
        ("order", row.execution_order), ("operator", row.operator or "nothing can be said of it"),
        ("input", row.input_state or "not recorded"),
        ("discrete", {True: "yes, a decision", False: "no"}.get(bool(row.discrete))),
        ("dtype", row.dtype), ("shape", shape), ("sha256 of A", row.sha256_a), ("sha256 of B", row.sha256_b),
    ]  # fmt: skip
    if row.elements is not None:
        at = "" if row.first_index is None else f", first at {list(row.first_index)}"
        fields += [
            ("differ", f"{row.mismatched} of {row.elements} numbers{at}"),
            ("finite", None if row.finite is None else f"{row.finite:.6g} of the numbers"),
        ]
        for name in ("max_abs", "mean_abs", "relative_l2", "cosine"):
            value = getattr(row, name)
            fields.append((name, "undefined" if value is None else f"{value:.10g}"))
        for name in ("vocab_tv_mean", "vocab_tv_max", "vocab_argmax", "vocab_logsoftmax_max"):
            value = getattr(row, name)
            fields += [] if value is None else [(name, f"{value:.10g}")]
    else:
        fields.append(("measured", "nothing: only hashes were kept, or others come before it"))
    lines = []
    for name, value in fields:
        lines += field(name, value, width, glyphs)
    return lines


def files(one: Comparison, found: Sequence[Artifact] | None, width: int, glyphs: Glyphs) -> list[Line]:
    """Both sides' files: as they were compared, and as they look now."""
    lines: list[Line] = []
    sides = [("A", one.side_a, one.sha256_a, one.reader_a), ("B", one.side_b or one.side_a, one.sha256_b, one.reader_b)]
    for side, file, digest, reader in sides:
        lines += [panel_head(f"file of side {side}", "", width, glyphs), path("path", file, width, glyphs)]
        lines += field("host", one.host, width, glyphs)
        lines += field("read as", reader, width, glyphs)
        lines += field("sha256 compared", digest, width, glyphs)
        if found is None:
            lines += field("now", "reading ...", width, glyphs)
        else:
            lines += _now(next((a for a in found if a.path == file), None), digest, width, glyphs)
        lines.append(Builder(width, glyphs).line())
    return [*lines, path("manifest", one.manifest, width, glyphs), path("report", one.report, width, glyphs)]


def _now(artifact: Artifact | None, digest: object, width: int, glyphs: Glyphs) -> list[Line]:
    if artifact is None:
        return field("now", "no manifest names it: it is not watched", width, glyphs)
    same = artifact.sha256 is not None and artifact.sha256 == digest
    held = artifact.state in {"verified", "recorded"} and same
    word = (
        f"{glyphs.admissible if held else glyphs.fault} {artifact.state}{f': {artifact.why}' if artifact.why else ''}"
    )
    if artifact.sha256 is not None and not same:
        word += "; other bytes than were compared"
    lines = field("now", word, width, glyphs, "ok" if held else "suspect")
    lines += field("sha256 now", artifact.sha256, width, glyphs)
    if artifact.expected_sha256 is not None:
        lines += field("manifest says", artifact.expected_sha256, width, glyphs)
    lines += field("size", None if artifact.bytes_size is None else f"{artifact.bytes_size} bytes", width, glyphs)
    lines += field("changed", day_and_clock(artifact.modified_at), width, glyphs)
    return [*lines, *field("looked at", day_and_clock(artifact.observed_at), width, glyphs)]
