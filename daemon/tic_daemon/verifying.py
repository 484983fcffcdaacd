"""Walks what evidence rests on, and names the first break: the ledger's chain, receipts, artifacts.

    chain       each row's hash is of what it says and of the row before; none is missing in between
    receipts    manifests and sidecars are the bytes that were read
    artifacts   size and SHA-256 of each file that a manifest or a row of the ledger names

Files are hashed as fast as the disk gives them, several at once. A file that only another machine has is counted as
not seen from here; it is no break. Nothing is written, and no file is interpreted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tic_daemon.errors import StoreError, TicError
from tic_daemon.evidence.exit_codes import ExitCode, worst
from tic_daemon.ledger.chain import COLUMNS, Walk, of_row
from tic_daemon.results.safefile import GoneError, Hasher, RefusedError, open_inside
from tic_daemon.store.layout import local_host
from tic_daemon.store.reader import Connection, Reader, open_reader

if TYPE_CHECKING:
    from tic_daemon.store.layout import StoreLayout

PAGE: Final = 5000
TIMEOUT_S: Final = 120.0
FILES: Final = 4_000_000
"""Files that one store may name."""
KEPT: Final = 1000
"""Breaks that are kept in words; all are counted."""
THREADS: Final = 4
# What no hash covers is read all the same: DuckDB finds a block of it that is not what was written.
_BESIDE: Final = ("rec_id", "observed_at")
_PAGE: Final = f"SELECT {COLUMNS}, {', '.join(_BESIDE)} FROM ledger WHERE seq > ? AND seq <= ? ORDER BY seq, row_hash"  # noqa: S608


_CODES: Final = {
    "chain": ExitCode.FAIL, "receipt": ExitCode.GAPS, "artifact": ExitCode.GAPS, "store": ExitCode.NO_EVIDENCE,
    "bundle": ExitCode.FAIL, "file": ExitCode.GAPS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Break:
    """Something that is not as it was. `what`: chain, receipt, artifact or store; of a bundle also bundle (what it says
    of itself) and file. `where`: the row or the file."""

    what: str
    where: str
    why: str

    def words(self) -> str:
        """As a person reads it."""
        return f"{self.what} {self.where}: {self.why}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file and what it should be. `size` None: not said."""

    what: str
    host: str
    path: str
    size: int | None
    sha256: str


@dataclass(slots=True)
class Found:
    """What was walked in one store, or in one bundle.

    Attributes:
        head: the hash of the last row that holds. hashes: of all rows. digest: of a bundle, the SHA-256 of its
            statement.
        elsewhere: files of other machines; of a bundle, what could not be put into it, which `absent` names.
        copy: why not the store itself was walked but what was published of it; "" if it was.
        unhashed: files of which no hash is known; of a bundle, dumps that were left out on purpose.
    """

    store: str
    rows: int = 0
    head: str = ""
    hashes: set[str] = field(default_factory=set)
    files: int = 0
    bytes: int = 0
    elsewhere: int = 0
    unhashed: int = 0
    digest: str = ""
    copy: str = ""
    absent: list[str] = field(default_factory=list)
    broken: int = 0
    breaks: list[Break] = field(default_factory=list)

    def add(self, one: Break) -> None:
        """Notes a break."""
        self.broken += 1
        if len(self.breaks) < KEPT:
            self.breaks.append(one)

    @property
    def exit_code(self) -> ExitCode:
        """10 a chain that is broken, or a bundle that does not hold together, 14 files that are not as they were, 12
        files or a store that cannot be seen from here, 15 a store that cannot be read or holds nothing to verify."""
        found = [_CODES[one.what] for one in self.breaks]
        if not (self.rows or self.files or self.elsewhere or self.breaks):
            found.append(ExitCode.NO_EVIDENCE)
        if (self.elsewhere or self.copy) and not found:
            found.append(ExitCode.INCONCLUSIVE)
        return worst(found)


def verify(target: str, head: str = "") -> list[Found]:
    """Walks every store of what the user named.

    Args:
        head: hash of a row that was noted before: it must stand in a chain, else rows were taken away at its end.

    Raises:
        StoreError: there is no store. What is wrong with one that is there is a break.
    """
    found = [_walked(name, reach) for name, reach in _stores(target)]
    if head and not any(head in one.hashes for one in found):
        found[0].add(
            Break(
                "chain",
                f"row {head[:16]}…",
                "no row has this hash: rows are missing at the end, or another ledger is meant",
            )
        )
    return found


def _stores(target: str) -> list[tuple[str, str | Path]]:
    """Name and address of each store."""
    if target.startswith(("http://", "https://")) or Path(target).is_file():
        return [(target, target)]
    from tic_daemon.store.layout import stores_under  # noqa: PLC0415

    layouts: Sequence[StoreLayout] = stores_under(Path(target).absolute())
    if not layouts:
        raise StoreError(f"no store under {target}", "name the watched directory, or a store's file")
    return [(layout.directory.name, layout.directory) for layout in sorted(layouts, key=lambda one: one.directory.name)]


def _walked(name: str, reach: str | Path) -> Found:
    found = Found(name)
    try:
        reader = open_reader(reach)
    except TicError as error:
        found.add(Break("store", name, error.what))
        return found
    try:
        wanted = [*_chain(reader, found), *_receipts(reader), *_artifacts(reader, found)]
        _what_was_read(reader.connection(), found)
    except (TicError, ValueError, TypeError) as error:
        found.add(Break("store", name, f"it cannot be read: {getattr(error, 'what', None) or error}"))
        return found
    finally:
        reader.close()
    _files(wanted, found)
    return found


