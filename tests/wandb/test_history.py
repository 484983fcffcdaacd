"""Values of a history row: exact or marked, and the same from the local log and from the API."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tic_daemon.wandb.history import HistoryRow, Value, flatten, history_row, value_of, value_of_text


def row(*values: Value) -> HistoryRow:
    return history_row(values, 0)


def local(**texts: str) -> HistoryRow:
    return row(*(value_of_text(key, text) for key, text in texts.items()))


def api(given_row: dict[str, Any]) -> HistoryRow:
    return row(*flatten(given_row))


@pytest.mark.parametrize(
    ("text", "number", "kept", "kind"),
    [
        ("0.25", 0.25, None, "number"),
        ("-0.0", 0.0, None, "number"),
        ("7", 7.0, None, "int"),
        ("9007199254740992", 2.0**53, None, "int"),  # 2^53: a double holds it
        ("9007199254740993", 2.0**53, "9007199254740993", "int"),  # no double does
        ("-9223372036854775807", -(2.0**63), "-9223372036854775807", "int"),
        ("100000000000000000000", 1e20, None, "int"),  # 10^20 is a double, though no int64
        ("1e400", math.inf, "1e400", "inf"),
        ("Infinity", math.inf, None, "inf"),
        ("-Infinity", -math.inf, None, "-inf"),
        ('"-Infinity"', -math.inf, "-Infinity", "-inf"),
        ("true", 1.0, None, "bool"),
        ("null", None, "null", "null"),
        ('"a\\nb"', None, "a\nb", "text"),
        ('{"_type":"image-file","path":"a.png"}', None, '{"_type":"image-file","path":"a.png"}', "media"),
        ("[1, 2]", None, "[1, 2]", "json"),
        # None of these is JSON, though Python's float() takes them.
        ("1_0", None, "1_0", "text"),
        ("-inf", None, "-inf", "text"),
        (" 1", 1.0, None, "int"),  # JSON allows the blank
        ("1٢", None, "1٢", "text"),
        ("nan", None, "nan", "text"),
    ],
)
def test_text_of_the_local_log(text: str, number: float | None, kept: str | None, kind: str) -> None:
    assert value_of_text("k", text) == Value("k", number, kept, kind)


def test_numbers_of_any_length_do_no_harm() -> None:
    for text in ("9" * 3000, "9" * 5000, "-" + "9" * 5000, "0." + "1" * 9000):
        value = value_of_text("k", text)
        assert value.number is not None and (value.kind == "number" or value.text == text)
    huge = value_of("k", 10**5000)
    assert huge.kind == "int" and huge.text is not None and int(huge.text, 16) == 10**5000
    assert history_row([value_of("_step", 10**5000)], 0).wandb_step is None
    assert value_of_text("k", "[" * 100_000).kind == "text"


def test_nan_is_nan_however_it_is_spelled() -> None:
    bare, word, float_ = value_of_text("k", "NaN"), value_of_text("k", '"NaN"'), value_of("k", math.nan)
    assert {value.kind for value in (bare, word, float_)} == {"nan"}
    assert all(value.number is not None and math.isnan(value.number) for value in (bare, word, float_))
    assert row(bare).digest() == row(word).digest() == row(float_).digest()
    assert row(bare).digest() != row(value_of("k", None)).digest()  # a null is no NaN


def test_step_and_time_come_out_of_the_values() -> None:
    got = api({"loss": 1, "_step": 41, "_timestamp": 1764495161.25, "_runtime": 3.5})
    assert (got.wandb_step, got.at) == (41, datetime(2025, 11, 30, 9, 32, 41, 250_000))
    assert [value.key for value in got.values] == ["loss", "_timestamp", "_runtime"]
    odd = api({"_step": "soon", "_timestamp": 1e300})
    assert (odd.wandb_step, odd.at) == (None, None) and odd.values[0] == Value("_step", None, "soon", "text")
    assert api({"_step": 7.0}).wandb_step == 7 and api({"_step": 7.5}).wandb_step is None
    assert api({"_step": 2**53 + 1}).wandb_step == 2**53 + 1 and api({"_step": 2**63}).wandb_step is None
    assert local(_step="9007199254740993").wandb_step == 2**53 + 1


def test_nested_keys_are_joined_and_media_stay_whole() -> None:
    given_row = {
        "a": {"b": {"c": 1}, "e": {}},
        "x.y": 2,
        "img": {"_type": "image-file", "z": 1, "a": 2},
        "l": [{"q": 1}],
    }
    assert [(v.key, v.kind, v.text) for v in api(given_row).values] == [
        ("a.b.c", "int", None),
        ("a.e", "json", "{}"),
        ("x.y", "int", None),
        ("img", "media", '{"_type":"image-file","a":2,"z":1}'),
        ("l", "json", '[{"q":1}]'),
    ]
    deep: dict[str, Any] = {"leaf": 1}
    for _ in range(5000):
        deep = {"n": deep}
    assert [value.kind for value in flatten(deep)] == ["json"]  # and no recursion without end


def test_what_one_call_logged_is_one_digest_from_both_sources() -> None:
    """The local log as the client writes it; the API nested, sorted otherwise, 2.0 for 2, and with nulls from Parquet."""
    ours = local(**{"loss": "2", "a.b": "NaN", "big": "9007199254740993", "m": '{"z": 1, "_type": "t"}', "_step": "3"})
    theirs = {"m": {"_type": "t", "z": 1}, "big": 9007199254740993, "absent": None, "a": {"b": "NaN"}, "loss": 2.0}
    assert ours.digest() == api({**theirs, "_step": 4}).digest()  # the step is no content
    for changed in (
        {"loss": 2.5},
        {"big": 9007199254740992},
        {"a": {"b": None}},
        {"m": {"_type": "t", "z": 2}},
        {"new": 0},
    ):
        assert ours.digest() != api({**theirs, **changed}).digest(), changed


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    assert row(value_of("k", 1), value_of("k", 2)).values == (Value("k", 2.0, None, "int"),)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=6))
def test_text_and_value_say_the_same(content: dict[str, Any]) -> None:
    """Whatever is logged: read from its JSON text or given as a value, it is the same row."""
    given_row = {key: value for key, value in content.items() if not isinstance(value, dict)}
    texts = [value_of_text(key, json.dumps(value)) for key, value in given_row.items()]
    assert row(*texts).digest() == api(given_row).digest()
    for value, text in zip(flatten(given_row), texts, strict=True):
        assert (value.key, value.kind, value.number) == (text.key, text.kind, text.number)
