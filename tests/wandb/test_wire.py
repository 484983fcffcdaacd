"""The reading child's lines: values come through as they are, and what is no message is refused."""

from __future__ import annotations

import contextlib
import json
import math
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tic_daemon.wandb.history import flatten, history_row
from tic_daemon.wandb.masking import masked
from tic_daemon.wandb.wire import Begun, Decoder, Encoder, Ended, Hello, PageTold, RowTold, RunTold, WireError

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda below: st.dictionaries(st.text(max_size=4), below, max_size=3) | st.lists(below, max_size=3),
    max_leaves=8,
)


def told(row: dict[str, Any], number: int = 0) -> RowTold:
    made = history_row(flatten(row), number, "w")
    return RowTold(made, made.digest())


@given(st.lists(st.dictionaries(st.text(max_size=5), plain, max_size=6), max_size=5))
def test_rows_come_through_whatever_they_hold(rows: list[dict[str, Any]]) -> None:
    encoder, decoder = Encoder(), Decoder()
    for number, row in enumerate(rows):
        sent = told({"_step": number, "_timestamp": 1.7e9 + number / 7, **row}, number)
        got = decoder.message(encoder.line(sent))
        assert isinstance(got, RowTold)
        assert got.row.digest() == sent.digest == got.digest
        assert repr(got.row) == repr(sent.row), "NaN is not equal to itself, but it looks alike"


def test_exact_values() -> None:
    got = Decoder().message(Encoder().line(told({"_step": 3, "big": 2**53 + 1, "nan": math.nan, "s": "NaN", "one": 1})))
    assert isinstance(got, RowTold) and got.row.wandb_step == 3
    values = {value.key: value for value in got.row.values}
    assert values["big"].text == "9007199254740993" and values["big"].kind == "int"
    assert math.isnan(values["nan"].number or 0) and values["nan"].kind == values["s"].kind == "nan"
    assert (values["one"].number, values["one"].kind) == (1.0, "int")


def test_keys_are_told_again_only_when_they_change() -> None:
    encoder = Encoder()
    lines = [json.loads(encoder.line(told(row))) for row in ({"a": 1}, {"a": 2}, {"b": 1}, {"a": 1})]
    assert ["k" in line for line in lines] == [True, False, True, True]


def test_the_other_messages_come_through() -> None:
    run = RunTold(
        "e/p/r",
        "n",
        "running",
        datetime(2026, 1, 2, 3, 4),
        None,
        -1,
        0,
        "{}",
        '{"a": 1}',
        "0.31.0",
        "abc",
        datetime(2026, 1, 2, 4),
    )
    for message in (Hello("0.31.0", "http://x"), run, Begun(5, 700), PageTold(700), Ended("cut", "", 700)):
        assert Decoder().message(Encoder().line(message)) == message


@pytest.mark.parametrize(
    "line",
    [
        b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"m": "Nothing"}', b'{"m": "PageTold", "to": true}',
        b'{"m": "PageTold", "to": 1e400}', b'{"m": "Ended", "outcome": "well", "detail": "", "next_step": 0}',
        b'{"r": [0, 0, ""], "k": [], "v": []}', b'{"r": [0, 0, "", "xyz"], "k": [], "v": []}',
        b'{"r": [0.5, 0, "", "' + b"0" * 32 + b'"], "k": [], "v": []}',
        b'{"r": [0, 0, "", "' + b"0" * 32 + b'"], "k": ["a"], "v": []}',
        b'{"r": [0, 0, "", "' + b"0" * 32 + b'"], "k": ["a"], "v": [["evil", "x"]]}',
        b'{"r": [0, 0, "", "' + b"0" * 32 + b'"], "k": ["a"], "v": [["text", null]]}',
        b'{"r": [0, 0, "", "' + b"0" * 32 + b'"], "k": [1], "v": [1]}',
        b'{"r": [0, 99999999999999999999, "", "' + b"0" * 32 + b'"], "k": [], "v": []}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(WireError):
        Decoder().message(line)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(line: bytes) -> None:
    with contextlib.suppress(WireError):
        Decoder().message(line)


def test_secrets_are_masked() -> None:
    key = "0123456789abcdef0123456789abcdef01234567"
    text = masked(f"GET https://api:{key}@h/f.parquet?X-Amz-Signature=abc failed,\n key {key}, wandb_v1_abcDEF", [])
    assert text == "GET https://***@h/f.parquet?*** failed, key ***, wandb_v1_abcDEF".replace("wandb_v1_abcDEF", "***")
    assert masked("my own secret", ["own secret"]) == "my ***" and masked("a b", ["a"]) == "a b"
    assert len(masked("x" * 10_000)) == 500
