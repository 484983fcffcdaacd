"""Each kind of finding from a log of a few lines in the engine's own words, beside the same log in order; and what it does to numbers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.harness import ask
from tests.examples import examples
from tic_daemon.cli import main

CORE = "(EngineCore pid=4377) INFO 11-29 09:{at} "
NEW = CORE + "[core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='tiny'"
LOADED = CORE + "[default_loader.py:501] Loading weights took 0.05 seconds"
SLEPT_1 = (
    CORE
    + "[cumem.py:228] CuMemAllocator: sleep freed 61.02 GiB memory in total, of which 8.13 GiB is backed up in CPU "
    "and the rest 52.89 GiB is discarded directly."
)
SLEPT_2 = (
    CORE
    + "[cumem.py:228] CuMemAllocator: sleep freed 61.02 GiB memory in total, of which 0.00 GiB is backed up in CPU "
    "and the rest 61.02 GiB is discarded directly."
)
WOKE_WEIGHTS = CORE + "[abstract.py:320] It took 0.412345 seconds to wake up tags ['weights']."
WOKE_KV = CORE + "[abstract.py:320] It took 0.412345 seconds to wake up tags ['kv_cache']."
WOKE = CORE + "[abstract.py:320] It took 0.412345 seconds to wake up tags {{'weights', 'kv_cache'}}."
RELOADED = CORE + "[inplace.py:113] Reloading and processing weights took 0.07 seconds"
UPDATED = '(APIServer pid=4101) INFO:     10.31.9.3:40222 - "POST /update_weights HTTP/1.1" 200 OK'
RESET = CORE + "[block_pool.py:861] Successfully reset prefix cache"
REFUSED = CORE + "[block_pool.py:850] Failed to reset prefix cache because some blocks (17) are not freed yet"
USED = (
    CORE
    + "[loggers.py:178] Engine 000: Iteration(4): 3 context requests, 2382 context tokens, 44 generation requests, "
    "44 generation tokens, iteration elapsed time: 70.53 ms, GPU KV cache usage: 31.2%"
)
SGL_BEGUN = "[2026-11-29 09:{at} TP0] Update engine weights online from disk begin. avail mem=10.11 GB"
SGL_ENDED = "[2026-11-29 09:{at} TP0] Update weights end."
SGL_RESET = "[2026-11-29 09:{at} TP0] Cache flushed successfully!"
SGL_USED = (
    "[2026-11-29 09:{at} TP0] Decode batch, #running-req: 31, #token: 40112, token usage: 0.07, cuda graph: True, "
    "gen throughput (token/s): 2312.11, #queue-req: 0"
)
SGL_LOADED = "[2026-11-29 09:{at} TP0] Load weight end. elapsed=21.31 s, type=Qwen3MoeForCausalLM, avail mem=30.11 GB, mem usage=48.12 GB."
FIELDS = (
    "policy=1 input=abc phase=decode rank=0 repeat=0 scope=fixed-input intervention=none metric=logprob_mae value=0.01 "
    "reference=x self_repeat=0 report=r classification=unknown"
)
NUMBER = f"[mismatch] run=r step=3 {FIELDS}"
BEGIN = [NEW, LOADED, USED]

# kind: (lines that show it, the number of the line that does, the lines that put it right, words in `reason`)
WRONG: dict[str, tuple[list[str], int, list[str], str]] = {
    "wake_without_weights": ([*BEGIN, SLEPT_2, WOKE, RESET, USED], 5, [RELOADED, RESET], "weights woken without a reload"),
    "wake_tags_missing": ([*BEGIN, SLEPT_1, WOKE_WEIGHTS, RESET, USED], 5, [WOKE_KV], "weights or KV cache still asleep"),
    "update_while_asleep": ([*BEGIN, SLEPT_1, RESET, UPDATED], 6, [WOKE, RELOADED, RESET], "weights updated while asleep"),
    "update_without_reset": ([*BEGIN, RELOADED, USED], 4, [RESET], "weights updated without a reset of the prefix cache"),
    "reset_refused": ([*BEGIN, RELOADED, REFUSED, USED], 5, [RESET], "reset of the prefix cache refused"),
    "update_missing": ([SGL_LOADED, SGL_USED, SGL_BEGUN, SGL_USED], 3, [SGL_ENDED, SGL_RESET], "update of the weights not finished"),
}  # fmt: skip
RIGHT = {
    "wake_without_weights": [*BEGIN, SLEPT_2, WOKE, RELOADED, RESET, USED],
    "level 1 keeps the weights": [*BEGIN, SLEPT_1, WOKE, USED],
    "wake_tags_missing": [*BEGIN, SLEPT_1, WOKE_WEIGHTS, WOKE_KV, USED],
    "woken in part, used by nobody": [*BEGIN, SLEPT_1, WOKE_WEIGHTS, RESET],
    "update_while_asleep": [*BEGIN, SLEPT_1, WOKE_WEIGHTS, UPDATED, WOKE_KV, RESET, USED],
    "update_without_reset": [*BEGIN, RELOADED, RESET, USED],
    "the cache is reset just before": [*BEGIN, RESET, RELOADED, USED],
    "reset_refused": [*BEGIN, REFUSED, USED],
    "update_missing": [SGL_LOADED, SGL_USED, SGL_BEGUN, SGL_ENDED],
    "a new process": [*BEGIN, SLEPT_2, NEW, LOADED, USED],
}


def clock(second: int) -> str:
    return f"{second // 60:02}:{second % 60:02}"


def text(lines: list[str], start: int = 0) -> str:
    """The lines, ten seconds apart."""
    return "".join(line.format(at=clock(start + 10 * n)) + "\n" for n, line in enumerate(lines))


def offset(lines: list[str], line: int) -> int:
    """Where a line of `text(lines)` begins, in bytes; from 0."""
    return len("".join(text(lines).splitlines(keepends=True)[:line]).encode())


def watch(folder: Path) -> Path:
    assert main(["watch", "--once", str(folder)]) in (0, 11, 12, 13, 14)
    (store,) = folder.glob(".tic/*/tic.duckdb")
    return store


def found(folder: Path) -> list[tuple[object, ...]]:
    return ask(watch(folder), "SELECT kind, line_no FROM lifecycle_findings ORDER BY line_no, kind")


def put(root: Path, name: str, log: list[str]) -> None:
    """A log in a directory of its own; its numbers are of the run of that name."""
    folder = root / name.replace(" ", "_")
    folder.mkdir()
    (folder / "engine.log").write_text(text(log).replace("run=r ", f"run={folder.name} "))


def log_of(kind: str) -> list[str]:
    lines, at, mended, _ = WRONG[kind]
    return [NUMBER, *lines[:at], NUMBER, *lines[at:], NUMBER, *mended, NUMBER]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind of finding in one workspace, each in a run of its own."""
    root = tmp_path_factory.mktemp("wrong")
    for kind in WRONG:
        put(root, kind, log_of(kind))
    return watch(root)


