"""The examples of docs/explanation/evidence.md, through the real daemon: what the page says is what the store says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e.harness import ROOT, ask, once

PAGE = ROOT / "docs" / "explanation" / "evidence.md"
REST = (
    "policy=1 input=abc phase=decode rank=3 repeat=0 scope=fixed-input intervention=none metric=logprob_mae value=0.001 "
    "reference=trainer self_repeat=0.0002 report=r.json classification=unknown"
)
CUDA = "RuntimeError: CUDA error: an illegal memory access was encountered"


def example() -> tuple[str, dict[int, tuple[str, str]]]:
    """The page's log with what it leaves out put in, and what it says of each step's record."""
    (block,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    lines, told = [], {}
    for line in block.splitlines():
        if match := re.fullmatch(r"(\S+) (\[mismatch\] run=a step=(\d) )…\s+(\w+): (.*)", line):
            time, head, step, state, why = match.groups()
            lines.append(f"[2026-11-29 {time}] trainer.py:231 - {head}{REST}")
            told[int(step)] = state, why
        else:
            lines.append(line.replace("…", "actor/grad_norm:0.25 - timing_s/step:1.5"))
    assert len(told) == 3
    return "\n".join(lines) + "\n", told


def states(log: str, workspace: Path) -> dict[int, tuple[str, str]]:
    path = workspace / "none_a1b2c3d4" / "attempt_0" / "3" / "stderr.log"
    path.parent.mkdir(parents=True)
    path.write_text(log)
    rows = ask(once(workspace), "SELECT step, admissibility, reason FROM mismatches WHERE run_id = 'a'")
    return {step: (state, reason) for step, state, reason in rows}  # type: ignore[misc]


def test_one_process(tmp_path: Path) -> None:
    log, told = example()
    assert {step: state for step, (state, _) in states(log, tmp_path / "a").items()} == {
        step: state for step, (state, _) in told.items()
    }
    assert told[3] == ("locked", "after the fault")
    without = "".join(line for line in log.splitlines(keepends=True) if not line.startswith("step:"))
    assert without != log
    found = states(without, tmp_path / "b")
    assert [found[step][0] for step in (1, 2, 3)] == ["suspect", "suspect", "locked"]


# The table: a record in one log, the fault in another, and whether the record is shown to be before.
TWO_LOGS = {
    "same-host": ("2026-11-29 12:00:01,000 - INFO - ", "", "2026-11-29 12:00:10,000", "", True),
    "far-host": ("2026-11-29 12:00:01,000 - INFO - ", "", "2026-11-29 12:00:10,000", "", True),
    "far-close": ("2026-11-29 12:00:08,500 - INFO - ", "", "2026-11-29 12:00:10,000", "", False),
    "whole-second": ("[2026-11-29 12:00:09] trainer.py:231 - ", "", "2026-11-29 12:00:09,400", "", False),
    "nothing": ("", "", "2026-11-29 12:00:10,000", "", False),
    "two-steps": ("", "step=1", "", "step:2 - actor/grad_norm:0.25\nstep:3 - actor/grad_norm:0.25\n", True),
    "one-step": ("", "step=2", "", "step:2 - actor/grad_norm:0.25\nstep:3 - actor/grad_norm:0.25\n", False),
}


def test_two_logs(tmp_path: Path) -> None:
    config = ['[[source]]\npath = "**/*.log"\nzone = "UTC"\nsingle_process = true\nstream = "stderr"\n']
    config += ['[[source]]\npath = "far-*/record.log"\nhost = "another"\n']
    for name, (stamp, step, when, steps, _) in TWO_LOGS.items():
        config.append(f'[[run]]\nname = "{name}"\npath = "{name}/**"\n')
        folder = tmp_path / name
        folder.mkdir()
        (folder / "record.log").write_text(f"{stamp}[mismatch] run={name} {step} {REST}\n")
        fault = f"{when} - ERROR - {CUDA}" if when else f"[rank0]: Traceback (most recent call last):\n[rank0]: {CUDA}"
        (folder / "fault.log").write_text(f"{steps}{fault}\n")
    (tmp_path / "tic.toml").write_text("\n".join(config))
    store = once(tmp_path)
    faults = ask(store, "SELECT run_id FROM faults WHERE verdict = 'confirmed' AND locks ORDER BY 1")
    assert faults == [(name,) for name in sorted(TWO_LOGS)]
    found = ask(store, "SELECT run_id, admissibility || ': ' || reason FROM mismatches")
    rows = {str(run): str(state) for run, state in found}
    for name, (*_, before) in TWO_LOGS.items():
        assert (rows[name] != "locked: order unknown") == before, (name, rows[name])
        assert not str(rows[name]).endswith("after the fault")
