"""What the ledger holds of candidates and runs: gates, evidence, exemptions, criteria, cases, baselines, all rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tic_daemon.gates_command import WHOLE
from tic_daemon.ledger import gates
from tic_daemon.report.model import Block, Bullets, Cell, Inline, Section, Word, code, para, some, table, text, word
from tic_daemon.report.moment import Moment, Row, listed

SHOWN: Final = 500
_CANDIDATES: Final = """
SELECT candidate_id, name, parent_id, run_ids, unknown, screening, changed, unshown, regressions, stale, fields, who, host, said_at
FROM candidates ORDER BY said_at, candidate_id"""  # noqa: E501
_CRITERIA: Final = "SELECT * FROM criteria ORDER BY frozen_at, criterion_id"
# Lists go in as JSON: a parameter of an HTTP reader is one value.
_EVIDENCE: Final = f"""
SELECT w.*, l.criterion_id, l.store_id, l.seq FROM ({WHOLE}) w JOIN ledger l ON l.id = w.id
WHERE list_contains(from_json(?, '["VARCHAR"]'), w.candidate_id) OR list_contains(from_json(?, '["VARCHAR"]'), w.run_id)
ORDER BY w.said_at, w.id"""  # noqa: S608  a constant
_OTHERS: Final = """
SELECT id, kind, said_at, who, host, candidate_id, criterion_id, run_id, gate, cell, target, plane, reason, body, artifacts, seq, store_id
FROM ledger WHERE kind <> 'evidence' AND (
    list_contains(from_json(?, '["VARCHAR"]'), candidate_id) OR list_contains(from_json(?, '["VARCHAR"]'), run_id)
    OR list_contains(from_json(?, '["VARCHAR"]'), target)
    OR (kind IN ('criterion', 'replaced') AND list_contains(from_json(?, '["VARCHAR"]'), criterion_id)))
ORDER BY said_at, id"""  # noqa: E501
_CASES: Final = "SELECT * FROM cases ORDER BY opened_at, name"
_BASELINES: Final = "SELECT * FROM baselines ORDER BY said_at, name"
_PARTS: Final = {
    "contract": "contract",
    "counterexample": "minimal counterexample",
    "experiment": "discriminating experiment",
    "fix": "root cause and minimal fix",
    "regression": "regression on the original reproducer",
    "scope": "scope and source",
}


class Ledger:
    """The views of the ledger at one moment, read once, and what of them belongs to some candidates and runs.

    Attributes:
        candidates: those that are asked for. others: all, by id. gates, evidence, criteria, rows, cases, baselines:
            what concerns them.
    """

    def __init__(self, moment: Moment, candidates: Iterable[str] | None, runs: Sequence[str]) -> None:
        """`candidates` None: those that the runs execute."""
        self.others: Mapping[str, Row] = {row["candidate_id"]: row for row in moment.rows(_CANDIDATES)}
        executed = (key for key, row in self.others.items() if set(row["run_ids"] or ()) & set(runs))
        own = set(candidates if candidates is not None else executed)
        self.candidates = [row for key, row in self.others.items() if key in own]
        places = moment.of("gates", *own, key="candidate_id") if own else []
        self.gates = sorted(places, key=lambda row: (row["candidate_id"], row["position"], row["cell"]))
        whose = (listed(own), listed(runs))
        self.evidence = moment.rows(_EVIDENCE, *whose)
        current = moment.of("evidence_current", *own, key="candidate_id") if self.evidence else []
        now = {row["id"]: row for row in current}
        for row in self.evidence:
            row["now"], row["now_because"] = (
                (now[row["id"]]["state"], now[row["id"]]["reason"]) if row["id"] in now else ("", "")
            )
        pieces = {row["id"] for row in self.evidence}
        judged = {row["criterion_id"] for row in self.evidence} | {
            row["criterion_id"] for row in _compared(moment, runs)
        }
        criteria = moment.rows(_CRITERIA)
        judged |= {row["replaced_by"] for row in criteria if row["criterion_id"] in judged and row["replaced_by"]}
        self.criteria = [row for row in criteria if row["criterion_id"] in judged]
        self.rows = moment.rows(_OTHERS, *whose, listed({*pieces, *own, *judged}), listed(judged))
        self.cases = [row for row in moment.rows(_CASES) if row["run_id"] in runs or row["candidate_id"] in own]
        self.baselines = [row for row in moment.rows(_BASELINES) if row["run_id"] in runs or row["candidate_id"] in own]

    def called(self, candidate: str | None) -> Inline:
        """A candidate as a person knows it."""
        if not candidate:
            return "–"
        name = self.others.get(candidate, {}).get("name")
        return code(f"{name} ({candidate[:12]})" if name else candidate[:12])


def _compared(moment: Moment, runs: Sequence[str]) -> list[Row]:
    return [row for run in runs for row in moment.of("comparisons", run) if row["criterion_id"] is not None]


def section(ledger: Ledger) -> Section:
    """Gates by candidate, evidence, criteria, and all other rows."""
    blocks: list[Block] = []
    if not ledger.candidates:
        blocks.append(
            para("No candidate is declared for it: `tic-daemon candidate declare RUN` says what it executes.")
        )
    for row in ledger.candidates:
        blocks.append(gates_of(ledger, row))
    blocks += [evidence(ledger), criteria(ledger), *others(ledger)]
    return Section("Ledger", tuple(blocks))


def others(ledger: Ledger) -> list[Section]:
    """Case records, baselines, and all that people said."""
    return [*_cases(ledger), *_baselines(ledger), *_rows(ledger)]


def gates_of(ledger: Ledger, candidate: Row) -> Section:
    """One candidate's cells, each with its cause."""
    own = [row for row in ledger.gates if row["candidate_id"] == candidate["candidate_id"]]
    rows: list[tuple[Cell, ...]] = []
    for row in own:
        title = f"{row['gate_no']} {gates.GATES[row['gate']].title}"
        cell = "no version yet" if row["cell"] == gates.VERSION else code(row["cell"])
        state: tuple[Inline, ...] = (word(row["state"]), ", ", word("stale")) if row["stale"] else (word(row["state"]),)
        rows.append(
            (
                title,
                word(row["gate_state"]),
                cell,
                state,
                text(row["cause"]),
                f"{row['pieces']:,}",
                code(row["evidence_id"]),
            )
        )
    name = f"{candidate['name']}, " if candidate["name"] else ""
    lead: list[Inline] = ["Candidate ", code(f"{name}{candidate['candidate_id']}")]
    if candidate["screening"]:
        lead.append("; it serves fixed weights: for screening only")
    return Section("Gates", (para(*lead, "."), table("gate|whole gate|cell|state|cause|pieces|decided by", rows)))


