"""Steps whose number stands on another line: NeMo-RL's headings, the progress bar of Hugging Face's Trainer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scan.support import TRAITS, opened, scan, scanner
from tic_daemon.scan.events import Event, Metric, StepEvent, Timing

TRAINERS = Path(__file__).parents[1] / "corpus" / "trainers"


def steps(events: list[Event]) -> list[tuple[str, int | None]]:
    return [(event.edge, event.at.step) for event in events if isinstance(event, StepEvent)]


def values(events: list[Event], key: str) -> list[tuple[str, int | None, bool]]:
    return [
        (event.value_text, event.at.step, event.at.step_carried)
        for event in events
        if isinstance(event, Metric) and event.key == key
    ]


# Hugging Face's Trainer. The corpus file was written by tqdm 4.70 as ProgressCallback drives it: 12 steps, a dict every
# third, an evaluation every sixth. Step 7 took 10 ms, so that its bar was not drawn.


def bar(done: int, total: int, prefix: str = "") -> str:
    return f"{prefix}{100 * done // total:3d}%|{'#' * 10}| {done}/{total} [00:31<03:50,  2.62s/it]"


def logged(before: str, text: str, after: str) -> str:
    return f"\r{before}\r{' ' * len(before)}\r{text}\n\r{after}"


def test_steps_of_a_trainer_that_prints_through_its_bar() -> None:
    events = scan((TRAINERS / "hf_progress.log").read_bytes())
    assert steps(events) == [("end", step) for step in (3, 6, 9, 12)]
    own = [(f"{step / 1000}", step, False) for step in (3, 6, 9, 12)]
    assert values(events, "sampling/sampling_logp_difference/mean") == own
    assert values(events, "train_runtime") == [("12.1", 12, False)]
    # The evaluation's own bar is wiped before its dict: which step that was, no line says.
    assert values(events, "eval_loss") == [("0.3333", None, False), ("0.1667", None, False)]


def test_in_a_file_of_one_process_the_evaluation_is_after_the_step() -> None:
    events = scan((TRAINERS / "hf_progress.log").read_bytes(), single_process=True, stream="stdout")
    assert values(events, "eval_loss") == [("0.3333", 6, True), ("0.1667", 12, True)]


def test_the_bar_behind_the_line_is_the_exact_one() -> None:
    """tqdm does not draw fast steps: in front of the line stands an older number."""
    text = logged(bar(4, 100), "{'loss': 0.5, 'epoch': 0.1}", bar(7, 100))
    assert steps(scan(text)) == [("end", 7)]
    assert values(scan(text), "loss") == [("0.5", 7, False)]


@pytest.mark.parametrize(
    "text",
    [
        "{'loss': 0.5, 'epoch': 0.1}\n",
        logged(bar(4, 100), "{'loss': 0.5}", "{'loss': 0.6}"),  # a buffer of many steps was written out
        logged(bar(4, 100), "{'loss': 0.5}", bar(4, 250)),  # another bar
        logged(bar(4, 100), "{'loss': 0.5}", bar(3, 100)),  # a bar that goes back
        logged(bar(4, 100, "Map: "), "{'loss': 0.5}", bar(4, 100, "Map: ")),  # not the Trainer's
        logged(bar(4, 100), "{'loss': 0.5}", ""),
        logged(bar(4, 100), "{'loss': 0.5}", "(Other pid=7) " + bar(4, 100)),
        f"{bar(4, 100)}\n{{'loss': 0.5}}\n{bar(4, 100)}\n",
    ],
)
def test_without_the_bar_on_both_sides_there_is_no_step(text: str) -> None:
    events = scan(text)
    assert steps(events) == []
    assert ("0.5", None, False) in values(events, "loss")


def test_a_launchers_prefix_stands_before_both_lines() -> None:
    first = "[default0]:" + logged(bar(4, 100), "{'loss': 0.5}", "").removesuffix("\r")
    assert steps(scan(f"{first}[default0]:\r{bar(4, 100)}\r{bar(5, 100)}\n")) == [("end", 4)]
    assert steps(scan(f"{first}[default1]:\r{bar(4, 100)}\r{bar(5, 100)}\n")) == []


LINES = re.findall(rb"[^\n]*\n|[^\n]+$", (TRAINERS / "hf_progress.log").read_bytes())


@pytest.mark.parametrize("restart", [False, True])
def test_line_by_line_and_after_restarts_the_steps_are_the_same(restart: bool) -> None:
    source, found = opened(), []
    for line in LINES:
        found += source.feed(line) if line.endswith(b"\n") else source.finish(line)
        if restart and line.endswith(b"\n"):
            source = scanner().open(TRAITS, source.state())
    assert sorted(map(repr, found)) == sorted(map(repr, scan(b"".join(LINES))))


@pytest.mark.parametrize("prefix", ["", "[default0]:"])
def test_however_the_line_behind_comes_in_parts_it_says_the_same(prefix: str) -> None:
    """tqdm writes no newline: a line of bars may be handed over in parts of any size."""
    first = (prefix + logged(bar(4, 100), "{'loss': 0.5}", "").removesuffix("\r")).encode()
    for behind, want in ((bar(4, 100), [("end", 4)]), (bar(3, 100), []), ("x" * 5000, [])):
        line = f"{prefix}\r{behind}\r{bar(5, 100)}\r{bar(6, 100)}".encode()
        for cut in range(1, len(line), 1 if len(line) < 1000 else 97):
            source = opened()
            found = source.feed(first) + source.feed_piece(line[:cut])
            source = scanner().open(TRAITS, source.state())
            found += source.feed(line[cut:] + b"\n") + source.finish(b"")
            assert steps(found) == want, cut


# NeMo-RL


def test_a_block_belongs_to_its_heading_and_epochs_go_on_counting() -> None:
    events = scan((TRAINERS / "nemo_grpo.log").read_bytes())
    assert steps(events) == [("begin", 1), ("end", 1), ("begin", 2), ("end", 2), ("begin", 3), ("end", 3)]
    assert values(events, "Generation KL Error") == [
        ("0.0010", 1, False), ("0.0012", 2, False), ("0.0013", 3, False)
    ]  # fmt: skip
    assert values(events, "Loss") == [("0.0021", 1, False), ("nan", 2, False), ("1.2e-05", 3, False)]
    assert values(events, "E2E (Samples/sec/gpu)") == [("3.59", 1, False)]
    timings = [(event.phase, event.seconds, event.at.step) for event in events if isinstance(event, Timing)]
    assert timings == [("policy_training", 10.97, 1), ("generation", 4.95, 1), ("policy_training", 9.5, 2)]


def test_bullets_without_a_heading_are_nobodys() -> None:
    events = scan("  • Loss: 0.1\n  • Total step time: 3.0s\n  • generation: 4.95s (13.9%)\n")
    assert events == []


def test_headings_of_one_writer_do_not_hold_for_another() -> None:
    head = "========================= Step 4/9 ========================="
    text = f"(Driver pid=7) {head}\n  • Loss: 0.1\n(Driver pid=8)   • Loss: 0.2\n(Driver pid=7)   • Loss: 0.3\n"
    assert values(scan(text), "Loss") == [("0.3", 4, False)]
