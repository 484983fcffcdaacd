"""A story with real files, through the real daemon: from a frozen criterion to gates that stand, fall and are lowered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.compare.ptfile import f32, mask, write
from tests.ledger.test_commands import said
from tic_daemon import candidate_command, cli, ledger_commands
from tic_daemon.store.reader import open_reader

CRITERION = 'metric = "bitwise"\ngoal = "cross_stack"\ngate = "zero_update"\ncell = "replay"\nplanted = "one bit"\n'
FIELDS = '"object.model" = "tiny"\n"image.digest" = "7"\n"rollout.lifecycle" = "sleep, wake"\n"rollout.quantization" = "none"\n'
VALUES = {"r": (f32(-1, -2, -3), mask(1, 1, 1)), "s": (f32(-0.5), mask(1))}
OTHER = {"r": (f32(-1, -2, -3.5), mask(1, 1, 1)), "s": (f32(-0.5), mask(1))}

FAR = {"r": (f32(-1, -2, -90), mask(1, 1, 1)), "s": (f32(-0.5), mask(1))}
STATES = "SELECT g.state FROM gates g JOIN candidates c ON c.candidate_id = g.candidate_id WHERE c.name = '{}'"


class Job:
    """A workspace, and what is written into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "criterion.toml").write_text(CRITERION)
        (root / "fields.toml").write_text(FIELDS)
        (root / "tic.toml").write_text('[compare]\ncriterion = "criterion.toml"\n')
        self.log("quiet", "job begins")
        self.watch()

    def log(self, run: str, text: str, late: float = 60) -> None:
        """A line of a worker of the run, in a minute."""
        folder = self.root / "results" / run
        folder.mkdir(parents=True, exist_ok=True)
        stamp = (datetime.now(UTC) + timedelta(seconds=late)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        with (folder / "worker.log").open("a") as file:
            file.write(f"{stamp} INFO {text}\n")

    def results(self, run: str, trainer: Mapping[str, Any], *, plant: str = "", late: float = 60, **more: Any) -> Path:
        """A step's dumps with their manifest, made in a minute."""
        folder = self.root / "results" / run / "step_1"
        folder.mkdir(parents=True)
        made = (datetime.now(UTC) + timedelta(seconds=late)).isoformat()
        entries = {}
        tokens = {"r": ([1], [2, 3, 4]), "s": ([1], [2])}
        for number, (name, values) in enumerate(
            (("rollout.pt", VALUES), ("trainer.pt", trainer), ("token_ids.pt", tokens))
        ):
            data = write(folder / name, values).read_bytes()
            entries[name] = {
                "path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(),
                "producer": {"host": "n1", "pid": 100 + number, "produced_at": made, "command": name},
            }  # fmt: skip
        listed = {"a": "rollout.pt", "b": "trainer.pt", "tokens": "token_ids.pt", "goal": "cross_stack"}
        if plant:
            listed["plant"] = plant
        manifest = {
            "run": run, "step": 1, "policy_version": "1", "basis": "raw", "intervention": "none",
            "artifacts": entries, "comparisons": [listed], **more,
        }  # fmt: skip
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return folder

    def watch(self) -> None:
        assert cli.main(["watch", "--once", str(self.root)]) == 0

    def spool(self, *argv: str) -> None:
        """Said, and taken in with the next watch."""
        with pytest.MonkeyPatch.context() as patch:
            for module in (ledger_commands, candidate_command):
                patch.setattr(module, "take_in", lambda _: "")
            said(self.root, *argv)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        reader = open_reader(self.root)
        try:
            return reader.query(sql).rows
        finally:
            reader.close()

    def cell(self, name: str, place: str = "replay") -> tuple[Any, ...]:
        sql = (
            "SELECT g.state, g.stale, g.cause FROM gates g JOIN candidates c ON c.candidate_id = g.candidate_id "
            f"WHERE c.name = '{name}' AND g.cell = '{place}'"
        )
        (row,) = self.ask(sql)
        return row


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_story(tmp_path: Path) -> None:
    job = Job(tmp_path)
    fields = ["--fields", str(tmp_path / "fields.toml")]

    # Before anything is frozen, a number is a measurement.
    job.results("early", VALUES, late=-3600)
    job.log("early", "[mismatch] run=early step=1 k1=0.0", late=-3600)
    job.spool("criterion", "freeze", str(tmp_path / "criterion.toml"))
    job.spool("candidate", "declare", "base-1", "--name", "base", *fields)
    job.watch()
    ((label, reason),) = job.ask("SELECT label, reason FROM comparisons WHERE run_id = 'early'")
    assert label is None and "nothing shows the criterion to be older" in reason

    # The criterion is frozen. Without a planted error a pass is pending; the planted error is found.
    job.log("base-1", "[mismatch] run=base-1 step=1 k1=0.0")
    job.results("base-1", VALUES)
    job.watch()
    state, _, cause = job.cell("base")
    assert (state, cause) == ("inconclusive", "pending re-check: no planted error was judged FAIL by it")
    job.log("proof", "[mismatch] run=proof step=1 k1=0.0")
    job.results("proof", OTHER, plant="one bit")
    job.watch()
    assert job.ask("SELECT label, planted_error FROM comparisons WHERE run_id = 'proof'") == [("FAIL", "one bit")]
    assert job.cell("base") == ("pass", False, "bitwise: 0 of 4 valid tokens differ"), "what was pending is judged"

    # From then on a run of the same candidate is judged at once.
    job.log("base-2", "[mismatch] run=base-2 step=1 k1=0.0")
    job.results("base-2", VALUES)
    job.spool("candidate", "declare", "base-2", "--name", "base", *fields)
    job.watch()
    assert job.cell("base") == ("pass", False, "bitwise: 0 of 4 valid tokens differ")
    assert [row[0] for row in job.ask("SELECT count(*) FROM candidates")] == [1], "one closure, two runs"

    # Another quantization is another candidate, whose rerun fails; its criterion is loosened afterwards, in vain.
    changed = [*fields, "--parent", "base"]
    (tmp_path / "fields.toml").write_text(FIELDS.replace('"none"', '"fp8"'))
    job.spool("candidate", "declare", "fp8-1", "--name", "fp8", *changed)
    job.watch()
    assert job.cell("fp8") == (
        "not run",
        True,
        "stale: rollout.quantization changed: quantization, scale, its dispatch, JIT or compiler",
    )
    job.log("fp8-1", "[mismatch] run=fp8-1 step=1 k1=0.5")
    job.results("fp8-1", OTHER)
    job.watch()
    assert job.cell("fp8") == ("fail", False, "bitwise: 1 of 4 valid tokens differ")
    loose = tmp_path / "loose.toml"
    loose.write_text(CRITERION.replace('"bitwise"', '"logprob_mae"\nat_most = 9.0'))
    digest = hashlib.sha256(CRITERION.encode()).hexdigest()
    job.spool("criterion", "replace", digest[:12], str(loose), "--reason", "a budget is enough")
    job.watch()
    state, stale, cause = job.cell("fp8")
    assert (state, stale) == ("not run", True) and cause.startswith("stale: rollout.quantization"), (
        "it was not run again"
    )
    assert job.ask("SELECT label FROM ledger WHERE kind = 'evidence' AND run_id = 'fp8-1'") == [("FAIL",)], (
        "nothing is judged again"
    )
    kept = job.ask("SELECT run_id, label FROM ledger WHERE kind = 'evidence' ORDER BY seq")
    assert kept == [("base-1", ""), ("base-1", "PASS"), ("base-2", "PASS"), ("fp8-1", "FAIL")]

    # It says that fp8 does not reach the zero update, with a closure: the parent's pass by the looser criterion carries over.
    loose_sha = hashlib.sha256(loose.read_bytes()).hexdigest()
    (tmp_path / "tic.toml").write_text('[compare]\ncriterion = "loose.toml"\n')
    job.results("proof-2", FAR, plant="one number")
    job.log("proof-2", "[mismatch] run=proof-2 step=1 k1=0.0")
    job.watch()
    job.log("base-3", "[mismatch] run=base-3 step=1 k1=0.0")
    job.results("base-3", VALUES)
    (tmp_path / "fields.toml").write_text(FIELDS)
    job.spool("candidate", "declare", "base-3", "--name", "base", *fields)
    job.watch()
    assert job.ask(f"SELECT label FROM ledger WHERE run_id = 'base-3' AND criterion_id = '{loose_sha}'") == [("PASS",)]
    assert job.cell("base")[0] == "pass"
    (tmp_path / "closure.txt").write_text("the quantized layers are not on the path of a replay\n")
    exempted = ["exempt", "fp8", "zero_update", "--from", "base", "--closure", str(tmp_path / "closure.txt")]
    job.spool(*exempted, "--reason", "the replay reads master weights")
    job.watch()
    assert job.cell("fp8")[0] == "pass" and "the replay reads master weights" in job.cell("fp8")[2]

    # A new image empties the current table; the ledger keeps all.
    count = job.ask("SELECT count(*) FROM ledger WHERE kind = 'evidence'")
    (tmp_path / "fields.toml").write_text(FIELDS.replace('"image.digest" = "7"', '"image.digest" = "8"'))
    job.spool("candidate", "declare", "image-1", "--name", "image", *changed)
    job.watch()
    assert set(job.ask(STATES.format("image"))) == {("not run",)}
    assert job.cell("image") == ("not run", True, "stale: image.digest changed: final image, overlay or native build")
    assert job.ask("SELECT count(*) FROM ledger WHERE kind = 'evidence'") == count

    # A fault in the middle of its run leaves inconclusive what was judged; so does a person's mark.
    job.log("image-1", "[mismatch] run=image-1 step=1 k1=0.0")
    job.results("image-1", VALUES)
    job.watch()
    assert job.cell("image")[0] == "pass"
    with (tmp_path / "results" / "image-1" / "worker.log").open("a") as file:
        file.write("[rank0]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n")
    job.watch()
    assert job.cell("image")[:2] == ("inconclusive", False) and job.cell("image")[2].startswith("locked: ")
    assert job.cell("base")[0] == "pass"
    assert cli.main(["mark", "base-3", "--reason", "the node was shared", "--at", str(tmp_path)]) == 0
    job.watch()
    assert job.cell("base") == ("inconclusive", False, "marked inconclusive")
    assert job.cell("fp8")[0] == "not run", "what carried over is gone with it"

    # The report says all of it.
    for subject, words in (
        ("base", ["pass", "inconclusive", "marked inconclusive", "base-2", "base-3"]),
        ("fp8", ["bitwise: 1 of 4 valid tokens differ", "rollout.quantization", "the replay reads master weights"]),
        ("image", ["locked", "image.digest", "image-1"]),
        ("base-3", ["the node was shared", "marked inconclusive"]),
    ):
        target = tmp_path / "report.md"
        kind = "run" if subject == "base-3" else "candidate"
        cli.main(["report", subject, "--kind", kind, "--at", str(tmp_path), "-o", str(target), "--force"])
        text = target.read_text()
        assert [word for word in words if word not in text] == [], subject

    # Chain, receipts and artifacts hold; one changed byte of a dump does not.
    assert cli.main(["verify", str(tmp_path)]) == 0
    dump = tmp_path / "results" / "base-2" / "step_1" / "trainer.pt"
    whole = dump.read_bytes()
    dump.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert cli.main(["verify", str(tmp_path)]) == 14
    dump.write_bytes(whole)
    assert cli.main(["verify", str(tmp_path)]) == 0
    # Nor does a receipt that says otherwise of what was compared, though a daemon has read it again since; nor one that was
    # deleted. One that says the same of it, and more, does.
    receipt = tmp_path / "results" / "base-2" / "step_1" / "manifest.json"
    before = receipt.read_bytes()
    receipt.write_bytes(before.replace(b'"run"', b'"noted": "later", "run"'))
    job.watch()
    assert cli.main(["verify", str(tmp_path)]) == 0
    for damage in (lambda: receipt.write_bytes(before.replace(b'"basis": "raw"', b'"basis": "other"')), receipt.unlink):
        damage()
        job.watch()
        assert cli.main(["verify", str(tmp_path)]) == 14
