"""`[mismatch]` records in every shape in which they are written, and what is none."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scan.support import fields_of, of, opened, scan
from tic_daemon.scan.events import Mismatch, ProcessSeen, SourceRun, StepEvent
from tic_daemon.scan.records import fields_of as read_fields
from tic_daemon.scan.records import is_template, whole_line

FIELDS = {
    "run": "a",
    "step": "3",
    "policy": "p3",
    "input": "9d98",
    "phase": "decode",
    "rank": "0",
    "repeat": "1",
    "scope": "fixed-input",
    "intervention": "none",
    "metric": "logprob_mae",
    "value": "0.0021",
    "reference": "trainer/old",
    "self_repeat": "0",
    "report": "results/a/m.json",
    "classification": "unknown",
}


def words(**change: str) -> list[str]:
    return [f"{key}={value}" for key, value in {**FIELDS, **change}.items() if value != "-"]


def seed(prefix: str = "", **change: str) -> str:
    """The seed's four lines."""
    part = words(**change)
    head, rest = " ".join(part[:7]), [part[7:9], part[9:12], part[12:]]
    return f"{prefix}[mismatch] {head}\n" + "".join(f"{prefix}  {' '.join(line)}\n" for line in rest)


def records(text: str | bytes, **traits: object) -> list[Mismatch]:
    return of(scan(text, **traits), Mismatch)


def same(record: Mismatch, **change: str) -> None:
    wanted = {**FIELDS, **change}
    assert fields_of(record) == wanted


