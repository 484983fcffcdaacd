"""The real client logs to a server that loses what it acknowledged, and a real daemon says exactly what is missing, and why."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.e2e.harness import environment, wait_until
from tests.wandb_server import Fault, Lose, Status, WandbServer, only_rows
from tic_daemon.store.reader import open_reader

pytestmark = pytest.mark.slow
needs.wandb_client()

TRAINER = """
import sys, time
import wandb
name, steps = sys.argv[1], int(sys.argv[2])
with wandb.init(project="grpo", id=name, settings=wandb.Settings(console="off")) as run:
    for step in range(steps):
        row = {f"train/metric_{n}": step / (n + 1) for n in range(39)} | {"actor/pg_loss": 1 / (step + 1)}
        run.log(row, step=step)
        time.sleep(0.012)
"""
GAPS = (
    "SELECT kind, cause, first_step, last_step, key, confirmed FROM wandb_gaps WHERE wandb_id = ? ORDER BY first_step"
)


def asked(work: Path, sql: str, *params: object) -> list[tuple[Any, ...]]:
    reader = open_reader(work)
    try:
        return reader.query(sql, params).rows
    finally:
        reader.close()


def history(request: Mapping[str, Any], run: str) -> bool:
    return "wandb-history.jsonl" in request.get("files", {}) and request["run"].endswith(f"/{run}")


def test_exactly_what_the_server_lost_is_missing(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "tic.toml").write_text("[wandb]\nevery_s = 2\ngrace_s = 6\n")
    with WandbServer() as server:
        env = environment() | server.env(tmp_path / "home") | {"WANDB_DIR": str(work), "PYTHONUNBUFFERED": "1"}
        for after in (3, 7):
            server.faults.append(
                Fault("file_stream", Lose(), after=after, times=1, when=lambda ask: history(ask, "lost"))
            )
        cut = Fault("HistoryPage", only_rows(20), after=3, times=1, when=lambda ask: ask["run"] == "lost")
        dead = Fault("file_stream", Status(403), after=2, when=lambda ask: history(ask, "dead"))
        server.faults += [cut, dead]
        daemon = subprocess.Popen([sys.executable, "-m", "tic_daemon", "watch", str(work)], env=env)
        trainers: list[subprocess.Popen[bytes]] = []
        try:
            wait_until(lambda: any(work.glob(".tic/*/daemon.json")), 30)
            for name, steps in (("lost", 2000), ("dead", 600)):
                trainers.append(subprocess.Popen([sys.executable, "-c", TRAINER, name, str(steps)], env=env))
            while any(trainer.poll() is None for trainer in trainers):
                for kind, _, first, last, _, sure in asked(work, GAPS, "lost"):
                    if sure and "lab/grpo/lost" in server.runs:
                        held = {row["_step"] for row in server.runs["lab/grpo/lost"].rows()}
                        assert kind == "missing" and not held.intersection(range(first, last + 1))
                time.sleep(0.5)
            held = {row["_step"] for row in server.runs["lab/grpo/lost"].rows()}
            missing = set(range(2000)) - held
            assert cut.met == 1 and dead.met >= 1 and missing and len(held) > 1000

            def found(run: str, cause: str) -> set[int]:
                steps: set[int] = set()
                for kind, why, first, last, key, sure in asked(work, GAPS, run):
                    assert kind in ("missing", "pending", "unread"), (kind, why, first, last, key)
                    if sure:
                        assert why == cause and key is None
                        steps.update(range(first, last + 1))
                return steps

            wait_until(
                lambda: found("lost", "server_lost_chunk") == missing, 90, lambda: str(asked(work, GAPS, "lost"))
            )
            uploaded = {row["_step"] for row in server.runs["lab/grpo/dead"].rows()}
            wait_until(
                lambda: found("dead", "uploader_dead") == set(range(600)) - uploaded, 90,
                lambda: str(asked(work, GAPS, "dead")),
            )  # fmt: skip
            runs = dict(asked(work, "SELECT wandb_id, uploader FROM wandb_runs"))
            assert runs["dead"] == "dead" and runs["lost"] == "finished"
            reads = asked(work, "SELECT outcome, count(*) FROM wandb_reads GROUP BY outcome")
            assert dict(reads)["short"] == 1, "the reading that was cut short, and no other"
        finally:
            for process in (*trainers, daemon):
                process.terminate()
            for process in (*trainers, daemon):
                process.wait(60)
