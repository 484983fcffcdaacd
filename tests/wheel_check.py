"""What a stranger gets: the wheel, installed into a second virtual environment, run from another folder.

Run by `make wheel-test`; not a pytest module, because it builds and installs. Exits 0 and says what it did.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="tic-wheel-") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True)
        (wheel,) = folder.glob("tic_tui-*.whl")
        venv.create(folder / "venv", with_pip=True)
        binaries = folder / "venv" / "bin"
        install = [
            str(binaries / "python"),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--quiet",
            "install",
            str(wheel),
        ]
        subprocess.run(install, check=True)
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            [str(binaries / "tic-tui"), "demo"],
            cwd=elsewhere,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        print(done.stdout)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            return 1
        stores = list(elsewhere.glob("tic-demo/*/.tic/*/tic.duckdb"))
        pictures = list(elsewhere.glob("tic-demo/*/screen.svg"))
        assert len(stores) == 1, stores
        assert len(pictures) == 1, pictures
        deploy = next((folder / "venv" / "lib").glob("python*/site-packages/tic_daemon/deploy"))
        assert {file.name for file in deploy.iterdir()} == {"slurm.sh", "tic-daemon@.service", "kubernetes.yaml"}
        for program in ("tic-tui", "tic-daemon"):
            subprocess.run([str(binaries / program), "--version"], check=True, cwd=elsewhere, env=environment)
        print("the wheel runs without the source tree: 1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