PREFIXES = [
    "",
    "(WorkerDict pid=184142, ip=10.31.4.12) ",
    "\x1b[36m(WorkerDict pid=9)\x1b[0m ",
    "[rank3]: ",
    "[default3]:[rank3]: ",
    "(Worker_TP0 pid=4521) INFO 11-29 09:12:44 [a.py:12] ",
    "2026-11-29 20:00:00,123 - trainer - INFO - ",
    "INFO:root:",
    "2026-11-29T16:20:11.123456789Z stdout F ",
    "[2026-11-29 08:12:03 TP0] ",
    "3: ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_wrapped(prefix: str) -> None:
    (record,) = records(seed(prefix))
    same(record)
    assert record.parse_state == "ok"


@settings(max_examples=60)
@given(
    st.permutations(list(FIELDS)),
    st.lists(st.sampled_from([" ", "  ", "\t", "\n  ", "\n\t", "\r\n "]), min_size=14, max_size=14),
)
def test_any_order_and_spacing(order: list[str], gaps: list[str]) -> None:
    part = [f"{key}={FIELDS[key]}" for key in order]
    (record,) = records("[mismatch] " + "".join(map(str.__add__, part, [*gaps, "\n"])))
    same(record)
    assert record.parse_state == "ok"


def test_two_writers_between_each_other() -> None:
    one = seed("(W pid=1) ", rank="0", value="0.1").splitlines(keepends=True)
    two = seed("(W pid=2) ", rank="1", value="0.2").splitlines(keepends=True)
    found = records("".join(a + "noise\n" + b for a, b in zip(one, two, strict=True)))
    assert [(record.at.pid, record.rank_text, record.value) for record in found] == [(1, "0", 0.1), (2, "1", 0.2)]


def test_nameless_writers_between_each_other_are_not_mixed() -> None:
    one = seed(rank="0", value="0.1").splitlines(keepends=True)
    two = seed(rank="1", value="0.2").splitlines(keepends=True)
    found = records("".join(a + b for a, b in zip(one, two, strict=True)))
    assert [(record.rank_text, record.value, record.parse_state) for record in found] == [
        ("0", None, "incomplete"),
        ("1", None, "incomplete"),
    ]


def test_nameless_writer_between_known_ones() -> None:
    bare = seed().splitlines(keepends=True)
    (record,) = records("".join(line + "(W pid=3) text\nbar:  3%|#| 1/3 [00:01<00:02]\n\n" for line in bare))
    same(record)


def test_a_logger_that_prefixes_the_first_line_alone() -> None:
    (record,) = records("[2026-11-29 08:12:03 TP0] " + seed().replace("\n  metric", "\nother text\n  metric"))
    same(record)
    assert (record.at.proc, record.parse_state) == ("actor:TP0", "ok")
    two = "[2026-11-29 08:12:03 TP0] [mismatch] run=a step=1\n[2026-11-29 08:12:03 TP1] [mismatch] run=a step=1\n"
    assert {record.value for record in records(two + "  metric=kl_k1 value=3\n")} == {None}


def test_bytes_of_a_record() -> None:
    text = "x\n" + seed() + "y\n"
    (record,) = records(text)
    at = record.at
    assert text[at.byte_offset : at.byte_offset + at.byte_length] == seed()
    assert (at.line_no, record.raw) == (2, seed().rstrip("\n"))


@pytest.mark.parametrize("missing", [*FIELDS])
def test_a_missing_field(missing: str) -> None:
    (record,) = records(seed(**{missing: "-"}) + "\nother text\n")
    same(record, **{missing: "None" if missing == "step" else ""})
    assert record.parse_state == "incomplete"


def test_unknown_stays_unknown() -> None:
    (record,) = records(seed(value="unknown", self_repeat="unknown", step="unknown", classification="unknown"))
    assert (record.value, record.self_repeat, record.at.step, record.parse_state) == (None, None, None, "ok")
    assert record.value_text == "unknown"


@pytest.mark.parametrize(("text", "value"), [("NaN", math.nan), ("inf", math.inf), ("-inf", -math.inf), ("1e-5", 1e-5)])
def test_numbers(text: str, value: float) -> None:
    (record,) = records(seed(value=text))
    assert record.parse_state == "ok"
    assert record.value is not None and (record.value == value or (math.isnan(value) and math.isnan(record.value)))


@pytest.mark.parametrize("change", [{"value": "abc"}, {"step": "3.5"}, {"step": "9" * 19}, {"self_repeat": "1_0"}])
def test_no_number_is_an_error(change: dict[str, str]) -> None:
    (record,) = records(seed(**change))
    assert record.parse_state == "parse_error"


def test_a_field_said_twice_differently_is_an_error() -> None:
    (record,) = records(seed(value="0.1").replace("value=0.1", "value=0.1 value=0.2"))
    assert (record.value, record.parse_state, json.loads(record.extra)) == (0.1, "parse_error", {"value#2": "0.2"})


def test_unknown_metric_and_extra_fields_in_order() -> None:
    (record,) = records(seed(metric="my_mae").replace("repeat=1", 'zeta=1 repeat=1 alpha=\'two words\' note="q \\" q"'))
    assert record.parse_state == "unknown_metric"
    assert list(json.loads(record.extra).items()) == [("zeta", "1"), ("alpha", "two words"), ("note", 'q " q')]


def test_what_we_printed_is_skipped() -> None:
    assert records(seed().replace("repeat=1", "repeat=1 producer=tic")) == []


@pytest.mark.parametrize(
    "text",
    [
        "look for [mismatch] run=<id> step=<n> in the log\n",
        "[mismatch] rate looks bad today\n",
        "the [mismatch] line\n",
        '"[mismatch] run=a step=1 policy=2 metric=kl_k1"\n',
        "[mismatch] colour=red\n",
        "grep.log:7:[mismatch] run=a step=1 policy=2 metric=kl_k1\n",
    ],
)
def test_prose(text: str) -> None:
    assert records(text) == []


def test_what_closes_an_incomplete_record() -> None:
    head = "(W pid=1) [mismatch] run=a step=1\n"
    assert len(records(head + "(W pid=1) something else\n" + "(W pid=1)   value=3\n")) == 1
    first, second = records(head + head.replace("step=1", "step=2"))
    assert (first.at.step, second.at.step) == (1, 2)
    source = opened()
    assert of(source.feed((head + "(W pid=2) x\n" * 39).encode()), Mismatch) == []
    assert len(of(source.feed(b"(W pid=2) x\n" * 3), Mismatch)) == 1
    source = opened()
    assert len(of(source.feed((head + "z" * 70_000 + "\nx\n").encode()), Mismatch)) == 1


def test_open_record_shows_at_once_and_state_does_not_change() -> None:
    source = opened()
    lines = seed().splitlines(keepends=True)
    source.feed("".join(lines[:2]).encode())
    before = source.state()
    (record,) = of(source.peek(lines[2].rstrip().encode()), Mismatch)
    assert (record.value, record.parse_state) == (0.0021, "incomplete")
    assert source.state() == before
    (record,) = of(source.feed("".join(lines[2:]).encode()), Mismatch)
    same(record)


def test_the_run_of_a_source_changes_with_its_records() -> None:
    events = scan(seed(run="a") + seed(run="a") + seed(run="b") + seed(run="unknown"))
    assert [(event.run, event.at.line_no) for event in of(events, SourceRun)] == [("a", 1), ("b", 9)]


def test_writer_of_a_bare_record_is_its_rank() -> None:
    events = scan(seed(rank="5"))
    assert [event.at.proc for event in of(events, Mismatch)] == ["rank:5"]
    assert [event.at.proc for event in of(events, ProcessSeen)] == ["rank:5"]
    assert [event.at.proc for event in of(scan(seed(rank="5"), single_process=True, pid=7), Mismatch)] == ["pid:7"]
    assert [event.at.proc for event in of(scan(seed(rank="unknown")), Mismatch)] == [""]


ONE = "[mismatch] " + " ".join(words()) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        ONE.replace("unknown\n", "unknown.\n"),
        ONE.replace("unknown\n", "unknown;\n"),
        "[mismatch] " + ", ".join(words()) + "\n",
        ONE.replace("[mismatch] ", "[mismatch]: "),
        ONE.replace("[mismatch] ", "[mismatch]"),
        ONE.replace("[mismatch] run=", "\x1b[1m[\x1b[0mmismatch\x1b[1m]\x1b[0m \x1b[33mrun\x1b[0m="),  # Rich
    ],
)
def test_punctuation_and_colours_are_no_part_of_a_value(text: str) -> None:
    (record,) = records(text)
    same(record)
    assert record.parse_state == "ok"


