"""Files that a run or candidate rests on, copied into a bundle by their hash.

Manifests, closures, reports of comparisons, and dumps if asked. A file goes in only if its bytes are those that were
read then; else the bundle says which it is and why it is not in it. Criteria need no file: the ledger holds their text.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from tic_daemon.ledger.entries import EVIDENCE
from tic_daemon.report import shape
from tic_daemon.report.gates import Ledger
from tic_daemon.report.moment import Moment, Row, listed
from tic_daemon.report.subject import Subject
from tic_daemon.results.safefile import CHUNK, GoneError, RefusedError, open_inside

SMALL: Final = 64 << 20
"""A manifest, closure or report of more bytes than this is none."""
_RUNS: Final = """list_contains(from_json(?, '["VARCHAR"]'), run_id)"""
_RECEIPTS: Final = f"""
SELECT host, path, max(value) FILTER (key = '#sha256') AS sha256,
    coalesce(max(regexp_extract(name, '^(trainer|rollout)\\.', 1)), '') AS role
FROM config_values WHERE kind = 'receipt' AND {_RUNS} GROUP BY host, path HAVING sha256 IS NOT NULL ORDER BY ALL"""  # noqa: S608
_ROWS: Final = f"""
SELECT id, criterion_id, manifest_sha256, receipt_sha256, artifacts, target FROM ledger
WHERE {_RUNS} OR list_contains(from_json(?, '["VARCHAR"]'), candidate_id) ORDER BY said_at, id"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Reference:
    """A file that something in the bundle names.

    Attributes:
        what: manifest, receipt, artifact, report, criterion. sha256: "" if only its place is known.
        size: bytes, or None where nobody says. file: its name in the bundle, or None. why: why it is not in it; "".
    """

    what: str
    sha256: str
    path: str
    host: str
    size: int | None = None
    file: str | None = None
    why: str = ""


def criteria(ledger: Ledger, into: Path) -> list[Reference]:
    """Writes the criteria as they were frozen; they are named by their hash."""
    found = []
    for row in ledger.criteria:
        name = f"criteria/{row['criterion_id']}.toml"
        raw = str(row["text"]).encode()
        (into / name).parent.mkdir(exist_ok=True)
        (into / name).write_bytes(raw)
        found.append(
            Reference("criterion", row["criterion_id"], text_of(row["path"]), text_of(row["host"]), len(raw), name)
        )
    return found


def collected(
    moment: Moment, subject: Subject, candidates: Iterable[str], into: Path, *, dumps: bool
) -> list[Reference]:
    """All that is named, each once, with what could be copied.

    Args:
        into: the bundle's directory. dumps: the files of evidence, too, however large.
    """
    wanted = _named(moment, subject, candidates)
    known = {one.sha256 for one in wanted if one.sha256}
    found: dict[tuple[str, str], Reference] = {}
    for one in wanted:
        if (one.what, one.sha256 or one.path) in found:
            continue
        told = replace(one, why=shape.NOT_ASKED) if one.what == "artifact" and not dumps else _copied(one, into)
        if one.what == "report" and told.file is not None and told.sha256 in known:
            continue  # it is one of the others
        found[one.what, one.sha256 or one.path] = told
    return sorted(found.values(), key=lambda one: (one.what, one.sha256, one.path))


def as_json(references: Iterable[Reference]) -> list[dict[str, Any]]:
    """As bundle.json has them."""
    return [asdict(one) for one in references]


def text_of(value: object) -> str:
    """A text of the store; nothing is ""."""
    return "" if value is None else str(value)


def _named(moment: Moment, subject: Subject, candidates: Iterable[str]) -> list[Reference]:
    known = [row for row in moment.of("manifests", *subject.runs) if row["digest"]]
    found = [Reference("manifest", row["digest"], row["path"], row["host"]) for row in known]
    compared = moment.of("comparisons", *subject.runs)
    of = {row["comparison_id"]: row for row in compared}
    receipts = moment.rows(_RECEIPTS, listed(subject.runs))
    read = {row["sha256"] for row in receipts}
    for row in moment.rows(_ROWS, listed(subject.runs), listed(candidates)):
        comparison = of.get(row["target"], {})
        if row["manifest_sha256"]:
            path, host = text_of(comparison.get("manifest")), text_of(comparison.get("host"))
            found.append(Reference("manifest", row["manifest_sha256"], path, host))
        closure = not str(row["id"]).startswith(EVIDENCE)
        files = json.loads(row["artifacts"])
        for one in files:
            what = "receipt" if one["sha256"] in read else "closure" if closure else "artifact"
            found.append(Reference(what, one["sha256"], one["path"], one["host"], one["size"]))
        if row["receipt_sha256"] and row["receipt_sha256"] not in {one["sha256"] for one in files}:
            found.append(_together(row["receipt_sha256"], {one["sha256"] for one in files}, receipts))
    return [*found, *(Reference("report", "", row["report"], row["host"]) for row in compared if row["report"])]


def _together(digest: str, files: set[str], receipts: list[Row]) -> Reference:
    """What a hash stands for that is of several receipts of the rollout."""
    hashes = sorted({row["sha256"] for row in receipts if row["role"] == "rollout"} & files)
    if hashlib.sha256("\n".join(hashes).encode()).hexdigest() != digest:
        return Reference("receipt", digest, "", "", why="nothing says where it lies")
    return Reference("receipts", digest, " ".join(hashes), "", why=shape.TOGETHER)


def _copied(one: Reference, into: Path) -> Reference:  # noqa: PLR0911  one return a reason
    """The file in the bundle under its hash, or why it is not."""
    if one.why:
        return one
    if not one.path:
        return replace(one, why="nothing says where it lies")
    try:
        fd, seen = open_inside(one.path, "/")
    except GoneError:
        return replace(one, why="it is not there, or not on this machine")
    except (RefusedError, OSError, ValueError) as error:
        return replace(one, why=f"it cannot be read: {getattr(error, 'strerror', None) or error}")
    try:
        if one.what != "artifact" and seen.size > SMALL:
            return replace(one, why=f"it has {seen.size} bytes, too many for a {one.what}")
        if one.size is not None and one.size != seen.size:
            return replace(one, why=f"it has {seen.size} bytes by now, where {one.size} are said")
        return _stored(one, fd, into)
    except OSError as error:
        return replace(one, why=f"it cannot be read: {error.strerror or error}")
    finally:
        os.close(fd)


def _stored(one: Reference, fd: int, into: Path) -> Reference:
    folder = into / "files"
    folder.mkdir(exist_ok=True)
    part, digest, size = folder / "part", hashlib.sha256(), 0
    with part.open("wb") as file:
        while piece := os.read(fd, CHUNK):
            digest.update(piece)
            size += len(piece)
            file.write(piece)
    found = digest.hexdigest()
    if one.sha256 and found != one.sha256:
        part.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
        return replace(one, why=f"its bytes are others by now: SHA-256 {found}")
    part.replace(folder / found)
    return replace(one, sha256=found, size=size, file=f"files/{found}")
