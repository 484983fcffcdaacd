"""What deploy/ holds, tried as far as a machine without a cluster allows: with the programs that check such files, and
with a Slurm that is played: it answers as Slurm 22.05 did, also in that srun kills its step when it gets TERM."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import ROOT, wait_until

DEPLOY = ROOT / "daemon" / "deploy"
UNIT = DEPLOY / "tic-daemon@.service"
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


def program(name: str) -> str:
    """Where a program is; the test is skipped without it. Those of this virtual environment count."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


# --- Slurm ---------------------------------------------------------------------------------------------------------

SRUN = r"""#!/bin/bash
for word in "$@"; do
    case $word in --job-name=*) name=${word#*=} ;; esac
done
while [[ $1 == --* ]]; do shift; done
echo "start $name" >> "$EVENTS"
export SLURM_NODEID=0
"$@" &
echo $! > "$STEPS/$name"
trap 'kill -KILL $(cat "$STEPS/$name"); echo "killed $name" >> "$EVENTS"' TERM
wait $!
code=$?
rm -f "$STEPS/$name"
echo "end $name $code" >> "$EVENTS"
exit $code
"""
SQUEUE = '#!/bin/bash\ncd "$STEPS" || exit 1\nfor name in *; do echo "7.$name $name"; done\necho "7.batch batch"\n'
SCANCEL = '#!/bin/bash\n[ "$1" = --signal=TERM ] || exit 2\nkill -TERM "$(cat "$STEPS/${2#7.}")"\n'
DAEMON = r"""#!/bin/bash
trap 'echo "daemon TERM" >> "$EVENTS"; exit 0' TERM
echo "daemon cuda=<$CUDA_VISIBLE_DEVICES> $1 $2" >> "$EVENTS"
while [ $# -gt 0 ]; do [ "$1" = --ready ] && ready=$2; shift; done
sleep 0.3
echo ready >> "$EVENTS"
touch "$ready"
while :; do sleep 0.05; done
"""
JOB = r"""#!/bin/bash
trap 'echo "job TERM" >> "$EVENTS"; exit 7' TERM
echo "job $*" >> "$EVENTS"
for _ in $(seq 100); do sleep 0.05; [ -e "$FINISH" ] && exit 3; done
"""


