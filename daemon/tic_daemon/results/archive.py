"""All results under the watched roots, told as rows: what was read, what is verified, what is wrong.

    archive = Archive(host, run_for, known)
    archive.found(files, directories)    after each walk over the roots
    archive.named(claims)                records of logs that name a report
    archive.look(tell)                   one look at everything: a `stat` a file, and more where that has changed
    archive.work(bytes, tell)            hashes what waits

`tell` gets a row (store/rows.py) whenever something differs from what was told of it last, here or by an earlier
daemon. Not thread-safe; sources/results.py has the thread.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tic_daemon.results import layout, manifest, sidecar
from tic_daemon.results.gaps import Gaps
from tic_daemon.results.judge import SETTLE_S
from tic_daemon.results.manifest import Entry, Manifest, Problem
from tic_daemon.results.pages import Pages
from tic_daemon.results.reports import Claim, Reports
from tic_daemon.results.safefile import GoneError, RefusedError, read_inside, stamp
from tic_daemon.results.shelf import Shelf, Shelved, place_of, when
from tic_daemon.store.columns import clean_text
from tic_daemon.store.rows import ArtifactRow, ResultFileRow, ResultGapRow, ResultRow

_MANIFEST_GAPS: Final = frozenset(
    {"manifest_malformed", "manifest_empty", "manifest_missing", "result_unreadable", "identity", "too_many"}
)
_META_GAPS: Final = frozenset(
    {
        "meta_malformed",
        "meta_incomplete",
        "meta_secret",
        "manifest_missing",
        "identity",
        "too_many",
        "result_unreadable",
    }
)

Tell = Callable[[ResultRow], None]


@dataclass(slots=True)
class _Control:
    """A manifest, STABLE or sidecar. `stamp`: of what was read last; "": nothing yet."""

    path: str
    root: str
    kind: str
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class _Read:
    """What a control file held: its first bytes, and whether there were more than are allowed."""

    data: bytes
    cut: bool
    modified: float


class Archive:
    """See the module.

    Args:
        host: of the rows.
        run_for: the run that the configuration gives to a path; "".
        known: the newest row of each key that the store has.
        clock: wall time in seconds.
    """

    def __init__(
        self,
        host: str,
        run_for: Callable[[str], str],
        known: Iterable[ResultRow] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._host, self._run_for, self._clock = host, run_for, clock
        rows = [row for row in known if row.host == host]
        self._files = {row.path: row for row in rows if isinstance(row, ResultFileRow)}
        self._shelf = Shelf(row for row in rows if isinstance(row, ArtifactRow))
        self._gaps = Gaps(host, (row for row in rows if isinstance(row, ResultGapRow)))
        self._pages = Pages(self._gaps)
        self._reports = Reports(self._gaps, clock)
        self._controls: dict[str, _Control] = {}

    def found(self, files: Mapping[str, str], directories: Iterable[str]) -> None:
        """Files of a walk that may be manifests, sidecars or pages, with their roots, and all directories it read."""
        for path, root in files.items():
            if (kind := layout.kind_of(path)) in (layout.MANIFEST, layout.STABLE, layout.META):
                self._controls.setdefault(path, _Control(path, root, kind))
        self._pages.found(files, directories)

    def named(self, claims: Iterable[Claim]) -> None:
        """Records of logs that name a report."""
        self._reports.note(claims)

    @property
    def waiting(self) -> bool:
        """Whether something is to be hashed."""
        return self._shelf.waiting

    @property
    def settling(self) -> bool:
        """Whether something may still be written, and is judged a little later."""
        return self._shelf.settling

    def close(self) -> None:
        """Lets an open file go."""
        self._shelf.close()

    def look(self, tell: Tell, *, final: bool = False) -> None:
        """Looks at everything once. `final`: what is not as it should be is taken for at rest, however young it is."""
        now = math.inf if final else self._clock()
        # Sidecars first: they may name the run of the manifest beside them.
        for control in sorted(self._controls.values(), key=lambda one: (one.kind != layout.META, one.path)):
            self._control(control, now, tell)
        self._vanished(tell)
        self._shelf.look(now, tell)
        self._reports.look(now, tell)
        self._pages.look(now, tell, {row.run for row in self._files.values() if row.present})

    def work(self, budget: int, tell: Tell, pace: Callable[[int], bool] = lambda _: True) -> None:
        """Hashes about `budget` bytes of what waits. `pace` is called with the size of each piece; False: stop now."""
        self._shelf.work(budget, self._clock(), tell, pace)

    # --- manifests and sidecars --------------------------------------------------------------------------------------

    def _control(self, control: _Control, now: float, tell: Tell) -> None:
        mark = self._mark(control)
        if not mark or mark == control.stamp:
            return
        group = _META_GAPS if control.kind == layout.META else _MANIFEST_GAPS
        most = sidecar.MAX_BYTES if control.kind == layout.META else manifest.MAX_BYTES
        try:
            data, seen = read_inside(control.path, control.root, most)
        except GoneError:
            return
        except (RefusedError, OSError) as error:
            why = f"it cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
            problem = Problem("result_unreadable", "", why)
            self._gaps.put(control.path, control.root, layout.run_of(control.path), group, [problem], tell)
            control.stamp = mark
            return
        read = _Read(data, len(data) > most, seen.modified)
        take = {layout.META: self._sidecar, layout.STABLE: self._stable}.get(control.kind, self._manifest)
        if take(control, read, tell, fresh=0 <= now - seen.modified < SETTLE_S):
            control.stamp = mark if control.kind == layout.STABLE else seen.stamp

    def _mark(self, control: _Control) -> str:
        mark = stamp(control.path)
        if control.kind == layout.STABLE and mark:  # files may be added to the directory that it stands for
            return f"{mark} {stamp(control.path.rpartition('/')[0])}"
        return mark

    def _manifest(self, control: _Control, read: _Read, tell: Tell, *, fresh: bool) -> bool:
        """False: it may still be written."""
        if read.cut:
            problem = Problem("manifest_malformed", "", f"longer than {manifest.MAX_BYTES >> 20} MiB")
            said = Manifest(problems=(problem,), readable=False)
        else:
            known = clean_text(control.path) in self._files
            said = manifest.read(read.data, ours=known or bool(layout.run_dir_of(control.path)))
        if said.foreign:
            return True
        if not said.readable and fresh:
            return False
        run, how = self._run(control.path, said.run, "manifest")
        problems = [*said.problems, *_identity(control.path, said.run)]
        before = self._files.get(clean_text(control.path))
        if said.readable:
            row = self._row(control, read, run, how, said)
            if before is not None and before.digest != row.digest:
                self._overwritten(control, before, row, said.entries, tell)
            self._tell_file(row, tell)
            problems += self._entries(control, read, row, said.entries, "the manifest", tell)
        elif before is not None and before.present:  # what it named as long as it could be read is watched on
            run = before.run
            if not self._shelf.entries(control.path):
                rows = [row for row in self._shelf.known(before.path).values() if row.named]
                entries = [
                    Entry(row.name, _raw(row.path), row.expected_size, row.expected_sha256, row.step, row.policy)
                    for row in rows
                ]
                problems += self._entries(control, read, before, entries, "the manifest", tell)
        self._gaps.put(control.path, control.root, run, _MANIFEST_GAPS, problems, tell)
        return True

    def _stable(self, control: _Control, read: _Read, tell: Tell, *, fresh: bool) -> bool:
        """False: its directory could not be read. Nothing is waited for: STABLE is written last."""
        del fresh
        try:
            names = os.listdir(control.path.rpartition("/")[0])  # noqa: PTH208
        except OSError:
            return False
        entries = [Entry(name, name) for name in sorted(names) if layout.RANK_EXPORT.fullmatch(name)]
        gone = [entry for entry in self._shelf.entries(control.path) if entry not in entries]  # told, not forgotten
        known = self._shelf.known(clean_text(control.path)).values()
        gone += [
            Entry(row.name, row.name)
            for row in known
            if row.named and Entry(row.name, row.name) not in [*entries, *gone]
        ]
        run, how = self._run(control.path, "", "")
        row = self._row(control, read, run, how, Manifest(entries=tuple(entries)))
        self._tell_file(row, tell)
        problems = self._entries(control, read, row, [*entries, *gone], "STABLE", tell)
        self._gaps.put(control.path, control.root, run, _MANIFEST_GAPS, problems, tell)
        return True

    def _sidecar(self, control: _Control, read: _Read, tell: Tell, *, fresh: bool) -> bool:
        """False: it may still be written."""
        said = sidecar.read(read.data if not read.cut else b"")
        if not said.readable and fresh:
            return False
        run, how = self._run(control.path, said.run, "meta")
        problems = [*said.problems, *_identity(control.path, said.run)]
        if said.readable:
            heading = Manifest(run=said.run, command=said.command, code=said.code, image=said.image)
            if name := control.path.rpartition("/")[2].removesuffix(".meta.json"):
                # Beside a file it is the manifest of that file; provenance is asked of a directory's sidecar.
                one = manifest.of_one(read.data, name)
                heading = replace(one, code=said.code, image=said.image, command=said.command)
                problems = [problem for problem in problems if problem.kind != "meta_incomplete"] + list(one.problems)
            row = self._row(control, read, run, how, heading)
            before = self._files.get(row.path)
            if before is not None and before.digest != row.digest:
                self._overwritten(control, before, row, heading.entries, tell)
            self._tell_file(row, tell)
            problems += self._entries(control, read, row, heading.entries, "the sidecar", tell)
        self._gaps.put(control.path, control.root, run, _META_GAPS, problems, tell)
        return True

    def _entries(
        self, control: _Control, read: _Read, row: ResultFileRow, entries: Iterable[Entry], words: str, tell: Tell
    ) -> list[Problem]:
        heading = ArtifactRow(
            self._host, row.root, row.path, "", run=row.run, run_how=row.run_how, step=row.step, policy=row.policy
        )
        return self._shelf.put(Shelved(control.path, control.root, read.modified, words), heading, entries, tell)

    def _row(self, control: _Control, read: _Read, run: str, how: str, said: Manifest) -> ResultFileRow:
        step = said.step if said.step is not None else layout.step_of(control.path)
        return ResultFileRow(
            self._host, clean_text(control.root), clean_text(control.path), control.kind,
            hashlib.sha256(read.data).hexdigest(), run, how, step, clean_text(said.policy),
            clean_text(said.input_sha256), said.valid, said.hooks, clean_text(said.command), clean_text(said.code),
            clean_text(said.image), len(said.entries), when(read.modified),
        )  # fmt: skip

    def _run(self, path: str, said: str, how: str) -> tuple[str, str]:
        """The run that a file is of, and who says so: config, manifest or meta, path; "" if nobody does."""
        if named := self._run_for(path):
            return clean_text(named), "config"
        if said:
            return clean_text(said), how
        beside = self._files.get(clean_text(f"{path.rpartition('/')[0]}/.meta.json"))
        if beside is not None and beside.present and beside.run_how == "meta":
            return beside.run, "meta"
        told = layout.run_of(path)
        return clean_text(told), "path" if told else ""

    def _overwritten(
        self, control: _Control, before: ResultFileRow, row: ResultFileRow, entries: Iterable[Entry], tell: Tell
    ) -> None:
        """A manifest that says other than before of what it named: another result under the same id. Shown for good."""
        now = {clean_text(place_of(control.path, entry)): entry for entry in entries}
        # Of a manifest that was gone meanwhile nothing is named any more, and all that it ever named is compared.
        named = [known for known in self._shelf.known(row.path).values() if known.named or not before.present]
        other = [
            known.name
            for known in named
            if (entry := now.get(known.path)) is not None
            and (entry.sha256, entry.size) != (known.expected_sha256, known.expected_size)
        ]
        gone = [known.name for known in named if known.named and known.path not in now]
        words = [f"{_listed(other)} with another size or hash"] if other else []
        words += [f"{_listed(gone)} no longer named"] if gone else []
        words += [f"run {before.run} before, {row.run} now"] if before.run and before.run != row.run else []
        words += [f"step {before.step} before, {row.step} now"] if before.step not in (None, row.step) else []
        if words:
            detail = f"it was written again, {'; '.join(words)}: a new run gets a new id"
            self._gaps.add(control.path, control.root, row.run, [Problem("overwritten", row.digest[:16], detail)], tell)

    def _tell_file(self, row: ResultFileRow, tell: Tell) -> None:
        if self._files.get(row.path) != row:
            self._files[row.path] = row
            tell(row)

    def _vanished(self, tell: Tell) -> None:
        """Files that were read, now or by an earlier daemon, and are gone."""
        paths = {clean_text(path): path for path in self._controls}
        for row in [row for row in self._files.values() if row.present]:
            path = paths.get(row.path, row.path)
            if os.path.lexists(path):
                continue
            self._tell_file(replace(row, present=False), tell)
            self._controls.pop(path, None)
            self._shelf.drop(path, tell)
            group, problems = _META_GAPS if row.kind == layout.META else _MANIFEST_GAPS, []
            if row.entries or row.kind != layout.META:
                problems = [Problem("manifest_missing", "", f"it is gone; it named {row.entries} artifacts")]
            self._gaps.put(path, row.root, row.run, group, problems, tell)


def _identity(path: str, said: str) -> list[Problem]:
    told = layout.run_of(path)
    if not said or not told or said == told:
        return []
    return [Problem("identity", "", f"it says run {said}, and lies under run {told}")]


def _raw(path: str) -> str:
    """A path that the store keeps, as the file system has it: bytes that are no UTF-8 are escaped in the store."""
    if os.path.lexists(path):
        return path
    return re.sub(r"\\ud([cd][0-9a-f]{2})", lambda match: chr(0xD000 + int(match[1], 16)), path)


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(name[:100] for name in names[:3])}{rest}"
