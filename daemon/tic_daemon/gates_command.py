"""`tic-daemon gates` and `evidence`: how candidates stand at the five gates, and what people say against a piece of
evidence."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tic_daemon import ledger_said as said
from tic_daemon.errors import TicError, UnknownRunError
from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.ledger import entries, gates
from tic_daemon.ledger_said import Commands
from tic_daemon.output import one_line
from tic_daemon.people_commands import take_in
from tic_daemon.store.reader import open_reader
from tic_daemon.store.spool import Spool

_CODES: Final = {"fail": ExitCode.FAIL, "inconclusive": ExitCode.INCONCLUSIVE, "not run": ExitCode.INCONCLUSIVE}


def add_parsers(commands: Commands[argparse.ArgumentParser]) -> None:
    """Adds the commands to the command line."""
    own = commands.add_parser("gates", help="how a candidate stands at the five gates; without one: all, a line each")
    own.add_argument("candidate", nargs="?", metavar="CANDIDATE", help="hash (its beginning will do) or name")
    said.where(own)
    own.set_defaults(run=_gates)

    evidence = commands.add_parser("evidence", help="the evidence of the ledger; supersede it, or class a failure")
    verbs = evidence.add_subparsers(dest="verb", required=True, metavar="list|supersede|plane")
    listing = verbs.add_parser("list", help="what is current; with --all also what was superseded or is historical")
    listing.add_argument("candidate", nargs="?", default="", metavar="CANDIDATE")
    listing.add_argument(
        "--all", action="store_true", dest="whole", help="all that was ever judged, with its label then"
    )
    said.where(listing)
    listing.set_defaults(run=_list)
    supersede = verbs.add_parser("supersede", help="it counts no more: its cell is stale")
    supersede.add_argument("evidence", metavar="ID", help="of the list; its beginning will do")
    said.reasoned(supersede)
    supersede.set_defaults(run=_supersede)
    plane = verbs.add_parser("plane", help="which plane a failure lies on")
    plane.add_argument("evidence", metavar="ID")
    plane.add_argument("plane", choices=entries.PLANES)
    said.reasoned(plane)
    plane.set_defaults(run=_plane)


def _gates(args: argparse.Namespace) -> int:
    reader = open_reader(args.at)
    try:
        known = said.rows(
            reader, "SELECT candidate_id, name, screening, regressions, unknown FROM candidates ORDER BY said_at"
        )
        rows = said.rows(reader, "SELECT * FROM gates ORDER BY candidate_id, position, cell")
        one = said.one(reader, "candidates", "candidate_id", "name", args.candidate) if args.candidate else None
    finally:
        reader.close()
    if not known:
        raise UnknownRunError("no candidate is declared here", "tic-daemon candidate declare RUN")
    if one is None:
        of = {str(candidate["candidate_id"]): [] for candidate in known}  # type: dict[str, list[dict[str, Any]]]
        for row in rows:
            of[str(row["candidate_id"])].append(row)
        lines = [_line(candidate, of[str(candidate["candidate_id"])]) for candidate in known]
        return said.listed(args, rows, lines, "")
    rows = [row for row in rows if row["candidate_id"] == one["candidate_id"]]
    code = exit_code(rows)
    answer = {"exit_code": int(code), "candidate_id": one["candidate_id"], "gates": rows}
    said.answer(args, answer, "\n".join(map(one_line, _table(one, rows))))
    return int(code)


def exit_code(rows: Sequence[Mapping[str, Any]]) -> ExitCode:
    """0 only if every cell passed; 15 if none was ever run; else the worst."""
    states = {row["state"] for row in rows}
    if states <= {"not run"}:
        return ExitCode.NO_EVIDENCE
    return next((code for state, code in _CODES.items() if state in states), ExitCode.WELL)


def _line(candidate: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """One candidate as a line."""
    states = {row["gate"]: row["gate_state"] for row in rows}
    stale = {row["gate"] for row in rows if row["stale"]}
    words = [f"{gate} {states.get(gate, 'not run')}{' (stale)' if gate in stale else ''}" for gate in gates.GATES]
    screening = ", for screening only" if candidate["screening"] else ""
    return f"{candidate['candidate_id'][:12]}  {candidate['name'] or '-'}{screening}: {', '.join(words)}"


def _table(candidate: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [f"candidate {candidate['candidate_id']} {candidate['name'] or ''}".rstrip()]
    if candidate["screening"]:
        lines.append("  it serves fixed weights: for screening only")
    if candidate["unknown"]:
        lines.append(f"  {len(candidate['unknown'])} fields of its closure are unknown: tic-daemon candidate show")
    gate = ""
    for row in rows:
        if row["gate"] != gate:
            gate = str(row["gate"])
            lines.append(f"{row['gate_no']} {gates.GATES[gate].title}: {row['gate_state']}")
        cell = "no version yet" if row["cell"] == gates.VERSION else row["cell"]
        cause = f": {row['cause']}" if row["cause"] else ""
        lines.append(f"  {cell:<20} {row['state']}{cause}")
    lines += [f"run again at least: {words}" for words in candidate["regressions"]]
    return lines


_CURRENT: Final = """
SELECT id, candidate_id, gate, cell, run_id, policy, label, state, reason, plane, said_at
FROM evidence_current ORDER BY said_at, id"""
WHOLE: Final = """
SELECT l.id, l.candidate_id, coalesce(nullif(l.gate, ''), c.gate) AS gate,
    CASE WHEN l.gate <> '' THEN l.cell WHEN c.gate = 'per_version' THEN l.policy ELSE c.cell END AS cell, l.run_id, l.policy, l.label,
    CASE WHEN s.target IS NOT NULL THEN 'superseded' WHEN c.replaced_by IS NOT NULL THEN 'historical' ELSE 'current' END AS state,
    l.reason, l.plane, l.said_at
