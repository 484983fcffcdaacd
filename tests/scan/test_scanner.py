"""The scanner as a whole: the same events for any chunks and restarts; writers, stamps and steps; bytes of any kind."""

from __future__ import annotations

import json
import random
import re
import time
import tracemalloc
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scan.support import REFERENCE, of, opened, scan, scanner
from tic_daemon.scan.events import (
    Device,
    Event,
    Fault,
    Gap,
    Metric,
    Mismatch,
    ProcessSeen,
    StampAfter,
    StepEvent,
    WeightPhase,
)
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.traits import SourceTraits

CORPUS = Path(__file__).parents[1] / "corpus"
IMA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
SAMPLES = [
    line
    for path in [*sorted((CORPUS / "samples").glob("*.log")), CORPUS / "real_run" / "worker_raw.log"]
    for line in re.findall(rb"[^\n]*\n", path.read_bytes())
]
TELLING = [
    line
    for line in SAMPLES
    if re.search(
        rb"mismatch|CUDA|Traceback|  (?:scope|metric|self_repeat)=|step:|\[prompt|\[score|iteration|exception|NVRM",
        line,
    )
]
PACK_LINES = [
    line.encode() + b"\n" for rule in RuleSet.load().rules for text in (*rule.match, *rule.no_match)
    for line in text.split("\n")
]  # fmt: skip
COMPOSED = [
    b"2026-11-29T16:20:11.123456789Z stdout P [mismatch] run=a step=1\n",
    b"2026-11-29T16:20:11.123456789Z stderr P step:3 - a:1 - \n",
    b"2026-11-29T16:20:12.123456789Z stdout F  metric=logprob_mae value=0.1\n",
    b"2026-11-29T16:20:11.123456789Z stderr F b:2\n",
    b"(WorkerDict pid=77) [mismatch] run=b step=2 rank=1\n",
    b"(WorkerDict pid=77)   metric=logprob_mae value=0.5\n",
    b"(WorkerDict pid=77) hello\n",
    b"\0\0\xff\xfe\n",
    b"\n",
    b"[rank4]: text\n",
    b"see pid=4711) here\n",
    b"\r\r\n",
    b"x\r\n",
    b"bar: 10%|#| 1/10 [00:01<00:02]\rbar: 20%|#| 2/10 [00:01<00:02][mismatch] run=c step=4 metric=kl_k1 value=nan\n",
    b"[mismatch] run=a step=1 rank=1\n",
    b"[mismatch] run=a step=1 rank=0\n",
    b"  metric=kl_k1 value=3\n",
    b"(A pid=1) RuntimeError: CUDA error: misaligned address\n",
    b"(A pid=1) Traceback (most recent call last):\n",
    b'(A pid=1)   File "x", line 3\n',
    b":actor_name:TaskRunner\n",
    b"\x1b[36m(W pid=9)\x1b[0m \x1b[1mCUDA\x1b[0m error: xxxxx\n",
    b"step:7 - a:1 - b:np.float64(nan)\n",
    b"\r  4%|4         | 4/100 [00:31<03:50,  2.62s/it]\r                       \r{'loss': 0.5, 'epoch': 0.1}\n",
    b"\r  4%|4         | 4/100 [00:31<03:50,  2.62s/it]\r  5%|5         | 5/100 [00:31<03:50,  2.62s/it]\n",
    b"\r  4%|4         | 4/100 [00:31<03:50,  2.62s/it]\n",
    b"=============== Epoch 3/9 ===============\n",
    b"=============== Step 4/10 ===============\n",
    b"(A pid=1) =============== Step 5/10 ===============\n",
    "  • Loss: 0.5\n".encode(),
    "(A pid=1)   • policy_training: 3.5s (10.0%)\n".encode(),
    "  • Total step time: 35.70s\n".encode(),
    b"                    ERROR    step failed                    train.py:41\n",
    b"                             Traceback (most recent call last):      \n",
    b'                               File "x", line 3, in f      \n',
    b"                             RuntimeError: CUDA error: misaligned address      \n",
    "(A pid=1) ╭─── Traceback (most recent call last) ───╮\n".encode(),
    "(A pid=1) │ /srv/x.py:4 in main                     │\n".encode(),
    b"(SGLangEngine pid=9) [2026-11-29 08:40:11 TP2] Scheduler hit an exception: Traceback (most recent call last):\n",
    b'(SGLangEngine pid=9)   File "x", line 3, in f\n',
    b"(SGLangEngine pid=9) RuntimeError: CUDA error: misaligned address\n",
    b"(SGLangEngine pid=9) [2026-11-29 08:40:12 TP1] text\n",
    b"WARNING:root:x\n",
    b"ERROR:root:x\n",
    b"[prompt] a\n",
    b"[score] 1\n",
    b'{"log":"[mismatch] run=r step=2 rank=0\\n","stream":"stdout","time":"2026-11-29T20:00:01.5Z"}\n',
    b'{"log":"  metric=kl_k1 value=1 (WorkerDict pid=7)","stream":"stdout","time":"2026-11-29T20:00:01Z"}\n',
    b'{"log":"[rank3]: ' + IMA.encode() + b'\\n","stream":"stderr","time":"2026-11-29T20:00:02.123456789Z"}\n',
    b'{"level":"error","msg":"[mismatch] run=r step=2 rank=0","exc_info":"' + IMA.encode() + b'"}\n',
    b'(WorkerDict pid=8) {"level": "error", "msg": "' + IMA.encode() + b'"}\n',
    b"ray.exceptions.RayTaskError(X): ray::WorkerDict.f() (pid=184142, ip=10.0.0.1, actor_id=9c)\n",
    b"(TaskRunner pid=1) x:  12%|# | 3/25 [00:11<01:20]step:3 - a:1 - b:2[rank3]: " + IMA.encode() + b"\n",
]

