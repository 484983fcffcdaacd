"""`tic-daemon compare A [B]`: two dumps of log-probabilities, held against each other.

Prints the summary and a `[mismatch]` record, writes a report, and ends with the exit code of its verdict.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tic_daemon.collecting import seldom
from tic_daemon.errors import CompareError
from tic_daemon.evidence.judge import Goal, Standing
from tic_daemon.output import printable, printable_json, say

if TYPE_CHECKING:
    from tic_daemon.compare.comparison import Comparison

REPORTS: Final = "tic-reports"
_COPIES: Final = 1000


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the command line."""
    parser = commands.add_parser(
        "compare", help="compare two dumps of log-probabilities",
        description="A is the rollout's side, B the trainer's. A file that holds both sides is given alone.",
    )  # fmt: skip
    parser.add_argument(
        "a", type=Path, metavar="A", help="torch.save, safetensors, npz, JSON lines, or a framework's dump"
    )
    parser.add_argument("b", type=Path, metavar="B", nargs="?", help="the other side, if A does not hold it")
    parser.add_argument("--json", action="store_true", help="print the report as JSON instead of the summary")
    parser.add_argument("--basis", help="of both sides: raw, or processed and how (processed:temperature=0.7)")
    parser.add_argument("--policy", help="policy version that both sides scored with")
    parser.add_argument(
        "--tokens", type=Path, metavar="FILE", help="{request: (prompt ids, response ids)} that both scored"
    )
    parser.add_argument(
        "--goal", choices=[str(goal) for goal in Goal], default=str(Goal.UNKNOWN), help="what the comparison is to show"
    )
    parser.add_argument("--criterion", type=Path, metavar="FILE", help="metric and bound, fixed before the run")
    parser.add_argument(
        "--planted", type=Path, metavar="REPORT", help="report of a planted error, judged by the criterion"
    )
    parser.add_argument(
        "--plant", default="", metavar="WHAT", help="B holds this planted error: prove the criterion with it"
    )
    for side in "ab":
        parser.add_argument(
            f"--repeat-{side}", type=Path, nargs="+", default=[], metavar="FILE",
            help=f"side {side.upper()} scored again, same tokens and policy: its noise",
        )  # fmt: skip
    parser.add_argument(
        "--early", type=Path, nargs=2, metavar=("A0", "B0"),
        help="both sides of the same tokens under an earlier policy version: did it grow, did the update arrive?",
    )  # fmt: skip
    faults = parser.add_mutually_exclusive_group()
    faults.add_argument("--at", metavar="PATH", help="workspace whose store knows the run: are its numbers locked?")
    faults.add_argument("--faults", choices=("none",), help="declare that no CUDA fault stands before the numbers")
    parser.add_argument("--run", dest="run_name", help="run of the record, where no manifest says it")
    parser.add_argument("--step", type=int, help="step of the record, where no manifest says it")
    parser.add_argument("--intervention", help="what was replaced or switched off, or none")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--report", type=Path, metavar="FILE", help=f"where the report goes; default: {REPORTS}/ID.json")
    where.add_argument("--no-report", action="store_true", help="write no report")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare, print, write. Returns the exit code of the verdict.

    Raises:
        TicError: a file cannot be used, or the report cannot be written.
    """
    with seldom():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    # Threads of numpy's OpenBLAS cost 50 ms to start, and no sum here is long enough for a second one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from tic_daemon.compare import reporting  # noqa: PLC0415  it loads numpy
        from tic_daemon.compare.comparison import Declared, compare, judged_again  # noqa: PLC0415
        from tic_daemon.compare.reading import ScoresFound, TraceFound  # noqa: PLC0415
    except ImportError as error:
        raise CompareError(f"comparing needs numpy: {error}", "pip install numpy") from error

    if args.plant and args.criterion is None:
        raise CompareError("--plant proves a criterion: name it with --criterion")
    declared = Declared(
        args.basis, args.policy, args.tokens, Goal(args.goal), args.criterion, args.planted, args.plant,
        Standing.CLEAR if args.faults == "none" else Standing.UNKNOWN, reporting.DECLARED if args.faults else "",
        args.run_name, args.step, args.intervention, tuple(args.repeat_a), tuple(args.repeat_b),
        tuple(args.early) if args.early else None,
    )  # fmt: skip
    try:
        found = compare(args.a, args.b, declared)
    except (TraceFound, ScoresFound) as other:
        if args.b is None:
            raise
        return _traces(args) if isinstance(other, TraceFound) else _scores(args)
    if args.at is not None:
        found = judged_again(found, *_standing(args.at, found))
    try:
        report = "" if args.no_report else str(_written(args.report, found.id, reporting.dumped(found)))
    except CompareError:
        say(printable(reporting.text(found)))  # the work is done: only its file is missing
        raise
    if args.json:
        say(printable_json(reporting.dumped(found)).rstrip("\n"))
    else:
        say(printable(f"{reporting.text(found)}\n{reporting.record(found, report)}"))
    return int(found.verdict.exit_code)


def _traces(args: argparse.Namespace) -> int:
    """Two layer traces: a diagnosis, without verdict and record."""
    from tic_daemon.compare import trace_report, traces  # noqa: PLC0415  it loads numpy

    found, sides = traces.compare_traces(args.a, args.b), (str(args.a), str(args.b))
    _tell(args, trace_report.as_json(found, *sides), trace_report.text(found, *sides))
    return int(trace_report.exit_code(found))


def _scores(args: argparse.Namespace) -> int:
    """Two files of scored problems: pairs, without verdict and record."""
    from tic_daemon.compare import score_report, scores  # noqa: PLC0415  it loads numpy

    found, sides = scores.compare_scores(args.a, args.b), (str(args.a), str(args.b))
    _tell(args, score_report.as_json(found, *sides), score_report.text(found, *sides))
    return int(score_report.exit_code(found))


def _tell(args: argparse.Namespace, report: dict[str, Any], summary: str) -> None:
    """Prints and writes the report of what has no verdict.

    Raises:
        CompareError: it cannot be written.
    """
    body = json.dumps(report, indent=1, ensure_ascii=False)
    name = hashlib.sha256(body.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    say(printable_json(body) if args.json else printable(summary))
    if not args.no_report:
        _written(args.report, name, f"{body}\n")


def _standing(at: str, found: Comparison) -> tuple[Standing, str, str, str]:
    """What a store says of the comparison's run, and shows of the criterion. Raises StoreError, ConnectError."""
    from tic_daemon.comparisons.asked import judging, produced  # noqa: PLC0415  it loads numpy
    from tic_daemon.store import proofs  # noqa: PLC0415
    from tic_daemon.store.reader import open_reader  # noqa: PLC0415  it loads DuckDB
    from tic_daemon.store.standing import standing  # noqa: PLC0415

    run_id = found.agreed("run")
    if run_id is None:
        return Standing.UNKNOWN, "no manifest names the run: give it with --run", "", ""
    judged = judging(found)
    shown = proofs.Proofs()
    reader = open_reader(at)
    try:
        if judged is not None:
            sides = [
                produced(claims, side.path) for claims, side in ((found.claims_a, found.a), (found.claims_b, found.b))
            ]
            receipts = [one.at if one.how == "receipt" else None for one in sides]
            (a, b), (type_a, type_b) = judged["readers"], judged["dtypes"]
            through = proofs.Through(
                run_id, judged["criterion"], judged["metric"], (a, b), (type_a, type_b), judged["comparator"],
                (receipts[0], receipts[1]),
            )  # fmt: skip
            shown = proofs.asked(reader, through)
        state, why = standing(reader, run_id, found.agreed("step"), found.made_at)
        return state, why, shown.order, shown.planted
    finally:
        reader.close()


