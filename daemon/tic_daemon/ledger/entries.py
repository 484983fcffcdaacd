"""One row of the ledger before it is chained: what it says, who says it, and whether it may be said.

Who may write which kind:

    criterion    people    a criterion file with its text: frozen from the row's time on. `criterion` its SHA-256
    replaced     people    `criterion` governs no more, `target` does: verdicts by the old one are HISTORICAL
    candidate    people    what a run executes: `candidate` is the hash of the closure in `body`, `run_id` the run
    supersede    people    the evidence `target` counts no more, and its cell is stale until newer evidence stands there
    plane        people    which plane the failure `target` lies on: `plane`
    exemption    people    a change does not touch `gate` (and `cell`): the pass of candidate `target` holds here, too
    baseline     people    a candidate with configuration and result set, reviewed by `body.reviewer` or nobody yet
    case         people    parts of a case record; a later row of the same case adds to it
    evidence     daemon    a judged comparison; or, with its own `gate` and `cell`, how a run ended, which image its
                           workers show, what a pair of arms measured. Nobody else writes one: no pass is set by hand
    planted      daemon    a pair of arms with an error that somebody planted, as the frozen `criterion` judged it
    contradiction  daemon  what `run_id` shows otherwise than the closure of `candidate`: none of its evidence passes

Nothing here is ever changed: a row is answered by another row. Every text is from outside: checked, capped, never run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final

from tic_daemon.ledger import closure, criterion, gates
from tic_daemon.ledger.canon import canonical

DECLARED: Final = ("criterion", "replaced", "candidate", "supersede", "plane", "exemption", "baseline", "case")
KINDS: Final = (*DECLARED, "evidence", "planted", "contradiction")
PLANES: Final = ("numerical", "control", "environment", "resource")
PARTS: Final = ("contract", "counterexample", "experiment", "fix", "regression", "scope")
"""Of a case record: contract, minimal counterexample, discriminating experiment, root cause and minimal fix,
regression on the original reproducer, scope and source."""

EVIDENCE: Final = "ev-"
"""How the ids of what the daemon writes begin, and no other: else a row with the id that a FAIL will have would keep it
out."""
BODY_BYTES: Final = 1 << 20
_TEXT: Final = 4000
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_HASHES: Final = ("manifest_sha256", "receipt_sha256")
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Entry:
    """What a row says. Which fields a kind uses: see the module; "" or None: not said.

    Attributes:
        id: the same wherever the row is taken in; a row with a known id is taken in once.
        said_at: naive UTC, by the clock of who says it.
        candidate: hash of a closure. criterion: SHA-256 of a criterion file.
        policy: policy version that the evidence is of. workload: digest of what was computed on.
        label, reason: of evidence, as judged at the time. plane: of a failure.
        target: another row's id, or the candidate or criterion that a row is about besides its own.
        manifest_sha256, policy_content_id, receipt_sha256: manifest version, weight content, run artifact: three
            questions, never compared with each other.
        artifacts: canonical JSON, a list of {"path", "size", "sha256", "host"}. body: canonical JSON, an object.
    """

    id: str
    kind: str
    said_at: datetime
    who: str
    host: str
    candidate: str = ""
    run_id: str = ""
    attempt: int | None = None
    step: int | None = None
    gate: str = ""
    cell: str = ""
    policy: str = ""
    workload: str = ""
    criterion: str = ""
    label: str = ""
    reason: str = ""
    plane: str = ""
    target: str = ""
    manifest_sha256: str = ""
    policy_content_id: str = ""
    receipt_sha256: str = ""
    artifacts: str = "[]"
    body: str = "{}"


_TEXTS: Final = tuple(field.name for field in fields(Entry) if field.type == "str")


def artifact(path: str, size: int, sha256: str, host: str) -> dict[str, Any]:
    """One file that a row rests on."""
    return {"path": path, "size": size, "sha256": sha256, "host": host}


def parse(value: object) -> Entry | str:
    """What a spooled line says as an entry, or why it is none. People's kinds alone."""
    if not isinstance(value, dict):
        return "it is no JSON object"
    unknown = value.keys() - {field.name for field in fields(Entry)}
    if unknown:
        return f"unknown field {min(unknown)[:60]!r}"
    try:
        moment = datetime.fromisoformat(value["said_at"])
        found = Entry(**{**value, "said_at": moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment})
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        return f"a field is missing or not of its kind: {error}"
    wrong = complaint(found, DECLARED)
    if not wrong and found.id.startswith(EVIDENCE):
        wrong = "its id is one of evidence, which the daemon alone writes"
    return wrong or found


