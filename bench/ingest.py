"""Whole ingest of one large file against bare line iteration, grep, lnav and a loop of the same regexes."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from bench import corpus, measure

PAIRS = int(os.environ.get("TIC_BENCH_PAIRS", "3"))
LOOP_MB = 4
"""The loop of regexes is so slow that it gets a small piece of the same file."""

OWN_RULES = 500
_RULE = """
[[rule]]
name = "bench.r{n}"
yields = "exec_state"
role = "trainer"
field = "dtype"
observed = "{{value}}"
literal = ["plant number {n} reports"]
pattern = '''plant number {n} reports (?P<value>[^\\n]{{1,40}})'''
product = "a program of the user's"
source = "its manual"
match = ["plant number {n} reports bfloat16"]
no_match = ["nobody reports"]
"""

_ITERATE = "import sys\nfor line in open(sys.argv[1], 'rb'): pass"
_LOOP = """
import sys
from tic_daemon.scan.rules import RuleSet
rules = [rule.regex for rule in RuleSet.load().rules]
for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
    for regex in rules:
        regex.search(line)
"""


def main(folder: Path, megabytes: int) -> list[str]:
    """Lines of the report. `folder` gets the file (about `megabytes` MB) and is left as it was."""
    log = folder / "bench.log"
    lines = corpus.write(log, megabytes)
    size = log.stat().st_size / 1e6
    figures: dict[str, list[float]] = {}
    rss = 0.0
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        piece = Path(scratch) / "piece.log"
        with log.open("rb") as source:
            piece.write_bytes(source.read(LOOP_MB * 1_000_000))
        literals = Path(scratch) / "literals"
        literals.write_bytes(all_literals())
        pack = user_pack(Path(scratch))
        for turn in range(PAIRS):  # interleaved, so that a busy minute hits all alike
            cost = measure.run(measure.python("-c", _ITERATE, str(log)))
            figures.setdefault("bare line iteration", []).append(size / cost.cpu_s)
            state = Path(scratch) / f"state{turn}"
            command = measure.python("-m", "tic_daemon", "watch", "--once", str(log), "--state", str(state))
            cost = measure.run(command)
            figures.setdefault("tic-daemon watch --once", []).append(size / cost.cpu_s)
            rss = max(rss, cost.rss_mib)
            command = measure.python("-m", "tic_daemon", "watch", "--once", str(log), "--config", str(pack))
            cost = measure.run([*command, "--state", f"{state}-own"])
            figures.setdefault(f"... with {OWN_RULES} rules of one's own", []).append(size / cost.cpu_s)
            cost = measure.run(["grep", "-c", "-F", "-f", str(literals), str(log)])
            if int(cost.output) < lines * corpus.INTERESTING / 2:
                raise RuntimeError(f"grep has not read the whole file: {cost.output!r}")
            figures.setdefault("grep -c -F -f literals", []).append(size / cost.cpu_s)
        cost = measure.run(measure.python("-c", _LOOP, str(piece)))
        figures["loop of the regexes"] = [piece.stat().st_size / 1e6 / cost.cpu_s]
        if shutil.which("lnav"):
            figures |= {name: [size / cpu_s] for name, cpu_s in _lnav(log, lines).items()}
    ours = sorted(figures["tic-daemon watch --once"])[PAIRS // 2]
    report = [f"ingest: {size:.0f} MB, {lines:,} lines, {rules()} rules, {PAIRS} interleaved runs; MB per CPU-second"]
    for name, values in figures.items():
        middle = sorted(values)[len(values) // 2]
        report.append(f"  {name:32} {measure.spread(values):34} ours/this {ours / middle:.3g}")
    if not shutil.which("lnav"):
        report.append("  lnav                             not measured: it is not installed")
    report.append(f"  peak RSS of the daemon           {rss:.0f} MiB")
    log.unlink()
    return report


def user_pack(folder: Path) -> Path:
    """A tic.toml in `folder` that adds a pack of `OWN_RULES` rules, none of which the corpus meets."""
    packs = folder / "packs"
    packs.mkdir()
    rules = "".join(_RULE.format(n=number) for number in range(OWN_RULES))
    (packs / "own.toml").write_text(f'pack = "own"\nversion = 1\ntitle = "many"\n{rules}')
    config = folder / "tic.toml"
    config.write_text('rules = ["packs"]\n')
    return config


def _lnav(log: Path, lines: int) -> dict[str, float]:
    """CPU seconds of lnav without a screen: to load and index the file, to find what our rules look for, to print it.

    Raises:
        RuntimeError: it did not index every line.
    """
    loaded = measure.run(["lnav", "-n", "-c", ";SELECT lines FROM lnav_file", str(log)])
    if str(lines).encode() not in loaded.output.split():
        raise RuntimeError(f"lnav has not loaded all {lines} lines: {loaded.output!r}")
    words = "|".join(re.escape(word) for word in all_literals().decode().splitlines())
    found = measure.run(["lnav", "-n", "-c", f":filter-in {words}", str(log)])
    printed = measure.run(["lnav", "-n", str(log)])
    return {"lnav load": loaded.cpu_s, "lnav load, filter": found.cpu_s, "lnav load, print": printed.cpu_s}


def all_literals() -> bytes:
    """The literals that the scanner looks for, one a line, for grep."""
    from tic_daemon.scan.rules import RuleSet  # noqa: PLC0415  not before it is measured

    found = {literal for rule in RuleSet.load().rules for literal in rule.literals}
    return b"\n".join(sorted(item.encode() if isinstance(item, str) else item for item in found)) + b"\n"


def rules() -> int:
    """How many rules the shipped packs have."""
    from tic_daemon.scan.rules import RuleSet  # noqa: PLC0415  as above

    return len(RuleSet.load().rules)