def evidence(ledger: Ledger) -> Section:
    """All that was ever judged of it, with its label then and what it counts now."""
    rows = [
        (
            code(row["id"][:15]),
            ledger.called(row["candidate_id"]),
            f"{row['gate'] or 'no gate'}/{row['cell'] or 'no cell'}",
            code(row["run_id"]),
            code(row["policy"]),
            word(row["label"]) if row["label"] else "no label",
            text(row["reason"]),
            word(row["state"]),
            (word(row["now"]), f": {row['now_because']}") if row["now"] else "counts no more",
            text(row["plane"]),
            text(row["said_at"]),
        )
        for row in ledger.evidence
    ]
    if not rows:
        return Section("Evidence", (para("Nothing was judged of it: the ledger has no evidence."),))
    left = len(rows) - SHOWN
    columns = "id|candidate|cell|run|policy|label then|because|row is|counts now|plane|judged (UTC)"
    return Section(
        "Evidence", (table(columns, rows[:SHOWN], f"and {left:,} more, in the bundle's ledger" if left > 0 else ""),)
    )


def criteria(ledger: Ledger) -> Section:
    """Criteria that judged it, with the time from which they stood fixed."""
    rows = [
        (
            code(row["criterion_id"]),
            _bound(row),
            text(row["goal"]),
            f"{row['gate']}/{row['cell']}" if row["gate"] else "no cell",
            code(row["planted"]),
            text(row["frozen_at"]),
            (code(row["who"]), f" at {text(row['declared_at'])}"),
            _stands(row),
        )
        for row in ledger.criteria
    ]
    if not rows:
        return Section("Criteria", (para("None in the ledger: what no frozen criterion judges is a measurement."),))
    return Section("Criteria", (table("SHA-256|asks|goal|cell|planted error|frozen (UTC)|by|stands", rows),))


def _bound(row: Row) -> str:
    bound = [f"at most {text(row['at_most'])}"] if row["at_most"] is not None else []
    bound += [f"at least {text(row['at_least'])}"] if row["at_least"] is not None else []
    return " ".join([str(row["metric"]), *bound])


def _stands(row: Row) -> Cell:
    if row["replaced_by"] is None:
        return word(row["state"])
    return (
        word(row["state"]),
        ": replaced by ",
        code(row["replaced_by"]),
        f" at {text(row['replaced_at'])}: ",
        code(row["replaced_because"]),
    )


def _cases(ledger: Ledger) -> list[Section]:
    return [
        Section(
            "Case record",
            (
                para(
                    code(row["name"]),
                    f", {some(row['entries'], 'entry')}, opened {text(row['opened_at'])}, last by ",
                    code(row["who"]),
                    ".",
                ),
                table("part|says", [(title, _shown(row[name])) for name, title in _PARTS.items()]),
                *_ruled_out(row),
            ),
        )
        for row in ledger.cases
    ]


