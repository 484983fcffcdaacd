"""One workspace for all tests of reports: a run that a fault locks, one that was compared, one without a number; a ledger."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.compare.ptfile import f32, mask, write
from tests.ledger.made import BITWISE, declared, entry, store
from tests.ledger.test_commands import said
from tic_daemon import candidate_command, cli, ledger_commands, people_commands
from tic_daemon.ledger.entries import artifact
from tic_daemon.store.layout import local_host

HOSTILE = (
    "<script>alert(1)</script> | [x](javascript:alert(2)) `y` @everyone https://evil.example \x1b]0;owned\x07 **bold**"
)
"""What a person may write. A control character, and what HTML and Markdown would act on."""
VALUES = {1: 0.25, 2: 0.5, 3: 0.125, 4: 2.0}
"""Of run broken by step; the fault stands between 3 and 4."""
FAULT = "[rank0]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
ENDED = "step:{step} - actor/grad_norm:0.25 - timing_s/step:1.5"
RECORD = (
    "[mismatch] run={run} step={step} policy={step} input=ab phase=decode rank=0 repeat=0 scope=fixed-input intervention=none"
    " metric=logprob_mae value={value} reference=trainer/old_log_probs self_repeat=0.0625 report=none classification=unknown\n"
)


@dataclass(frozen=True)
class Workspace:
    """A workspace at rest. `base`, `child`: candidates. `closure`: a file that a row of the ledger names."""

    root: Path
    base: str
    child: str
    closure: Path


def log(root: Path, run: str, lines: list[tuple[int, str]]) -> None:
    """A worker's log, each line at so many seconds from now."""
    folder = root / "results" / run / "none_a1b2c3d4" / "attempt_0" / "0"
    folder.mkdir(parents=True)
    begin = datetime.now(UTC)
    with (folder / "stderr.log").open("w") as file:
        for late, text in lines:
            stamp = (begin + timedelta(seconds=late)).strftime("%Y-%m-%dT%H:%M:%S.%fZ ")
            file.write(f"{stamp if 'mismatch' in text or 'INFO' in text else ''}{text.rstrip()}\n")


def results(root: Path, run: str) -> None:
    """Dumps of both sides that differ in one of four tokens, with their manifest."""
    folder = root / "results" / run / "step_1"
    folder.mkdir(parents=True)
    made = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    sides = {
        "rollout.pt": {"r": (f32(-1, -2, -3), mask(1, 1, 1)), "s": (f32(-0.5), mask(1))},
        "trainer.pt": {"r": (f32(-1, -2, -3.5), mask(1, 1, 1)), "s": (f32(-0.5), mask(1))},
        "token_ids.pt": {"r": ([1], [2, 3, 4]), "s": ([1], [2])},
    }
    entries = {}
    for number, (name, values) in enumerate(sides.items()):
        data = write(folder / name, values).read_bytes()
        producer = {"host": "n1", "pid": 100 + number, "produced_at": made, "command": name}
        entries[name] = {
            "path": name,
            "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "producer": producer,
        }
    pair = {"a": "rollout.pt", "b": "trainer.pt", "tokens": "token_ids.pt", "goal": "cross_stack"}
    head = {"run": run, "step": 1, "policy_version": "1", "basis": "raw", "intervention": "none"}
    (folder / "manifest.json").write_text(json.dumps({**head, "artifacts": entries, "comparisons": [pair]}))


@pytest.fixture(scope="package")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("ws")
    (root / "criterion.toml").write_text(BITWISE)
    (root / "tic.toml").write_text('[compare]\ncriterion = "criterion.toml"\n')
    log(root, "empty", [(0, "INFO job begins")])
    broken: list[tuple[int, str]] = []
    for step in (1, 2, 3):
        broken.append((step, RECORD.format(run="broken", step=step, value=VALUES[step])))
        broken.append((step, ENDED.format(step=step)))
    log(root, "broken", [*broken, (10, FAULT), (20, RECORD.format(run="broken", step=4, value=VALUES[4]))])
    assert cli.main(["watch", "--once", str(root)]) == 0
    with pytest.MonkeyPatch.context() as patch:
        for module in (ledger_commands, candidate_command, people_commands):
            patch.setattr(module, "take_in", lambda _: "")
        said(root, "criterion", "freeze", str(root / "criterion.toml"))
        fields = [part for one in ("object.model=tiny", "image.digest=7", "graph.mode=NONE") for part in ("--set", one)]
        said(root, "candidate", "declare", "compared", "--name", "base", *fields)
        assert cli.main(["mark", "empty", "--reason", "nobody looked", "--at", str(root)]) == 0
        assert cli.main(["mark", "broken", "--note", "--reason", HOSTILE, "--at", str(root)]) == 0
    log(root, "compared", [(30, RECORD.format(run="compared", step=1, value=0.5))])
    results(root, "compared")
    assert cli.main(["watch", "--once", str(root)]) == 0
    return _with_a_child(root)


def _with_a_child(root: Path) -> Workspace:
    """A child of the candidate with an exemption, and evidence of the ledger that was superseded."""
    from tic_daemon.store.reader import open_reader

    reader = open_reader(root)
    (base,) = reader.query("SELECT candidate_id FROM candidates").rows[0]
    (evidence,) = reader.query("SELECT id FROM ledger WHERE kind = 'evidence'").rows[0]
    reader.close()
    shown = root / "closure.txt"
    shown.write_text("kernel.cu is not reached\n")
    digest = hashlib.sha256(shown.read_bytes()).hexdigest()
    child = declared(
        "fp8",
        2,
        parent=base,
        fields={"object.model": "tiny", "image.digest": "8", "graph.mode": "NONE"},
        changed=["image.digest"],
    )
    rows = [
        child,
        entry("supersede", 3, target=evidence, reason="the image was another"),
        entry(
            "exemption", 4, candidate=child.candidate, target=base, gate="module", reason=HOSTILE, body={"closure": digest},
            artifacts=[artifact(str(shown), shown.stat().st_size, digest, local_host())],
        ),
        entry("case", 5, run_id="compared", body={"name": "nan", "parts": {"contract": "no NaN"}, "ruled_out": ["the mask"]}),
        entry("baseline", 6, candidate=base, body={"name": "first", "config": "c", "results": "r"}),
    ]  # fmt: skip
    with store(root, rows):
        pass
    return Workspace(root, base, child.candidate, shown)


def make(ws: Workspace, subject: str, target: Path, *argv: str) -> Path:
    assert cli.main(["report", subject, "--at", str(ws.root), "--bundle", str(target), *argv]) == 0
    return target


@pytest.fixture(scope="package")
def made(ws: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the run that was compared, with its dumps, as a directory."""
    return make(ws, "compared", tmp_path_factory.mktemp("b") / "bundle", "--artifacts")


@pytest.fixture(scope="package")
def packed(ws: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the candidate that was made from another, as a tar."""
    return make(ws, "fp8", tmp_path_factory.mktemp("b") / "fp8.tar")


@pytest.fixture(scope="package")
def locked(ws: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the run that a fault locks."""
    return make(ws, "broken", tmp_path_factory.mktemp("b") / "bundle")