def _written(path: Path | None, name: str, report: str) -> Path:
    """Writes a report. Raises CompareError: it cannot be written."""
    try:
        return _write(path, name, report.encode("utf-8", "backslashreplace"))
    except OSError as error:
        why = error.strerror or str(error)
        raise CompareError(f"the report cannot be written: {why}", "name another place with --report") from error


def _write(path: Path | None, name: str, body: bytes) -> Path:
    """Write the report; nothing that is there is ever overwritten."""
    if path is not None:
        return _new(path, body)
    folder = Path(REPORTS)
    folder.mkdir(exist_ok=True)
    for copy in range(1, _COPIES):
        place = folder / (f"{name}.json" if copy == 1 else f"{name}-{copy}.json")
        try:
            _create(place, body)
        except FileExistsError:
            continue
        return place
    raise CompareError(f"{folder} holds {_COPIES} reports of {name}", "name another place with --report")


def _new(path: Path, body: bytes) -> Path:
    """Write a report where the user wants it. Raises CompareError if something is there."""
    try:
        _create(path, body)
    except FileExistsError as error:
        raise CompareError(f"{path} is there already: a report is never overwritten", "name another file") from error
    return path


def _create(path: Path, body: bytes) -> None:
    """A new file, whole or not at all.

    Raises:
        OSError: it is there already, or cannot be written.
    """
    place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(place, "wb") as file:
            file.write(body)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