@pytest.mark.parametrize("kind", WRONG)
def test_it_is_found_and_makes_the_numbers_of_its_log_suspect(wrong: Path, kind: str) -> None:
    lines, at, mended, words = WRONG[kind]
    log = log_of(kind)

    def told(what: str, table: str, order: str = "") -> list[tuple[object, ...]]:
        return ask(wrong, f"SELECT {what} FROM {table} WHERE run_id = '{kind}' {order}")

    (found,) = told("kind, line_no, severity, until_at IS NULL", "lifecycle_findings")
    assert found[:3] == (kind, at + 1, "N")
    illegal = f"SELECT finding, line_no FROM weight_lifecycle WHERE NOT legal AND path LIKE '%/{kind}/engine.log'"
    assert ask(wrong, illegal) == [(kind, at + 1)]
    bad, good = ("suspect", words, False), ("admissible", "", True)
    assert told("admissibility, reason, is_evidence", "mismatches", "ORDER BY line_no") == [good, bad, bad, good]
    assert told("suspect, admissible, locked", "attempts") == [(2, 2, False)]
    ids = told("finding_ids", "mismatches", "ORDER BY line_no")
    (one,) = told("finding_id, until_generation, until_offset", "lifecycle_findings")
    assert ids == [("",), (one[0],), (one[0],), ("",)]
    ends = [offset(log, n + len(lines) + 3) for n in range(len(mended))]
    run = len(kind) - 1  # by so many bytes its name is longer in each of the three numbers before
    assert one[1] == 0 and one[2] - 3 * run in ends, "one of the lines that put it right"


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every log that is in order, with a number behind where that is no use of what was left."""
    root = tmp_path_factory.mktemp("right")
    for name, lines in RIGHT.items():
        put(root, name, lines if name in NO_NUMBER else [*lines, NUMBER])
    return watch(root)


NO_NUMBER = {"woken in part, used by nobody", "update_missing"}
"""A number in these logs would be a use."""


@pytest.mark.parametrize("name", RIGHT)
def test_in_order_nothing_is_found(right: Path, name: str) -> None:
    def counted(table: str, where: str = "true") -> int:
        folder = name.replace(" ", "_")
        return ask(right, f"SELECT count(*) FROM {table} WHERE path LIKE '%/{folder}/engine.log' AND ({where})")[0][0]  # type: ignore[return-value]

    assert counted("lifecycle_findings") == 0
    assert counted("weight_lifecycle") > 0 and counted("weight_lifecycle", "NOT legal OR finding <> ''") == 0
    assert counted("mismatches") == (name not in NO_NUMBER)
    assert counted("mismatches", "admissibility <> 'admissible'") == 0


@settings(max_examples=examples(9), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(WRONG)), st.data())
def test_in_any_pieces_with_restarts_between(kind: str, data: st.DataObject) -> None:
    lines, at, mended, _ = WRONG[kind]
    whole = text([*lines[:at], *lines[at:], NUMBER, *mended, NUMBER]).encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=3)))
    with tempfile.TemporaryDirectory() as name:
        for end in (*cuts, len(whole)):
            Path(name, "engine.log").write_bytes(whole[:end])
            rows = found(Path(name))
        assert rows == [(kind, at)]
        (store,) = Path(name).glob(".tic/*/tic.duckdb")
        assert ask(store, "SELECT admissibility FROM mismatches ORDER BY line_no") == [("suspect",), ("admissible",)]


# --- Numbers in another log. The engine wakes without weights at 09:10:00 and is reloaded at 09:11:00.

ENGINE = [(0, NEW), (10, LOADED), (500, USED), (590, SLEPT_2), (600, WOKE), (605, RESET), (610, USED), (660, RELOADED), (661, RESET)]  # fmt: skip
WORDS = "weights woken without a reload"


def stamped(second: int, message: str) -> str:
    return f"[2026-11-29 09:{clock(second)}] trainer.py:231 - {message}\n"


def number(step: int | None = None) -> str:
    return f"[mismatch] run=r {'' if step is None else f'step={step} '}{FIELDS}"


def ended(step: int) -> str:
    return f"step:{step} - actor/loss:0.1 - training/global_step:{step}"


def worth(folder: Path, trainer: str, zone: str = 'zone = "UTC"', engine: list[tuple[int, str]] = ENGINE) -> list[str]:
    """What each number of the trainer's log is worth, and why, beside that engine."""
    (folder / "tic.toml").write_text(
        f'[[source]]\npath = "engine.log"\nrun = "r"\n{zone}\n[[source]]\npath = "trainer.log"\nrun = "r"\n{zone}\n'
    )
    (folder / "engine.log").write_text("".join(line.format(at=clock(second)) + "\n" for second, line in engine))
    (folder / "trainer.log").write_text(trainer)
    store = watch(folder)
    assert ask(store, "SELECT kind FROM lifecycle_findings") == [("wake_without_weights",)] * (engine is ENGINE)
    rows = ask(store, "SELECT admissibility, reason FROM mismatches WHERE path LIKE '%trainer.log' ORDER BY line_no")
    by = "SELECT finding_ids = coalesce((SELECT finding_id FROM lifecycle_findings), ''), finding_ids = '' FROM mismatches"
    named = ask(store, f"{by} WHERE path LIKE '%trainer.log' ORDER BY line_no")
    assert named == [(True, engine is not ENGINE) if reason else (engine is not ENGINE, True) for _, reason in rows]
    assert all((reason == WORDS) == (worth == "suspect") for worth, reason in rows)
    return [str(row[0]) for row in rows]