def complaint(entry: Entry, kinds: Sequence[str] = KINDS) -> str:
    """Why an entry may not stand in the ledger; "" if it may."""
    if entry.kind not in kinds:
        return f"its kind is none of {', '.join(kinds)}"
    return _form(entry) or _CHECKS[entry.kind](entry)


def as_json(entry: Entry) -> dict[str, Any]:
    """An entry as a spooled line holds it."""
    return {**asdict(entry), "said_at": entry.said_at.isoformat()}


def _form(entry: Entry) -> str:  # noqa: PLR0911  one return a way to be wrong
    for name in _TEXTS:
        text = getattr(entry, name)
        if not isinstance(text, str):
            return f"{name} is no text"
        if len(text) > (BODY_BYTES if name in ("artifacts", "body") else _TEXT):
            return f"{name} is too long"
        if any("\ud800" <= character <= "\udfff" for character in text):
            return f"{name} holds a lone surrogate"
    for name, limit in (("attempt", _INT32), ("step", _INT64)):
        number = getattr(entry, name)
        if number is not None and (type(number) is not int or not -limit <= number < limit):
            return f"{name} is no whole number in range"
    if not entry.id:
        return "it has no id"
    for name in (*_HASHES, "candidate", "criterion"):
        text = getattr(entry, name)
        if text and not _SHA256.fullmatch(text):
            return f"{name} is no SHA-256 of 64 hexadecimal digits"
    return _json(entry) or _place(entry)


def _json(entry: Entry) -> str:  # noqa: PLR0911  see above
    for name, kind in (("artifacts", list), ("body", dict)):
        text = getattr(entry, name)
        try:
            value = json.loads(text)
            if not isinstance(value, kind) or canonical(value) != text:
                return f"{name} is not in its canonical form"
        except (ValueError, RecursionError):
            return f"{name} is no JSON"
    for one in json.loads(entry.artifacts):
        if not isinstance(one, dict) or set(one) != {"path", "size", "sha256", "host"}:
            return "an artifact has other fields than path, size, sha256 and host"
        size, digest = one["size"], one["sha256"]
        if type(size) is not int or not 0 <= size < _INT64:
            return "the size of an artifact is no number of bytes"
        if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
            return "an artifact has no SHA-256"
        if not isinstance(one["path"], str) or not one["path"] or not isinstance(one["host"], str):
            return "an artifact has no path"
    return ""


def _place(entry: Entry) -> str:
    """Gate and cell, where they are said."""
    if not entry.gate:
        return "a cell stands without its gate" if entry.cell else ""
    if entry.gate not in gates.GATES:
        return f"gate {entry.gate!r} is none of {', '.join(gates.GATES)}"
    if entry.cell and not gates.has_cell(entry.gate, entry.cell):
        return f"gate {entry.gate} has no cell {entry.cell!r}"
    return ""


# --- what each kind needs ------------------------------------------------------------------------------------------


def _reasoned(entry: Entry) -> str:
    return "" if entry.reason.strip() else "a reason is required"


def _criterion(entry: Entry) -> str:
    body = _body(entry)
    text = body.get("text")
    if not isinstance(text, str):
        return "a criterion needs the text of its file"
    try:
        found = criterion.parse(text.encode())
    except (ValueError, TypeError, KeyError) as error:
        return f"it is no criterion: {error}"
    if found.sha256 != entry.criterion:
        return "the criterion's SHA-256 is not that of its text"
    # Views read these without knowing TOML: they must be what the text says.
    said = {name: value for name, value in body.items() if name not in ("text", "path")}
    return "" if said == found.as_json() else "what is said of the criterion is not what its text says"


