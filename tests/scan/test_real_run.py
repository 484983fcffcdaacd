"""The captured run: every record, step and metric, held against an independent reading of the same text."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from tests.scan.support import REFERENCE, fields_of, of, scanner
from tic_daemon.scan.events import Event, Fault, Metric, Mismatch, ProcessSeen, SourceRun, StepEvent
from tic_daemon.scan.traits import SourceTraits

HERE = Path(__file__).parents[1] / "corpus" / "real_run"
LOG = (HERE / "worker_raw.log").read_bytes()
HISTORY = json.loads((HERE / "history.json").read_text())
NOISE = [
    b"(Worker_TP9 pid=77) INFO 11-29 20:51:00 [loader.py:3] loading shard 3 of 9\n",
    b"(WorkerDict pid=78, ip=10.0.0.3) update_policy micro batch 3\n",
    b"\x1b[36m(WorkerDict pid=79)\x1b[0m allocated 3 GiB\n",
    b"\n",
    b"[2026-11-29 20:51:00 TP3] Decode batch. #running-req: 3\n",
]


def records_of(text: str) -> list[dict[str, str]]:
    """The records by a reading that shares nothing with the scanner: each `[mismatch]` and what is left of 4 lines."""
    found = []
    for block in text.split("[mismatch]")[1:]:
        fields: dict[str, str] = {}
        for word in block.split():
            if re.fullmatch(r"[a-z_]+=\S+", word):
                fields.setdefault(*word.split("=", 1))
            if len(fields) == 15:
                break
        found.append(fields)
    return found


WANTED = records_of(LOG.decode())


def run(lines: list[bytes], size: int) -> list[Event]:
    source = scanner().open(SourceTraits(reference_time=REFERENCE))
    events: list[Event] = []
    for place in range(0, len(lines), size):
        events += source.feed(b"".join(lines[place : place + size]))
    return events + source.finish(b"")


def mixed(seed: int) -> list[bytes]:
    """The log with another writer's lines between its own, inside records too."""
    rng = random.Random(seed)
    lines: list[bytes] = []
    for line in re.findall(rb"[^\n]*\n", LOG):
        lines.append(line)
        lines += rng.choices(NOISE, k=rng.choice((0, 0, 1, 2)))
    return lines


def check(events: list[Event]) -> None:
    records = of(events, Mismatch)
    assert len(records) == len(WANTED) == 12
    for record, wanted in zip(records, WANTED, strict=True):
        assert fields_of(record) == wanted
        assert record.value == float(wanted["value"]) and record.self_repeat == float(wanted["self_repeat"])
        assert (record.parse_state, record.extra, record.at.step_carried) == ("ok", "{}", False)
        assert record.raw.startswith("[mismatch] run=grpo-tiny-a step=")
        assert (record.at.proc, record.at.rank) == ("rank:0", 0)
    steps = of(events, StepEvent)
    assert [step.at.step for step in steps] == list(range(12))
    assert {(step.edge, step.gpu) for step in steps} == {("end", True)}
    metrics = of(events, Metric)
    assert len(metrics) == 12 * 8
    for row in HISTORY:
        printed = {metric.key: metric for metric in metrics if metric.at.step == row["_step"]}
        assert set(printed) == set(row) - {"_step"}
        for key, metric in printed.items():
            digits = len(metric.value_text.partition(".")[2])
            assert metric.value is not None and abs(metric.value - row[key]) <= 0.5000001 * 10**-digits
            assert metric.raw == f"{key}:{metric.value_text}" and metric.raw.encode() in LOG
    assert [event.verdict for event in of(events, Fault) if event.verdict != "mention"] == []
    assert [event.run for event in of(events, SourceRun)] == ["grpo-tiny-a"]


@pytest.mark.parametrize("size", [1, 2, 7, 50, 10_000])
def test_any_chunks(size: int) -> None:
    lines = re.findall(rb"[^\n]*\n", LOG)
    events = run(lines, size)
    check(events)
    assert {event.at.proc for event in of(events, ProcessSeen)} == {"pid:31361", "pid:32114", "pid:32354", "rank:0"}
    for event in events:  # every event leads to its bytes
        at = event.at
        piece = LOG[at.byte_offset : at.byte_offset + at.byte_length]
        assert piece.endswith(b"\n") or b"\r" in LOG[at.byte_offset + at.byte_length - 1 :][:2]
        assert at.line_no == LOG.count(b"\n", 0, at.byte_offset) + 1


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 13, 10_000])
def test_between_another_writers_lines(seed: int, size: int) -> None:
    check(run(mixed(seed), size))
