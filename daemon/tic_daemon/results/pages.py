"""Pages of a workspace and its run directories: names that lead nowhere, words without evidence, ids used twice.

    pages.found(files, directories)    after each walk
    pages.look(now, tell, runs)        reads what changed, and looks whether what is named is there

Gaps told here:

    index_missing    an INDEX.md or summary.md names a file or run that is not there
    index_unchecked  it names one outside of the watched roots, which is not looked at
    chat_only        a row of a table gives a verdict and names no evidence; a summary.md, and no results beside it
    same_id          one run id under two steps: a rerun gets a new id, a reference is a link
    no_manifest      tensors of a run at rest that no manifest names
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tic_daemon.results import index, layout
from tic_daemon.results.gaps import Gaps
from tic_daemon.results.index import Index
from tic_daemon.results.judge import SETTLE_S
from tic_daemon.results.manifest import Problem
from tic_daemon.results.safefile import GoneError, RefusedError, read_inside, stamp
from tic_daemon.store.rows import ResultGapRow

REST_S: Final = 600.0
"""Tensors without a manifest are told of when nothing of the run was written for so long."""
_ENTRIES: Final = 4096
_PAGE_GAPS: Final = frozenset({"index_missing", "index_unchecked", "chat_only", "result_unreadable"})
_RUN_GAPS: Final = frozenset({"same_id", "no_manifest"})

Tell = Callable[[ResultGapRow], None]


@dataclass(slots=True)
class _Page:
    root: str
    stamp: str = ""
    said: Index | None = None


class Pages:
    """Pages and run directories of one daemon."""

    def __init__(self, gaps: Gaps) -> None:
        self._gaps = gaps
        self._pages: dict[str, _Page] = {}
        self._roots: dict[str, str] = {}
        self._directories: frozenset[str] = frozenset()
        self._manifests: frozenset[str] = frozenset()
        self._summaries: frozenset[str] = frozenset()
        self._walked = False

    def found(self, files: Mapping[str, str], directories: Iterable[str]) -> None:
        """As `Archive.found`."""
        kinds = {path: layout.kind_of(path) for path in files}
        for path, kind in kinds.items():
            if kind in (layout.INDEX, layout.SUMMARY):
                self._pages.setdefault(path, _Page(files[path]))
        self._directories = frozenset(directories)
        self._manifests = frozenset(
            path
            for path, kind in kinds.items()
            if kind in (layout.MANIFEST, layout.STABLE) or (kind == layout.META and not path.endswith("/.meta.json"))
        )
        self._summaries = frozenset(path for path, kind in kinds.items() if kind == layout.SUMMARY)
        self._roots = dict(files)
        self._walked = True

    def look(self, now: float, tell: Tell, runs: Collection[str]) -> None:
        """Looks at all pages and run directories. `now` in seconds; `runs` are those that manifests name."""
        by_run = self._run_dirs()
        for path, page in list(self._pages.items()):
            if self._read(path, page, now, tell) and page.said is not None:
                self._tell_page(path, page, page.said, by_run.keys() | set(runs), tell)
        if self._walked:
            self._walked = False
            self._tell_runs(by_run, now, tell)

    def _run_dirs(self) -> dict[str, set[str]]:
        """Run directories of the last walk by run id."""
        found: dict[str, set[str]] = {}
        for directory in self._directories:
            if (run_dir := layout.run_dir_of(directory)) and run_dir == directory:
                found.setdefault(run_dir.rpartition("/")[2], set()).add(run_dir)
        return found

    def _read(self, path: str, page: _Page, now: float, tell: Tell) -> bool:
        """Reads the page if it changed. False: it is gone, or may still be written."""
        mark = stamp(path)
        if mark and mark == page.stamp:
            return True
        try:
            data, seen = read_inside(path, page.root, index.MAX_BYTES)
        except GoneError:
            del self._pages[path]
            self._gaps.put(path, page.root, layout.run_of(path), _PAGE_GAPS, (), tell)
            return False
        except (RefusedError, OSError) as error:
            why = f"it cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
            page.stamp, page.said = mark, None
            problem = Problem("result_unreadable", "", why)
            self._gaps.put(path, page.root, layout.run_of(path), _PAGE_GAPS, [problem], tell)
            return True
        if 0 <= now - seen.modified < SETTLE_S:
            return False
        page.stamp = seen.stamp
        page.said = index.read(data[: index.MAX_BYTES].decode("utf-8", "replace"))
        return True

    def _tell_page(self, path: str, page: _Page, said: Index, runs: Collection[str], tell: Tell) -> None:
        problems: dict[tuple[str, str], Problem] = {}
        good = 0
        for named in said.named:
            problem = None
            if named.kind == "run":
                if named.target not in runs:
                    words = f"line {named.line} names run {named.target}, and there is no such run"
                    problem = Problem("index_missing", named.target, words, named.target)
            else:
                problem = self._place(path, page.root, named)
            if problem is None:
                good += 1
            else:
                problems.setdefault((problem.kind, problem.subject), problem)
        for line, verdict in said.bare:
            words = f"line {line} says {verdict!r} and names no evidence"
            problems["chat_only", f"line {line}"] = Problem("chat_only", f"line {line}", words)
        if layout.kind_of(path) == layout.SUMMARY and said.words and not good and not self._has_results(path):
            words = "it tells of a run of which there are no results, and names none"
            problems["chat_only", ""] = Problem("chat_only", "", words)
        self._gaps.put(path, page.root, layout.run_of(path), _PAGE_GAPS, problems.values(), tell)

    def _place(self, path: str, root: str, named: index.Named) -> Problem | None:
        bases = [path.rpartition("/")[0], layout.workspace_of(path) or root]
        places = [os.path.normpath(os.path.join(base, named.target)) for base in bases]  # noqa: PTH118
        inside = [place for place in places if place == root or place.startswith(f"{root.rstrip('/')}/")]
        if not inside:
            if named.kind == "code":
                return None  # perhaps no path at all
            words = f"line {named.line} names {named.target}, outside of the watched directory: not looked at"
            return Problem("index_unchecked", named.target, words)
        if any(_exists(place) for place in inside):
            return None
        words = f"line {named.line} names {named.target}, and it is not there"
        return Problem("index_missing", named.target, words, layout.run_of(inside[0]))

    def _has_results(self, summary: str) -> bool:
        run_dir = summary.rpartition("/")[0]
        beside = f"{layout.workspace_of(summary)}/results/{run_dir.rpartition('/')[2]}"
        return any(next(_files(place), None) is not None for place in (f"{run_dir}/results", beside))

    def _tell_runs(self, by_run: Mapping[str, Collection[str]], now: float, tell: Tell) -> None:
        steps = set(layout.step_runs(self._directories, self._summaries))
        problems: dict[str, list[Problem]] = {}
        for run, places in by_run.items():
            for place in places:
                others = sorted(other for other in steps & set(places) - {place} if _shared(place, other))
                if place in steps and others:
                    words = f"run {run} stands under {others[0].split('/')[-2]}, too: a rerun gets a new id"
                    problems.setdefault(place, []).append(Problem("same_id", "", words))
                problems.setdefault(place, []).extend(self._unnamed(place, now))
        for place, found in problems.items():
            self._gaps.put(place, self._root_of(place), layout.run_of(place), _RUN_GAPS, found, tell)
        for place, root in self._gaps.paths(_RUN_GAPS):
            if place not in problems:
                self._gaps.put(place, root, layout.run_of(place), _RUN_GAPS, (), tell)

    def _unnamed(self, run_dir: str, now: float) -> list[Problem]:
        """Tensors of a run directory without any manifest in it."""
        if any(path.startswith(f"{run_dir}/") for path in self._manifests):
            return []
        count, newest = 0, 0.0
        for path, modified in _files(run_dir):
            if layout.is_data(path[len(run_dir) :]):
                count, newest = count + 1, max(newest, modified)
        if not count or 0 <= now - newest < REST_S:
            return []
        words = f"{count} tensor files and no manifest: nothing says what they are and that they are whole"
        return [Problem("no_manifest", "", words)]

    def _root_of(self, place: str) -> str:
        roots = {root for root in self._roots.values() if place == root or place.startswith(f"{root.rstrip('/')}/")}
        return max(roots, key=len, default=place)


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)  # noqa: PTH110  names need not be valid text
    except ValueError:
        return False


def _shared(one: str, other: str) -> bool:
    """Whether two run directories are of one workspace."""
    return layout.workspace_of(f"{one}/x") == layout.workspace_of(f"{other}/x")


def _files(directory: str) -> Iterator[tuple[str, float]]:
    """(path, time) of the regular files below a directory, of the first `_ENTRIES` entries. No link is followed."""
    left, stack = _ENTRIES, [directory]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield entry.path, entry.stat(follow_symlinks=False).st_mtime
        except OSError:
            continue
