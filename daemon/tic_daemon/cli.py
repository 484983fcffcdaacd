"""`tic-daemon`: the command line of the headless half.

    watch     follow directories and fill the store; `--once` reads what is there and exits
    doctor    what would be watched, what was decided and why
    attempt   open a new attempt of a run: the processes that start from here on begin clean
    mark      mark a run, an attempt or a record inconclusive; add a note; retract a mark
    check     for acceptance scripts: exit code by what the run's evidence is
    compare   two dumps of log-probabilities: every number, a verdict, a report
    record    what a run was made of: launcher and workers side by side, fingerprint
    pairs     declared pairs of arms: the nine rules, medians and single pairs
    hints     the pattern of a mismatch, the first step, the next cheapest probe
    snapshot  write all that a store holds into one DuckDB file, at any time
    criterion freeze a criterion before the run; replace it; list them
    candidate say what a run executes; list candidates
    exempt    carry a parent's pass over, with the closure that shows it
    gates     how candidates stand at the five gates
    evidence  the evidence of the ledger; supersede it, or class a failure
    case      case records with their six parts
    baseline  baselines, reviewed or pending review
    report    what a run or a candidate is, in Markdown or HTML, and as a bundle that another machine can verify
    verify    walk the ledger's chain, receipts and artifacts, or a bundle; name the first break
    stores    who writes the stores of a workspace, where they lie, how old they are
    rules     list, explain and try rule packs
    wandb     read a W&B history here, for daemons on nodes without a way to W&B

Exit codes: 0 well, 2 usage, 1 crash; `check` and errors about runs and stores use the table in
docs/reference/exit-codes.md.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from tic_daemon import __version__, without
from tic_daemon.errors import ConfigError, TicError
from tic_daemon.output import complain, let_go_of_stdout, printable, say

if TYPE_CHECKING:
    from tic_daemon import until
    from tic_daemon.config import Config
    from tic_daemon.listen import Listen

COMMANDS: Final = {
    "people_commands": ("attempt", "mark", "check"),
    "compare_command": ("compare",),
    "record_command": ("record", "pairs", "hints"),
    "store_commands": ("snapshot", "stores"),
    "ledger_commands": ("criterion", "case", "baseline"),
    "candidate_command": ("candidate", "exempt"),
    "gates_command": ("gates", "evidence"),
    "report_command": ("report",),
    "verify_command": ("verify",),
    "wandb_command": ("wandb",),
    "rules_command": ("rules",),
}
"""Which module adds which commands to those of this one, in the order in which help names them."""


OWN: Final = frozenset({"watch", "doctor"})


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The whole command line, with help texts. `only`: what concerns this command, if it is one: half of the modules
    that a command needs were those of others."""
    top = argparse.ArgumentParser(
        prog="tic-daemon",
        description="Watch the logs of an RL post-training job; keep what they say of training-inference consistency.",
    )
    top.add_argument("--version", action="version", version=f"tic-daemon {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    watch = commands.add_parser("watch", help="follow directories and fill the store")
    watch.add_argument(
        "roots", nargs="*", type=Path, metavar="DIR", help="directories or files; default: the current one"
    )
    watch.add_argument("--once", action="store_true", help="read all there is to its end and exit")
    watch.add_argument("--config", type=Path, metavar="FILE", help="tic.toml; default: DIR/tic.toml if there is one")
    watch.add_argument("--state", type=Path, metavar="DIR", help="state directory; default: .tic in the first DIR")
    watch.add_argument(
        "--local-dir", type=Path, metavar="DIR",
        help="directory on a disk of this machine for the live store, if it cannot lie in the state directory",
    )  # fmt: skip
    watch.add_argument("--engine", choices=("auto", "hyperscan", "ahocorasick"), default="auto", help="search engine")
    watch.add_argument(
        "--listen",
        metavar="WHERE",
        help="where the live endpoint listens: auto (the address by which other machines reach this one), HOST, "
        "HOST:PORT, [V6]:PORT; default: this machine only",
    )
    watch.add_argument("--port", type=_port, default=0, help="port of the live endpoint; default: any free one")
    watch.add_argument("--no-endpoint", action="store_true", help="answer no queries while running")
    watch.add_argument(
        "--take-over", action="store_true", help="take the store over from a daemon that is dead elsewhere"
    )
    watch.add_argument(
        "--until-pid", type=_pid, action="append", default=[], metavar="PID",
        help="end once this process has ended; several times: once all have",
    )  # fmt: skip
    watch.add_argument(
        "--until-job", nargs="?", const="", metavar="ID",
        help="end once this Slurm job is over; without ID: the job that this runs in ($SLURM_JOB_ID)",
    )  # fmt: skip
    watch.add_argument(
        "--linger", type=_seconds, metavar="S", help="go on for S seconds after --until-... came true; default: 5"
    )
    watch.add_argument(
        "--ready", type=Path, metavar="FILE", help="make FILE after the first look at all logs: start the job then"
    )
    watch.add_argument("-v", "--verbose", action="store_true", help="say more on standard error")
    watch.set_defaults(run=_watch)

    doctor = commands.add_parser("doctor", help="print what would be watched, and why")
    doctor.add_argument("roots", nargs="*", type=Path, metavar="DIR")
    doctor.add_argument("--config", type=Path, metavar="FILE")
    doctor.add_argument("--state", type=Path, metavar="DIR")
    doctor.add_argument("--json", action="store_true", help="as JSON")
    doctor.set_defaults(run=_doctor)

    for module, names in COMMANDS.items():
        if only is None or only in names:
            importlib.import_module(f"tic_daemon.{module}").add_parsers(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Expected errors are printed in one or two lines; anything else is a crash with its traceback."""
    try:
        given = sys.argv[1:] if argv is None else argv
        own = {name for names in COMMANDS.values() for name in names} | OWN
        args = parser(given[0] if given and given[0] in own else None).parse_args(given)
    except KeyboardInterrupt:
        return 130
    os.umask(0o077)  # DuckDB makes its WAL by the umask; everything a command writes is the user's alone
    try:
        code: int = args.run(args)
        return code
    except TicError as error:
        complain(error)
        return error.exit_code
    except OSError as error:
        if args.command == "watch":
            raise  # a daemon that falls over the system in its work is a defect
        let_go_of_stdout()
        named = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
        complain(TicError(f"{args.command} could not be done{named}: {error.strerror or error}"))
        return 2
    except KeyboardInterrupt:
        return 130


def entry() -> NoReturn:
    """`tic-daemon` as a process of its own."""
    without.pandas()
    code = main()
    from tic_daemon.ending import leave_stuck_threads  # noqa: PLC0415  loaded only when needed

    leave_stuck_threads(code)
    sys.exit(code)


def _watch(args: argparse.Namespace) -> int:
    import logging  # noqa: PLC0415  loaded only when needed

    from tic_daemon import heaps, logged, readiness, until  # noqa: PLC0415  loaded only when needed
    from tic_daemon.config import load_config  # noqa: PLC0415  loaded only when needed
    from tic_daemon.ending import signals  # noqa: PLC0415  loaded only when needed
    from tic_daemon.scheduler import start_of  # noqa: PLC0415  loaded only when needed
    from tic_daemon.store.layout import CREATE_LOCK, STATE_DIR, StoreLayout  # noqa: PLC0415  loaded only when needed
    from tic_daemon.watch import (  # noqa: PLC0415  loaded only when needed
        Daemon,
        default_workspace,
        raise_file_limit,
    )

    if args.once and (args.until_pid or args.until_job is not None):
        raise ConfigError("--once ends by itself: --until-pid and --until-job do not go with it")
    roots = [Path(root) for root in args.roots] or [Path()]
    for root in roots:
        try:
            root.stat()
        except (OSError, ValueError) as error:
            why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {_why(error)}"
            raise TicError(f"nothing to watch: {root} {why}", "give an existing directory or file") from error
    logged.begin(verbose=args.verbose)
    workspace = default_workspace(roots)
    here = workspace.resolve()
    # A store within a store would hide the outer one.
    if any(place.name == STATE_DIR and (place / CREATE_LOCK).exists() for place in (here, *here.parents)):
        raise TicError(f"{workspace} is where a daemon keeps its own state: nothing to watch", "watch its parent")
    config = load_config(args.config, workspace=workspace)
    if args.local_dir is not None:
        config = replace(config, store=replace(config.store, local_dir=args.local_dir))
    raise_file_limit()
    heaps.limit()
    listen = None if args.once or args.no_endpoint else _listen(args, config)
    with signals() as ending:
        readiness.prepare(args.ready)
        conditions = _conditions(args)
        layout = StoreLayout.find(workspace, state_dir=args.state or config.state_dir)
        # Only a daemon that was there before the job's processes knows what is new of this start.
        start = None if args.once else start_of(os.environ)
        daemon = Daemon(
            roots, config, layout,
            engine=args.engine, listen=listen, take_over=args.take_over, start=start, ending=ending,
        )  # fmt: skip
        _collect_seldom()
        if args.once:
            daemon.run_once()
            return ending.exit_code
        until.watch(conditions, ending, until.LINGER_S if args.linger is None else args.linger)
        say_where = logging.getLogger("tic-daemon").info
        daemon.run(
            ready=lambda url: say_where("store %s, endpoint %s", daemon.store_id, url or "none"),
            begun=lambda: readiness.tell(args.ready),
        )
        return ending.exit_code


def _collect_seldom() -> None:
    """For a process that reads logs: what is loaded by now stays, and events hold no cycles. Looking for some among
    them at every 700th took a tenth of a scan's time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _conditions(args: argparse.Namespace) -> list[until.Condition]:
    """What `--until-...` names. Raises ConfigError."""
    from tic_daemon import until  # noqa: PLC0415  loaded only when needed

    found: list[until.Condition] = [until.PidGone(pid) for pid in args.until_pid]
    if args.until_job is not None:
        job = args.until_job or os.environ.get("SLURM_JOB_ID", "")
        if not job:
            raise ConfigError("--until-job: this runs in no Slurm job", "name one: --until-job=4711")
        found.append(until.JobOver(job))
    return found


def _listen(args: argparse.Namespace, config: Config) -> Listen:
    from tic_daemon.listen import parse, with_port  # noqa: PLC0415  loaded only when needed

    return with_port(parse(args.listen) if args.listen is not None else config.endpoint.listen, args.port)


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 1 << 16:
        raise ValueError(text)
    return port


def _pid(text: str) -> int:
    pid = int(text)
    if not 0 < pid < 1 << 31:
        raise ValueError(text)
    return pid


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e6:
        raise ValueError(text)
    return seconds


# argparse says "invalid port value"
_port.__name__, _pid.__name__, _seconds.__name__ = "port", "pid", "seconds"


def _why(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def _doctor(args: argparse.Namespace) -> int:
    from tic_daemon.config import load_config  # noqa: PLC0415  loaded only when needed
    from tic_daemon.sources import doctor  # noqa: PLC0415  loaded only when needed
    from tic_daemon.store import leases  # noqa: PLC0415  loaded only when needed
    from tic_daemon.watch import default_workspace  # noqa: PLC0415  loaded only when needed

    roots = [Path(root) for root in args.roots] or [Path()]
    config = load_config(args.config, workspace=default_workspace(roots))
    report = doctor.examine(roots, config)
    found = leases.leases(args.state or config.state_dir or default_workspace(roots))
    if args.json:
        say(json.dumps({**json.loads(doctor.as_json(report)), "stores": leases.as_json(found)}, indent=1))
    else:
        say(f"{doctor.as_text(report)}\n{printable(leases.as_text(found))}")
    return 0


if __name__ == "__main__":
    entry()
