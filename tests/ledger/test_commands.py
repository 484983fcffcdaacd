"""What people say to the ledger, by the commands, and how the views show it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.made import BITWISE, sha
from tic_daemon import candidate_command, cli, ledger_commands
from tic_daemon.store.reader import open_reader

MAE = 'metric = "logprob_mae"\nat_most = 0.25\n'


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with one run and its candidates, criteria, a case and a baseline."""
    root = tmp_path_factory.mktemp("ws")
    (root / "worker.log").write_text("[mismatch] run=r1 step=1 k1=0.1\n")
    assert cli.main(["watch", "--once", str(root)]) == 0
    (root / "c.toml").write_text(BITWISE)
    (root / "d.toml").write_text(MAE)
    (root / "fields.toml").write_text(
        '"object.layers" = "0-3"\n"rollout.quantization" = "bf16"\n"rollout.lifecycle" = "sleep, wake"\n"image.digest" = "7"\n'
    )
    (root / "closure.txt").write_text("what the change reaches\n")
    fields = ["--fields", str(root / "fields.toml")]
    spooled(root, "criterion", "freeze", str(root / "c.toml"))
    spooled(root, "criterion", "freeze", str(root / "c.toml"))
    said(root, "candidate", "declare", "r1", "--name", "base", *fields)
    spooled(root, "criterion", "replace", sha(BITWISE)[:8], str(root / "d.toml"), "--reason", "a budget is enough")
    whole = [part for one in ("object.layers=9", "image.digest=8", "graph.mode=NONE") for part in ("--set", one)]
    spooled(root, "candidate", "declare", "r3", "--name", "beside", *whole)
    fp8 = ["--set", "rollout.quantization=fp8", "--set", "kernel.moe=grouped", "--policy-content-id", "w7"]
    said(root, "candidate", "declare", "r2", "--name", "fp8", "--parent", "base", *fields, *fp8)
    exempt = ["exempt", "fp8", "acceptance/quality", "--from", "base", "--closure", str(root / "closure.txt")]
    spooled(root, *exempt, "--reason", "r")
    spooled(root, "case", "nan", "--contract", "no NaN", "--ruled-out", "the seed")
    spooled(root, "case", "nan", "--fix", "mask", "--ruled-out", "the driver", "--candidate", "fp8")
    spooled(root, "case", "nan", "--fix", "mask first")
    spooled(root, "baseline", "b", "--candidate", "base", "--config", "tp8")
    said(root, "baseline", "b", "--candidate", "base", "--config", "tp8", "--results", "r1", "--reviewer", "eve")
    return root


def said(root: Path, *argv: str, code: int = 0) -> Any:
    """What a command answers as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main([*argv, "--at", str(root), "--json"]) == code
    return json.loads(out.getvalue())


def spooled(root: Path, *argv: str) -> None:
    """The same, left in the spool: whoever writes the store next takes it in."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (ledger_commands, candidate_command):
            patch.setattr(module, "take_in", lambda _: "")
        said(root, *argv)


def rows(root: Path, sql: str) -> list[tuple[Any, ...]]:
    reader = open_reader(root)
    try:
        return reader.query(sql).rows
    finally:
        reader.close()


def test_criteria(ws: Path) -> None:
    found = said(ws, "criterion", "list")
    assert [(one["criterion_id"], one["state"], one["gate"], one["cell"], one["at_most"]) for one in found] == [
        (sha(BITWISE), "historical", "zero_update", "replay", None),
        (sha(MAE), "in force", None, None, 0.25),
    ]
    assert found[0]["replaced_by"] == sha(MAE) and found[0]["replaced_because"].startswith("a budget is enough (")
    assert rows(ws, "SELECT text FROM criteria ORDER BY frozen_at")[0] == (BITWISE,)
    assert rows(ws, "SELECT count(*) FROM ledger WHERE kind = 'criterion'") == [(2,)], "the same file twice is one row"


