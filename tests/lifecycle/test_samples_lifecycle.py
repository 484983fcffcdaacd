"""What the sample logs tell of the weights' lifecycle: exactly what expected.json names, however the files arrive."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from tests.e2e.harness import ROOT, ask
from tic_daemon.cli import main

HERE = ROOT / "tests" / "corpus" / "samples"
EXPECTED = json.loads((HERE / "expected.json").read_text())
VLLM = "01_vllm_v1_server_sleep_wake.log"
# The line of the file that shows each of the three, found by hand: the refused reset of the second cycle, the first of the
# third cycle's updates, and the wake of the fourth.
THREE = {("reset_refused", 181), ("update_without_reset", 242), ("wake_without_weights", 310)}
WORDS = {
    "Failed to reset": "reset_refused",
    "update without reset": "update_without_reset",
    "level-2 wake": "wake_without_weights",
}


def read(folder: Path) -> list[tuple[str, str, int]]:
    assert main(["watch", "--once", str(folder)]) in (0, 12, 13)
    (store,) = folder.glob(".tic/*/tic.duckdb")
    rows = ask(store, "SELECT path, kind, line_no FROM lifecycle_findings ORDER BY rec_id")
    return [(str(row[0]), str(row[1]), int(str(row[2]))) for row in rows]


def test_expected_names_the_three() -> None:
    told = {kind for text in EXPECTED[VLLM]["suspect_state"] for words, kind in WORDS.items() if words in text}
    assert told == {kind for kind, _ in THREE}
    assert not any(want.get("suspect_state") for name, want in EXPECTED.items() if name != VLLM)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, int]]:
    """What is found where each sample lies in a directory of its own."""
    root = tmp_path_factory.mktemp("samples")
    for name in EXPECTED:
        (root / name).mkdir()
        (root / name / "worker.log").write_bytes((HERE / name).read_bytes())
    return read(root)


@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_sample(samples: list[tuple[str, str, int]], name: str) -> None:
    found = [(kind, line) for path, kind, line in samples if Path(path).parent.name == name]
    assert sorted(found) == sorted(THREE if name == VLLM else ())


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_in_random_pieces_with_restarts_between(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = (HERE / VLLM).read_bytes()
    cuts = sorted(rng.sample(range(1, len(data)), 4))
    for end in (*cuts, len(data)):
        (tmp_path / "worker.log").write_bytes(data[:end])
        found = read(tmp_path)
    assert sorted((kind, line) for _, kind, line in found) == sorted(THREE)


def test_between_another_engines_lines(tmp_path: Path) -> None:
    """An SGLang server whose lifecycle is in order, line by line between."""
    rng = random.Random(3)
    lines = [re.findall(rb"[^\n]*\n", (HERE / name).read_bytes()) for name in (VLLM, "04_sglang_server.log")]
    mixed, place = [], {}
    numbers = [0, 0]
    while lines[0] or lines[1]:
        which = rng.randrange(2)
        if lines[which]:
            mixed.append(lines[which].pop(0))
            numbers[which] += 1
            if which == 0:
                place[numbers[0]] = len(mixed)
    (tmp_path / "both.log").write_bytes(b"".join(mixed))
    found = read(tmp_path)
    assert sorted((kind, line) for _, kind, line in found) == sorted((kind, place[line]) for kind, line in THREE)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"(vLLMHttpServer pid=4242) ", marks=pytest.mark.slow),
        b"\x1b[36m(vLLMHttpServer pid=4242, ip=10.3.1.2)\x1b[0m ",
    ],
)
def test_beside_a_console_that_shows_every_line_twice(tmp_path: Path, head: bytes) -> None:
    data = (HERE / VLLM).read_bytes()
    lines = [head + line for line in re.findall(rb"[^\n]*\n", data)]
    (tmp_path / "driver.log").write_bytes(b"".join(lines + lines))
    alone = read(tmp_path)
    assert sorted(kind for _, kind, _ in alone) == sorted(kind for kind, _ in THREE)
    (tmp_path / "worker.log").write_bytes(data)
    assert sorted(kind for _, kind, _ in read(tmp_path)) == sorted(kind for kind, _ in THREE)