@pytest.mark.parametrize("between", ["", " "])
@pytest.mark.parametrize("prefix", ["", "(WorkerDict pid=7) "])
def test_records_glued_to_each_other(prefix: str, between: str) -> None:
    second, third = (ONE.replace("rank=0", f"rank={rank}") for rank in (1, 2))
    found = records(prefix + ONE[:-1] + between + second[:-1] + between + third)
    assert [record.rank_text for record in found] == ["0", "1", "2"]
    assert {record.parse_state for record in found} == {"ok"}


def test_other_lines_glued_behind_a_record() -> None:
    for whole in (ONE, seed()):
        events = scan(whole[:-1] + "step:5 - a:1\n")
        (record,) = of(events, Mismatch)
        same(record)
        assert [(event.at.step, event.at.byte_offset) for event in of(events, StepEvent)] == [(5, len(whole) - 1)]
        (record,) = records(whole[:-1] + "(EngineCore pid=7) INFO 11-29 16:20:11 [core.py:1] hello\n")
        same(record)


TEMPLATE = """\
[mismatch] run=<id> step=<n> policy=<digest> input=<sha> phase=<prefill|decode> rank=<n> repeat=<n>
  scope=<fixed-input|independent-rollout> intervention=<none|name>
  metric=<name> value=<number> reference=<run/repeat/boundary>
  self_repeat=<noise> report=<relative-path> classification=<defect|numerical|quantization|unknown>
"""


@pytest.mark.parametrize("text", [TEMPLATE, " ".join(TEMPLATE.split()) + "\n", ONE.replace("run=", "run={run} x=")])
def test_a_template_is_no_record_and_names_no_run(text: str) -> None:
    """A source that showed the format would be another run's from there on, and its faults with it."""
    events = scan(ONE + text + "[rank0]: RuntimeError: CUDA error: misaligned address\n")
    assert len(of(events, Mismatch)) == 1
    assert [event.run for event in of(events, SourceRun)] == [FIELDS["run"]]


