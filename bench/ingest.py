"""Whole ingest of one large file against bare line iteration, grep, lnav and a loop of the same regexes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from bench import corpus, measure

PAIRS = int(os.environ.get("TIC_BENCH_PAIRS", "3"))
RULES = 150
LOOP_MB = 4
"""The loop of regexes is so slow that it gets a small piece of the same file."""

_ITERATE = "import sys\nfor line in open(sys.argv[1], 'rb'): pass"
_LOOP = """
import sys
from pathlib import Path
from tic_daemon.scan.rules import RuleSet
rules = [rule.regex for rule in RuleSet.load([Path(sys.argv[2])]).rules]
for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
    for regex in rules:
        regex.search(line)
"""


def main(folder: Path, megabytes: int) -> list[str]:
    """Lines of the report. `folder` gets the file (about `megabytes` MB) and is left as it was."""
    log = folder / "bench.log"
    lines = corpus.write(log, megabytes)
    size = log.stat().st_size / 1e6
    pack = padding(folder)
    figures: dict[str, list[float]] = {}
    rss = 0.0
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        piece = Path(scratch) / "piece.log"
        with log.open("rb") as source:
            piece.write_bytes(source.read(LOOP_MB * 1_000_000))
        literals = Path(scratch) / "literals"
        literals.write_bytes(all_literals(pack))
        for turn in range(PAIRS):  # interleaved, so that a busy minute hits all alike
            cost = measure.run(measure.python("-c", _ITERATE, str(log)))
            figures.setdefault("bare line iteration", []).append(size / cost.cpu_s)
            state = Path(scratch) / f"state{turn}"
            command = measure.python("-m", "tic_daemon", "watch", "--once", str(log), "--state", str(state))
            cost = measure.run([*command, "--config", str(config(folder, pack))])
            figures.setdefault("tic-daemon watch --once", []).append(size / cost.cpu_s)
            rss = max(rss, cost.rss_mib)
            cost = measure.run(["grep", "-c", "-F", "-f", str(literals), str(log)])
            figures.setdefault("grep -c -F -f literals", []).append(size / cost.cpu_s)
        cost = measure.run(measure.python("-c", _LOOP, str(piece), str(pack)))
        figures["loop of the regexes"] = [piece.stat().st_size / 1e6 / cost.cpu_s]
        if shutil.which("lnav"):
            cost = measure.run(["lnav", "-n", "-c", ";SELECT count(*) FROM all_logs", str(log)])
            figures["lnav load"] = [size / cost.cpu_s]
    ours = sorted(figures["tic-daemon watch --once"])[PAIRS // 2]
    report = [f"ingest: {size:.0f} MB, {lines:,} lines, {RULES} rules, {PAIRS} interleaved runs; MB per CPU-second"]
    for name, values in figures.items():
        middle = sorted(values)[len(values) // 2]
        report.append(f"  {name:28} {measure.spread(values):34} ours/this {ours / middle:.3g}")
    if "lnav load" not in figures:
        report.append("  lnav load                    not measured: lnav is not installed")
    report.append(f"  peak RSS of the daemon       {rss:.0f} MiB")
    log.unlink()
    return report


def padding(folder: Path) -> Path:
    """A pack of made-up rules that brings the number of rules to `RULES`; returns the directory that it lies in."""
    from tic_daemon.scan.rules import RuleSet  # noqa: PLC0415  loaded only when needed

    pack = folder / "bench-rules"
    pack.mkdir(exist_ok=True)
    missing = RULES - len(RuleSet.load().rules)
    text = ['pack = "padding"\nversion = 1\ntitle = "made-up rules of the benchmark"']
    for number in range(max(0, missing)):
        marker = f"synthetic marker {number:03d} of the benchmark"
        text.append(
            f'[[rule]]\nname = "padding.r{number:03d}"\nyields = "fault"\nliteral = [\'{marker}\']\n'
            f'pattern = \'{marker}: (?P<code>\\d+)\'\nanchor = "start"\nseverity = "I"\nlocks = "never"\nneeds_level = false\n'
            f"product = \"benchmark\"\nsource = \"bench/ingest.py\"\nmatch = ['{marker}: 12']\nno_match = ['synthetic']"
        )
    (pack / "padding.toml").write_text("\n".join(text) + "\n")
    return pack


def config(folder: Path, pack: Path) -> Path:
    """A tic.toml that loads the padding."""
    path = folder / "bench.toml"
    path.write_text(f'rules = ["{pack}"]\n')
    return path


def all_literals(pack: Path) -> bytes:
    """The literals that the scanner looks for, one a line, for grep."""
    from tic_daemon.scan.rules import RuleSet  # noqa: PLC0415  loaded only when needed

    found = {literal for rule in RuleSet.load([pack]).rules for literal in rule.literals}
    return b"\n".join(sorted(item.encode() if isinstance(item, str) else item for item in found)) + b"\n"
