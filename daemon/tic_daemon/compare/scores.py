"""Two files of scored problems, e.g. GSM8K before and after an update: problem by problem, never a mean alone.

Each is a file of JSON lines with `problem_id` and `score` (a number or a boolean), one line a problem. Both must hold
the same problems, each once: an id that stands there twice is a retry, and the better of two tries is no score. Similar
means are not identical results, so the pairs are counted. `p_value` is McNemar's exact test on problems of which only
one side is right (two-sided binomial with 1/2), defined where all scores are 0 or 1.

Source: Q. McNemar, "Note on the sampling error of the difference between correlated proportions or percentages",
Psychometrika 12 (1947).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb, isfinite
from pathlib import Path

from tic_daemon.compare import plainfiles
from tic_daemon.compare.opened import Opened
from tic_daemon.errors import CompareError

NAMED = 20


@dataclass(frozen=True, slots=True)
class ScoreComparison:
    """Two files of scores.

    Attributes:
        unfit: what spoils the comparison, in words; then nothing else is said.
        problems: of both. same: with the same score.
        both, only_a, only_b, neither: problems by who is right; None unless all scores are 0 or 1.
        mean_a, mean_b: of all problems. difference: mean_b - mean_a. changed: mean of abs(b - a).
        p_value: of McNemar's exact test, None unless all scores are 0 or 1.
        largest: problems that changed most, with both scores, up to NAMED.
        sha256: of both files.
    """

    unfit: tuple[str, ...]
    problems: int
    same: int
    both: int | None
    only_a: int | None
    only_b: int | None
    neither: int | None
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    changed: float | None
    p_value: float | None
    largest: tuple[tuple[str, float, float], ...]
    sha256: tuple[str, str] = ("", "")


def compare_scores(a: Path, b: Path) -> ScoreComparison:
    """Pair two files of scores.

    Raises:
        CompareError: a file cannot be read, or a line holds no finite score.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(Opened(path)) for path in (a, b)]
        (first, twice_a), (second, twice_b) = (_read(file) for file in files)
        hashes = files[0].sha256(), files[1].sha256()
        for file in files:
            file.unchanged()
        one_file = len({(file.stat.st_dev, file.stat.st_ino) for file in files}) == 1
    unfit = [f"self-comparison: {a} and {b} are one file"] if one_file else []
    unfit += [f"side A: {word}" for word in twice_a] + [f"side B: {word}" for word in twice_b]
    for side, own, other in (("B", first, second), ("A", second, first)):
        lacking = [problem for problem in own if problem not in other]
        if lacking:
            more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
            unfit.append(f"side {side} lacks {', '.join(map(repr, lacking[:NAMED]))}{more}")
    nothing = (None,) * 9
    if unfit or not first:
        return ScoreComparison(tuple(unfit), len(first), 0, *nothing, (), hashes)
    return replace(_paired(first, second), sha256=hashes)


def _read(file: Opened) -> tuple[dict[str, Fraction], list[str]]:
    found: dict[str, Fraction] = {}
    twice: list[str] = []
    for number, line in enumerate(plainfiles.lines(file), 1):
        problem, score = line.get("problem_id"), line.get("score")
        if type(problem) not in {str, int} or not isinstance(score, bool | int | float) or not isfinite(score):
            raise CompareError(f"{file.path}: object {number} has no problem_id, or no finite score")
        if str(problem) in found:
            twice.append(f"problem {str(problem)!r} stands there twice")
        found[str(problem)] = Fraction(score)
    return found, list(dict.fromkeys(twice))[:NAMED]


def _paired(first: Mapping[str, Fraction], second: Mapping[str, Fraction]) -> ScoreComparison:
    pairs = {problem: (first[problem], second[problem]) for problem in sorted(first)}
    n = len(pairs)
    moved = sorted(pairs, key=lambda problem: (-abs(pairs[problem][1] - pairs[problem][0]), problem))
    largest = tuple((problem, float(pairs[problem][0]), float(pairs[problem][1])) for problem in moved[:NAMED])
    counts: dict[tuple[int, int], int] | None = None
    if all(score in {0, 1} for pair in pairs.values() for score in pair):
        counts = dict.fromkeys(((0, 0), (0, 1), (1, 0), (1, 1)), 0)
        for one, other in pairs.values():
            counts[int(one), int(other)] += 1
    sums = [sum((pair[side] for pair in pairs.values()), Fraction()) for side in (0, 1)]
    changed = sum((abs(other - one) for one, other in pairs.values()), Fraction())
    return ScoreComparison(
        (),
        n,
        sum(1 for one, other in pairs.values() if one == other),
        counts[1, 1] if counts else None,
        counts[1, 0] if counts else None,
        counts[0, 1] if counts else None,
        counts[0, 0] if counts else None,
        float(sums[0] / n),
        float(sums[1] / n),
        float((sums[1] - sums[0]) / n),
        float(changed / n),
        mcnemar(counts[1, 0], counts[0, 1]) if counts else None,
        tuple(row for row in largest if row[1] != row[2]),
    )


def mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided exact p-value: how likely a split as uneven as this one is if neither side is better."""
    n, low = only_a + only_b, min(only_a, only_b)
    tail = Fraction(sum(comb(n, k) for k in range(low + 1)), 1 << n)
    return float(min(Fraction(1), 2 * tail))