@pytest.mark.parametrize(("step", "zone"), [(None, "UTC"), (7, "+05:45")])
def test_by_time_where_no_ends_of_steps_are_told(tmp_path: Path, step: int | None, zone: str) -> None:
    seconds = (500, 590, 600, 630, 660, 670, 700)
    trainer = "".join(stamped(second, number(step)) for second in seconds)
    assert (
        worth(tmp_path, trainer, zone=f'zone = "{zone}"') == ["admissible"] * 2 + ["suspect"] * 3 + ["admissible"] * 2
    )


def test_by_step_also_where_it_is_printed_after_the_reload(tmp_path: Path) -> None:
    """Step 3 is under way from 09:10 to 09:11; the staleness of one step makes 2 and 4 doubtful, but 2 was printed before."""
    trainer = ""
    for step, end in ((1, 300), (2, 540), (3, 720), (4, 780), (5, 840), (6, 900)):
        trainer += stamped(end - 5, number(step)) + stamped(end, ended(step))
    assert worth(tmp_path, trainer) == ["admissible", "admissible", "suspect", "suspect", "admissible", "admissible"]


def test_without_a_time_the_step_says_and_without_both_nothing_does(tmp_path: Path) -> None:
    trainer = number(1) + "\n" + number(3) + "\n" + number(6) + "\n" + number() + "\n"
    for step, end in ((1, 300), (2, 540), (3, 720), (4, 780), (5, 840), (6, 900)):
        trainer += stamped(end, ended(step))
    assert worth(tmp_path, trainer) == ["admissible", "suspect", "admissible", "suspect"]


