"""What a pair hangs on: the states and contents of its files, as the store and the file system have them.

`Contents.of(pair)` says whether it can be compared, and names all that the result hangs on. Two looks at files that did
not change name the same content, so that nothing is read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tic_daemon.compare import said
from tic_daemon.compare.version import COMPARATOR
from tic_daemon.comparisons.pair import Pair, digest, plain
from tic_daemon.comparisons.pairing import Said
from tic_daemon.evidence.judge import Goal
from tic_daemon.ledger import criterion
from tic_daemon.results.judge import PENDING, RECORDED, SETTLE_S, VERIFIED
from tic_daemon.results.manifest import MAX_BYTES
from tic_daemon.results.safefile import GoneError, RefusedError, read_inside, resolve, stamp
from tic_daemon.store.rows import ArtifactRow, ResultFileRow, ResultRow

READY: Final = "ready"
WAITING: Final = "waiting"
REFUSED: Final = "refused"
_CRITERION: Final = 1 << 20
_FOLDERS: Final = 4096
_FILES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Stand:
    """Whether a pair can be compared now, and all that its result hangs on.

    `content` is "BYTES:SAID:CRITERION", three hashes. What is in none of them decides nothing, and a pair of which they
    are as before is not compared again, however its manifest grows:

        BYTES       the comparator's version; of each file that is read (both sides, tokens, repeats) path and SHA-256,
                    or how it looks where no manifest names it
        SAID        what is declared for the pair, in tic.toml or in a manifest's list; and of both sides and repeats
                    what the manifest that speaks for each says of that file, under the keys that comparing reads
        CRITERION   the criterion, and the report of a planted error
    """

    state: str
    why: str = ""
    content: str = ""

    @property
    def compared(self) -> str:
        """The content without its criterion."""
        return compared(self.content)


def compared(content: str) -> str:
    """What of a content was compared, and is there to be judged."""
    return ":".join(content.split(":")[:2])


class Contents:
    """Artifacts and manifests of one daemon, the newest row of each."""

    def __init__(self, host: str, roots: Sequence[str] = ()) -> None:
        self._host, self._roots = host, roots
        self.artifacts: dict[tuple[str, str], ArtifactRow] = {}
        self.manifests: dict[str, ResultFileRow] = {}
        self._said: dict[str, tuple[str, Said]] = {}
        self._claims: dict[str, tuple[str, dict[str, str] | str]] = {}
        self._by_path: dict[str, ArtifactRow] | None = None

    def take(self, rows: Iterable[ResultRow]) -> bool:
        """What is new. Returns whether anything of it matters here."""
        found, self._by_path = False, None
        for row in rows:
            if row.host != self._host:
                continue
            if isinstance(row, ArtifactRow):
                self.artifacts[row.manifest, row.path] = row
                found = True
            elif isinstance(row, ResultFileRow):
                self.manifests[row.path] = row
                found = True
        return found

    @property
    def by_path(self) -> dict[str, ArtifactRow]:
        """Artifacts that a manifest names now; of several that name one file the one that verified it."""
        if self._by_path is None:
            best: dict[str, ArtifactRow] = {}
            for row in self.artifacts.values():
                if row.named and (row.path not in best or _rank(row) < _rank(best[row.path])):
                    best[row.path] = row
            self._by_path = best
        return self._by_path

    def said(self) -> dict[str, Said]:
        """What manifests say of comparisons. A manifest is read again when its hash is another one."""
        found = {}
        for row in self.by_path.values():
            control = self.manifests.get(row.manifest)
            if control is None or control.kind != "manifest":
                continue
            kept = self._said.get(row.manifest)
            if kept is None or kept[0] != control.digest:
                kept = (control.digest, _read(row.manifest, control.root))
                self._said[row.manifest] = kept
            found[row.manifest] = kept[1]
        return found

    def of(self, pair: Pair, *, final: bool = False) -> Stand:
        """Whether the pair can be compared. `final`: what is young is taken for at rest."""
        if pair.refused:
            return Stand(REFUSED, pair.refused)
        by_path = self.by_path
        files: list[tuple[str, str]] = []
        for path in pair.files:
            found = self._file(path, pair, by_path, final=final)
            if found.state != READY:
                return found
            files.append((path, found.content))
        claims = []
        for path in pair.claimed:
            try:
                claims.append((path, self.claim(path, pair.root)))
            except RefusedError as error:
                return Stand(REFUSED, f"the manifest of {path}: {error}")
        beside = [self._beside(path) for path in (pair.criterion, pair.planted) if path]
        declared = digest(pair.declaration, claims)
        return Stand(READY, "", f"{digest(COMPARATOR, files)}:{declared}:{digest(*beside)}")

    def claim(self, path: str, root: str) -> str:
        """The hash of what its manifest says of a file; "" if nothing does.

        Raises:
            RefusedError: that manifest leads out of the watched root, or is no regular file.
        """
        source = said.source_of(path, self.manifest_of(path))
        if not source:
            return ""
        now = stamp(source)
        kept = self._claims.get(source)
        if kept is None or kept[0] != now:
            kept = self._claims[source] = (now, _claimed(source, self.root_of(source) or root))
        if isinstance(kept[1], str):
            return f"{kept[1]} {now}"
        return kept[1].get(os.path.normpath(path), "")

    def goal_of(self, path: str) -> str:
        """What a criterion's file is for; "": for anything, or it cannot be read, which whoever compares says."""
        try:
            with open(path, "rb") as file:  # noqa: PTH123  names need not be valid text
                goal = criterion.parse(file.read(_CRITERION), path).goal
        except (OSError, ValueError, TypeError, KeyError):
            return ""
        return "" if goal is Goal.UNKNOWN else str(goal)

    def root_of(self, path: str) -> str:
        """The watched directory that a path lies in; ""."""
        under = (root for root in self._roots if path == root or path.startswith(f"{root.rstrip('/')}/"))
        return next(under, "")

    def manifest_of(self, path: str) -> str:
        """The manifest or sidecar that names a file; ""."""
        row = self.by_path.get(path)
        control = self.manifests.get(row.manifest) if row is not None else None
        return control.path if control is not None and control.kind in ("manifest", "meta") else ""

    def hashes(self, pair: Pair) -> dict[str, str]:
        """SHA-256 of all of its files that were verified, by path."""
        rows = [self.by_path[path] for path in pair.files if path in self.by_path]
        return {plain(row.path): row.sha256 for row in rows}

    def _file(self, path: str, pair: Pair, by_path: Mapping[str, ArtifactRow], *, final: bool) -> Stand:
        row = by_path.get(path)
        if row is None and pair.how == "alone":  # a step of token exports: all of its files
            return self._step(path)
        if row is None:
            return _on_disk(path, self.root_of(path) or pair.root, final=final)
        if row.state in (VERIFIED, RECORDED):
            if stamp(path, row.root) == row.stamp:
                return Stand(READY, "", row.sha256)
            return Stand(WAITING, f"{path} is looked at again: it was written to")
        if row.state in ("", PENDING):
            return Stand(WAITING, f"{path} is not verified yet: {row.why}")
        return Stand(WAITING, f"{path} is {row.state}: {row.why}")  # a gap already; it may be mended

    def _step(self, directory: str) -> Stand:
        rows = [row for row in self.by_path.values() if row.manifest == f"{directory}/STABLE"]
        bad = next((row for row in rows if row.state not in (VERIFIED, RECORDED)), None)
        if bad is not None:
            return Stand(WAITING, f"{bad.path} is {bad.state or PENDING}: {bad.why}")
        if any(stamp(row.path, row.root) != row.stamp for row in rows):
            return Stand(WAITING, f"files of {directory} are looked at again: they were written to")
        if not rows:
            return Stand(REFUSED, f"{directory} has no file of a rank")
        return Stand(READY, "", digest(*sorted((row.path, row.sha256) for row in rows)))

    def _beside(self, path: str) -> str:
        """The hash of a criterion, or how a larger file looks. A file that is not there is another content, too."""
        try:
            if os.stat(path).st_size <= _CRITERION:  # noqa: PTH116  names need not be valid text
                with open(path, "rb") as file:  # noqa: PTH123
                    return hashlib.sha256(file.read(_CRITERION + 1)).hexdigest()
        except (OSError, ValueError):
            return ""
        return stamp(path)


