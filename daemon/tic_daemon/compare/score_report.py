"""What the comparison of two files of scores says, in the four parts of every report."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tic_daemon.compare.parts import ending
from tic_daemon.compare.scores import ScoreComparison
from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.output import joined


def exit_code(found: ScoreComparison) -> ExitCode:
    """Scores are counted and not judged: INVALID or VACUOUS, else a measurement."""
    return ExitCode.INVALID if found.unfit or not found.problems else ExitCode.INCONCLUSIVE


def verdict(found: ScoreComparison) -> str:
    """One line."""
    if found.unfit:
        return f"INVALID: {found.unfit[0]}"
    if not found.problems:
        return "VACUOUS: no problem"
    other = found.problems - found.same
    return f"inconclusive: {other} of {found.problems} problems have another score (no verdict)"


def as_json(found: ScoreComparison, a: str, b: str) -> dict[str, Any]:
    """The report as one JSON object."""
    observed = asdict(found)
    sides = {
        name: {"path": path, "sha256": sha256}
        for name, path, sha256 in zip("ab", (a, b), observed.pop("sha256"), strict=True)
    }
    return {
        "identity": {"kind": "scores", **sides, "verdict": verdict(found), "exit_code": int(exit_code(found))},
        "observed": observed,
        "controls_proved": proved(found),
        "not_yet_proven": not_proven(found),
        "next_step": next_step(found),
    }


def proved(found: ScoreComparison) -> list[str]:
    """What the pairing proves."""
    if found.unfit or not found.problems:
        return []
    return [f"both sides have the same {found.problems} problems, each once"]


def not_proven(found: ScoreComparison) -> list[str]:
    """What is open, whatever the scores are."""
    words = ["same prompts, template, seed, generation limit and scorer, and that nothing was retried"]
    if found.problems > found.same and not found.unfit:
        words.append("that the change is more than noise: how many problems change between two runs of one version")
    return words


def next_step(found: ScoreComparison) -> str:
    """The smallest next step."""
    if found.unfit or not found.problems:
        return "score the same problems once on both sides, and compare again"
    if found.same == found.problems:
        return "compare the log-probabilities: equal scores are no equal results"
    return "run one version twice over the same problems, and compare those two"


def text(found: ScoreComparison, a: str, b: str) -> str:
    """The summary for a person."""
    lines = [verdict(found), f"A  {a}", f"B  {b}", "observed", *(f"  {word}" for word in found.unfit[1:])]
    if not found.unfit and found.problems:
        lines.append(
            f"  mean {found.mean_a:.6g} and {found.mean_b:.6g}, difference {found.difference:+.6g}, "
            f"mean change {found.changed:.6g}"
        )
        if found.p_value is not None:
            lines.append(
                f"  right on both {found.both}, on A alone {found.only_a}, on B alone {found.only_b}, on none "
                f"{found.neither}; McNemar's exact p {found.p_value:.4g}"
            )
        lines += [f"  {problem}: {one:.6g} and {other:.6g}" for problem, one, other in found.largest]
    return joined([*lines, *ending(proved(found), not_proven(found), next_step(found))])
