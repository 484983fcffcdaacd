"""Whether a bundle is still what it was made as, on any machine and without a store; names the first break.

    bundle     bundle.json and statement.json say the same, and know each other's bytes
    file       each file is there, no other is, and each has the size and SHA-256 that are said
    chain      the ledger's rows hash to what they say, none is missing in between, and they end where the bundle says
    artifact   what rows of the run or candidate rest on is in the bundle, or the bundle says why not

It proves that nothing was changed since, and not who made it: for that, sign statement.json, or keep its SHA-256
(`verify --head`). A bundle says what it says of a moment; whether the store says so, too, `tic-daemon verify` of the
workspace tells.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tic_daemon.ledger.chain import Walk
from tic_daemon.ledger.entries import Entry
from tic_daemon.report import chains, container, shape, statement
from tic_daemon.report.container import Container
from tic_daemon.verifying import Break, Found

_HEX: Final = 64
_ROWS_END: Final = 1 << 63


def verify(path: Path, head: str = "") -> Found:
    """Walks a bundle.

    Args:
        head: the hash of a row of its ledger, or of its statement, that was noted before.

    Raises:
        StoreError: it cannot be looked at at all.
    """
    found = Found(str(path))
    inside = container.opened(path)
    try:
        _walked(inside, found)
    except OSError as error:
        found.add(Break("store", str(path), f"it cannot be read: {error.strerror or error}"))
    finally:
        inside.close()
    if head and head not in found.hashes:
        found.add(Break("chain", f"row {head[:16]}…", "neither a row of its ledger nor its statement has this hash"))
    return found


def _walked(inside: Container, found: Found) -> None:
    for name, why in inside.wrong:
        found.add(Break("file", name, why))
    index, raw = _index(inside, found)
    if index is None:
        return
    _statement(inside, index, raw, found)
    said = {one["path"]: one for one in index["files"]}
    for name in sorted(inside.sizes.keys() - said.keys() - {shape.INDEX, shape.STATEMENT}):
        found.add(Break("file", name, "bundle.json does not name it"))
    whole = [name for name in sorted(said) if _file(inside, name, said[name], found)]
    rows: list[Entry] = []
    for store in index["stores"]:
        rows += _chain(inside, store, set(whole), index, found)
    _references(index, rows, said, found)


# --- the two that name the others ---------------------------------------------------------------------------------


def _index(inside: Container, found: Found) -> tuple[dict[str, Any] | None, bytes]:
    raw = _small(inside, shape.INDEX, found)
    if raw is None:
        return None, b""
    try:
        told = json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError):
        found.add(Break("bundle", shape.INDEX, "it is no JSON"))
        return None, raw
    version = told.get("version") if isinstance(told, dict) and told.get("format") == shape.FORMAT else None
    if type(version) is int and version > shape.VERSION:
        why = f"it has version {version}, and this program knows {shape.VERSION}: verify it with a newer tic-daemon"
        found.add(Break("store", shape.INDEX, why))
        return None, raw
    why = (
        _form(told)
        if version is not True and version == shape.VERSION
        else "it is not the index of a bundle in a version that there is"
    )
    if why:
        found.add(Break("bundle", shape.INDEX, why))
        return None, raw
    return told, raw


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _small(inside: Container, name: str, found: Found) -> bytes | None:
    size = inside.sizes.get(name)
    if size is None:
        found.add(Break("bundle", name, "it is missing"))
        return None
    if size > shape.INDEX_BYTES:
        found.add(Break("bundle", name, f"it has {size} bytes, more than {shape.INDEX_BYTES}"))
        return None
    raw = b"".join(inside.pieces(name))
    found.files += 1
    found.bytes += len(raw)
    return raw


def _statement(inside: Container, index: Mapping[str, Any], raw: bytes, found: Found) -> None:
    told = _small(inside, shape.STATEMENT, found)
    if told is None:
        return
    if told != statement.of(index, raw):
        found.add(
            Break(
                "bundle", shape.STATEMENT, "it does not say what follows from bundle.json: one of the two was changed"
            )
        )
        return
    found.digest = hashlib.sha256(told).hexdigest()
    found.hashes.add(found.digest)


def _form(told: Mapping[str, Any]) -> str:
    """What is wrong with the form of an index; ""."""
    if not all(isinstance(told.get(name), str) for name in ("made_by", "as_of")):
        return "it does not say by what and as of when it was made"
    subject = told.get("subject")
    if not isinstance(subject, dict) or not all(_texts(subject.get(name)) for name in ("runs", "candidates")):
        return "it does not say what it is about"
    lists = ("stores", "tables", "references", "files")
    if not _texts(told.get("missing")) or not all(_rows(told.get(name)) for name in lists):
        return "a list is missing"
    return _files(told["files"]) or _stores(told["stores"]) or _named_files(told["references"]) or _parts(told)


def _parts(told: Mapping[str, Any]) -> str:
    """That reports, tables and ledgers which are listed are files, each once, and no other is there."""
    if not all(isinstance(one.get("file"), str) for one in told["tables"]):
        return "it does not name the file of a table"
    named = [*(one["file"] for one in told["tables"]), *(one["ledger"] for one in told["stores"] if one["ledger"])]
    there = [one["path"] for one in told["files"] if one["path"].startswith(("tables/", "ledger/"))]
    if other := set(named) ^ set(there):
        return f"{min(other)[:100]} is not both a file and a table or ledger"
    if len(set(named)) < len(named):
        return "it names a table or ledger twice"
    lacking = set(shape.REPORTS) - {one["path"] for one in told["files"]}
    return f"it does not name {min(lacking)}" if lacking else ""


def _files(files: list[dict[str, Any]]) -> str:
    for one in files:
        if not isinstance(one.get("path"), str) or not shape.NAME.fullmatch(one["path"]):
            return "it names a file that no bundle has"
        if type(one.get("size")) is not int or one["size"] < 0 or not _digest(one.get("sha256")):
            return f"it does not say size and SHA-256 of {one['path']}"
    return "" if len({one["path"] for one in files}) == len(files) else "it names a file twice"


def _stores(stores: list[dict[str, Any]]) -> str:
    for one in stores:
        rows = one.get("rows")
        if not all(isinstance(one.get(name), str) for name in ("store_id", "head")) or type(rows) is not int:
            return "it does not say where a ledger ends"
        if not 0 <= rows < _ROWS_END or "ledger" not in one:
            return "it does not say where a ledger ends"
        if one.get("ledger") is not None and not isinstance(one["ledger"], str):
            return "it does not name the file of a ledger"
    return ""


def _named_files(references: list[dict[str, Any]]) -> str:
    for one in references:
        if not all(isinstance(one.get(name), str) for name in ("what", "sha256", "path", "why")):
            return "it does not say what is named"
        if one.get("file") is not None and not isinstance(one["file"], str):
            return "it does not say which file is what is named"
    return ""


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _digest(value: object) -> bool:
    return isinstance(value, str) and len(value) == _HEX and not value.strip("0123456789abcdef")


# --- the others ---------------------------------------------------------------------------------------------------


def _file(inside: Container, name: str, said: Mapping[str, Any], found: Found) -> bool:
    """Whether a file is as it is said; a larger one than that is not read."""
    size = inside.sizes.get(name)
    if size is None:
        found.add(Break("file", name, "it is missing"))
        return False
    if size != said["size"]:
        found.add(Break("file", name, f"it has {size} bytes, where {said['size']} are said"))
        return False
    digest = hashlib.sha256()
    try:
        for piece in inside.pieces(name):
            digest.update(piece)
    except OSError as error:
        found.add(Break("file", name, f"it cannot be read: {error.strerror or error}"))
        return False
    found.files += 1
    found.bytes += size
    if digest.hexdigest() != said["sha256"]:
        found.add(Break("file", name, f"its SHA-256 is {digest.hexdigest()}, where {said['sha256']} is said"))
        return False
    stem = name.partition("/")[2].removesuffix(".toml")
    if name.startswith(("criteria/", "files/")) and stem != said["sha256"]:
        found.add(Break("file", name, "it is not named by its own SHA-256"))
        return False
    return True


def _chain(
    inside: Container, store: Mapping[str, Any], whole: set[str], index: Mapping[str, Any], found: Found
) -> list[Entry]:
    """Walks one store's chain; gives the rows of the run or candidate."""
    name, store_id, last = store["ledger"], store["store_id"], store["rows"]
    if name is None:
        if last or store["head"]:
            found.add(Break("chain", f"store {store_id}", f"{last} rows are said, and there is no file of them"))
        return []
    if name != f"ledger/{store_id}.jsonl" or name not in inside.sizes:
        found.add(Break("chain", f"store {store_id}", "the file of its rows is not there"))
        return []
    if name not in whole:
        return []  # said already, and what it holds shows nothing
    runs, candidates = set(index["subject"]["runs"]), set(index["subject"]["candidates"])
    own: list[Entry] = []
    walk, number = Walk(store_id), 0
    with inside.read(name) as file:
        left = inside.sizes[name]
        while left and (raw := file.readline(min(left, shape.LINE_BYTES))):
            left -= len(raw)
            number += 1
            try:
                entry, link = chains.parsed(raw, store_id)
            except ValueError as error:
                found.add(Break("chain", f"{name} line {number}", str(error)))
                return own
            if not walk.take([(entry, link)]):
                break
            found.hashes.add(link.row_hash)
            if entry.candidate in candidates or entry.run_id in runs:
                own.append(entry)
    found.rows += walk.head.seq
    found.head = walk.head.row_hash
    if walk.broken is not None:
        found.add(Break("chain", f"{name} row {walk.broken.seq} ({walk.broken.id})", walk.broken.why))
    elif (walk.head.seq, walk.head.row_hash) != (last, store["head"]):
        found.add(Break("chain", name, f"it ends at row {walk.head.seq}, where {last} is said, or at another hash"))
    return own