BAR = "Rollout:  12%|#         | 3/25 [00:11<01:20,  3.66s/it]"


@pytest.mark.parametrize("glue", [BAR, f"{BAR}\r{BAR}\r", "loss.py:33 "])
@pytest.mark.parametrize(
    ("prefix", "proc", "stream"),
    [
        ("\x1b[36m(WorkerDict pid=12, ip=10.0.0.1)\x1b[0m ", "pid:12", ""),
        ("[default3]:", "actor:default3", ""),
        ("2026-11-29T16:20:11.123456789Z stdout F ", "rank:0", "stdout"),
        ("2026-11-29T16:20:11.123456789Z stdout F (WorkerDict pid=12) ", "pid:12", "stdout"),
    ],
)
def test_what_stands_before_the_whole_line_holds_for_each_piece(prefix: str, proc: str, stream: str, glue: str) -> None:
    """Else a record behind a progress bar loses its process, its time and, its next lines being named, their fields."""
    several = seed(prefix).replace(f"{prefix}[mismatch]", f"{prefix}{glue}[mismatch]", 1)
    for text in [several, prefix + glue + ONE] if glue != "loss.py:33 " else [prefix + glue + ONE]:
        (record,) = records(text)
        same(record)
        assert (record.at.proc, record.at.stream) == (proc, stream)
        assert (record.at.stamp is not None) == prefix.startswith("2026")
        assert record.at.byte_offset == len((prefix + glue).encode())


@pytest.mark.parametrize("prefix", ["step 7 - ", "loss.py:33 | ", "[trainer] "])
def test_a_loggers_own_prefix_keeps_time_and_name(prefix: str) -> None:
    head = "(WorkerDict pid=12) 2026-11-29 20:00:01,123 - trainer - INFO - "
    (record,) = records(head + prefix + ONE)
    same(record)
    assert (record.at.proc, record.at.actor) == ("pid:12", "WorkerDict")
    assert str(record.at.stamp) == "2026-11-29 20:00:01.123000"
    (record,) = records(head + prefix + "cut off" + ONE)  # glued: another writer's
    assert record.at.stamp is None


def test_records_in_a_printed_response() -> None:
    """A model that has seen the format writes it; the source stays its run's."""
    prefix = "(TaskRunner pid=5) "
    said = [
        "[response] sure: " + ONE.replace("run=", "run=evil-")[:-1],
        "[mismatch] run=evil step=1 metric=kl_k1 value=3",
    ]
    text = prefix + ONE + "".join(f"{prefix}{line}\n" for line in [*said, "[score] 1.0"]) + prefix + ONE
    events = scan(text)
    assert [record.run for record in of(events, Mismatch)] == [FIELDS["run"]] * 2
    assert [event.run for event in of(events, SourceRun)] == [FIELDS["run"]]
    unclosed = scan(prefix + ONE + prefix + "[response] x\n" + prefix + ONE)
    assert len(of(unclosed, Mismatch)) == 2


def test_a_processes_own_name_does_not_hold_for_what_others_wrote_behind_it() -> None:
    (record,) = records("(EngineCore pid=5) INFO 11-29 20:00:00 [a.py:1] hello" + ONE)
    assert record.at.pid is None


@settings(max_examples=200)
@given(
    st.sampled_from([*FIELDS]), st.text("a1.-<>{}$%…[](|,;\"' =é/", max_size=4), st.sampled_from(["", ".", " ", " x=1", "["])
)  # fmt: skip
def test_a_line_in_the_usual_form_is_read_as_any_other(field: str, value: str, behind: str) -> None:
    line = "[mismatch] " + " ".join(words(**{field: value})) + behind
    values = whole_line(line)
    if values is not None:
        fields = read_fields(line.removeprefix("[mismatch]"))
        assert fields == dict(zip(FIELDS, values, strict=True))
        assert not is_template(fields)
    if not behind and value.isascii() and value.isalpha():
        assert values is not None
