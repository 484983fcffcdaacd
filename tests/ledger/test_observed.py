"""What the daemon writes of a run without a comparison: how it ended, which image ran, what contradicts its closure."""

from __future__ import annotations

import hashlib
import json
import uuid
from itertools import product
from pathlib import Path
from typing import Any

from tests.ledger.made import BITWISE, sha
from tests.ledger.test_gates import World, compared, cuda
from tests.store.samples import source
from tic_daemon import cli
from tic_daemon.record import flat
from tic_daemon.scan.events import At, Fault
from tic_daemon.store.reader import open_reader
from tic_daemon.store.rows import ArtifactRow, ConfigRow, CursorRow, SourceDelta
from tic_daemon.wandb.events import WandbRun

BUILT = {
    "rollout.image": "sha256:aa",
    "trainer.image": "sha256:bb",
    "code.commit": "c0ffee",
    "native.sha256": sha("so"),
}


def ended(world: World, run: str, code: int) -> None:
    """The exit record of the run's W&B log."""
    row = source(f"{run}/run-{uuid.uuid4().hex}.wandb", kind="wandb_local", run_hint=run, run_how="path")
    event = WandbRun(At(0, 40, 1), f"e/p/{run}", run, state="finished", exit_code=code)
    world.writer.commit(
        [SourceDelta(row, CursorRow(row.source_id, 0, byte_offset=40, path=row.path), (event,), lines=1)]
    )


def receipt(world: World, run: str, said: dict[str, Any], name: str = "server") -> bytes:
    """A worker's receipt, as the daemon reads one; its bytes."""
    data = json.dumps({"run": run, **said}).encode()
    told = flat.with_bytes(flat.read(data, "receipt", f"/jobs/{run}/{name}.receipt.json"), data)
    rows = [
        ConfigRow(
            "node7", "/jobs", f"/jobs/{run}/{name}.receipt.json", run, "receipt", one.side, told.digest, False, one.key,
            one.name, one.value,
        )
        for one in told.values
    ]  # fmt: skip
    world.writer.commit([], configs=rows)
    return data


def test_only_an_exit_code_says_that_a_run_ended_well(world: World) -> None:
    run, other = world.run(), world.run()
    own, failed = world.candidate(run), world.candidate(other)
    assert world.cell(own, "acceptance/clean_exit")[0] == "not run"
    ended(world, run, 0)
    ended(world, other, 3)
    assert world.cell(own, "acceptance/clean_exit") == ("pass", False, "attempt 1 ended with exit code 0")
    assert world.cell(failed, "acceptance/clean_exit") == ("fail", False, "attempt 1 ended with exit code 3")
    asked = "SELECT plane FROM evidence_current WHERE candidate_id = ? AND cell = 'clean_exit'"
    assert world.ask(asked, [failed]) == [(None,)], "which plane it lies on, an exit code does not tell"
    world.run(cuda, run=run)
    assert world.cell(own, "acceptance/clean_exit") == ("inconclusive", False, "locked: a fault stands before it")
    third = world.run()
    unclean = world.candidate(third)
    ended(world, third, 0)
    world.run(lambda at: Fault(at, "proc.fatal_python", "confirmed", text="Fatal Python error: Aborted"), run=third)
    assert world.cell(unclean, "acceptance/clean_exit") == (
        "inconclusive", False, "fault: attempt 1 ended with exit code 0",
    )  # fmt: skip


def test_a_run_of_fixed_weights_passes_no_clean_exit(world: World) -> None:
    run = world.run()
    own = world.candidate(run, **{"rollout.lifecycle": "none"})
    ended(world, run, 0)
    assert world.cell(own, "acceptance/clean_exit")[0] == "inconclusive"


def test_the_final_image_is_what_workers_show(world: World) -> None:
    said = {"role": "server", "image_digest": "sha256:aa", "commit": "c0ffee", "so_sha256": sha("so")}
    trainer = {"role": "trainer", "image_digest": "sha256:bb", "overlay": "none"}
    made = []
    for servers, trainers, state, cause in (
        (said, trainer, "pass", "image, source and native build of the workers are the closure's, without an overlay"),
        (said, {**trainer, "overlay": "dev-tree-7"}, "inconclusive", "an overlay is not the final image: dev-tree-7"),
        ({**said, "so_sha256": None}, trainer, "inconclusive", "no worker shows that these are the closure's: native.sha256"),
        (said, {"role": "trainer"}, "inconclusive", "no worker shows that these are the closure's: trainer.image and rollout.image, overlay"),
        ({"role": "server"}, {"role": "trainer"}, "not run", ""),
        ({**said, "image_digest": "sha256:cc"}, trainer, "inconclusive", "another candidate: rollout.image is sha256:cc, the closure says sha256:aa"),
    ):  # fmt: skip
        run = world.run()
        made.append((world.candidate(run, **BUILT), (state, False, cause)))
        receipt(world, run, {key: value for key, value in servers.items() if value is not None})
        receipt(world, run, trainers, "actor")
    for own, cell in made:
        assert world.cell(own, "acceptance/final_image") == cell


def test_what_a_launcher_says_shows_no_image(world: World) -> None:
    run = world.run()
    own = world.candidate(run, **{**BUILT, "image.digest": "sha256:dd"})
    row = ConfigRow(
        "node7",
        "/jobs",
        f"/jobs/{run}/recipe.yaml",
        run,
        "recipe",
        "launcher",
        "d",
        False,
        "image_digest",
        "image_digest",
        "sha256:dd",
    )
    world.writer.commit([], configs=[row])
    assert world.cell(own, "acceptance/final_image") == ("not run", False, "")


