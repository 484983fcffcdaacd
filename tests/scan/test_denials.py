"""A line that claims what another one denies is no event: a sleep that a worker ignores, a release of what is not held."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scan.support import TRAITS, of, opened, scan, scanner
from tic_daemon.errors import RuleError
from tic_daemon.scan.events import Fault, WeightPhase
from tic_daemon.scan.rules import RuleSet, read_pack

LOG = Path(__file__).parents[1] / "corpus" / "real_vllm" / "vllm-0.32.0-cpu.log"
CORE = "(EngineCore pid=4377) INFO 11-29 09:14:02 "
NEW = CORE + "[core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='tiny'"
IGNORED = (
    "(Worker_TP{} pid={}) WARNING 11-30 07:02:21 [cpu_worker.py:180] sleep mode is not supported on CPU, ignore it."
)
NOTHING = (
    "(Worker_TP0 pid=4521) INFO 11-29 09:14:02 [cumem.py:228] CuMemAllocator: sleep freed 0.00 GiB memory in total, of "
    "which 0.00 GiB is backed up in CPU and the rest 0.00 GiB is discarded directly."
)
FREED = NOTHING.replace("freed 0.00", "freed 61.02").replace("rest 0.00", "rest 61.02")
SLEPT = CORE + "[abstract.py:390] It took 0.000184 seconds to fall asleep."
WOKE = CORE + "[abstract.py:320] It took 0.412345 seconds to wake up tags ['weights']."
ASLEEP_STILL = "(EngineCore pid=4377) WARNING 11-29 09:14:02 [abstract.py:380] Executor is already sleeping."
RESET = CORE + "[block_pool.py:861] Successfully reset prefix cache"


def posted(level: int) -> str:
    return f'(APIServer pid=4101) INFO:     127.0.0.1:51840 - "POST /sleep?level={level} HTTP/1.1" 200 OK'


def phases(lines: list[str]) -> list[tuple[str, str]]:
    return [(event.phase, event.level) for event in of(scan("\n".join(lines) + "\n"), WeightPhase)]


def test_a_real_server_on_a_cpu_never_slept() -> None:
    found = [event.phase for event in of(scan(LOG.read_bytes()), WeightPhase)]
    assert b"to fall asleep" in LOG.read_bytes() and b"POST /sleep?level=1" in LOG.read_bytes()
    assert "asleep" not in found and "awake" not in found and found.count("reset") == 4


def test_an_ignored_sleep_is_none_as_long_as_the_engine_lives() -> None:
    warned = [IGNORED.format(0, 11), IGNORED.format(1, 12)]
    assert phases([*warned, SLEPT, posted(2), *warned, WOKE, RESET, *warned, SLEPT]) == [("reset", "")]
    assert phases([*warned, SLEPT, NEW, SLEPT]) == [("new_process", ""), ("asleep", "")]


def test_memory_that_was_not_there_did_not_sleep() -> None:
    assert phases([NOTHING, SLEPT, posted(1), WOKE]) == []
    assert phases([NOTHING, SLEPT, RESET, FREED, SLEPT, posted(2), WOKE]) == [
        ("reset", ""), ("asleep", "2"), ("asleep", ""), ("asleep", "2"), ("awake", "weights")
    ]  # fmt: skip


def test_a_second_sleep_changes_no_level() -> None:
    first = [FREED.replace("0.00 GiB is backed", "8.13 GiB is backed"), SLEPT, posted(1)]
    assert phases([*first, ASLEEP_STILL, posted(2), WOKE]) == [("asleep", "1"), ("asleep", ""), ("asleep", "1"), ("awake", "weights")]  # fmt: skip
    # Without access lines nothing is left over for a sleep that is one.
    assert phases([ASLEEP_STILL, WOKE, SLEPT, posted(2)])[-1] == ("asleep", "2")


def sglang(saver: str, actor: str = "") -> list[str]:
    return [
        f"{actor}[2026-11-29 08:11:03] server_args=ServerArgs(model_path='/m', enable_memory_saver={saver}, x=1)",
        f'{actor}[2026-11-29 08:15:43] INFO:     10.31.9.3:40222 - "POST /release_memory_occupation HTTP/1.1" 200 OK',
        f'{actor}[2026-11-29 08:15:53] INFO:     10.31.9.3:40222 - "POST /resume_memory_occupation HTTP/1.1" 200 OK',
    ]


def test_sglang_without_its_memory_saver_releases_nothing() -> None:
    assert phases(sglang("False")) == [("new_process", "")]
    assert [phase for phase, _ in phases(sglang("True"))] == ["new_process", "asleep", "awake"]
    assert [phase for phase, _ in phases([*sglang("False"), *sglang("True")])][-2:] == ["asleep", "awake"]


def test_servers_of_one_console_are_told_apart() -> None:
    one, two = sglang("False", "(SGLangEngine pid=7) "), sglang("True", "(SGLangEngine pid=8) ")
    found = of(scan("\n".join(line for pair in zip(one, two, strict=True) for line in pair) + "\n"), WeightPhase)
    assert [(event.phase, event.at.pid) for event in found if event.phase != "new_process"] == [
        ("asleep", 8),
        ("awake", 8),
    ]


@settings(max_examples=examples(20), deadline=None)
@given(st.data())
def test_in_any_pieces_with_restarts_between(data: st.DataObject) -> None:
    lines = [
        NEW,
        NOTHING,
        SLEPT,
        posted(2),
        FREED,
        SLEPT,
        ASLEEP_STILL,
        posted(2),
        IGNORED.format(0, 11),
        SLEPT,
        WOKE,
        NEW,
        SLEPT,
    ]
    text = [line.encode() + b"\n" for line in lines]
    whole = opened()
    expected = whole.feed(b"".join(text))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=6)))
    state, found = None, []
    for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
        source = scanner().open(TRAITS, state)
        found += source.feed(b"".join(text[start:stop]))
        state = source.state()
    assert found == expected and state == whole.state()


STOPPED = "(APIServer pid=25083) INFO 11-30 10:40:04 [launcher.py:254] [shutdown] API server: shutdown triggered\n"
DIED = """(APIServer pid=25083) ERROR 11-30 10:40:04 [async_llm.py:906] AsyncLLM output_handler failed.
(APIServer pid=25083) ERROR 11-30 10:40:04 [async_llm.py:906] Traceback (most recent call last):
(APIServer pid=25083) ERROR 11-30 10:40:04 [async_llm.py:906]   File "/v/vllm/v1/engine/async_llm.py", line 849, in output_handler
(APIServer pid=25083) ERROR 11-30 10:40:04 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.
"""


def test_the_engine_of_a_server_that_was_told_to_stop_died_of_nothing() -> None:
    """Captured: vllm serve 0.32.0 on a CPU, after SIGTERM."""
    dead = [(fault.kind, fault.verdict) for fault in of(scan(STOPPED + DIED), Fault)]
    assert ("vllm.engine_dead", "mention") in dead and all(verdict != "confirmed" for _, verdict in dead)
    assert ("vllm.engine_dead", "confirmed") in [(fault.kind, fault.verdict) for fault in of(scan(DIED), Fault)]
    again = STOPPED + NEW + "\n" + DIED
    assert ("vllm.engine_dead", "confirmed") in [(fault.kind, fault.verdict) for fault in of(scan(again), Fault)]


@pytest.mark.parametrize("name", ["mine.none", "cuda.illegal_address"])
def test_a_pack_denies_states_that_there_are(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'pack = "mine"\nversion = 1\n[[rule]]\nname = "mine.off"\nyields = "context"\nliteral = ["it is off"]\n'
        f"pattern = 'it is off'\ndenies = [\"{name}\"]\nproduct = 'p'\nsource = 's'\nmatch = ['it is off']\nno_match = ['x']\n"
    )
    with pytest.raises(RuleError, match=r"mine\.off: denies "):
        RuleSet.of([*RuleSet.load().packs, read_pack(path)])


def test_what_one_container_denies_another_may_say() -> None:
    ignored = "(Worker pid=9) WARNING 11-29 09:14:01 [cpu_worker.py:180] sleep mode is not supported on CPU, ignore it."
    slept = "(EngineCore pid=7) INFO 11-29 09:14:02 [abstract.py:300] It took 1.234567 seconds to fall asleep."
    log = f"vllm-a-1  | {ignored}\nvllm-a-1  | {slept}\nvllm-b-1  | {slept}\n"
    assert [event.at.proc for event in of(scan(log), WeightPhase)] == ["in:vllm-b-1 pid:7"]