LINES = st.lists(
    st.one_of(
        st.sampled_from(TELLING),
        st.sampled_from(COMPOSED),
        st.sampled_from(PACK_LINES),
        st.sampled_from(SAMPLES),
        st.binary(max_size=30).map(lambda raw: raw + b"\n"),
        st.builds(
            lambda place, count: b"".join(SAMPLES[place : place + count]),
            st.integers(0, len(SAMPLES)),
            st.integers(1, 12),
        ),
    ),
    max_size=50,
).map(lambda parts: re.findall(rb"[^\n]*\n", b"".join(parts)))
TRAITS = st.builds(
    SourceTraits,
    single_process=st.booleans(),
    pid=st.sampled_from([None, 32354]),
    rank=st.sampled_from([None, 3]),
    role=st.sampled_from(["unknown", "driver", "kernel"]),
    framework=st.sampled_from(["plain", "ray"]),
    reference_time=st.just(REFERENCE),
)
TAIL = st.sampled_from([b"", b"[mismatch] run=z step=3", b"step:3 - a:1", b"[rank3]: " + IMA.encode()])


def shown(events: list[Event]) -> list[str]:
    """Comparable: NaN is not equal to itself."""
    return [repr(event) for event in events]


@settings(
    max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(LINES, TRAITS, TAIL, st.randoms(use_true_random=False))
def test_chunks_restarts_and_engines_change_nothing(
    lines: list[bytes], traits: SourceTraits, tail: bytes, rng: random.Random
) -> None:
    whole = scanner().open(traits)
    wanted, last = shown(whole.feed(b"".join(lines))), shown(whole.finish(tail))
    broken = scanner().open(traits)
    found: list[str] = []
    place = 0
    while place < len(lines):
        step = rng.choice((1, 1, 2, 9))
        found += shown(broken.feed(b"".join(lines[place : place + step])))
        place += step
        if rng.random() < 0.5:
            broken = scanner().open(traits, broken.state())
    peeked = shown(broken.peek(tail))
    assert found == wanted
    assert peeked == shown(broken.finish(tail)) == last
    assert (broken.counters, broken.state()) == (whole.counters, whole.state())
    other = scanner("ahocorasick").open(traits)
    assert shown(other.feed(b"".join(lines))) == wanted


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(LINES)
def test_every_event_lies_in_its_line(lines: list[bytes]) -> None:
    data = b"".join(lines)
    for event in scan(data):
        at = event.at
        assert 0 <= at.byte_offset < at.byte_offset + at.byte_length <= len(data)
        assert at.line_no == data.count(b"\n", 0, at.byte_offset) + 1


# A long line in pieces

LONG = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\r", b"\r", b"[mismatch] run=a step=1 metric=kl_k1", b"step:3 - a:1 - b:2", IMA.encode(), b"bar 1%|"]
        ),
        st.integers(0, 90_000).map(lambda size: b"z" * size),
    ),
    min_size=1,
    max_size=12,
).map(b"".join)