def _references(index: Mapping[str, Any], rows: list[Entry], said: Mapping[str, Any], found: Found) -> None:
    """That all which the rows rest on is there, or said not to be."""
    known = {one["sha256"] for one in index["references"]}
    held = {one["file"] for one in index["references"]}
    for one in index["references"]:
        why = _reference(one, said, known, found)
        if why:
            found.add(Break("artifact", one["path"] or one["sha256"], why))
    for name in sorted(said):
        if name.startswith(("criteria/", "files/")) and name not in held:
            found.add(Break("file", name, "nothing in bundle.json refers to it"))
    for entry in rows:
        for what, digest in _named(entry):
            if digest not in known:
                found.add(Break("artifact", digest, f"row {entry.id} rests on this {what}, and the bundle knows none"))


def _reference(one: Mapping[str, Any], said: Mapping[str, Any], known: set[str], found: Found) -> str:
    """Why what is named does not hold; "". What is left out is counted."""
    if one["file"] is not None:
        there = one["file"] in said and said[one["file"]]["sha256"] == one["sha256"]
        return "" if there else f"{one['file']} is not it"
    if not one["why"]:
        return "it is not in the bundle, and nothing says why"
    if one["what"] == "receipts" and one["why"] == shape.TOGETHER:
        parts = sorted(one["path"].split())
        whole = hashlib.sha256("\n".join(parts).encode()).hexdigest() == one["sha256"] and known.issuperset(parts)
        return "" if whole else "it is not the hash of the receipts that are named for it"
    if one["why"] == shape.NOT_ASKED:
        found.unhashed += 1
    else:
        found.elsewhere += 1
        found.absent.append(f"{one['what']} {one['path'] or one['sha256']}: {one['why']}")
    return ""


def _named(entry: Entry) -> list[tuple[str, str]]:
    try:
        files = [("file", str(one["sha256"])) for one in json.loads(entry.artifacts)]
    except (ValueError, TypeError, KeyError):
        files = []
    told = [
        ("criterion", entry.criterion),
        ("manifest", entry.manifest_sha256),
        ("receipt", entry.receipt_sha256),
        *files,
    ]
    return [(what, digest) for what, digest in told if digest]
