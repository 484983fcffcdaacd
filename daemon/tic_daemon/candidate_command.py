"""`tic-daemon candidate` and `exempt`: what a run executes, and a parent's pass that a change does not touch."""

from __future__ import annotations

import argparse
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tic_daemon import ledger_said as said
from tic_daemon.errors import TicError
from tic_daemon.ledger import closure, entries, gates
from tic_daemon.ledger.canon import canonical, named
from tic_daemon.ledger_said import Commands
from tic_daemon.output import one_line
from tic_daemon.people_commands import take_in
from tic_daemon.store.layout import local_host
from tic_daemon.store.reader import Reader, open_reader
from tic_daemon.store.spool import Spool


def add_parsers(commands: Commands[argparse.ArgumentParser]) -> None:
    """Adds the commands to the command line."""
    own = commands.add_parser("candidate", help="say what a run executes; list candidates; show one")
    verbs = own.add_subparsers(dest="verb", required=True, metavar="declare|show|list")
    declare = verbs.add_parser("declare", help="RUN executes this closure: a new one starts with every gate not run")
    declare.add_argument("run_id", metavar="RUN")
    declare.add_argument("--name", default="", help="what people call it")
    declare.add_argument("--parent", default="", metavar="CANDIDATE", help="what it was made from")
    declare.add_argument(
        "--fields",
        type=Path,
        metavar="FILE",
        help='TOML: "NAME" = "VALUE" for fields that the run record does not show',
    )
    declare.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a field of the closure")
    declare.add_argument(
        "--changed", action="append", default=[], metavar="FIELD", help="this changed too, though it reads the same"
    )
    declare.add_argument("--policy-content-id", default="", metavar="ID", help="of the exported weights")
    declare.add_argument("--policy-manifest-sha256", default="", metavar="HASH")
    declare.add_argument("--receipt-sha256", default="", metavar="HASH", help="of the rollout's receipt")
    said.where(declare)
    declare.set_defaults(run=_declare)
    show = verbs.add_parser("show", help="one candidate with all fields of its closure")
    show.add_argument("candidate", metavar="CANDIDATE")
    said.where(show)
    show.set_defaults(run=_show)
    said.lister(verbs, _candidates)

    exempt = commands.add_parser("exempt", help="carry a parent's pass over: show that a change does not touch a gate")
    exempt.add_argument("candidate", metavar="CANDIDATE", help="hash (its beginning will do) or name")
    exempt.add_argument("place", metavar="GATE[/CELL]", help=", ".join(gates.GATES))
    exempt.add_argument("--from", dest="parent", required=True, metavar="CANDIDATE", help="its parent, or one above")
    exempt.add_argument("--closure", required=True, metavar="FILE", help="the dependency closure that shows it; hashed")
    said.reasoned(exempt)
    exempt.set_defaults(run=_exempt)


def _declare(args: argparse.Namespace) -> int:
    reader = open_reader(args.at)
    try:
        known = said.rows(reader, "SELECT candidate_id, name, parent_id, changed, run_ids FROM candidates")
        parent = said.one(reader, "candidates", "candidate_id", "name", args.parent) if args.parent else None
        recorded = _recorded(reader, args.run_id)
    finally:
        reader.close()
    found = _closure(_together(recorded, {**_file_fields(args.fields), **_set_fields(args.set)}))
    if found.lacking:
        raise TicError(
            f"nothing is known of the {', '.join(found.lacking)} of {args.run_id}: any run might be that candidate",
            "let its workers write receipts, or say with --fields or --set what is sure; docs/reference/ledger.md",
        )
    for row in known:
        if args.run_id in row["run_ids"] and row["candidate_id"] != found.sha256:
            raise TicError(
                f"{args.run_id} was declared to execute {row['candidate_id'][:12]}",
                "what executes otherwise is another run",
            )
    body: dict[str, Any] = {"name": args.name, "fields": dict(found.fields)}
    if parent is not None:
        body.update(_since(parent, found, args.changed))
    _require_as_first(known, found.sha256, parent, body)
    entry = Spool.at(args.at).declare(
        "candidate", row_id=named("candidate", found.sha256, args.run_id, args.name, args.parent),
        candidate=found.sha256, run_id=args.run_id, target=str(parent["candidate_id"]) if parent else "",
        policy_content_id=args.policy_content_id, manifest_sha256=args.policy_manifest_sha256,
        receipt_sha256=args.receipt_sha256, body=canonical(body),
    )  # fmt: skip
    lines = [f"{args.run_id} executes candidate {found.sha256}{take_in(Path(args.at))}"]
    if found.unknown:
        lines.append(f"  unknown: {', '.join(found.unknown)}")
    if found.screening:
        lines.append("  it serves fixed weights: for screening only")
    lines += (
        [f"  changed since {entry.target[:12]}: {', '.join(body['changed']) or 'nothing that is known'}"]
        if parent
        else []
    )
    lines += [f"  run again at least: {words}" for words in body.get("regressions", [])]
    said.answer(
        args,
        {"candidate_id": found.sha256, "unknown": found.unknown, "screening": found.screening, **body},
        "\n".join(lines),
    )
    return 0


