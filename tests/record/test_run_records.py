"""Run records through the real daemon: who says what, what counts, the fingerprint, and that no secret gets anywhere."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.e2e.harness import ROOT, ask, here
from tic_daemon.scan.events import At
from tic_daemon.sources.recordfiles import RecordFiles
from tic_daemon.store import united
from tic_daemon.store.rows import SourceDelta, SourceRow
from tic_daemon.wandb.events import WandbRun

SECRET = "0123456789abcdef0123456789abcdef01234567"
OTHER = "hunter22hunter"
RUN = "grpo-tiny-a"
FILES = {
    ".hydra/config.yaml": f"""\
actor_rollout_ref:
  actor:
    fsdp_config: {{model_dtype: fp32}}
    megatron:
      tensor_model_parallel_size: 2
  rollout:
    tensor_model_parallel_size: 1
    dtype: bfloat16
    enforce_eager: true
    attention_backend: ${{oc.env:BACKEND}}
    enable_prefix_caching: true
trainer:
  wandb_api_key: {SECRET}
""",
    "rank0.receipt.json": json.dumps({"role": "rollout", "torch": "2.9.0", "dtype": "torch.bfloat16", "so_path": "/a.so"}),
    "rank1.receipt.json": json.dumps({"role": "rollout", "torch": "2.8.0", "tensor_parallel_size": 4, "so_path": "/b.so"}),
    ".meta.json": json.dumps({"commit": SECRET, "image_digest": "sha256:aa", "command": f"HF_TOKEN={OTHER} python a.py"}),
    "resolved_config.toml": "= broken",
}  # fmt: skip


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("record") / "job"
    root.mkdir()
    shutil.copy(ROOT / "samples" / RUN / "worker_raw.log", root)
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    here("watch", "--once", root)
    return root


def store_of(root: Path) -> Path:
    (store,) = root.glob(".tic/*/tic.duckdb")
    return store


Record = dict[str, dict[str, object]]


def record(root: Path) -> Record:
    with duckdb.connect(str(store_of(root)), read_only=True) as con:
        found = con.execute("SELECT * FROM run_records WHERE run_id = ?", [RUN])
        columns = [column[0] for column in found.description or ()]
        return {row[columns.index("field")]: dict(zip(columns, row, strict=True)) for row in found.fetchall()}


def test_launcher_and_worker_stand_side_by_side(job: Path) -> None:
    found = record(job)
    told = {name: (row["value"], row["launcher"], row["worker"], row["state"]) for name, row in found.items()}
    # Sizes of the engine in the captured log are its claims: TP1 PP1 DP1. Receipt 1 says 4.
    assert told["rollout.tp"] == ("4", "1", "4", "disagree")
    assert told["rollout.pp"] == ("unknown", "1", None, "launcher only")
    assert told["trainer.tp"] == ("unknown", "2", None, "launcher only")
    assert told["rollout.dtype"] == ("torch.bfloat16", "bfloat16", "torch.bfloat16", "agree")
    # Eager by the configuration, and seen in the log to run without graphs.
    assert told["graph.mode"] == ("NONE", "NONE", "NONE", "agree")
    assert told["software.torch"] == ("unknown", None, "2.8.0, 2.9.0", "disagree")
    assert told["native.path"] == ("/a.so, /b.so", None, "/a.so, /b.so", "worker only")
    assert told["code.commit"] == (SECRET, SECRET, None, "launcher only"), "a sidecar's word is enough for a commit"
    assert told["numerics.master_dtype"] == ("fp32", "fp32", None, "launcher only")
    assert told["kernel.attention"] == ("unknown", None, None, "unknown"), (
        "a reference that nobody resolved is no value"
    )
    assert told["quantization.scale"] == ("unknown", None, None, "unknown")
    assert str(found["rollout.tp"]["note"]) == "the launcher says 1, the worker 4"
    assert "2.8.0" in str(found["software.torch"]["note"]) and "rank1.receipt.json" in str(
        found["software.torch"]["note"]
    )
    assert str(found["trainer.tp"]["note"]) == "no worker shows it, and a setting is not what ran"


def test_each_value_names_its_place(job: Path) -> None:
    found = record(job)
    assert found["trainer.tp"]["launcher_source"] == (
        f"{job}/.hydra/config.yaml:5 actor_rollout_ref.actor.megatron.tensor_model_parallel_size"
    )
    assert found["rollout.dtype"]["worker_source"] == f"{job}/rank0.receipt.json:1 dtype"
    named = str(found["graph.mode"]["worker_source"]).split()
    assert named[1::2] == ["rec_id", "graph_mode"] and named[0] == f"{job}/worker_raw.log"
    row = ask(store_of(job), f"SELECT field, observed FROM exec_states WHERE rec_id = {named[2]}")
    assert row == [("graph_mode", "NONE")]


def test_the_fingerprint_is_the_hash_of_what_is_known(job: Path) -> None:
    known = {
        "cache.prefix": "on", "code.commit": SECRET, "compile.mode": "none", "graph.mode": "none", "image.digest": "sha256:aa",
        "native.path": "/a.so, /b.so", "rollout.dtype": "bfloat16", "rollout.tp": "4",
    }  # fmt: skip
    del known["cache.prefix"]  # the launcher's word alone
    text = "\n".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in sorted(known.items()))
    ((fingerprint, count, unknown, names, disagreeing),) = ask(
        store_of(job),
        "SELECT fingerprint, known, unknown, unknown_fields, disagreeing_fields FROM run_fingerprints"
        f" WHERE run_id = '{RUN}'",
    )
    assert fingerprint == hashlib.sha256(text.encode()).hexdigest()
    assert count == len(known) and isinstance(names, list) and unknown == len(names)
    assert {"software.torch", "rollout.pp", "trainer.tp"} <= set(names) and not set(names) & set(known)
    assert disagreeing == ["software.torch", "rollout.tp"]


def test_no_secret_is_stored_and_each_is_reported(job: Path) -> None:
    for path in (job / ".tic").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            # The commit is no secret, and has the same digits here: it stands there once as a commit only.
            assert OTHER.encode() not in data, path
    rows = ask(store_of(job), "SELECT key, value, secret FROM config_values WHERE secret ORDER BY key")
    assert rows == [
        ("command", "[secret: see command in .meta.json]", True),
        ("trainer.wandb_api_key", "[secret: see trainer.wandb_api_key in config.yaml]", True),
    ]
    assert ask(store_of(job), f"SELECT key FROM config_values WHERE contains(value, '{SECRET}')") == [("commit",)]
    gaps = ask(
        store_of(job),
        "SELECT kind, parse_filename(path), detail FROM evidence_gaps WHERE kind LIKE 'config%' ORDER BY 1",
    )
    assert [row[:2] for row in gaps] == [
        ("config_secret", "config.yaml"),
        ("config_unreadable", "resolved_config.toml"),
    ]
    assert "trainer.wandb_api_key" in str(gaps[0][2]) and SECRET not in str(gaps)
    assert here("check", RUN, "--at", job, check=False).returncode == 0, "a secret is reported, and lowers no number"


def test_the_command(job: Path) -> None:
    told = here("record", RUN, "--at", job).stdout
    assert "launcher: 1" in told and "worker: 4" in told and "DISAGREE" in told and "wandb_api_key" in told
    said = json.loads(here("record", RUN, "--at", job, "--json").stdout)
    assert {row["field"]: row["value"] for row in said["fields"]}["rollout.tp"] == "4"
    missing = here("record", "nobody", "--at", job, check=False)
    assert missing.returncode == 15 and RUN in missing.stderr


def test_a_file_that_changes_is_another_row_and_the_past_stays(job: Path, tmp_path: Path) -> None:
    root = tmp_path / "job"
    shutil.copytree(job, root, copy_function=shutil.copy2)
    shutil.rmtree(root / ".tic")
    here("watch", "--once", root)
    (before,) = ask(store_of(root), "SELECT count(*), max(observed_at) FROM config_value")
    (root / "rank1.receipt.json").unlink()
    (root / "rank0.receipt.json").write_text(FILES["rank0.receipt.json"].replace("2.9.0", "2.10.0"))
    here("watch", "--once", root)
    assert record(root)["software.torch"]["value"] == "2.10.0"
    (after,) = ask(store_of(root), "SELECT count(*) FROM config_value")
    assert after[0] == int(str(before[0])) + 4 + 2 + 1, (
        "four values of the receipt that changed, size and hash of its bytes, one row for the one that is gone"
    )
    with duckdb.connect(str(store_of(root)), read_only=True) as con:
        con.execute("SET VARIABLE as_of = ?", [before[1]])
        sql = f"SELECT worker FROM run_records WHERE run_id = '{RUN}' AND field = 'software.torch'"
        assert con.execute(sql).fetchall() == [("2.8.0, 2.9.0",)]


def test_several_stores_make_one_record(job: Path) -> None:
    """Each node has its own receipt: together they disagree."""
    con = duckdb.connect()
    con.execute(f"ATTACH '{store_of(job)}' AS s (READ_ONLY)")
    con.execute("USE s")
    plan = united.plan_for(["run_records"])
    for part, reading in plan.read.items():
        con.execute(f"CREATE TEMP TABLE part_{part} AS SELECT *, 'a' AS part_store FROM ({reading.sql})")
    con.execute(
        "INSERT INTO part_record_values SELECT * REPLACE ('b' AS part_store, '5' AS value) FROM part_record_values"
        " WHERE field = 'rollout.tp' AND side = 'worker'"
    )
    for name, sql in plan.make:
        con.execute(f"CREATE TEMP VIEW {name} AS {sql}")
    one = con.execute(
        f"SELECT value, worker, state FROM temp.run_records WHERE run_id = '{RUN}' AND field = 'rollout.tp'"
    )
    assert one.fetchall() == [("unknown", "4, 5", "disagree")]


def test_what_a_client_of_wandb_kept_is_taken_from_its_log() -> None:
    files = RecordFiles("h", lambda _: "", {})
    source = SourceRow(1, "wandb_local", "h", "/j", "/j/wandb/run-1/run-1.wandb")

    def told(config: str) -> SourceDelta:
        return SourceDelta(source, None, (WandbRun(At(0, 1, 1), "e/p/1", "1", config=config),))

    look: Callable[[], list[tuple[str, str, bool]]] = lambda: [(r.key, r.value, r.secret) for r in files.pending()]  # noqa: E731
    files.note([told('{"a": {"b": 1}, "key": "[secret]"}')])
    assert look() == [("a.b", "1", False), ("key", "[secret: see key in run-1.wandb]", True)]
    files.taken(files.pending())
    files.note([told('{"a": {"b": 1}, "key": "[secret]"}'), told('{"not kept": 9999999}')])
    assert look() == [], "nothing new"
    files.note([told('{"a": {"b": 2}}')])
    waiting = files.pending()
    files.note([told('{"a": {"b": 3}}')])
    assert look() == [("a.b", "3", False)], "of one file one state a commit"
    files.taken(waiting)
    assert look() == [("a.b", "3", False)]
