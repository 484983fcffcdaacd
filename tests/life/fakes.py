"""Programs of a scheduler, played from files: what each answers can be changed while it is asked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

SCRIPT = """#!/bin/sh
echo "$(basename "$0") $*" >> "{calls}"
read -r code < "{answers}/$(basename "$0")" || exit 127
sed -n '/^out /s///p' "{answers}/$(basename "$0")"
sed -n '/^err /s///p' "{answers}/$(basename "$0")" >&2
exit "$code"
"""

# As Slurm 22.05 said it when it was tried.
UNKNOWN = (1, "", "slurm_load_jobs error: Invalid job id specified")
UNREACHABLE = (1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
NO_ACCOUNTING = (1, "", "Slurm accounting storage is disabled")
NOTHING = (0, "", "")


class Programs:
    """A directory of programs for the front of PATH."""

    def __init__(self, place: Path, *names: str) -> None:
        self.bin, self._answers, self._calls = place / "bin", place / "answers", place / "calls"
        self.bin.mkdir()
        self._answers.mkdir()
        for name in names:
            program = self.bin / name
            program.write_text(SCRIPT.format(calls=self._calls, answers=self._answers))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            self.answer(name, *NOTHING)

    @property
    def path(self) -> str:
        return f"{self.bin}{os.pathsep}{os.environ['PATH']}"

    def answer(self, name: str, code: int, out: str = "", err: str = "") -> None:
        """From now on `name` exits with `code` and says `out` and `err`."""
        lines = [
            str(code),
            *(f"out {line}" for line in out.splitlines()),
            *(f"err {line}" for line in err.splitlines()),
        ]
        part = self._answers / f".{name}"
        part.write_text("\n".join(lines) + "\n")
        part.replace(self._answers / name)

    def calls(self, name: str = "") -> list[str]:
        """The command lines so far."""
        if not self._calls.exists():
            return []
        return [line for line in self._calls.read_text().splitlines() if line.startswith(name)]