def test_candidates(ws: Path) -> None:
    found = {one["name"]: one for one in said(ws, "candidate", "list")}
    base, fp8 = found["base"], found["fp8"]
    text = '{"image.digest":"7","object.layers":"0-3","rollout.lifecycle":"sleep, wake","rollout.quantization":"bf16"}'
    assert base["candidate_id"] == hashlib.sha256(text.encode()).hexdigest()
    assert base["run_ids"] == ["r1"] and base["parent_id"] is None and not base["regressions"]
    assert fp8["parent_id"] == base["candidate_id"] and fp8["changed"] == ["kernel.moe", "rollout.quantization"]
    assert (
        len(fp8["regressions"]) == 2 and "object.tokenizer" in fp8["unshown"] and "object.tokenizer" in fp8["unknown"]
    )
    assert fp8["policy_content_id"] == "w7" and fp8["manifest_sha256"] is None
    shown = said(ws, "candidate", "show", fp8["candidate_id"][:6])
    assert shown["fields"]["kernel.moe"] == "grouped" and shown["fields"]["cache.prefix"] == "unknown"
    stale = {(gate, cell) for gate, cell, _ in shown["stale"]}
    assert ("proxy", "prefill_decode") in stale and ("acceptance", "real_rl") not in stale


def test_cases_and_baselines(ws: Path) -> None:
    (case,) = said(ws, "case", "nan")
    assert (case["contract"], case["fix"], case["scope"], case["entries"]) == ("no NaN", "mask first", "not shown", 3)
    assert case["ruled_out"] == ["the driver", "the seed"]
    (base,) = said(ws, "baseline")
    assert (base["state"], base["reviewer"], base["results"]) == ("reviewed", "eve", "r1")
    kept = rows(ws, "SELECT body FROM ledger WHERE kind = 'baseline' ORDER BY seq")
    assert [json.loads(body)["reviewer"] for (body,) in kept] == ["", "eve"], "what was said before stays"


def test_the_exemption_keeps_its_closure(ws: Path) -> None:
    ((gate, cell, body, artifacts),) = rows(
        ws, "SELECT gate, cell, body, artifacts FROM ledger WHERE kind = 'exemption'"
    )
    digest = hashlib.sha256(b"what the change reaches\n").hexdigest()
    assert (gate, cell, json.loads(body)) == ("acceptance", "quality", {"closure": digest})
    assert json.loads(artifacts)[0]["sha256"] == digest
    assert cli.main(["verify", str(ws)]) == 0


@pytest.mark.parametrize(
    ("argv", "code", "complaint"),
    [
        (["exempt", "fp8", "module", "--from", "beside", "--closure", "closure.txt", "--reason", "r"], 2, "no parent"),
        (["exempt", "base", "module", "--from", "fp8", "--closure", "closure.txt", "--reason", "r"], 2, "no parent"),
        (
            ["exempt", "fp8", "per_version", "--from", "base", "--closure", "closure.txt", "--reason", "r"],
            2,
            "run again",
        ),
        (["exempt", "fp8", "hope", "--from", "base", "--closure", "closure.txt", "--reason", "r"], 2, "is none of"),
        (
            ["exempt", "fp8", "module", "--from", "base", "--closure", "missing.txt", "--reason", "r"],
            2,
            "cannot be read",
        ),
        (
            ["exempt", "fp8", "module", "--from", "base", "--closure", "closure.txt", "--reason", " "],
            2,
            "reason is required",
        ),
        (
            ["exempt", "nobody", "module", "--from", "base", "--closure", "closure.txt", "--reason", "r"],
            15,
            "no 'nobody'",
        ),
        (
            ["candidate", "declare", "r1", "--fields", "fields.toml", "--set", "kernel.moe=1"],
            2,
            "was declared to execute",
        ),
        (
            ["candidate", "declare", "r9", "--set", "object.layers=1"],
            2,
            "nothing is known of the execution, path of r9",
        ),
        (["candidate", "declare", "r9", "--set", "policy_version=1"], 2, "no part of a candidate"),
        (["candidate", "declare", "r9", "--set", "object.layers"], 2, "NAME=VALUE"),
        (["candidate", "declare", "r9", "--fields", "c.txt"], 2, "cannot be read"),
        (
            ["candidate", "declare", "r9", "--fields", "fields.toml", "--parent", "base", "--changed", "moon"],
            2,
            "no such field",
        ),
        (["candidate", "show", "0000000"], 15, "no '0000000'"),
        (["criterion", "freeze", "fields.toml"], 2, "no criterion"),
        (["criterion", "replace", sha("x"), "d.toml", "--reason", "r"], 15, "no '"),
        (["criterion", "replace", sha(MAE), "d.toml", "--reason", "r"], 2, "another one"),
        (["case", "unheard"], 15, "no case"),
        (["baseline", "x"], 2, "needs --candidate"),
    ],
)
def test_what_is_refused_changes_nothing(
    ws: Path,
    argv: list[str],
    code: int,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ws)
    before = rows(ws, "SELECT count(*) FROM ledger")
    assert cli.main(argv) == code
    assert complaint in capsys.readouterr().err
    assert rows(ws, "SELECT count(*) FROM ledger") == before


