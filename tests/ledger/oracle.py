"""What is current in a ledger and how the gates stand, said slowly and plainly: the reference for the views.

A history is a list of what was done, oldest first. Everything is looked up by going through all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Gate, cell, and whether it needs the lifecycle of a run. Written out from the rules, not from the program.
CELLS = [
    ("module", "repeat", False), ("module", "forward", False), ("module", "gradients", False),
    ("proxy", "batch_invariance", False), ("proxy", "prefill_decode", False), ("proxy", "old_logprob", False),
    ("proxy", "actor_forward", False),
    ("zero_update", "replay", True),
    ("per_version", "*", True),
    ("acceptance", "module_gradients", False), ("acceptance", "gradient_coverage", False), ("acceptance", "real_rl", True),
    ("acceptance", "quality", False), ("acceptance", "performance", False), ("acceptance", "clean_exit", True),
    ("acceptance", "final_image", True),
]  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    id: str
    parent: str
    screening: bool
    stale: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Criterion:
    sha: str
    gate: str
    cell: str


@dataclass(frozen=True)
class Evidence:
    id: str
    candidate: str
    run: str
    criterion: str
    policy: str
    label: str
    files: str
    acceptor: int


@dataclass
class History:
    """`done` holds (what, ...) in order."""

    done: list[tuple[object, ...]] = field(default_factory=list)

    def of(self, what: str) -> list[tuple[int, tuple[object, ...]]]:
        return [(at, one[1:]) for at, one in enumerate(self.done) if one[0] == what]

    # --- lookups ---------------------------------------------------------------------------------------------------

    def candidates(self) -> dict[str, Candidate]:
        found: dict[str, Candidate] = {}
        for _, (candidate, _run) in self.of("candidate"):
            assert isinstance(candidate, Candidate)
            found.setdefault(candidate.id, candidate)
        return found

    def criteria(self) -> dict[str, Criterion]:
        return {one.sha: one for _, (one,) in self.of("criterion") if isinstance(one, Criterion)}

    def replaced(self) -> set[object]:
        return {old for _, (old, _new) in self.of("replaced")}

    def superseded_at(self, evidence: str) -> int:
        return max((at for at, (target,) in self.of("supersede") if target == evidence), default=-1)

    def control(self, evidence: str) -> bool:
        said = [plane for _, (target, plane) in self.of("plane") if target == evidence]
        return bool(said) and said[-1] == "control"

    def marked(self, run: str) -> bool:
        taken_back = {mark for _, (mark,) in self.of("retract")}
        return any(r == run and mark not in taken_back for _, (mark, r) in self.of("mark"))

    def above(self, candidate: str) -> set[str]:
        found: set[str] = set()
        at = self.candidates()[candidate].parent
        while at and at not in found:
            found.add(at)
            known = self.candidates().get(at)
            at = known.parent if known else ""
        return found

    def place(self, one: Evidence) -> tuple[str, str] | None:
        criterion = self.criteria().get(one.criterion)
        if criterion is None or not criterion.gate:
            return None
        cell = one.policy if criterion.gate == "per_version" else criterion.cell
        return (criterion.gate, cell) if cell else None

    def evidence(self) -> list[tuple[int, Evidence]]:
        return [(at, one) for at, (one,) in self.of("evidence") if isinstance(one, Evidence)]

    def current(self) -> list[tuple[int, Evidence]]:
        kept = [
            (at, one)
            for at, one in self.evidence()
            if self.superseded_at(one.id) < 0 and one.criterion not in self.replaced()
        ]
        return [(at, one) for at, one in kept if not (self.control(one.id) and self._answered(at, one, kept))]

    def _answered(self, at: int, one: Evidence, kept: list[tuple[int, Evidence]]) -> bool:
        def kind(row: Evidence) -> tuple[str, str, str]:
            return (row.candidate, row.criterion, row.files)

        return any(later > at and kind(other) == kind(one) and other.acceptor > one.acceptor for later, other in kept)

    def state(self, one: Evidence) -> str:
        if self.marked(one.run):
            return "inconclusive"
        return {"PASS": "pass", "FAIL": "fail"}.get(one.label, "inconclusive")

    # --- cells -----------------------------------------------------------------------------------------------------

    def own(self, candidate: str, place: tuple[str, str]) -> tuple[str | None, bool]:
        """(state by the candidate's own evidence or None, whether what was superseded there makes it stale)."""
        here = [(at, one) for at, one in self.current() if one.candidate == candidate and self.place(one) == place]
        newest = max((at for at, _ in here), default=-1)
        gone = max(
            (
                self.superseded_at(one.id)
                for _, one in self.evidence()
                if one.candidate == candidate and self.place(one) == place
            ),
            default=-1,
        )
        if gone > newest:
            return None, True
        if not here:
            return None, False
        states = []
        for criterion in {one.criterion for _, one in here}:
            of_it = [self.state(one) for _, one in here if one.criterion == criterion]
            doubted = any(one.label == "FAIL" and self.marked(one.run) for _, one in here if one.criterion == criterion)
            states.append("fail" if "fail" in of_it else "inconclusive" if doubted else of_it[-1])
        worst = next(state for state in ("fail", "inconclusive", "pass") if state in states)
        if worst == "pass" and self._loosened(candidate, place) > newest:
            worst = "inconclusive"
        lifecycle = next(needs for gate, cell, needs in CELLS if gate == place[0] and cell in (place[1], "*"))
        if worst == "pass" and lifecycle and self.candidates()[candidate].screening:
            worst = "inconclusive"
        return worst, False

    def _loosened(self, candidate: str, place: tuple[str, str]) -> int:
        """When the criterion of a failure was replaced there, or it failed by one that was."""
        return max(
            (
                max(at, replaced)
                for at, one in self.evidence()
                for replaced, (old, _new) in self.of("replaced")
                if one.candidate == candidate and one.label == "FAIL" and old == one.criterion
                and self.place(one) == place and self.superseded_at(one.id) < 0
            ),
            default=-1,
        )  # fmt: skip

    def cell(self, candidate: str, place: tuple[str, str]) -> tuple[str, bool, str | None]:
        """(state, stale, from whom it is carried)."""
        own, gone = self.own(candidate, place)
        if own is not None:
            return own, False, None
        if gone:
            return "not run", True, None
        carriers = [
            target
            for _, (heir, target, gate, cell) in self.of("exemption")
            if heir == candidate and gate == place[0] and cell in ("", place[1]) and gate != "per_version"
        ]
        for target in reversed(carriers):
            known = self.candidates().get(str(target))
            if known is None or known.screening or target not in self.above(candidate):
                continue
            if self.own(known.id, place)[0] == "pass":
                return "pass", False, known.id
        general = (place[0], "*") if place[0] == "per_version" else place
        declared = general in self.candidates()[candidate].stale
        reached = any(
            one.candidate in self.above(candidate)
            and (found := self.place(one)) is not None
            and (found == place or found[0] == place[0] == "per_version")
            for _, one in self.evidence()
        )
        return "not run", declared and reached, None

    def gates(self) -> dict[tuple[str, str, str], tuple[str, bool, str | None]]:
        found = {}
        for candidate in self.candidates():
            versions = {
                place[1]
                for _, one in self.evidence()
                if one.candidate == candidate and (place := self.place(one)) and place[0] == "per_version"
            }
            for gate, cell, _ in CELLS:
                for name in sorted(versions) or ["*"] if gate == "per_version" else [cell]:
                    found[candidate, gate, name] = self.cell(candidate, (gate, name))
        return found