def test_what_contradicts_the_closure_lowers_what_was_judged_before(world: World) -> None:
    run = world.run()
    own = world.candidate(run, **{"rollout.tp": "8"})
    world.compare(run, "PASS", world.freeze(BITWISE))
    assert world.cell(own, "zero_update/replay")[0] == "pass"
    receipt(world, run, {"role": "server", "tp": 4})
    assert world.cell(own, "zero_update/replay") == (
        "inconclusive", False, "another candidate: rollout.tp is 4, the closure says 8",
    )  # fmt: skip
    ((row, said_by),) = world.ask("SELECT id, who FROM ledger WHERE kind = 'contradiction' AND run_id = ?", [run])
    assert said_by == "tic-daemon"
    world.writer._noting.unseen = True
    assert world.ask("SELECT count(*) FROM ledger WHERE kind = 'contradiction' AND run_id = ?", [run]) == [(1,)]
    world.say("supersede", target=row, reason="the receipt was of another run")
    assert world.cell(own, "zero_update/replay")[0] == "pass"


def test_evidence_names_receipt_and_weights_and_each_in_its_column(world: World) -> None:
    run = world.run()
    own = world.candidate(run)
    server = receipt(world, run, {"role": "server", "policy_content_id": "weights-9"})
    receipt(world, run, {"role": "trainer"}, "actor")
    receipt(world, run, {"role": "server", "policy_version": "2", "policy_content_id": "weights-10"}, "server2")
    world.compare(run, "PASS", world.freeze(BITWISE), policy="1")
    asked = "SELECT receipt_sha256, policy_content_id, artifacts FROM ledger WHERE kind = 'evidence' AND run_id = ? AND gate = ''"
    ((digest, content, artifacts),) = world.ask(asked, [run])
    assert digest == hashlib.sha256(server).hexdigest() and content == "weights-9"
    names = {Path(one["path"]).name for one in json.loads(artifacts)}
    assert {"server.receipt.json", "actor.receipt.json"} < names and "server2.receipt.json" not in names
    assert world.cell(own, "zero_update/replay")[0] == "pass"


def test_shards_of_a_receipt_are_held_against_verified_files(world: World) -> None:
    forms: list[Any] = [
        [{"path": "model-1.safetensors", "sha256": sha("one")}, {"path": "model-2.safetensors", "sha256": sha("two")}],
        {"model-1.safetensors": {"sha256": sha("one")}, "model-2.safetensors": {"sha256": f"sha256:{sha('two')}"}},
        {"model-1.safetensors": sha("one"), "model-2.safetensors": sha("two").upper()},
    ]
    made, bits = [], world.freeze(BITWISE)
    for shards, (second, state) in product(
        forms, ((sha("two"), "verified"), (sha("other"), "differs"), ("", "not shown"))
    ):
        run = world.run()
        made.append((run, world.candidate(run), state))
        files = [
            ArtifactRow("node7", "/jobs", "/m.json", f"/jobs/{run}/ckpt/model-{number}.safetensors", run=run, sha256=digest, state="verified")
            for number, digest in ((1, sha("one")), (2, second))
            if digest
        ]  # fmt: skip
        world.writer.commit([], results=files, compared=[compared(run, "PASS", bits)])
        receipt(world, run, {"role": "server", "policy_content_id": "w", "shards": shards})
    found = {(run, shard): state for run, shard, state in world.ask("SELECT run_id, shard, state FROM receipt_shards")}
    cells = {row[0]: row[1:] for row in world.ask("SELECT candidate_id, state, cause FROM gates WHERE cell = 'replay'")}
    for run, own, state in made:
        assert found[run, "model-1.safetensors"] == "verified" and found[run, "model-2.safetensors"] == state
        if state == "differs":
            assert cells[own][0] == "inconclusive"
            assert cells[own][1].startswith("another candidate: shard model-2.safetensors of /jobs/")
        else:
            assert cells[own][0] == "pass"


def test_one_content_id_names_one_set_of_shards(world: World) -> None:
    run = world.run()
    export = {"role": "trainer", "policy_content_id": "w9", "shards": {"a.pt": sha("a")}}
    receipt(world, run, export, "actor")
    receipt(world, run, {**export, "role": "server", "shards": {"a.pt": sha("b")}})
    assert set(world.ask("SELECT role, state FROM receipt_shards WHERE run_id = ?", [run])) == {
        ("trainer", "differs"), ("rollout", "differs"),
    }  # fmt: skip
    other = world.run()
    receipt(world, other, export, "actor")
    receipt(world, other, {**export, "role": "server", "policy_content_id": "w10", "shards": {"a.pt": sha("b")}})
    assert {row[0] for row in world.ask("SELECT state FROM receipt_shards WHERE run_id = ?", [other])} == {"not shown"}


def test_a_receipt_is_read_with_the_hash_of_its_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "r1"
    folder.mkdir(parents=True)
    data = b'{"role": "server",\n "policy_content_id": "w"}\n'
    (folder / "worker.log").write_text("2026-11-30T12:00:00Z INFO hello\n")
    (folder / "server.receipt.json").write_bytes(data)
    assert cli.main(["watch", "--once", str(tmp_path)]) == 0
    reader = open_reader(tmp_path)
    try:
        asked = "SELECT key, value FROM config_values WHERE kind = 'receipt' AND starts_with(key, '#') ORDER BY key"
        assert reader.query(asked).rows == [("#sha256", hashlib.sha256(data).hexdigest()), ("#size", str(len(data)))]
    finally:
        reader.close()
