"""A process for the pty test: the screen over a store in which every string is hostile. Run as a script."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from typing import Any

from tests.tui import judged
from tests.tui.fake import NOW, FakeReader, FakeStore
from tic_daemon.ending import leave_stuck_threads
from tic_daemon.store.reader import Connection
from tic_tui.app import TicApp
from tic_tui.glyphs import choose
from tic_tui.screens.mark import Said

HOSTILE = (
    "A\x1b]0;OWNED\x07B\x1b]52;c;T1dORUQ=\x07C\x1b[2J\x1b[31;5mD\x9b7mE\x90q\x9cF\u202eG\u2066H\x00\x08\x7fI\u200bJ"
    "\u2028K[bold red]L[/]M[/nope]N[@click=app.quit]O[/]\x1b[?1049lP\x1bcQ"
)


class HostileReader(FakeReader):
    """Reads from a snapshot whose reason, hint and place are hostile too."""

    def connection(self) -> Any:
        return Connection("snapshot", "connected", NOW, HOSTILE, HOSTILE, data_at=NOW, hint=HOSTILE)


class HostileStore(FakeStore):
    """Every text that is stored is hostile."""

    def open(self, target: str) -> FakeReader:
        return HostileReader(self)

    def poison(self) -> None:
        """Writes the string into every text column of every table."""
        self.write("DELETE FROM runs WHERE run_id <> 'grpo-tiny-a'")
        columns = self.db.execute(
            "SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c JOIN information_schema.tables t"
            " USING (table_name) WHERE t.table_type = 'BASE TABLE' AND c.data_type IN ('VARCHAR', 'VARCHAR[]')"
        ).fetchall()
        for table, column, kind in columns:
            if column == "comparison_id":  # it joins what lies in a comparison
                self.write(f"UPDATE {table} SET {column} = ? || {column}", [HOSTILE])
            elif (table, column) not in KEPT:
                self.write(f"UPDATE {table} SET {column} = ?", [[HOSTILE] if kind.endswith("[]") else HOSTILE])
        self.write("UPDATE mismatches SET raw = ? || chr(10) || ?, admissibility = 'locked'", [HOSTILE, HOSTILE])


# What follows from another column; and what a hostile value would take off the screen: fields drawn by their name alone.
KEPT = {
    ("lifecycle_findings", "log_host"),
    ("exec_state_now", "field"),
    ("exec_states", "field"),
    ("weight_lifecycle", "track"),
    ("comparisons", "kind"),
    ("gates", "gate"),
    ("ledger", "kind"),
}


def store(mode: str) -> FakeStore:
    """The demo store; in mode "hostile" every text column holds the hostile string."""
    made = HostileStore() if mode == "hostile" else FakeStore()
    made.demo()
    made.lived()
    judged.some(made)
    if isinstance(made, HostileStore):
        made.poison()
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
    code = main()
    leave_stuck_threads(code)
    sys.exit(code)