def test_a_declaration_never_contradicts_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "results" / "r1"
    folder.mkdir(parents=True)
    (folder / "worker.log").write_text("[mismatch] run=r1 step=1 k1=0.1\n")
    (folder / "receipt.json").write_text(json.dumps({"run": "r1", "role": "rollout", "tensor_parallel_size": 4}))
    assert cli.main(["watch", "--once", str(tmp_path)]) == 0
    (tmp_path / "more.toml").write_text(
        '"rollout.tp" = "4"\n"update.export" = "merged"\n"object.model" = "m"\n"code.commit" = "c"\n'
    )
    declare = ["candidate", "declare", "r1", "--at", str(tmp_path), "--set"]
    assert cli.main([*declare, "rollout.tp=8"]) == 2
    assert "contradicts the run's record, which says 4" in capsys.readouterr().err
    found = said(tmp_path, "candidate", "declare", "r1", "--fields", str(tmp_path / "more.toml"))
    assert found["fields"]["rollout.tp"] == "4" and found["fields"]["update.export"] == "merged"
    assert found["fields"]["trainer.tp"] == "unknown", "nobody told"


def test_as_text(ws: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for argv, words in (
        (["criterion", "list"], "logprob_mae at most 0.25, goal unknown; frozen"),
        (["candidate", "list"], "base: runs r1; 65 fields unknown; declared"),
        (["candidate", "show", "fp8"], "run again at least: quantization"),
        (["case"], "case nan: 3 entries"),
        (["case", "nan"], "regression on the original reproducer: not shown"),
        (["baseline"], "reviewed by eve; config tp8, results r1"),
    ):
        assert cli.main([*argv, "--at", str(ws)]) == 0
        assert words in capsys.readouterr().out


def test_as_of_shows_the_ledger_as_it_was(ws: Path) -> None:
    from datetime import datetime

    reader = open_reader(ws)
    try:
        assert reader.query("SELECT count(*) FROM ledger", as_of=datetime(2000, 1, 1)).rows == [(0,)]
        assert reader.query("SELECT count(*) FROM candidates", as_of=datetime(2000, 1, 1)).rows == [(0,)]
    finally:
        reader.close()


def refused(root: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What a command says that changes nothing: nothing is left in the spool, either."""
    before = rows(root, "SELECT max(seq) FROM ledger"), sorted((root / ".tic").rglob("spool/*"))
    assert cli.main([*argv, "--at", str(root)]) == 2
    assert (rows(root, "SELECT max(seq) FROM ledger"), sorted((root / ".tic").rglob("spool/*"))) == before
    return capsys.readouterr().err


def test_a_criterion_that_was_replaced_stays_so(ws: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = str(ws / "c.toml"), sha(MAE)
    for argv in (["freeze", old], ["replace", new[:12], old, "--reason", "the old one, after all"]):
        words = refused(ws, capsys, "criterion", *argv)
        assert f"criterion {sha(BITWISE)[:12]} was replaced by {new[:12]}" in words and "governs no more" in words
    assert "by another one" in refused(ws, capsys, "criterion", "replace", new, str(ws / "d.toml"), "--reason", "r")
    assert {one["criterion_id"]: one["state"] for one in said(ws, "criterion", "list")}[new] == "in force"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--name", "other"], "was declared as base"),
        (["--parent", "beside"], "was declared without a parent, which stays"),
    ],
)
def test_another_run_changes_nothing_of_what_a_candidate_was_made_from(
    ws: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    fields = ["--fields", str(ws / "fields.toml")]
    assert words in refused(ws, capsys, "candidate", "declare", "r9", *fields, *more)


def test_what_changed_besides_is_said_with_the_first_run(ws: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = ["--fields", str(ws / "fields.toml"), "--set", "rollout.quantization=fp8", "--set", "kernel.moe=grouped"]
    more = ["--parent", "base", "--changed", "image.digest"]
    assert "was declared without it" in refused(ws, capsys, "candidate", "declare", "r9", *fields, *more)


def test_an_empty_file_shows_nothing(ws: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (ws / "empty.txt").write_text(" \n")
    argv = ["exempt", "fp8", "module", "--from", "base", "--closure", str(ws / "empty.txt"), "--reason", "r"]
    assert "it shows nothing" in refused(ws, capsys, *argv)