def _what_was_read(told: Connection, found: Found) -> None:
    """Whoever reads a store goes on with what was published when the store itself cannot be read. That is a copy, and a
    copy that holds says nothing of what it was copied from."""
    if told.kind != "snapshot":
        return
    of = f" of {told.data_at:%Y-%m-%d %H:%M:%S} UTC" if told.data_at is not None else ""
    found.copy = f"{told.detail or 'its file is not here'}; walked is what was published{of}"
    if told.unreadable:
        found.add(Break("store", found.store, found.copy))


def _chain(reader: Reader, found: Found) -> list[Wanted]:
    """Walks the chain; gives the files that its rows name."""
    row = reader.query(
        "SELECT any_value(s.store_id), max(l.seq), count(l.id) FROM b_store s LEFT JOIN ledger l ON true",
        timeout_s=TIMEOUT_S,
    ).rows[0]
    store_id, last, count = str(row[0]), row[1] or 0, row[2]
    walk = Walk(store_id)
    wanted: list[Wanted] = []
    at = 0
    while at < last and walk.broken is None:
        page = reader.query(_PAGE, [at, min(at + PAGE, last)], timeout_s=TIMEOUT_S, max_rows=2 * PAGE).rows
        at += PAGE
        rows = [of_row(one[: -len(_BESIDE)]) for one in page]
        walk.take(rows)
        for entry, link in rows:
            found.hashes.add(link.row_hash)
            wanted += _named(entry.artifacts, found, link.seq)
    found.rows, found.head = walk.head.seq, walk.head.row_hash
    if walk.broken is not None:
        found.add(Break("chain", f"row {walk.broken.seq} ({walk.broken.id})", walk.broken.why))
    elif count != found.rows:
        found.add(Break("chain", f"row {last}", f"the ledger has {count} rows, its chain {found.rows}"))
    return wanted


def _named(text: str, found: Found, seq: int) -> list[Wanted]:
    try:
        return [
            Wanted("artifact", str(one["host"]), str(one["path"]), int(one["size"]), str(one["sha256"]))
            for one in json.loads(text)
        ]
    except (ValueError, TypeError, KeyError):
        found.add(Break("chain", f"row {seq}", "what it names as artifacts cannot be understood"))
        return []


def _whole(reader: Reader, sql: str) -> list[tuple[Any, ...]]:
    """All rows of a query. Raises TicError: they are too many, and what is left out would count as verified."""
    found = reader.query(sql, timeout_s=TIMEOUT_S, max_rows=FILES)
    if found.truncated:
        raise TicError(f"it names over {FILES} files: too many for one walk")
    return list(found.rows)


def _receipts(reader: Reader) -> list[Wanted]:
    rows = _whole(
        reader,
        "SELECT host, path, digest FROM manifests WHERE present AND coalesce(digest, '') <> '' ORDER BY path",
    )
    # What evidence rests on is what its manifest was when the row was written, however often it was read since; unless
    # the daemon saw it grow, and say of the compared files what it said before: then it rests on what it is now.
    rested = _whole(
        reader,
        "SELECT DISTINCT e.made_on, e.manifest, e.manifest_sha256 FROM i_evidence e "
        "LEFT JOIN i_comparison_beside x ON x.host = e.made_on AND x.comparison_id = e.comparison "
        "WHERE e.manifest <> '' AND e.manifest_sha256 <> '' AND (coalesce(x.changed, '') <> '' OR e.comparison NOT IN "
        "(SELECT comparison_id FROM b_comparison_file WHERE role = 'said')) ORDER BY e.manifest, e.manifest_sha256",
    )
    return [Wanted("receipt", host, path, None, digest) for host, path, digest in (*rows, *rested)]


def _artifacts(reader: Reader, found: Found) -> list[Wanted]:
    rows = _whole(
        reader,
        "SELECT host, path, coalesce(expected_size, CASE WHEN state IN ('verified', 'recorded') THEN bytes_size END), "
        "coalesce(expected_sha256, kept_sha256) FROM artifacts ORDER BY path",
    )
    found.unhashed = sum(1 for row in rows if not row[3])
    return [Wanted("artifact", *row) for row in rows if row[3]]


def _files(wanted: Iterable[Wanted], found: Found) -> None:
    """Hashes each file once, and holds it against all that is said of it."""
    by_path: dict[str, list[Wanted]] = {}
    for one in dict.fromkeys(wanted):
        by_path.setdefault(one.path, []).append(one)
    here = local_host()
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1), "tic-verify") as pool:
        for (path, said), seen in zip(by_path.items(), pool.map(_hashed, by_path), strict=True):
            if isinstance(seen, str) and seen == _GONE and not any(one.host == here for one in said):
                found.elsewhere += 1
                continue
            found.files += 1
            if isinstance(seen, str):
                found.add(Break(said[0].what, path, seen))
                continue
            size, digest = seen
            found.bytes += size
            for one in said:
                if one.size is not None and one.size != size:
                    found.add(Break(one.what, path, f"it has {size} bytes, where {one.size} are said"))
                elif one.sha256 != digest:
                    found.add(Break(one.what, path, f"its SHA-256 is {digest}, where {one.sha256} is said"))


_GONE: Final = "there is no such file"


def _hashed(path: str) -> tuple[int, str] | str:
    """Size and SHA-256 of a file, or why there are none."""
    try:
        fd, seen = open_inside(path, "/")
    except GoneError:
        return _GONE
    except (RefusedError, OSError, ValueError) as error:
        return f"it cannot be read: {getattr(error, 'strerror', None) or error}"
    hasher = Hasher(fd, seen)
    try:
        digest = hasher.advance(seen.size + 1)
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    finally:
        hasher.close()
    return (seen.size, digest) if digest else "it changed while it was read"