@settings(max_examples=examples(80), deadline=None)
@given(LONG, st.lists(st.integers(0, 300_000), max_size=5), st.booleans())
def test_cuts_of_a_long_line_change_nothing(line: bytes, cuts: list[int], restart: bool) -> None:
    if not line:
        return
    after = b"\nstep:9 - a:1\n"
    places = sorted({min(cut, len(line)) for cut in cuts} | {0, len(line)})
    results = []
    for where in ([0, len(line)], places):
        source = opened()
        events: list[Event] = []
        for start, end in pairwise(where):
            events += source.feed_piece(line[start:end])
            if restart:
                source = scanner().open(SourceTraits(reference_time=REFERENCE), source.state())
        events += source.feed(after)
        results.append((shown(events), source.counters, source.state()))
        assert source.byte_offset == len(line) + len(after) and source.line_no == 3
        assert of(events, StepEvent)[-1].at.byte_offset == len(line) + 1
    assert results[0] == results[1]
    counters = results[0][1]
    assert counters.capped_lines == 1
    gaps = [part for part in line.split(b"\r") if len(part) > 65536]
    assert counters.skipped_bytes == sum(len(part) - 65536 for part in gaps)


def test_markers_of_a_long_line_are_found() -> None:
    source = opened()
    head = f"[rank3]: {IMA} ".encode()
    events = source.feed_piece(head + b"x" * 2_000_000)
    (fault,) = of(events, Fault)
    assert (fault.verdict, fault.at.byte_offset, fault.at.line_no) == ("confirmed", 0, 1)
    assert source.feed_piece(b"x" * 5_000_000 + b"[mismatch] run=a step=1") == []
    events = source.feed(b"more\nstep:3 - a:1\n")
    (gap,) = of(events, Gap)
    total = len(head) + 7_000_000 + len(b"[mismatch] run=a step=1more")
    assert (gap.kind, gap.first_byte, gap.last_byte) == ("capped_line", 65536, total)
    assert source.counters.skipped_bytes == total - 65536
    assert source.counters.lines == 2


def test_a_line_that_is_not_so_long_after_all() -> None:
    source = opened()
    assert source.feed_piece(b"step:3 - ") == []
    events = source.feed(b"a:1\n")
    assert [(event.at.step, event.at.byte_offset) for event in of(events, StepEvent)] == [(3, 0)]


def test_the_end_of_a_long_line_without_newline() -> None:
    source = opened()
    source.feed_piece(b"bar\r")
    assert [event.at.step for event in of(source.finish(b"step:3 - a:1"), StepEvent)] == [3]


# Writers


