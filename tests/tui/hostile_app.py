"""A process for the pty test: the screen over a store in which every string is hostile. Run as a script."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time

from tests.tui.fake import FakeStore
from tic_tui.app import TicApp
from tic_tui.glyphs import choose
from tic_tui.screens.mark import Said

HOSTILE = (
    "A\x1b]0;OWNED\x07B\x1b]52;c;T1dORUQ=\x07C\x1b[2J\x1b[31;5mD\x9b7mE\x90q\x9cF\u202eG\u2066H\x00\x08\x7fI\u200bJ"
    "\u2028K[bold red]L[/]M[/nope]N[@click=app.quit]O[/]\x1b[?1049lP\x1bcQ"
)
TEXT_COLUMNS = {
    "mismatches": ("run_id", "policy", "input", "phase", "rank", "repeat", "scope", "intervention", "metric",
                   "reference", "report", "classification", "parse_state", "reason", "not_evidence_because",
                   "graph_mode", "step_kind", "prefix_cache", "prefix_hit_rate", "weight_phase", "host", "path"),
    "runs": ("run_id", "state"),
    "faults": ("run_id", "severity", "kind", "verdict", "host", "code", "text", "title", "reason", "path"),
    "exec_state_now": ("run_id", "role", "host", "field", "claimed", "observed"),
    "weight_lifecycle": ("run_id", "role", "phase", "version"),
    "marks": ("id", "run_id", "scope", "target", "verdict", "reason", "who"),
    "steps": ("run_id",),
    "sources": ("run_id", "state"),
}  # fmt: skip


def store(mode: str) -> FakeStore:
    """The demo store; in mode "hostile" every text column holds the hostile string."""
    made = FakeStore()
    made.demo()
    if mode == "hostile":
        made.write("DELETE FROM runs WHERE run_id <> 'grpo-tiny-a'")
        for table, names in TEXT_COLUMNS.items():
            made.write(f"UPDATE {table} SET " + ", ".join(f"{n} = ?" for n in names), [HOSTILE] * len(names))
        made.write("UPDATE mismatches SET raw = ? || chr(10) || ?, admissibility = 'locked'", [HOSTILE, HOSTILE])
        made.write("UPDATE faults SET raw = ?", [HOSTILE])
        made.write("UPDATE exec_state_now SET field = 'graph_mode'")
    return made


def storm(made: FakeStore) -> None:
    """Writes without end, so that every reading draws everything anew."""
    for n in itertools.count(10_000):
        made.mismatch(n, "grpo-tiny-a", step=n, value=n / 7e5, raw="x" * 5000)
        time.sleep(0.05)


def main() -> int:
    """Shows it until told to quit; prints how many CPU seconds it took, for those who measure."""
    made = store(sys.argv[1])
    if sys.argv[1] == "storm":
        threading.Thread(target=storm, args=(made,), daemon=True).start()

    def say(said: Said) -> str:
        raise OSError(f"no space {HOSTILE}")

    app = TicApp(HOSTILE if sys.argv[1] == "hostile" else "/ws", opener=made.open, say=say, glyphs=choose())
    try:
        frame = app.run(mouse=False)
    finally:
        app.ended()
    if frame:
        sys.stdout.write(frame + "\n")
    if "TIC_TEST_CPU" in os.environ:
        sys.stderr.write(f"cpu {sum(os.times()[:2]):.3f}\n")
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main())
