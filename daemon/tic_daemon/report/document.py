"""A run's report, and a candidate's: which sections they have, and what stands first.

The summary says what was observed, what the controls proved, what is not yet proven and one next step, and no more; it
counts what the views say and judges nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from tic_daemon.report import compared, faults, gates, measured, origin, pairs, record
from tic_daemon.report.model import (
    Block,
    Bullets,
    Code,
    Document,
    Inline,
    Line,
    Section,
    Table,
    Word,
    code,
    para,
    some,
    table,
    text,
    word,
)
from tic_daemon.report.moment import Moment, Row, listed
from tic_daemon.report.subject import Subject

UNPROVEN: Final = 8
_PLANTED: Final = """
SELECT DISTINCT planted_error FROM comparisons WHERE planted_error IS NOT NULL AND label = 'FAIL'
AND list_contains(from_json(?, '["VARCHAR"]'), criterion_id) ORDER BY 1"""
_LAMP_ORDER: Final = ("execution", "consistency", "quality")


def of(moment: Moment, subject: Subject) -> Document:
    """The whole report."""
    return of_run(moment, subject) if subject.kind == "run" else of_candidate(moment, subject)


def of_run(moment: Moment, subject: Subject) -> Document:
    """What one run is."""
    run = subject.id
    ledger = gates.Ledger(moment, None, subject.runs)
    attempts = sorted(moment.of("attempts", run), key=lambda row: int(row["attempt"]))
    ends = origin.heads(moment)
    hinted, probe = compared.hints(moment, run)
    sections = (
        measured.section(moment, run),
        compared.section(moment, run),
        faults.section(moment, run),
        record.marks(moment, run),
        record.state(moment, run),
        *((record.attempts(attempts),) if attempts else ()),
        record.made_of(moment, run),
        record.steps(moment, run),
        record.evidence_gaps(moment, run),
        gates.section(ledger),
        *pairs.sections(moment, subject.runs),
        hinted,
        origin.section(moment, ends),
    )
    summary = _summary_of_run(moment, run, attempts, ledger, probe)
    return Document(("Run ", code(run)), (*_top(moment, ends), *origin.missing(moment), summary, *sections))


def of_candidate(moment: Moment, subject: Subject) -> Document:
    """What one candidate is, and the runs that execute it."""
    ledger = gates.Ledger(moment, [subject.id], subject.runs)
    (candidate,) = ledger.candidates
    ends = origin.heads(moment)
    sections = (
        gates.gates_of(ledger, candidate),
        gates.closure(ledger, candidate),
        gates.evidence(ledger),
        gates.exemptions(ledger),
        gates.criteria(ledger),
        *gates.others(ledger),
        _runs(moment, subject.runs),
        *(Section(f"Comparisons of run {run}", compared.section(moment, run).blocks) for run in subject.runs),
        *pairs.sections(moment, subject.runs),
        origin.section(moment, ends),
    )
    title: Line = (
        ("Candidate ", code(subject.name), " ", code(subject.id[:12]))
        if subject.name
        else ("Candidate ", code(subject.id))
    )
    return Document(
        title, (*_top(moment, ends), *origin.missing(moment), _summary_of_candidate(moment, subject, ledger), *sections)
    )


def _top(moment: Moment, ends: Sequence[origin.Head]) -> tuple[Block, ...]:
    chains: list[Inline] = []
    for one in ends:
        chains += (
            [", ledger of ", Code(one.store.store_id), f" at row {one.seq:,}"]
            if one.seq
            else [", ledger of ", Code(one.store.store_id), " empty"]
        )
    return (para(f"As of {text(moment.at)} UTC", *chains, "."),)


def _summary_of_run(moment: Moment, run: str, attempts: Sequence[Row], ledger: gates.Ledger, probe: str) -> Section:
    blocks: list[Block] = [_lamps(moment, (run,))]
    observed: list[Line] = [*_how_it_stands(moment, run), *_counts(moment, run, attempts), *_gates(ledger)]
    blocks += [
        para("Observed:"),
        Bullets(tuple(observed) or (("nothing: no log and no result of the run is known.",),)),
    ]
    blocks += _proved(moment, run, ledger)
    blocks += _not_proven(moment, run, ledger)
    blocks.append(para(f"Next step: {_next(moment, run, probe)}"))
    return Section("Summary", tuple(blocks))


def _lamps(moment: Moment, runs: Sequence[str]) -> Table:
    """The three lamps of each run, as view `lamps` has them."""
    rows = []
    for run in runs:
        lamps = {row["lamp"]: row for row in moment.of("lamps", run)}
        for name in _LAMP_ORDER:
            lamp = lamps.get(name)
            if lamp is not None:
                state: Line = (word(lamp["state"]), ", ", word("stale")) if lamp["stale"] else (word(lamp["state"]),)
                rows.append((*((code(run),) if len(runs) > 1 else ()), name, state, text(lamp["because"])))
    return table("run|lamp|state|because" if len(runs) > 1 else "lamp|state|because", rows)


def _how_it_stands(moment: Moment, run: str) -> list[Line]:
    found = moment.of("runs", run)
    if not found:
        return []
    row = found[0]
    line: list[Inline] = [f"Attempt {row['attempt']}, {row['state']}"]
    line.append(f", last step {row['last_step']}" if row["last_step"] is not None else ", no step seen")
    line += [", ", Word("locked by a fault", "bad")] if row["locked"] else [", no fault locks it"]
    line += [", ", Word("marked inconclusive", "warn")] if row["marked"] else []
    lines: list[Line] = [tuple(line)]
    lines += [(f"What moved last: {lively['why'] or lively['verdict']}",) for lively in moment.of("liveness", run)]
    if row["wandb_gaps"]:
        lines.append((Word(some(row["wandb_gaps"], "confirmed gap"), "bad"), " of its W&B history"))
    return lines


def _counts(moment: Moment, run: str, attempts: Sequence[Row]) -> list[Line]:
    lines: list[Line] = []
    for row in attempts:
        if row["mismatches"]:
            lines.append(
                (
                    f"Attempt {row['attempt']}: {some(row['mismatches'], 'record')}, {row['admissible']:,} admissible,"
                    f" {row['suspect']:,} suspect, {row['locked_records']:,} locked",
                )
            )
    counted: dict[tuple[str, str], list[bool]] = {}
    for row in _counting(moment, run):
        counted.setdefault((row["label"] or "", row["state"]), []).append(row["is_evidence"])
    for (label, stands), evidence in sorted(counted.items()):
        now: Line = () if label.lower() == stands else (", now ", word(stands))
        judged = word(label) if label else "not judged"
        lines.append((f"{some(len(evidence), 'comparison')}: ", judged, *now, f", {sum(evidence):,} evidence"))
    return lines


def _counting(moment: Moment, run: str) -> list[Row]:
    """Comparisons that are no proof of a criterion."""
    return [row for row in compared.of(moment, run) if row["planted_error"] is None]


def _gates(ledger: gates.Ledger) -> list[Line]:
    lines: list[Line] = []
    for candidate in ledger.candidates:
        own = [row for row in ledger.gates if row["candidate_id"] == candidate["candidate_id"]]
        parts: list[Inline] = ["Gates of ", ledger.called(candidate["candidate_id"]), ": "]
        for gate in dict.fromkeys(row["gate"] for row in own):
            cells = [row for row in own if row["gate"] == gate]
            parts += [
                f"{gate} ",
                word(cells[0]["gate_state"]),
                *([" (", word("stale"), ")"] if any(row["stale"] for row in cells) else []),
                ", ",
            ]
        lines.append(tuple(parts[:-1]))
    return lines


def _proved(moment: Moment, run: str, ledger: gates.Ledger) -> list[Block]:
    lines: list[Line] = [(f"ruled out: {sides}",) for sides in _ruled_out(moment, run)]
    planted = _planted(moment, ledger)
    lines += [("its criterion judged a planted error FAIL: ", code(row["planted_error"])) for row in planted]
    return [para("What the controls proved:"), Bullets(tuple(lines) or (("nothing yet.",),))]


def _planted(moment: Moment, ledger: gates.Ledger) -> list[Row]:
    """Planted errors that its criteria were seen to find, in whatever run."""
    if not ledger.criteria:
        return []
    return moment.rows(_PLANTED, listed(row["criterion_id"] for row in ledger.criteria))


def _ruled_out(moment: Moment, run: str) -> list[str]:
    return sorted({row["rules_out"] for row in moment.of("control_groups", run) if row["rules_out"]})


def _not_proven(moment: Moment, run: str, ledger: gates.Ledger) -> list[Block]:
    counted = Counter(what for row in _counting(moment, run) for what in row["unproven"] or ())
    found = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    lines: list[Line] = [(f"{what} ({some(how_many, 'comparison')})",) for what, how_many in found[:UNPROVEN]]
    if len(found) > UNPROVEN:
        lines.append((f"and {len(found) - UNPROVEN} more, below",))
    open_cells = [row for row in ledger.gates if row["state"] != "pass"]
    if open_cells:
        lines.append((f"{len(open_cells)} of {len(ledger.gates)} cells of its gates do not pass",))
    if not ledger.candidates:
        lines.append(("no candidate is declared: nothing of it counts at a gate",))
    return [para("Not yet proven:"), Bullets(tuple(lines) or (("nothing that the views name.",),))]


def _next(moment: Moment, run: str, probe: str) -> str:
    """One next step: the hint's cheapest probe, called a hint; else what the newest comparison lacks."""
    if probe:
        return f"{probe} (a hint, no verdict)"
    for row in compared.chosen(_counting(moment, run)):
        if row["next_step"]:
            return f"{row['next_step']}."
    return "compare dumps of both sides, with a manifest and a frozen criterion (docs/how-to/judge-a-candidate.md)."