def test_every_new_process_is_announced_once_at_its_first_line() -> None:
    rng = random.Random(3)
    keys, seen, data = {}, [], bytearray()
    for number in range(4000):
        pid = rng.randrange(1000, 1000 + 1 + number // 8)
        line = rng.choice(
            [
                f"(Worker_TP0 pid={pid}) nothing\n",
                f"(WorkerDict pid={pid}, ip=10.0.0.1) x\n",
                f"[rank{pid}]: x\n",
                "bare\n",
                f"prose about pid=99{pid}) and [rank99{pid}]: here\n",
            ]
        )
        key = f"rank:{pid}" if line[0] == "[" else f"pid:{pid}" if line[0] == "(" else ""
        if key and key not in keys:
            keys[key] = len(data)
            seen.append((key, len(data), number + 1))
        data += line.encode()
    events = of(scan(bytes(data)), ProcessSeen)
    assert [(event.at.proc, event.at.byte_offset, event.at.line_no) for event in events] == seen


def test_processes_of_lines_that_a_rule_knows() -> None:
    line = (
        "[default0]:gpu-b07:902200:903100 [0] NCCL INFO "
        "ncclCommInitRank comm 0x1 rank 3 nranks 16 cudaDev 0 nvmlDev 0 busId 5d000 commId 0x5 - Init START\n"
    )
    events = scan(line)
    (device,) = of(events, Device)
    assert (device.bus, device.node, device.at.pid, device.at.rank) == ("0000:5d:00", "gpu-b07", 902200, 3)
    assert [event.at.proc for event in of(events, ProcessSeen)] == ["pid:902200"]


def test_a_file_of_one_process_has_one_key() -> None:
    text = f"starting\n[rank3]: {IMA}\nstep:3 - a:1\n"
    for traits, key in (({"pid": 7}, "pid:7"), ({"rank": 3}, "rank:3"), ({}, "file")):
        events = scan(text, single_process=True, **traits)
        assert {event.at.proc for event in events} == {key}
        assert [event.at.line_no for event in of(events, ProcessSeen)] == [1]


def test_too_many_processes_are_a_gap() -> None:
    data = b"".join(b"(W pid=%d) x\n" % pid for pid in range(20_000))
    events = scan(data)
    assert len(of(events, ProcessSeen)) == 10_000
    assert [gap.kind for gap in of(events, Gap)] == ["too_many_processes"]


# Stamps and steps


def test_an_unstamped_line_lies_between_its_own_writers_stamps() -> None:
    text = (
        "(Worker_TP0 pid=1) INFO 11-29 10:00:00 [block_pool.py:1] Successfully reset prefix cache\n"
        "(Worker_TP1 pid=2) INFO 11-29 10:00:30 [block_pool.py:1] Successfully reset prefix cache\n"
        "(Worker_TP0 pid=1) step:3 - a:1\n"
        "(Worker_TP1 pid=2) INFO 11-29 10:00:40 [x.py:1] other\n"
        "(Worker_TP0 pid=1) nothing\n"
        "(Worker_TP0 pid=1) INFO 11-29 10:00:50 [x.py:1] other\n"
        "(Worker_TP0 pid=1) INFO 11-29 10:00:55 [x.py:1] other\n"
    )
    events = scan(text)
    (step,) = of(events, StepEvent)
    assert (step.at.stamp, step.at.after_stamp) == (None, datetime(2026, 11, 29, 10, 0, 0))
    (after,) = of(events, StampAfter)
    assert (after.at.proc, after.at.stamp, after.at.line_no) == ("pid:1", datetime(2026, 11, 29, 10, 0, 50), 6)


def test_the_search_for_the_next_stamp_gives_up() -> None:
    head = b"(W pid=1) step:3 - a:1\n"
    stamped = b"(W pid=1) INFO 11-29 10:00:50 [x.py:1] other\n"
    assert of(scan(head + b"(V pid=2) text\n" * 10_000 + stamped), StampAfter)
    assert not of(scan(head + b"(V pid=2) text text text text\n" * 60_000 + stamped), StampAfter)
    assert not of(scan(head + b"(W pid=1) text\n" * 300 + stamped), StampAfter)


def test_bare_lines_of_several_writers_have_no_time() -> None:
    events = scan(
        "(W pid=1) INFO 11-29 10:00:50 [x.py:1] other\nstep:3 - a:1\n(W pid=1) INFO 11-29 10:00:50 [x.py:1] other\n"
    )
    (step,) = of(events, StepEvent)
    assert (step.at.proc, step.at.after_stamp) == ("", None) and not of(events, StampAfter)


def test_in_a_file_of_one_process_all_lines_count() -> None:
    text = (
        "INFO 11-29 10:00:00 [block_pool.py:1] Successfully reset prefix cache\n"
        "step:3 - a:1\ntext\nINFO 11-29 10:00:50 [x.py:1] other\n"
    )
    events = scan(text, single_process=True)
    assert of(events, StepEvent)[0].at.after_stamp == datetime(2026, 11, 29, 10, 0, 0)
    assert [event.at.line_no for event in of(events, StampAfter)] == [4]


def test_steps_are_carried_within_their_process() -> None:
    text = (
        "(A pid=1) step:3 - a:1\n"
        "(A pid=1) RuntimeError: CUDA error: misaligned address\n"
        "(B pid=2) RuntimeError: CUDA error: misaligned address\n"
        "(A pid=1) [mismatch] run=a step=9 rank=0\n(A pid=1) text\n"
        "(A pid=1) [mismatch] run=a rank=0 metric=kl_k1\n(A pid=1) text\n"
    )
    events = scan(text)
    assert [(event.at.step, event.at.step_carried) for event in of(events, StepEvent)] == [(3, False)]
    assert [(event.at.step, event.at.step_carried) for event in of(events, Metric)] == [(3, False)]
    assert [(event.at.step, event.at.step_carried) for event in of(events, Fault)] == [(3, True), (None, False)]
    assert [(event.at.step, event.at.step_carried) for event in of(events, Mismatch)] == [(9, False), (3, True)]


def test_a_step_line_of_15_kib_is_read_whole() -> None:
    pairs = {f"actor/metric_{number}": number / 7 for number in range(700)}
    text = "(TaskRunner pid=5) step:31" + "".join(f" - {key}:{value!r}" for key, value in pairs.items()) + "\n"
    assert len(text) > 15 * 1024
    found = of(scan(text), Metric)
    assert {metric.key: metric.value for metric in found} == pairs
    assert all(metric.at.step == 31 and metric.at.pid == 5 for metric in found)


# Lines that a container runtime has cut


def test_parts_are_joined_within_their_stream() -> None:
    stamp = "2026-11-29T16:20:1{}.123456789Z"
    record = "[mismatch] run=a step=3 policy=1 input=9 phase=decode rank=0 repeat=0 scope=fixed-input "
    record += "intervention=none metric=kl_k1 "
    rest = "value=0.5 reference=r self_repeat=0 report=p classification=unknown"
    text = (
        f"{stamp.format(1)} stdout P {record}\n{stamp.format(2)} stderr P [rank3]: torch.AcceleratorError: CUDA err\n"
        f"{stamp.format(3)} stdout F {rest}\n{stamp.format(4)} stderr F or: an illegal memory access was encountered\n"
    )
    events = scan(text)
    (found,) = of(events, Mismatch)
    assert (found.value, found.parse_state, found.at.stream, found.at.stamp_utc) == (0.5, "ok", "stdout", True)
    assert found.at.stamp == datetime(2026, 11, 29, 16, 20, 11, 123456)
    (fault,) = of(events, Fault)
    assert (fault.verdict, fault.at.stream, fault.at.line_no) == ("confirmed", "stderr", 2)


def entry(text: str, stream: str, end: str = "\n") -> str:
    stamp = "2026-11-29T16:20:11.123456789Z"
    return json.dumps({"log": text + end, "stream": stream, "time": stamp}, separators=(",", ":")) + "\n"


def test_entries_of_dockers_json_driver() -> None:
    record = "[mismatch] run=a step=3 policy=1 input=9 phase=decode rank=0 repeat=0 scope=fixed-input "
    rest = "intervention=none metric=kl_k1 value=0.5 reference=r self_repeat=0 report=p classification=unknown"
    several = (
        entry(record, "stdout") + entry("hello", "stdout", "") + entry("", "stdout") + entry(f"  {rest}", "stdout")
    )
    for text in (entry(record + rest, "stdout"), entry(record, "stdout", "") + entry(rest, "stdout"), several):
        events = scan(entry("", "stdout") + text)
        (found,) = of(events, Mismatch)
        assert (found.value, found.parse_state, found.at.stream, found.at.line_no) == (0.5, "ok", "stdout", 2)
        assert (found.at.stamp, found.at.stamp_utc) == (datetime(2026, 11, 29, 16, 20, 11, 123456), True)
        assert found.at.byte_offset == len(entry("", "stdout"))
    trace = ["Traceback (most recent call last):", '  File "a.py", line 1', IMA]
    for lines in ([f"[rank3]: {IMA}"], [f"\x1b[31m[rank3]: \x1b[0m{IMA}"], ["ERROR:root:x", *trace]):
        (fault,) = of(scan("".join(entry(line, "stderr") for line in lines)), Fault)
        assert (fault.verdict, fault.at.stream, fault.at.line_no) == ("confirmed", "stderr", len(lines))
    (fault,) = of(scan(json.dumps({"prompt": "x", "log": f"[rank3]: {IMA}"}) + "\n"), Fault)
    assert fault.verdict == "mention"


@pytest.mark.parametrize("head", ["", "(WorkerDict pid=7) ", "2026-11-29T16:20:11.123456789Z stderr F "])
def test_records_of_json_loggers(head: str) -> None:
    record = "[mismatch] run=a step=3 policy=1 input=9 phase=decode rank=0 repeat=0 scope=fixed-input\n  "
    record += "intervention=none metric=kl_k1 value=0.5 reference=r self_repeat=0 report=p classification=unknown"
    line = {"level": "info", "ts": "2026-11-29T16:20:11.123456Z", "msg": record}
    for printed in (json.dumps(line), json.dumps(line, separators=(",", ":"))):
        (found,) = of(scan(f"{head}{printed}\n"), Mismatch)
        assert (found.value, found.parse_state, found.at.byte_offset) == (0.5, "ok", 0)
        assert (found.at.stamp, found.at.stamp_utc) == (datetime(2026, 11, 29, 16, 20, 11, 123456), True)
        assert found.at.byte_length == len(head + printed) + 1
    trace = f'Traceback (most recent call last):\n  File "a.py", line 1\n{IMA}\nCUDA kernel errors might be'
    fault: dict[str, str]
    for fault, verdict in (
        ({"levelname": "ERROR", "message": IMA}, "confirmed"),
        ({"levelname": "ERROR", "message": "step failed", "exc_info": trace}, "confirmed"),
        ({"severity": "INFO", "message": IMA}, "mention"),
        ({"level": "error", "event": f"the tool said {IMA}"}, "mention"),
        ({"prompt": "a", "response": f"[rank3]: {IMA}"}, "mention"),
        ({"role": "user", "content": IMA}, "mention"),
    ):
        found_faults = of(scan(f"{head}{json.dumps(fault)}\n"), Fault)
        assert [event.verdict for event in found_faults] == [verdict], fault


def test_what_only_begins_like_an_entry_of_docker() -> None:
    for tail in (
        'x"}',
        "[[[",
        'x","stream":"stdin","time":"2026-11-29T16:20:11Z"}',
        'x","stream":"stdout","time":"now"}',
    ):
        assert not of(scan('{"log":"[mismatch] run=a step=3 ' + tail + "\n"), Mismatch)


# Bytes of any kind


def test_counters() -> None:
    source = opened()
    source.feed("gut\nübel ü\n".encode() + b"\xff\xfe\n\0\0\0x\n" + b"\xc3\n")
    counters = source.counters
    assert (counters.lines, counters.bad_utf8, counters.nul_bytes) == (5, 2, 3)
    assert (source.byte_offset, source.line_no) == (23, 6)


def test_a_hole_of_nuls_hides_nothing() -> None:
    (step,) = of(scan(b"\0" * 5000 + b"step:3 - a:1\n"), StepEvent)
    assert (step.at.step, step.at.byte_offset, step.at.byte_length) == (3, 5000, 13)


@given(st.lists(st.binary(max_size=400), max_size=20).map(b"\n".join))
@settings(max_examples=examples(100), deadline=None)
def test_garbage_is_survived(data: bytes) -> None:
    source = opened()
    whole = data.rfind(b"\n") + 1
    source.feed(data[:whole])
    source.peek(data[whole:])
    source.finish(data[whole:])


@pytest.mark.slow
def test_fifty_megabytes_of_random_bytes() -> None:
    source = opened()
    rng = random.Random(5)
    for _ in range(50):
        source.feed(rng.randbytes(1_000_000) + b"\n")
    assert source.byte_offset == 50 * 1_000_001
    assert len(source.state()) < 100_000


def test_a_hundred_megabytes_without_a_newline_cost_no_memory() -> None:
    source = opened()
    piece = b"y" * (1 << 20)
    tracemalloc.start()
    for _ in range(100):
        source.feed_piece(piece)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
    assert len(source.state()) < 10_000
    assert source.counters.skipped_bytes == (100 << 20) - 65536


def test_no_line_stalls_the_scanner() -> None:
    hard = [
        b"WARNING " * 30_000 + b"CUDA error: x\n",
        b"CUDA error: " * 40_000 + b"\n",
        b"[mismatch] " + b"a=" * 200_000 + b"\n",
        b"step:1 - " + b"a:1 - " * 100_000 + b"\n",
        b"(" * 200_000 + b"pid=1) CUDA error: x\n",
        b"\x1b]" * 100_000 + b"CUDA error: x\n",
        b"[mismatch] run='" + b"\\'" * 200_000 + b"\n",
        b"%|" * 100_000 + b"step:1 - a:1\n",
        b"\r".join([IMA.encode()] * 5000) + b"\n",
        b"iteration 1/ 5 | " + b"a " * 300_000 + b"\n",
        b"step 3: {" + b"'a': [" * 50_000 + b"\n",
        b"Traceback (most recent call last):\n" * 5000,
    ]
    for line in hard:
        began = time.process_time()
        scan(line)
        assert time.process_time() - began < 5, line[:60]


WHOLE = (
    "[mismatch] run=a step=3 policy=9f21 input=sha256:ab12 phase=decode rank=1 repeat=0 scope=fixed-input "
    "intervention=none metric=logprob_mae value=0.01 reference=trainer/old self_repeat=0.0001 report=r/3.json "
    "classification=unknown"
)
HEADS = (
    "", "", "(WorkerDict pid=77) ", "(EngineCore pid=4521) INFO 11-29 20:48:30 [core.py:1] ", "[rank3]: ", "0: ",
    "(Worker_TP1 pid=4522) ERROR 11-29 20:48:30 [core.py:1] ", "[2026-11-29 10:00:00 TP2] ", "[default2]:", "gpu-7: ",
)  # fmt: skip
TAILS = (
    "",
    "",
    " [repeated 3x across cluster]",
    ".",
    " ",
    "x",
    "[mismatch]",
    "(a",
    " |",
    "% 3%|#|",
    "}",
    " [rank1]: x",
    " classification=defect[1]",
    " classification=unknownstep:3 - a:1",
)


@pytest.mark.parametrize("traits", [{}, {"single_process": True, "pid": 4521}, {"single_process": True, "rank": 3}])
def test_lines_read_the_short_way_give_what_the_thorough_way_gives(traits: dict[str, object]) -> None:
    # A chunk with a NUL in it is read the thorough way, line by line.
    rng = random.Random(5)
    lines = [line.decode().rstrip("\n") for line in PACK_LINES if line.isascii()]
    lines = [line for line in lines if not re.search(r"[\r\x1b\0]", line)]
    changed = [
        WHOLE.replace(old, new)
        for old, new in [
            ("", ""), ("run=a", "run=<id>"), ("run=a", "run=b,"), ("step=3", "step=$N"), ("0.01", "..."),
            ("unknown", "Unknown"), ("unknown", "unknown[x"), ("unknown", "unk;"), ("r/3.json", "10%|#|"), ("0.01", "'1'"),
            ("r/3.json", "[rank0]:"), (" rank=1", ""), (" rank=1", " rank=1 rank=1"), (" rank=1", "\trank=1"),
            ("] run", "]: run"), ("trainer/old", '"a b"'), ("step=3", "step=x"), ("policy=9f21", "policy="),
        ]
    ]  # fmt: skip
    for _ in range(60):
        some = [
            rng.choice(HEADS) + rng.choice(changed if rng.random() < 0.4 else lines) + rng.choice(TAILS)
            for _ in range(60)
        ]
        plain = "\n".join(some).encode() + b"\n"
        short, thorough = opened(**traits), opened(**traits)
        found = short.feed(plain) + short.feed(b"\0\n")
        assert list(map(repr, found)) == list(map(repr, thorough.feed(plain + b"\0\n")))  # nan is not nan
        assert short.state() == thorough.state()


def test_a_writer_met_in_the_same_chunk_is_as_one_met_before() -> None:
    # The second line is two pieces: of the second the writer is known, of the first a rank is not.
    lines = [
        b'(APIServer pid=4101) INFO:     10.31.4.9:1 - "POST /v1/completions HTTP/1.1" 200 OK\n',
        b"old.log-1-[rank3]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered "
        b"(APIServer pid=4101) INFO 11-29 09:17:01 [cuda_graph.py:121] x\n",
        b'(APIServer pid=4101) INFO:     10.31.4.9:2 - "POST /finish_weight_update HTTP/1.1" 200 OK\n',
    ]
    one, by_line = opened(), opened()
    found = one.feed(b"".join(lines))
    assert found == [event for line in lines for event in by_line.feed(line)]
    assert one.state() == by_line.state()


@pytest.mark.parametrize(("mark", "codec"), [(b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")])
def test_a_file_in_utf16_is_a_gap(mark: bytes, codec: str) -> None:
    """Of PowerShell, say: nothing in it can be found, which must not pass for a quiet log."""
    data = mark + "step:1 - actor/pg_loss:0.1\n[rank3]: RuntimeError: CUDA error: misaligned address\n".encode(codec)
    source = opened()
    end = data.rfind(b"\n") + 1
    found = source.feed(data[:end]) + source.finish(data[end:])
    assert [(gap.kind, gap.first_byte, gap.last_byte) for gap in of(found, Gap)] == [("encoding", 0, 2)]


def test_a_record_of_sglangs_server_is_not_its_schedulers() -> None:
    """In a Ray actor both have its pid; the schedulers' tracebacks come without a rank, the server's records with a time."""
    ray = "(SGLangEngine pid=77120, ip=10.31.4.12) "
    lines = [
        "[2026-11-29 08:42:27 TP2] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/sgl/python/sglang/srt/managers/scheduler.py", line 2815, in run_scheduler_process',
        "RuntimeError: Triton Error [CUDA]: device-side assert triggered",
        "",
        "[2026-11-29 08:42:27] Received sigquit from a child process. It usually means the child failed.",
    ]
    found = of(scan("".join(f"{ray}{line}\n" for line in lines)), Fault)
    assert [(fault.kind, fault.at.proc) for fault in found] == [
        ("sgl.sched_exc", "pid:77120 TP2"), ("cuda.triton", "pid:77120 TP2"), ("sgl.sigquit", "pid:77120"),
    ]  # fmt: skip


def test_what_stands_behind_a_bar_in_a_container_is_its_own() -> None:
    bar = "Rollout:  12%|#  | 3/25 [00:11<01:20,  3.66s/it]"
    reset = "INFO 11-29 09:14:02 [block_pool.py:861] Successfully reset prefix cache"
    (phase,) = of(scan(f"vllm-1  | {bar}\r{reset}\n"), WeightPhase)
    assert (phase.at.proc, phase.phase) == ("in:vllm-1", "reset")


@pytest.mark.parametrize(("size", "verdict"), [(32 * 1024, "mention"), (65 * 1024, "confirmed")])
def test_a_quotation_that_nobody_closes_ends(size: int, verdict: str) -> None:
    """verl prints `[response]` and then `[score]`; a process that died between them has not said the last word of it."""
    head = "(WorkerDict pid=5) "
    lines = [
        "Traceback (most recent call last):", '  File "/srv/a.py", line 4, in step',
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ]  # fmt: skip
    said = f"{head}[response] so\n" + f"{head}{'word ' * 16}\n" * (size // 100)
    (fault,) = of(scan(said + "".join(f"{head}{line}\n" for line in lines)), Fault)
    assert fault.verdict == verdict