def _require_as_first(
    known: Sequence[Mapping[str, Any]], digest: str, parent: Mapping[str, Any] | None, body: Mapping[str, Any]
) -> None:
    """What a candidate was made from counts as it was declared first: another run of it changes nothing of that."""
    first = next((row for row in known if row["candidate_id"] == digest), None)
    if first is None:
        return
    if body["name"] and body["name"] != first["name"]:
        raise TicError(f"{digest[:12]} was declared as {first['name'] or 'one without a name'}", "give it that name")
    if parent is not None and parent["candidate_id"] != first["parent_id"]:
        words = f"with parent {first['parent_id'][:12]}" if first["parent_id"] else "without a parent"
        raise TicError(f"{digest[:12]} was declared {words}, which stays", "leave --parent out")
    if more := sorted(set(body.get("changed", ())) - set(first["changed"])):
        raise TicError(
            f"--changed {more[0]}: {digest[:12]} was declared without it, which stays",
            "name it with --set by a value of its own: that is another candidate",
        )


def _recorded(reader: Reader, run_id: str) -> dict[str, str]:
    """What the run's record says of the fields of a closure; empty if the run is not known yet."""
    found = said.rows(reader, "SELECT field, value, same_value FROM run_records WHERE run_id = ?", [run_id])
    values = {str(row["field"]): str(row["same_value"] or row["value"]) for row in found if row["value"]}
    return {
        name: closure.fitting(value)
        for name, value in values.items()
        if name in closure.NAMES.recorded and value != closure.UNKNOWN
    }


def _together(recorded: Mapping[str, str], declared: Mapping[str, str]) -> dict[str, str]:
    """Both: what is declared fills in what the record does not know, and never contradicts it."""
    for name, value in declared.items():
        if name in recorded and value.strip().lower() != recorded[name].lower():
            raise TicError(
                f"{name}: {value} contradicts the run's record, which says {recorded[name]}",
                "leave it out: a declaration fills in what nothing shows",
            )
    return {**declared, **recorded}


def _since(parent: Mapping[str, Any], found: closure.Closure, more: Sequence[str]) -> dict[str, Any]:
    """What changed since a parent, and what that makes stale."""
    unknown = sorted(set(more) - found.fields.keys())
    if unknown:
        raise TicError(
            f"--changed {unknown[0]}: the closure has no such field", "`tic-daemon candidate show` lists them"
        )
    changes = closure.changes(dict(parent["fields"]), found.fields)
    changed = sorted({*changes.changed, *more})
    return {
        "changed": changed, "unshown": [name for name in changes.unshown if name not in changed],
        "stale": [[one.gate, one.cell, one.cause] for one in gates.stale(changed)],
        "regressions": gates.regressions(changed),
    }  # fmt: skip


def _closure(said: Mapping[str, str]) -> closure.Closure:
    try:
        return closure.of(said)
    except ValueError as error:
        raise TicError(
            f"no closure: {error}", 'fields are NAME = "VALUE"; docs/reference/ledger.md lists them'
        ) from error


