"""An evidence bundle: a report with all that it rests on, which another machine can verify without the store.

It is a directory, or a tar of it if the name ends in `.tar`: made beside its place and moved there whole. The same
store at the same moment gives the same bytes.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tic_daemon import __version__
from tic_daemon.errors import TicError
from tic_daemon.placing import put, work_beside
from tic_daemon.report import (
    chains,
    container,
    document,
    evidence_files,
    gates,
    html,
    markdown,
    origin,
    shape,
    statement,
    tables,
)
from tic_daemon.report.evidence_files import Reference
from tic_daemon.report.moment import Moment, listed
from tic_daemon.report.subject import Subject

_CHUNK: Final = 1 << 20


class BundleError(TicError):
    """The bundle cannot be written where it was asked for."""


@dataclass(frozen=True, slots=True)
class Made:
    """A bundle that was made. `digest`: SHA-256 of its statement, which names the whole. `absent`: not in it."""

    path: Path
    files: int
    bytes: int
    digest: str
    absent: tuple[Reference, ...]


def make(moment: Moment, subject: Subject, target: Path, *, force: bool = False, dumps: bool = False) -> Made:
    """Writes a bundle.

    Args:
        target: a directory to be made, or a file whose name ends in .tar.
        force: a bundle that is there is replaced; nothing else ever is. dumps: with the dumps of its evidence.

    Raises:
        BundleError: there is something else in its place, or it cannot be written. TicError: the store cannot be asked.
    """
    target = target.absolute()
    _free(target, force=force)
    work = None
    try:
        work = work_beside(target)
        inside = work / "bundle"
        inside.mkdir(mode=0o700)
        digest, absent, sizes = _filled(moment, subject, inside, dumps=dumps)
        if target.suffix == ".tar":
            packed = work / "bundle.tar"
            _pack(inside, packed)
            put(packed, target, force=force)
        else:
            _moved(inside, target, work, force=force)
    except FileExistsError as error:
        raise BundleError(f"{target} exists", "name another place, or replace a bundle with --force") from error
    except OSError as error:
        raise BundleError(f"cannot write {target}: {error.strerror or error}", "name another place") from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
    return Made(target, len(sizes), sum(sizes), digest, tuple(absent))


def _free(target: Path, *, force: bool) -> None:
    if not target.is_symlink() and not target.exists():
        return
    if not force:
        raise BundleError(f"{target} exists", "name another place, or replace a bundle with --force")
    if not container.is_bundle(target):
        raise BundleError(f"{target} is no bundle, and is not replaced", "name another place")
    if target.is_dir():
        before = container.opened(target)
        before.close()
        if before.wrong:
            raise BundleError(f"{target} holds {before.wrong[0][0]}, and is not replaced", "name another place")


def _filled(moment: Moment, subject: Subject, inside: Path, *, dumps: bool) -> tuple[str, list[Reference], list[int]]:
    ledger = gates.Ledger(moment, [subject.id] if subject.kind == "candidate" else None, subject.runs)
    candidates = [str(row["candidate_id"]) for row in ledger.candidates]
    ends = origin.heads(moment)
    report = document.of(moment, subject)
    (inside / "report.html").write_text(html.render(report), encoding="utf-8")
    (inside / "report.md").write_text(markdown.render(report, "plots"), encoding="utf-8")
    for name, drawn in markdown.plots_of(report).items():
        (inside / "plots").mkdir(exist_ok=True)
        (inside / "plots" / name).write_text(drawn, encoding="utf-8")
    (inside / "tables").mkdir()
    judged = [str(row["criterion_id"]) for row in ledger.criteria]
    written = tables.write(moment, subject, candidates, judged, inside / "tables")
    references = [
        *evidence_files.criteria(ledger, inside),
        *evidence_files.collected(moment, subject, candidates, inside, dumps=dumps),
    ]
    references += _unwritten(moment, subject, candidates, {one.sha256 for one in references})
    _chains(moment, ends, inside)
    files = [_described(inside, path) for path in _all_files(inside)]
    index = {
        "format": shape.FORMAT, "version": shape.VERSION, "made_by": f"tic {__version__}",
        "subject": {
            "kind": subject.kind, "id": subject.id, "name": subject.name, "runs": list(subject.runs),
            "candidates": candidates,
        },
        "as_of": moment.at.isoformat(timespec="microseconds"), "missing": sorted(moment.missing),
        "stores": [_store(one) for one in ends],
        "tables": [{"view": one.view, "file": one.file, "rows": one.rows} for one in written],
        "references": evidence_files.as_json(references), "files": files,
    }  # fmt: skip
    raw = statement.as_bytes(index)
    stated = statement.of(index, raw)
    (inside / shape.INDEX).write_bytes(raw)
    (inside / shape.STATEMENT).write_bytes(stated)
    sizes = [one["size"] for one in files] + [len(raw), len(stated)]
    return hashlib.sha256(stated).hexdigest(), [one for one in references if one.file is None], sizes


def _unwritten(moment: Moment, subject: Subject, candidates: Sequence[str], known: set[str]) -> list[Reference]:
    """Criteria that rows of the ledger name, and whose text no row holds: a verdict by a file that was never frozen."""
    rows = moment.rows(
        "SELECT DISTINCT criterion_id FROM ledger WHERE criterion_id <> ''"
        " AND (list_contains(from_json(?, '[\"VARCHAR\"]'), run_id)"
        " OR list_contains(from_json(?, '[\"VARCHAR\"]'), candidate_id)) ORDER BY 1",
        listed(subject.runs),
        listed(candidates),
    )
    return [
        Reference("criterion", row["criterion_id"], "", "", why="its text is in no ledger: it was never frozen")
        for row in rows
        if row["criterion_id"] not in known
    ]


def _chains(moment: Moment, ends: Iterable[origin.Head], inside: Path) -> None:
    for end in ends:
        if not end.seq:
            continue
        (inside / "ledger").mkdir(exist_ok=True)
        with (inside / _chain_file(end)).open("wb") as file:
            for line in chains.lines(moment, end.store.store_id, end.seq):
                file.write(line)


def _chain_file(end: origin.Head) -> str:
    return f"ledger/{end.store.store_id}.jsonl"


def _store(end: origin.Head) -> dict[str, Any]:
    store = end.store
    return {
        "store_id": store.store_id, "schema_version": store.schema_version, "written_by": store.program_version,
        "host": store.host, "created_at": store.created_at.isoformat(timespec="microseconds"),
        "ledger": _chain_file(end) if end.seq else None,
        "rows": end.seq, "head": end.row_hash,
    }  # fmt: skip


def _all_files(inside: Path) -> Iterator[Path]:
    return iter(
        sorted(
            (path for path in inside.rglob("*") if path.is_file()), key=lambda path: path.relative_to(inside).as_posix()
        )
    )


def _described(inside: Path, path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    path.chmod(0o600)
    return {"path": path.relative_to(inside).as_posix(), "size": path.stat().st_size, "sha256": digest}


def _pack(inside: Path, packed: Path) -> None:
    with tarfile.open(packed, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in _all_files(inside):
            with path.open("rb") as file:
                tar.addfile(container.header(path.relative_to(inside).as_posix(), path.stat().st_size), file)


def _moved(inside: Path, target: Path, work: Path, *, force: bool) -> None:
    """The finished directory into its place; an old bundle is back there if the new one cannot be."""
    if not target.exists() and not target.is_symlink():
        inside.rename(target)
        return
    if not force:
        raise FileExistsError(target)
    before = work / "before"
    target.rename(before)
    try:
        inside.rename(target)
    except OSError:
        before.rename(target)
        raise