def _rank(row: ArtifactRow) -> tuple[bool, bool, str]:
    """Which of several manifests that name one file speaks for it: one that verified it, first of all with a hash."""
    return row.state not in (VERIFIED, RECORDED), not row.expected_sha256, row.manifest


def _claimed(source: str, root: str) -> dict[str, str] | str:
    """By file the hash of what a manifest says of it; a word if it cannot be read."""
    try:
        found = _object(source, root)
    except (OSError, GoneError):
        return "unreadable"
    return {path: said.digest(one) for path, one in said.each(found, source)} if found is not None else "no manifest"


def _object(path: str, root: str) -> dict[str, object] | None:
    """A manifest's JSON object; None: it is none.

    Raises:
        OSError, GoneError, RefusedError: it cannot be read.
    """
    data, _seen = read_inside(path, root, MAX_BYTES)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _read(path: str, root: str) -> Said:
    try:
        found = _object(path, root)
    except (OSError, GoneError, RefusedError):
        found = None
    if found is None:
        return Said()  # that it cannot be read is a gap already
    listed, goal = found.get("comparisons"), found.get("goal")
    if listed is not None and not isinstance(listed, list):
        listed = [listed]  # refused, with the reason
    return Said(tuple((listed or ())[:1000]), goal if isinstance(goal, str) else "")


def _on_disk(path: str, root: str, *, final: bool) -> Stand:
    """A file that no manifest names: at rest, and under the watched root."""
    try:
        resolve(path, root)
        newest, content = _looks(path, root)
    except GoneError:
        return Stand(WAITING, f"{path} is not there")
    except RefusedError as error:
        return Stand(REFUSED, f"{path}: {error}")
    except (OSError, ValueError) as error:
        return Stand(REFUSED, f"{path} cannot be looked at: {error}")
    if not final and 0 <= time.time() - newest < SETTLE_S:
        return Stand(WAITING, f"{path} may still be written")
    return Stand(READY, "", content)


def _looks(path: str, root: str) -> tuple[float, str]:
    """When it was written last, and how it looks; of a directory, all its files. Links in it are not followed."""
    newest, stamps = os.stat(path).st_mtime, [stamp(path, root)]  # noqa: PTH116  names need not be valid text
    for number, (folder, folders, names) in enumerate(os.walk(path) if os.path.isdir(path) else ()):  # noqa: PTH112
        folders.sort()
        for name in sorted(names):
            file = f"{folder}/{name}"
            newest = max(newest, os.lstat(file).st_mtime)
            stamps.append(f"{file} {stamp(file, root)}")
        if number >= _FOLDERS or len(stamps) > _FILES:
            break  # the reader refuses so many
    return newest, stamps[0] if len(stamps) == 1 else digest(*stamps)
