"""Cutting a physical line into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tic_daemon.scan.lines import clean, is_bar, is_whole, pieces

BAR = "Processed prompts:  17%|█▋        | 2/12 [00:04<00:20,  2.07s/it, est. speed input: 42.5 toks/s]"


def cut(text: str | bytes) -> list[str]:
    raw = text.encode() if isinstance(text, str) else text
    return [raw[start:end].decode() for start, end in pieces(raw)]


def test_escapes_nuls_and_bad_bytes() -> None:
    assert clean(b"\x1b[1;36mA\x1b[0;0m b\x00c\x1b]0;title\x07d \xff") == "A bc" + "d \ufffd"
    assert clean(b"\xef\xbb\xbfx") == "x"


def test_refreshes_are_pieces() -> None:
    assert cut("a 1%|x| 1/2 [00:01<00:02]\rb\r\rc") == ["a 1%|x| 1/2 [00:01<00:02]", "b", "c"]


@pytest.mark.parametrize(
    "tail", ["(EngineCore pid=3) INFO 11-29 20:50:28 [a.py:3] x", "step:3 - a:1", "[mismatch] run=a step=1"]
)
def test_what_is_glued_behind_a_bar_is_read(tail: str) -> None:
    assert cut(BAR + tail)[-1] == tail


def test_a_completed_bar_of_vllm() -> None:
    assert cut("Loading shards: 100% Completed | 4/4 [00:04<00:00, 1.3it/s][mismatch] run=a step=2")[-1].startswith(
        "[mis"
    )


def test_a_bar_alone_stays() -> None:
    assert cut(BAR) == [BAR]
    assert is_bar(BAR.encode()) and not is_bar(b"step:3 - a:1")


def test_second_header_splits() -> None:
    line = "(Worker_TP0 pid=1) INFO 11-29 20:50:28 [a.py:3] cut he(Worker_TP1 pid=2) ERROR 11-29 20:50:28 [a.py:3] CUDA"
    assert cut(line) == [line[: line.index("(Worker_TP1")], line[line.index("(Worker_TP1") :]]


@pytest.mark.parametrize(
    "line",
    [
        "(RayWorkerProc pid=9) (Worker_TP0 pid=9) INFO 11-29 20:50:28 [a.py:3] x",
        "2026-11-29T16:20:11.1Z stdout F (EngineCore pid=9) INFO 11-29 20:50:28 [a.py:3] x",
        "[default0]:(EngineCore pid=9) INFO 11-29 20:50:28 [a.py:3] x",
        "the record starts with [mismatch] and then run=a",
        'say "[mismatch] run=a step=1 rank=2"',
        "worker.log:64:[mismatch] run=a step=1 rank=0 metric=kl_k1",
        "read [mismatch] run=a step=1 lines",
    ],
)
def test_one_piece(line: str) -> None:
    assert cut(line) == [line]


@pytest.mark.parametrize("before", ["half a line of another writer", BAR, "some text "])
def test_record_behind_another_writers_text(before: str) -> None:
    record = "[mismatch] run=a step=1 policy=2 input=9 phase=prefill rank=0 repeat=0"
    assert cut(before + record)[-1] == record


@given(
    st.lists(
        st.sampled_from(
            [
                "\r",
                BAR,
                "(W pid=1) INFO 11-29 20:50:28 [a.py:1] t",
                "[mismatch] run=a step=1 rank=0",
                "step:1 - a:2",
                " ",
                "x",
                "\0",
                "%",
                "]",
            ]
        ),
        max_size=12,
    )
)
def test_pieces_are_in_order_and_do_not_overlap(parts: list[str]) -> None:
    raw = "".join(parts).encode()
    place = 0
    for start, end in pieces(raw):
        assert place <= start <= end <= len(raw)
        place = end
    if is_whole(raw):
        assert pieces(raw) == [(0, len(raw))]
