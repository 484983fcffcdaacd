"""What the comparison of two traces says, in the four parts of every report."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tic_daemon.compare.parts import ending
from tic_daemon.compare.probes import Key
from tic_daemon.compare.traces import Difference, TraceComparison
from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.output import joined

SHOWN = 12


def exit_code(found: TraceComparison) -> ExitCode:
    """A trace is a diagnosis: INVALID or VACUOUS, else a measurement that nothing judges."""
    return ExitCode.INVALID if found.unfit or not found.probes else ExitCode.INCONCLUSIVE


def verdict(found: TraceComparison) -> str:
    """One line."""
    if found.unfit:
        return f"INVALID: {found.unfit[0]}"
    if not found.probes:
        return "VACUOUS: no probe"
    if found.first is None:
        how = "bit for bit" if found.of_bits else "as they were written, which is no claim on bits"
        return f"inconclusive: all {found.probes} probes agree {how} (a diagnosis, no verdict)"
    return f"inconclusive: first difference at {_name(found.first)} (a diagnosis, no verdict)"


def as_json(found: TraceComparison, a: str, b: str) -> dict[str, Any]:
    """The report as one JSON object."""
    observed = asdict(found)
    sides = {
        name: {
            "path": path,
            "sha256": sha256,
            "manifest": claim.source or None,
            "manifest_sha256": claim.digest or None,
        }
        for name, path, sha256, claim in zip("ab", (a, b), observed.pop("sha256"), found.said, strict=True)
    }
    del observed["said"]
    return {
        "identity": {"kind": "trace", **sides, "verdict": verdict(found), "exit_code": int(exit_code(found))},
        "observed": observed,
        "controls_proved": proved(found),
        "not_yet_proven": not_proven(found),
        "next_step": next_step(found),
    }


def proved(found: TraceComparison) -> list[str]:
    """What the controls of a trace prove."""
    if found.unfit or not found.probes:
        return []
    return [f"both sides have the same {found.probes} probes of {found.requests} requests, in the same order"]


def not_proven(found: TraceComparison) -> list[str]:
    """What is open, whatever the trace shows."""
    words = ["that the first difference is the cause: it may be one that is carried on"] if found.first else []
    if found.differences and "not recorded" in found.differences[0].operator:
        words.append("whether the operator at the first difference had equal inputs")
    if not found.of_bits:
        words.append("bits: not all tensors are there in their own type")
    if found.first is None and not found.unfit and any(claim.receipt is None for claim in found.said):
        words.append("that two producers made what agrees: no whole receipt of both sides")
    return [*words, "what happens under a replayed graph: hooks run at capture"]


def next_step(found: TraceComparison) -> str:
    """The smallest next step."""
    if found.unfit:
        return "record the same probes on both sides, one each call, and compare again"
    if not found.probes:
        return "record probes"
    if found.first is None:
        return "put more boundaries behind the last one: all that was recorded agrees"
    first = found.differences[0]
    if "equal" in first.operator:
        return f"replay the operator of {_name(first.key)} alone with that input on both sides"
    if "already" in first.operator:
        before = _name(found.last_equal) if found.last_equal else "the input"
        return f"put a boundary between {before} and {_name(first.key)}"
    return f"record the input's hash at {_name(first.key)}"


def text(found: TraceComparison, a: str, b: str) -> str:
    """The summary for a person."""
    lines = [verdict(found)]
    for side, path in enumerate((a, b)):
        lines.append(f"{'AB'[side]}  {path}  {found.readers[side]}, {found.provenance[side]}")
        lines += [f"   {note}" for note in found.notes[side]]
    lines.append("observed")
    lines += [f"  {word}" for word in found.unfit[1:]]
    lines.append(f"  {found.probes} probes of {found.requests} requests, {len(found.differences)} differ")
    if found.first is not None:
        lines.append(f"  last equal before: {_name(found.last_equal) if found.last_equal else 'none'}")
    for one in found.differences[:SHOWN]:
        lines += [f"  {line}" for line in _lines(one)]
    if len(found.differences) > SHOWN:
        lines.append(f"  and {len(found.differences) - SHOWN} more")
    return joined([*lines, *ending(proved(found), not_proven(found), next_step(found))])


def _lines(one: Difference) -> list[str]:
    found = [f"{_name(one.key)}: {'downstream of a discrete decision' if one.downstream else one.operator}"]
    if one.figures is not None:
        own = one.figures
        values = [
            f"{name} {'undefined' if value is None else format(value, '.6g')}"
            for name, value in (
                ("max_abs", own.max_abs), ("mean_abs", own.mean_abs), ("relative_l2", own.relative_l2),
                ("cosine", own.cosine),
            )
        ]  # fmt: skip
        head = f"  {own.mismatched} of {own.size} differ, first at {own.first}, finite {own.finite:.6g}; "
        found.append(head + ", ".join(values))
    if one.vocab is not None and one.vocab.rows:
        own_vocab = one.vocab
        found.append(
            f"  vocab_tv mean {own_vocab.tv_mean:.6g} max {own_vocab.tv_max:.6g}, vocab_argmax {own_vocab.argmax:.6g}, "
            f"vocab_logsoftmax_max {own_vocab.logsoftmax_max:.6g}, {own_vocab.other_support} rows of another support"
        )
    return found


def _name(key: Key) -> str:
    return " ".join(key)