class Slurm:
    """slurm.sh in a job of one node."""

    def __init__(self, place: Path, *command: str, daemon: str = DAEMON) -> None:
        self.events = place / "events"
        self.finish, self.workspace = place / "finish", place / "ws"
        (place / "steps").mkdir()
        (place / "bin").mkdir()
        programs = {"srun": SRUN, "squeue": SQUEUE, "scancel": SCANCEL, "tic-daemon": daemon, "job": JOB}
        for name, text in programs.items():
            path = place / "bin" / name
            path.write_text(text)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        env = {
            **os.environ, "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}", "EVENTS": str(self.events),
            "STEPS": str(place / "steps"), "FINISH": str(self.finish), "TIC_WORKSPACE": str(self.workspace),
            "TIC_READY_S": "20", "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURM_SUBMIT_DIR": str(place),
            "SLURM_RESTART_COUNT": "2", "CUDA_VISIBLE_DEVICES": "0,1",
        }  # fmt: skip
        self.process = subprocess.Popen(
            ["bash", DEPLOY / "slurm.sh", *command], env=env, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def happened(self) -> list[str]:
        return self.events.read_text().splitlines() if self.events.exists() else []

    def end(self) -> tuple[int, str]:
        try:
            _, said = self.process.communicate(timeout=30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.returncode, said


def test_slurm_starts_the_daemon_first_and_ends_it_last(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "job", "a b")
    wait_until(lambda: "job a b" in slurm.happened(), 20)
    slurm.finish.touch()
    code, said = slurm.end()
    assert (code, said) == (3, ""), "the job's exit code is the script's"
    assert slurm.happened() == [
        "start tic-daemon", f"daemon cuda=<> watch {slurm.workspace}", "ready", "start tic-watched", "job a b",
        "end tic-watched 3", "daemon TERM", "end tic-daemon 0",
    ]  # fmt: skip
    assert (slurm.workspace / "logs" / "start-2").is_dir(), "each start writes into files of its own"


def test_slurm_hands_term_to_the_job_and_keeps_its_exit_code(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "job")
    wait_until(lambda: any(line.startswith("job") for line in slurm.happened()), 20)
    slurm.process.send_signal(signal.SIGTERM)  # as --signal=B:TERM@60 does
    code, _ = slurm.end()
    assert code == 7
    assert slurm.happened()[4:] == ["job ", "job TERM", "end tic-watched 7", "daemon TERM", "end tic-daemon 0"]


def test_slurm_runs_the_job_without_a_daemon_that_fails(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "job", daemon="#!/bin/sh\nexit 15\n")
    slurm.finish.touch()
    code, said = slurm.end()
    assert code == 3 and "the daemons did not start" in said
    other = tmp_path / "other"
    other.mkdir()
    assert Slurm(other).end()[0] == 2, "no command"


def test_shellcheck_has_nothing_to_say() -> None:
    done = subprocess.run([program("shellcheck"), DEPLOY / "slurm.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# --- systemd -------------------------------------------------------------------------------------------------------


def verify(home: Path, unit: Path) -> str:
    env = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    done = subprocess.run(
        [program("systemd-analyze"), "verify", "--user", unit], env=env, capture_output=True, text=True, check=False
    )
    return done.stderr + ("" if done.returncode == 0 else f"\nexit code {done.returncode}")


def test_the_unit_is_one(tmp_path: Path) -> None:
    daemon = tmp_path / ".local" / "bin" / "tic-daemon"
    daemon.parent.mkdir(parents=True)
    daemon.write_text("#!/bin/sh\n")
    daemon.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text())
    assert verify(tmp_path, unit) == ""
    unit.write_text(UNIT.read_text().replace("TimeoutStopSec", "TimeoutStopSecs"))
    assert "Unknown key" in verify(tmp_path, unit), "it would find a slip"
    daemon.unlink()
    unit.write_text(UNIT.read_text())
    assert "is not executable" in verify(tmp_path, unit)


def test_the_unit_gives_the_daemon_the_time_it_takes() -> None:
    from tic_daemon.ending import BUDGET_S

    settings = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line and line[0] != "#")
    assert float(settings["TimeoutStopSec"]) >= BUDGET_S + 5
    assert settings["Type"] == "notify"


# --- Kubernetes ----------------------------------------------------------------------------------------------------


def manifest() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes.yaml").read_text())
    return loaded


def test_the_manifest_is_valid() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    validate.validate(manifest(), "1.33", strict=True)
    wrong = copy.deepcopy(manifest())
    wrong["spec"]["template"]["spec"]["initContainers"][0]["restartpolicy"] = "Always"
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, "1.33", strict=True)


def test_the_sidecar_is_one_and_reads_the_logs_only() -> None:
    """What the schema cannot say: rules from the Kubernetes documentation on sidecars, Jobs and the downward API."""
    spec = manifest()["spec"]
    pod = spec["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always", "that makes an init container a sidecar"
    assert spec["completionMode"] == "Indexed" and pod["restartPolicy"] == "Never", "backoffLimitPerIndex needs both"
    assert pod["terminationGracePeriodSeconds"] >= 60
    mounts = {mount["mountPath"]: mount for mount in sidecar["volumeMounts"]}
    assert mounts["/workspace/logs"]["readOnly"] is True
    assert {mount["name"] for mount in mounts.values()} <= {volume["name"] for volume in pod["volumes"]}
    words = [*sidecar["command"], *sidecar["args"]]
    for option in ("--state", "--ready"):
        inside = Path(words[words.index(option) + 1])
        assert any(inside.is_relative_to(path) for path, mount in mounts.items() if not mount.get("readOnly")), option
    assert sidecar["startupProbe"]["exec"]["command"][-1] == words[words.index("--ready") + 1]
    fields = {
        one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in sidecar["env"] if "valueFrom" in one
    }  # fmt: skip
    assert fields == {
        "TIC_JOB_ID": "metadata.labels['batch.kubernetes.io/controller-uid']",
        "TIC_POD_UID": "metadata.uid",
        "TIC_RESTART_COUNT": "metadata.annotations['batch.kubernetes.io/job-index-failure-count']",
    }


def test_its_command_line_is_one_that_the_daemon_takes() -> None:
    from tic_daemon.cli import parser

    (sidecar,) = manifest()["spec"]["template"]["spec"]["initContainers"]
    args = parser().parse_args([*sidecar["command"], *sidecar["args"]][1:])
    assert args.take_over and str(args.ready) == "/tic/ready"