def test_without_a_zone_nothing_tells(tmp_path: Path) -> None:
    assert worth(tmp_path, stamped(100, number()) + stamped(5000, number()), zone="") == ["suspect", "suspect"]


def test_a_healthy_engine_touches_no_number_that_tells_nothing(tmp_path: Path) -> None:
    healthy = [*ENGINE[:5], (601, RELOADED), *ENGINE[5:7]]
    assert worth(tmp_path, number() + "\n" + stamped(600, number(3)), zone="", engine=healthy) == ["admissible"] * 2


def test_a_locked_number_stays_locked(tmp_path: Path) -> None:
    fault = "[rank0]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    (tmp_path / "engine.log").write_text(fault + text([*WRONG["wake_without_weights"][0], NUMBER]))
    store = watch(tmp_path)
    assert ask(store, "SELECT admissibility FROM mismatches") == [("locked",)]
    assert ask(store, "SELECT suspect, locked_records FROM attempts") == [(0, 1)]


# --- Two servers in one log, told apart by their containers' names alone: pids in containers are the same.

TWO = [
    ("a", NEW), ("b", NEW), ("a", LOADED), ("b", LOADED), ("a", USED), ("b", USED), ("a", SLEPT_2), ("b", UPDATED),
    ("b", RELOADED), ("b", RESET), ("b", USED), ("a", WOKE), ("a", RELOADED), ("a", RESET), ("a", USED), ("b", USED),
]  # fmt: skip
AFTER_B = ("b", RELOADED), ("b", USED)
CONTAINERS = ("vllm-{}-1  | ", "[pod/vllm-{}/server] ")


@pytest.mark.parametrize("name", CONTAINERS, ids=["compose", "kubectl"])
def test_each_container_has_an_engine_of_its_own(tmp_path: Path, name: str) -> None:
    """One sleeps while weights of the other are updated. Then the cache of that one is not reset, and the first's is."""
    wrong = [*TWO, *AFTER_B, ("a", RELOADED), ("a", RESET), ("a", USED)]
    for case, lines in (("right", TWO), ("wrong", wrong)):
        (tmp_path / case).mkdir()
        log = "".join(name.format(who) + line.format(at=clock(10 * n)) + "\n" for n, (who, line) in enumerate(lines))
        (tmp_path / case / "engines.log").write_text(log)
    store = watch(tmp_path)
    rows = ask(store, "SELECT path, kind, line_no FROM lifecycle_findings")
    assert [(Path(str(path)).parent.name, kind, line) for path, kind, line in rows] == [
        ("wrong", "update_without_reset", len(TWO) + 1)
    ]
