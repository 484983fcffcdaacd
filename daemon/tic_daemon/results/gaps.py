"""What is wrong with results besides their artifacts, and what of it still is: rows of table `result_gap`.

gaps.put(path, root, run, kinds, problems, tell)   all that is wrong now of these kinds; what was and is not is over
gaps.add(path, root, run, problems, tell)          what stays true whatever comes later
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from tic_daemon.results.manifest import Problem
from tic_daemon.store.columns import clean_text
from tic_daemon.store.rows import ResultGapRow


class Gaps:
    """Gaps of one daemon. `known`: the newest row of each that the store has."""

    def __init__(self, host: str, known: Iterable[ResultGapRow] = ()) -> None:
        self._host = host
        self._known: dict[str, dict[tuple[str, str], ResultGapRow]] = {}
        for row in known:
            self._known.setdefault(row.path, {})[row.kind, row.subject] = row

    def put(
        self,
        path: str,
        root: str,
        run: str,
        kinds: Collection[str],
        problems: Iterable[Problem],
        tell: Callable[[ResultGapRow], None],
    ) -> None:
        """Tells of `problems` of a path that are new or read otherwise, and of those of `kinds` that are over."""
        now = self.add(path, root, run, problems, tell)
        for key, row in list(self._known.get(clean_text(path), {}).items()):
            if row.present and row.kind in kinds and key not in now:
                self._told(replace(row, present=False), tell)

    def add(
        self, path: str, root: str, run: str, problems: Iterable[Problem], tell: Callable[[ResultGapRow], None]
    ) -> set[tuple[str, str]]:
        """Tells of `problems` that are new or read otherwise. Returns their (kind, subject)."""
        told = set()
        for problem in problems:
            row = ResultGapRow(
                self._host, clean_text(root), clean_text(path), problem.kind, clean_text(problem.subject),
                clean_text(problem.run or run), clean_text(problem.detail),
            )  # fmt: skip
            told.add((row.kind, row.subject))
            self._told(row, tell)
        return told

    def paths(self, kinds: Collection[str]) -> list[tuple[str, str]]:
        """(path, root) of what has a gap of these kinds now."""
        return [
            (path, next(iter(rows.values())).root)
            for path, rows in self._known.items()
            if any(row.present and row.kind in kinds for row in rows.values())
        ]

    def _told(self, row: ResultGapRow, tell: Callable[[ResultGapRow], None]) -> None:
        of_path = self._known.setdefault(row.path, {})
        if of_path.get((row.kind, row.subject)) != row:
            of_path[row.kind, row.subject] = row
            tell(row)