def _file_fields(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        found = tomllib.loads(said.read(path).decode())
    except (ValueError, RecursionError) as error:
        raise TicError(f"{path} is no TOML: {error}") from error
    wrong = next((name for name, value in found.items() if not isinstance(value, str)), None)
    if wrong is not None:
        raise TicError(f"{path}: {wrong} is no text", 'each field is NAME = "VALUE"')
    return found


def _set_fields(said: Sequence[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in said]
    wrong = next((name for name, equals, _ in pairs if not equals), None)
    if wrong is not None:
        raise TicError(f"--set {wrong} is not NAME=VALUE", "e.g. --set update.export=merged")
    return {name: value for name, _, value in pairs}


def _candidates(args: argparse.Namespace) -> int:
    rows = said.rows_at(args.at, "SELECT * EXCLUDE (fields, stale) FROM candidates ORDER BY said_at")
    lines = []
    for row in rows:
        words = [f"runs {', '.join(row['run_ids'])}" if row["run_ids"] else "no run"]
        words += [f"parent {row['parent_id'][:12]}"] if row["parent_id"] else []
        words += ["for screening only"] if row["screening"] else []
        words += [f"{len(row['unknown'])} fields unknown"] if row["unknown"] else []
        words.append(f"declared {row['said_at']:%F %T} UTC by {row['who']}")
        lines.append(f"{row['candidate_id'][:12]}  {row['name'] or '-'}: {'; '.join(words)}")
    return said.listed(args, rows, lines, "no candidate is declared here")


def _show(args: argparse.Namespace) -> int:
    reader = open_reader(args.at)
    try:
        row = said.one(reader, "candidates", "candidate_id", "name", args.candidate)
    finally:
        reader.close()
    lines = [f"candidate {row['candidate_id']} {row['name'] or ''}".rstrip(), f"  parent: {row['parent_id'] or 'none'}"]
    lines += [
        f"  {name}: {row[name]}" for name in ("policy_content_id", "manifest_sha256", "receipt_sha256") if row[name]
    ]
    lines += [
        f"  runs: {', '.join(row['run_ids']) or 'none'}",
        *(f"  {name} = {value}" for name, value in dict(row["fields"]).items()),
    ]
    lines += [f"  changed: {', '.join(row['changed'])}"] if row["changed"] else []
    lines += [f"  not shown to be equal: {', '.join(row['unshown'])}"] if row["unshown"] else []
    lines += [f"  run again at least: {words}" for words in row["regressions"]]
    said.answer(args, row, "\n".join(map(one_line, lines)))
    return 0


def _exempt(args: argparse.Namespace) -> int:
    gate, _, cell = args.place.partition("/")
    reader = open_reader(args.at)
    try:
        own = said.one(reader, "candidates", "candidate_id", "name", args.candidate)
        parent = said.one(reader, "candidates", "candidate_id", "name", args.parent)
        if parent["candidate_id"] not in _above(reader, own["candidate_id"]):
            raise TicError(f"{args.parent} is no parent of {args.candidate}", "candidates side by side inherit nothing")
    finally:
        reader.close()
    path = Path(args.closure)
    raw = said.read(path)
    if not raw.strip():
        raise TicError(f"{path} is empty: it shows nothing", "write down what the change reaches, and what it does not")
    digest = hashlib.sha256(raw).hexdigest()
    shown = entries.artifact(str(path.absolute()), len(raw), digest, local_host())
    row = Spool.at(args.at).declare(
        "exemption", candidate=str(own["candidate_id"]), target=str(parent["candidate_id"]), gate=gate, cell=cell,
        reason=args.reason, artifacts=canonical([shown]), body=canonical({"closure": digest}),
    )  # fmt: skip
    short = f"{args.place} of {own['candidate_id'][:12]}"
    words = f"{short}: a pass of {parent['candidate_id'][:12]} there holds here, too; row {row.id}"
    said.answer(args, {"id": row.id, "closure": digest}, f"{words}{take_in(Path(args.at))}")
    return 0


def _above(reader: Reader, candidate: str) -> set[str]:
    """All parents of a candidate, and theirs."""
    found = said.rows(reader, "SELECT candidate_id, parent_id FROM candidates")
    parents = {str(row["candidate_id"]): row["parent_id"] for row in found}
    line: set[str] = set()
    at = parents.get(candidate)
    while at and at not in line:
        line.add(at)
        at = parents.get(at)
    return line