def _replaced(entry: Entry) -> str:
    if not entry.criterion or not _SHA256.fullmatch(entry.target) or entry.criterion == entry.target:
        return "a criterion is replaced by another one, each named by its SHA-256"
    return _reasoned(entry)


def _candidate(entry: Entry) -> str:
    found = _body(entry).get("fields")
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        return "a candidate needs the fields of its closure"
    try:
        digest = closure.of(found).sha256
    except ValueError as error:
        return str(error)
    if digest != entry.candidate:
        return "the candidate's hash is not that of its closure"
    if entry.target == entry.candidate:
        return "a candidate is not its own parent"
    if entry.target and not _SHA256.fullmatch(entry.target):
        return "the parent is no candidate"
    return _stale(_body(entry).get("stale", []))


def _stale(found: object) -> str:
    """What the change from the parent makes stale: [[gate, cell, cause], ...]."""
    if not isinstance(found, list) or len(found) > 1000:
        return "what is stale is no list"
    for one in found:
        if not isinstance(one, list) or len(one) != 3 or not all(isinstance(part, str) for part in one):
            return "what is stale is no list of gate, cell and cause"
    return ""


def _supersede(entry: Entry) -> str:
    return _reasoned(entry) if entry.target else "the evidence is not named"


def _plane(entry: Entry) -> str:
    if entry.plane not in PLANES:
        return f"the plane is none of {', '.join(PLANES)}"
    return _reasoned(entry) if entry.target else "the evidence is not named"


def _exemption(entry: Entry) -> str:
    if not entry.candidate or not _SHA256.fullmatch(entry.target) or entry.target == entry.candidate:
        return "an exemption names a candidate and the one whose pass holds for it"
    if not entry.gate:
        return "an exemption names a gate"
    if gates.GATES[entry.gate].versions:
        return f"{entry.gate} is of each run's own policy versions: it is run again"
    shown = str(_body(entry).get("closure", ""))
    if not _SHA256.fullmatch(shown):
        return "an exemption needs the hash of the dependency closure that shows the change not to matter"
    if not any(one["sha256"] == shown and one["size"] > 0 for one in json.loads(entry.artifacts)):
        return "an exemption names the file of its dependency closure, which is not empty"
    return _reasoned(entry)


def _baseline(entry: Entry) -> str:
    body = _body(entry)
    if not entry.candidate or not _word(body.get("name")):
        return "a baseline has a name and a candidate"
    if any(not isinstance(body.get(key, ""), str) for key in ("config", "results", "reviewer")):
        return "configuration, result set and reviewer of a baseline are texts"
    return ""


def _case(entry: Entry) -> str:
    body = _body(entry)
    if not _word(body.get("name")):
        return "a case has a name"
    parts, ruled_out = body.get("parts", {}), body.get("ruled_out", [])
    if not isinstance(parts, dict) or parts.keys() - set(PARTS):
        return f"the parts of a case are {', '.join(PARTS)}"
    if not isinstance(ruled_out, list) or not all(isinstance(one, str) for one in (*parts.values(), *ruled_out)):
        return "parts and ruled-out hypotheses of a case are texts"
    return "" if any(parts.values()) or ruled_out else "nothing is said of the case"


def _evidence(entry: Entry) -> str:
    judged = entry.candidate and entry.target and (entry.label or entry.reason)
    return "" if judged else "evidence needs a candidate, what was judged, and a label or why there is none"


def _planted(entry: Entry) -> str:
    return "" if entry.criterion and entry.target and entry.label else "a planted error has a pair, criterion and label"


def _contradiction(entry: Entry) -> str:
    if not entry.candidate or not entry.run_id:
        return "a contradiction names a candidate and its run"
    return _reasoned(entry)


def _word(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= 200


def _body(entry: Entry) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(entry.body)
    return found


_CHECKS: Final = {
    "criterion": _criterion,
    "replaced": _replaced,
    "candidate": _candidate,
    "supersede": _supersede,
    "plane": _plane,
    "exemption": _exemption,
    "baseline": _baseline,
    "case": _case,
    "evidence": _evidence,
    "planted": _planted,
    "contradiction": _contradiction,
}