FROM ledger l
LEFT JOIN criteria c ON c.criterion_id = l.criterion_id
LEFT JOIN (SELECT DISTINCT target FROM ledger WHERE kind = 'supersede') s ON s.target = l.id
WHERE l.kind = 'evidence' ORDER BY l.said_at, l.id"""  # noqa: E501


def _list(args: argparse.Namespace) -> int:
    own = said.candidate_id(args.at, args.candidate)
    rows = said.rows_at(args.at, WHOLE if args.whole else _CURRENT)
    rows = [row for row in rows if own in ("", row["candidate_id"])]
    return said.listed(args, rows, [_piece(row) for row in rows], "nothing was judged of a candidate here")


def _piece(row: Mapping[str, Any]) -> str:
    """One piece of evidence as a line."""
    place = f"{row['gate']}/{row['cell']}" if row["gate"] and row["cell"] else str(row["gate"] or "no cell")
    plane = f" ({row['plane']} plane)" if row["plane"] else ""
    judged = f"{row['label'] or 'no label'}, {row['state']}{plane}: {row['reason']}"
    return f"{row['id'][:12]}  {row['candidate_id'][:12]} {place} {row['run_id']}: {judged}"


def _supersede(args: argparse.Namespace) -> int:
    target = _evidence(args)
    Spool.at(args.at).declare("supersede", target=target, reason=args.reason)
    words = f"{target[:12]} counts no more; its cell is stale until newer evidence stands there"
    said.answer(args, {"superseded": target}, f"{words}{take_in(Path(args.at))}")
    return 0


def _plane(args: argparse.Namespace) -> int:
    target = _evidence(args)
    Spool.at(args.at).declare("plane", target=target, plane=args.plane, reason=args.reason)
    words = f"{target[:12]}: {args.plane} plane{take_in(Path(args.at))}"
    said.answer(args, {"evidence": target, "plane": args.plane}, words)
    return 0


def _evidence(args: argparse.Namespace) -> str:
    """The id that a person means."""
    rows = said.rows_at(args.at, "SELECT id FROM ledger WHERE kind = 'evidence'")
    found = [str(row["id"]) for row in rows if len(args.evidence) >= 6 and str(row["id"]).startswith(args.evidence)]
    if not found:
        raise UnknownRunError(f"no evidence {args.evidence!r} in this ledger", "tic-daemon evidence list --all")
    if len(found) > 1:
        raise TicError(f"{args.evidence!r} may be {len(found)} pieces of evidence", "name more of its id")
    return found[0]
