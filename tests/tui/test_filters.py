"""Filters: the SQL leaves the rows that a plain Python reading of the filter leaves, whatever the values are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.tui.several import BEGAN, Stores
from tic_daemon.errors import ConfigError
from tic_tui.filters import COLUMNS, Filter, operators, where
from tic_tui.model import Mismatch
from tic_tui.queries import rows_of

HOSTILE = ("", "unknown", "'; DROP TABLE mismatches; --", '"', "?", "%", "\x1b]0;x\x07", "a\nb", "é", "\u202e", "NULL")
WORDS = st.sampled_from((*HOSTILE, "decode", "decode2", "DECODE", "3", "03", "3.0"))
NUMBERS = st.sampled_from((None, -1, 0, 3, 2**53 + 1))


def row(draw: Any) -> dict[str, Any]:
    made: dict[str, Any] = {name: draw(WORDS) for name in ("metric", "phase", "rank", "host", "path", "raw")}
    made["phase"] = draw(st.one_of(st.none(), WORDS))
    made["step"] = draw(NUMBERS)
    made["value"] = draw(st.sampled_from((None, 0.0, -2.5, 1e300)))
    made["is_evidence"] = draw(st.booleans())
    return made


def holds(f: Filter, record: dict[str, Any]) -> bool:
    """What the filter means, said another way."""
    column, kind = COLUMNS[f.column]
    held = record[column]
    if kind == "text" and f.op == "contains":
        return f.value in (held or "")
    if kind == "text" and f.op in {"is", "is not"}:
        return ((held or "unknown") == f.value) == (f.op == "is")
    if kind == "yes or no":
        said = "unknown" if held is None else "yes" if held else "no"
        return (said == f.value) == (f.op == "is")
    if f.column == "rank":
        try:
            held = float(held)
        except ValueError:
            held = None
    if f.value == "unknown":
        return (held is None) == (f.op == "is")
    wanted = float(f.value) if f.column in {"rank", "value", "noise_ratio"} or "." in f.value else int(f.value)
    if f.op in {"is", "is not"}:
        return (held is not None and held == wanted) == (f.op == "is")
    return held is not None and (held >= wanted if f.op == ">=" else held <= wanted)


@st.composite
def filters(draw: Any) -> Filter:
    column = draw(st.sampled_from(("metric", "phase", "rank", "host", "raw", "step", "value", "is_evidence")))
    op = draw(st.sampled_from(operators(column)))
    kind = COLUMNS[column][1]
    if kind == "yes or no":
        value = draw(st.sampled_from(("yes", "no")))
    elif kind == "text" and op in {"is", "is not", "contains"}:
        value = draw(WORDS)
    else:
        value = draw(st.sampled_from(("-1", "0", "3", "2.5", "9" * 30)))
        if op in {"is", "is not"} and kind == "number":
            value = draw(st.sampled_from((value, "unknown")))
    return Filter(column, op, value, on=draw(st.booleans()))


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_sql_leaves_what_python_leaves(data: st.DataObject) -> None:
    stores = Stores()
    stores.commit("s1", [row(data.draw) for _ in range(data.draw(st.integers(1, 8)))], at=BEGAN)
    stack = tuple(data.draw(st.lists(filters(), max_size=3)))
    text, params = where(stack)
    found = rows_of(stores, Mismatch, f"mismatches WHERE true{text}", params)  # type: ignore[arg-type]
    wanted = [r["rec_id"] for r in stores.rows if all(holds(f, r) for f in stack if f.on)]
    assert sorted(r.rec_id for r in found) == wanted


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_is_a_parameter_and_never_text(value: str) -> None:
    for column, (_, kind) in COLUMNS.items():
        if kind == "text":
            plain, _ = Filter(column, "is", "x").sql()
            text, params = Filter(column, "is", value).sql()
            assert text == plain and params == (value,)


@pytest.mark.parametrize(
    ("column", "op", "value"),
    [
        ("1; DROP", "is", "x"), ("step", "contains", "1"), ("metric", ">=", "1"), ("step", "is", "many"),
        ("step", ">=", "unknown"), ("is_evidence", "is", "maybe"), ("rank", ">=", "unknown"), ("value", "is", ""),
        ("step", "is", "9" * 400),
    ],
)  # fmt: skip
def test_a_filter_that_means_nothing_is_refused_with_a_reason(column: str, op: Any, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Filter(column, op, value)
    assert refused.value.what