def _ruled_out(row: Row) -> list[Block]:
    if not row["ruled_out"]:
        return []
    return [para("Ruled out:"), Bullets(tuple((code(line),) for line in row["ruled_out"]))]


def _shown(part: str) -> Inline:
    return Word("not shown", "dim") if part == "not shown" else code(part)


def _baselines(ledger: Ledger) -> list[Section]:
    rows = [
        (
            code(row["name"]),
            ledger.called(row["candidate_id"]),
            row["state"],
            code(row["reviewer"]),
            text(row["reviewed_at"]),
            code(row["config"]),
            code(row["results"]),
            code(row["reason"]),
        )
        for row in ledger.baselines
    ]
    return (
        [Section("Baselines", (table("name|candidate|state|reviewer|reviewed|configuration|results|why", rows),))]
        if rows
        else []
    )


def exemptions(ledger: Ledger) -> Section:
    """Passes of a parent that were said to hold here, with the closure that is to show it."""
    rows = [
        (
            f"{row['gate']}/{row['cell'] or 'all cells'}",
            ledger.called(row["target"]),
            code(row["reason"]),
            code(_body(row).get("closure")),
            code(row["who"]),
            text(row["said_at"]),
        )
        for row in ledger.rows
        if row["kind"] == "exemption"
    ]
    if not rows:
        return Section("Exemptions", (para("None: nothing of a parent is carried over."),))
    return Section("Exemptions", (table("cell|from|why|SHA-256 of the dependency closure|who|when (UTC)", rows),))


def _rows(ledger: Ledger) -> list[Section]:
    rows = [
        (
            text(row["seq"]),
            row["kind"],
            text(row["said_at"]),
            code(row["who"]),
            code(row["host"]),
            ledger.called(row["candidate_id"]),
            code(row["run_id"]),
            f"{row['gate']}/{row['cell'] or 'all cells'}" if row["gate"] else "–",
            code(row["target"]),
            text(row["plane"]),
            code(row["reason"]),
        )
        for row in ledger.rows
    ]
    if not rows:
        return []
    columns = "row|kind|said (UTC)|who|host|candidate|run|cell|about|plane|why"
    left = len(rows) - SHOWN
    note = f"and {left:,} more, in the bundle's ledger" if left > 0 else ""
    return [Section("What people said in the ledger", (table(columns, rows[:SHOWN], note),))]


def closure(ledger: Ledger, candidate: Row) -> Section:
    """What a candidate executes, what it was made from, and what the change makes stale."""
    unknown = set(candidate["unknown"] or ())
    fields = {name: value for name, value in (candidate["fields"] or {}).items() if name not in unknown}
    blocks: list[Block] = [
        para(
            "Closure ",
            code(candidate["candidate_id"]),
            ", declared by ",
            code(candidate["who"]),
            f" at {text(candidate['said_at'])} UTC.",
        ),
        table("field|value", [(name, code(value)) for name, value in sorted(fields.items())]),
    ]
    if unknown:
        blocks.append(
            para(word("unknown"), f" ({len(unknown)}), and never filled in afterwards: {', '.join(sorted(unknown))}.")
        )
    runs = candidate["run_ids"] or []
    named = [part for run in runs for part in (code(run), ", ")][:-1]
    blocks.append(para("Runs that execute it: ", *named, ".") if runs else para("No run executes it."))
    if not candidate["parent_id"]:
        return Section("What it is", (*blocks, para("It names no parent.")))
    blocks.append(para("Made from ", ledger.called(candidate["parent_id"]), "."))
    parent = ledger.others.get(candidate["parent_id"], {}).get("fields") or {}
    changed = [
        (name, code(parent.get(name)), code((candidate["fields"] or {}).get(name)))
        for name in candidate["changed"] or ()
    ]
    blocks.append(
        Section("What changed", (table("field|parent|here", changed) if changed else para("No field differs."),))
    )
    if candidate["unshown"]:
        blocks.append(para(f"Not shown to be equal, as neither knows them: {', '.join(candidate['unshown'])}."))
    if candidate["regressions"]:
        blocks += [para("Run again at least:"), Bullets(tuple((line,) for line in candidate["regressions"]))]
    stale = [(one["gate"], one["cell"], one["cause"]) for one in map(_stale, candidate["stale"] or ())]
    if stale:
        blocks.append(Section("What the change makes stale", (table("gate|cell|cause", stale),)))
    return Section("What it is", tuple(blocks))


def _stale(one: Any) -> Mapping[str, Any]:
    if isinstance(one, Mapping):
        return one
    return dict(zip(("gate", "cell", "cause"), one, strict=True))


def _body(row: Row) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(row["body"])
    return found