def _summary_of_candidate(moment: Moment, subject: Subject, ledger: gates.Ledger) -> Section:
    (candidate,) = ledger.candidates
    counts: dict[str, int] = {}
    for row in ledger.gates:
        name = f"{row['state']}, stale" if row["stale"] else row["state"]
        counts[name] = counts.get(name, 0) + 1
    observed: list[Line] = _gates(ledger)
    observed.append(
        (f"Of {len(ledger.gates)} cells: {', '.join(f'{count} {state}' for state, count in sorted(counts.items()))}",)
    )
    observed.append(
        (
            f"{some(len(ledger.evidence), 'piece')} of evidence, {sum(1 for row in ledger.evidence if row['now'])} of them current",  # noqa: E501
        )
    )
    blocks: list[Block] = [para("Observed:"), Bullets(tuple(observed))]
    if subject.runs:
        blocks.insert(0, _lamps(moment, subject.runs))
    planted = _planted(moment, ledger)
    proved: list[Line] = [("its criteria judged a planted error FAIL: ", code(row["planted_error"])) for row in planted]
    blocks += [para("What the controls proved:"), Bullets(tuple(proved) or (("nothing yet.",),))]
    lines: list[Line] = [
        (f"{row['gate']}/", code(row["cell"]), ": ", word(row["state"]), f" {row['cause']}".rstrip())
        for row in ledger.gates
        if row["state"] != "pass"
    ]
    if candidate["unknown"]:
        lines.append(
            (
                f"{some(len(candidate['unknown']), 'field')} of its closure {'is' if len(candidate['unknown']) == 1 else 'are'} unknown",  # noqa: E501
            )
        )
    blocks += [
        para("Not yet proven:"),
        Bullets(tuple(lines) or (("nothing that the views name: every cell passes.",),)),
    ]
    regressions: Iterable[str] = candidate["regressions"] or ()
    first = next((row for row in ledger.gates if row["state"] != "pass"), None)
    step = next(iter(regressions), None) or (
        f"evidence for {first['gate']}/{first['cell']}" if first else "none: every cell passes"
    )
    return Section("Summary", (*blocks, para(f"Next step: {step}.")))


def _runs(moment: Moment, runs: Sequence[str]) -> Section:
    rows = []
    for run in runs:
        for row in moment.of("runs", run):
            locked = word("locked") if row["locked"] else "no"
            rows.append(
                (
                    code(run),
                    text(row["attempt"]),
                    row["state"],
                    locked,
                    text(row["last_step"]),
                    f"{row['mismatches']:,}",
                    f"{row['faults']:,}",
                    f"{row['wandb_gaps']:,}",
                    "yes" if row["marked"] else "no",
                )
            )
    if not rows:
        return Section("Runs", (para("No run executes it, or none has a log here."),))
    return Section("Runs", (table("run|attempt|state|locked|last step|records|faults|W&B gaps|marked", rows),))
