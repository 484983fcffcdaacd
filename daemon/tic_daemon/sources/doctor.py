"""What `tic-daemon doctor` prints: every file with what was decided and why, what was left out, and what limits apply.

    examine(roots, config) -> Report;  as_text(report) for people, as_json(report) for programs

Ranks: where a layout numbers its files (torchrun directories, rank_3.log), the numbers that are missing are named.
Unseen ranks are "not watched": that no fault was seen there is no evidence of none.
"""

from __future__ import annotations

import json
import os
import re
import resource
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tic_daemon.config import Config
from tic_daemon.results import layout
from tic_daemon.sources.discover import Candidate, Discovery, Survey
from tic_daemon.sources.gpu import in_words
from tic_daemon.sources.mounts import Mount, Mounts
from tic_daemon.sources.tailfile import printable
from tic_daemon.sources.wandb_local import run_named
from tic_daemon.wandb.directories import run_file
from tic_daemon.wandb.reading import client_in_words

_INOTIFY = Path("/proc/sys/fs/inotify")
_SHOWN_LEFT_OUT = 200


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Files that a layout numbers. `expected` and `watched` are ranks; `place` names the directory (or pattern)."""

    place: str
    expected: tuple[int, ...]
    watched: tuple[int, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Expected and not watched."""
        return tuple(sorted(set(self.expected) - set(self.watched)))


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of this system against what following needs; 0: not known."""

    open_files_soft: int
    open_files_hard: int
    files_followed: int
    inotify_watches: int
    inotify_instances: int
    directories: int

    def problems(self) -> list[str]:
        """What will not fit, in words, with what to do."""
        out = []
        if self.files_followed + 256 > self.open_files_hard:
            out.append(
                f"{self.files_followed} files but only {self.open_files_hard} descriptors: quiet files are opened anew "
                "at each look; a file deleted while it is quiet may lose its last bytes (raise `ulimit -Hn`)"
            )
        if 0 < self.inotify_watches < 2 * self.directories:
            out.append(
                f"{self.directories} directories but only {self.inotify_watches} inotify watches: growth is found by "
                "sweeps, four times a second (raise fs.inotify.max_user_watches)"
            )
        return out


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was decided about the roots."""

    roots: tuple[str, ...]
    config_file: str
    survey: Survey
    mounts: tuple[tuple[str, Mount], ...]
    limits: Limits
    ranks: tuple[RankGroup, ...]
    gpus: str = ""
    results: str = ""
    wandb: tuple[tuple[str, str, str], ...] = ()
    """Transaction logs of W&B: path, run, and who names it."""
    wandb_api: str = ""


def examine(roots: Sequence[Path], config: Config) -> Report:
    """Walks the roots as the daemon does, and follows nothing."""
    discovery = Discovery(roots, config)
    survey = discovery.survey()
    mounts = Mounts.read()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = Limits(
        open_files_soft=soft,
        open_files_hard=hard if hard != resource.RLIM_INFINITY else 1 << 20,
        files_followed=len(survey.candidates),
        inotify_watches=_number(_INOTIFY / "max_user_watches"),
        inotify_instances=_number(_INOTIFY / "max_user_instances"),
        directories=len(survey.directories),
    )
    return Report(
        tuple(discovery.roots),
        str(config.file or ""),
        survey,
        tuple((root, mounts.of(root)) for root in discovery.roots),
        limits,
        tuple(rank_groups(survey.candidates)),
        in_words(config.gpu.every_s) if config.gpu.watch else "not watched: tic.toml, [gpu] watch = false",
        _results(survey, config),
        tuple(_wandb_logs(survey, config)),
        client_in_words() if config.wandb.read else "not read back: tic.toml, [wandb] read = false",
    )


def _wandb_logs(survey: Survey, config: Config) -> Iterator[tuple[str, str, str]]:
    for path, _ in survey.wandb_files:
        if file := run_file(path):
            yield (path, *run_named(file, config.run_for))


def _results(survey: Survey, config: Config) -> str:
    """Which manifests, sidecars and pages are read, or why none is."""
    if not config.results.watch:
        return "not watched: tic.toml, [results] watch = false"
    if not config.results.on(config.host):
        return f"not watched on {config.host}: tic.toml, [results] hosts"
    kinds = Counter(layout.kind_of(path) for path, _ in survey.result_files)
    if not kinds:
        return "no manifest, sidecar or index of results found"
    return ", ".join(f"{kinds[kind]} {word}" for kind, word in _WORDS.items() if kinds[kind])


_WORDS = {
    layout.MANIFEST: "named as a manifest",
    layout.STABLE: "STABLE of prime-rl",
    layout.META: "named .meta.json",
    layout.INDEX: "INDEX.md",
    layout.SUMMARY: "summary.md",
}


def as_json(report: Report) -> str:
    """The report as one JSON object; keys as `as_text` prints them."""
    survey = report.survey
    return json.dumps(
        {
            "roots": [printable(root) for root in report.roots],
            "config": report.config_file,
            "followed": [_row(one) for one in survey.candidates],
            "left_out": [{"path": printable(one.path), "why": printable(one.why)} for one in survey.left_out],
            "wandb_logs": [
                {"path": printable(path), "run": printable(run), "run_how": how} for path, run, how in report.wandb
            ],
            "wandb_api": report.wandb_api,
            "other_files": dict(survey.others),
            "mounts": [{"root": printable(root), **asdict(mount)} for root, mount in report.mounts],
            "limits": {**asdict(report.limits), "problems": report.limits.problems()},
            "gpus": printable(report.gpus),
            "results": printable(report.results),
            "ranks": [{**asdict(group), "missing": group.missing} for group in report.ranks],
        },
        indent=1,
    )


def as_text(report: Report) -> str:
    """The report for people. Names are escaped: no byte of a file name reaches the terminal as a control."""
    lines = [f"configuration: {report.config_file or 'none (no tic.toml)'}"]
    for root, mount in report.mounts:
        how = "network: files are opened anew at each look" if mount.network else "local"
        lines.append(f"root {_safe(root)}: {mount.fstype} on {_safe(mount.point)}, {how}")
    lines += ["", f"followed: {len(report.survey.candidates)}"]
    for one in report.survey.candidates:
        lines += _describe(one)
    if report.wandb:
        lines += ["", f"W&B logs, and what their uploaders say of themselves: {len(report.wandb)}"]
        for path, run, how in report.wandb:
            named = {"config": "tic.toml", "path": "its path", "wandb": "W&B's id, unless a log names another"}[how]
            lines.append(f"  {_safe(path)}: run {_safe(run)} ({named})")
    lines += ["", f"left out in spite of a log's name: {len(report.survey.left_out)}"]
    lines += [f"  {_safe(one.path)}: {_safe(one.why)}" for one in report.survey.left_out[:_SHOWN_LEFT_OUT]]
    if len(report.survey.left_out) > _SHOWN_LEFT_OUT:
        lines.append(f"  and {len(report.survey.left_out) - _SHOWN_LEFT_OUT} more (--json shows all)")
    if report.survey.others:
        kinds = ", ".join(
            f"{count} {_safe(kind) or '(no extension)'}" for kind, count in report.survey.others.most_common(12)
        )
        lines.append(f"  no log's name: {kinds}. `include` in tic.toml takes more in.")
    for group in report.ranks:
        hint = " (a log on a node's own disk needs a daemon on that node)"
        state = f"not watched: {_spans(group.missing)}{hint}" if group.missing else "all watched"
        lines += ["", f"ranks in {_safe(group.place)}: {_spans(group.expected)} expected, {state}"]
    lines += ["", f"results: {_safe(report.results)}", "", f"GPUs: {_safe(report.gpus)}"]
    lines += ["", f"W&B histories: {report.wandb_api}"]
    limits = report.limits
    lines += [
        "",
        f"limits: {limits.open_files_hard} open files, {limits.inotify_watches} inotify watches for "
        f"{limits.directories} directories, {limits.inotify_instances} inotify instances",
    ]
    lines += [f"  ! {problem}" for problem in limits.problems()]
    return "\n".join(lines) + "\n"


def rank_groups(candidates: Sequence[Candidate]) -> list[RankGroup]:
    """Groups of numbered files, with the numbers that ought to be there: up to the largest, and every directory."""
    groups: dict[str, set[int]] = {}
    for one in candidates:
        if one.facts.rank is not None:
            groups.setdefault(_place(one), set()).add(one.facts.rank)
    out = []
    for place, watched in sorted(groups.items()):
        expected = watched | _numbered_directories(place)
        top = max(expected)
        if top < 1 << 16:  # a stray large number does not mean that there are so many ranks
            expected |= set(range(top))
        out.append(RankGroup(place, tuple(sorted(expected)), tuple(sorted(watched))))
    return out


def _place(one: Candidate) -> str:
    directory, _, name = one.path.rpartition("/")
    if one.facts.framework == "torchrun":
        return directory.rpartition("/")[0]
    return f"{directory}/{re.sub(r'[0-9]+', '*', name)}"


def _numbered_directories(place: str) -> set[int]:
    try:
        with os.scandir(place) as entries:
            return {int(e.name) for e in entries if e.name.isdecimal() and len(e.name) < 6 and e.is_dir()}
    except OSError:
        return set()


def _describe(one: Candidate) -> list[str]:
    row = _row(one)
    said = [f"role {row['role']}", str(row["framework"])]
    said += [f"{key} {row[key]}" for key in ("rank", "pid", "stream") if row[key] not in (None, "")]
    said += [word for word in ("single_process", "console", "network") if row[word]]
    said.append(f"run {row['run']} ({row['run_how']})" if row["run"] else "run: from its records")
    lines = [f"  {_safe(one.path)}", f"      {_safe(', '.join(said))}"]
    if len(one.files) > 1 or any(file.path != one.path for file in one.files):
        lines.append(f"      pieces: {', '.join(_safe(file.path.rpartition('/')[2]) for file in one.files)}")
    if one.error:
        lines.append(f"      UNREADABLE: {_safe(one.error)}")
    lines += [f"      - {_safe(why)}" for why in one.why]
    return lines


def _row(one: Candidate) -> dict[str, object]:
    facts = one.facts
    return {
        "path": printable(one.path),
        "root": printable(one.root),
        "host": one.host,
        "role": facts.role,
        "framework": facts.framework,
        "rank": facts.rank,
        "pid": facts.pid,
        "single_process": facts.single_process,
        "stream": facts.stream,
        "console": facts.console,
        "run": one.run_hint,
        "run_how": one.run_how,
        "network": one.network,
        "zone_s": one.zone_s,
        "bytes": sum(file.size for file in one.files),
        "pieces": [printable(file.path) for file in one.files],
        "error": one.error,
        "why": [printable(why) for why in one.why],
    }


def _safe(text: str) -> str:
    """Controls, bidirectional overrides and bytes that are no UTF-8, escaped."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in printable(text))


def _spans(ranks: Sequence[int]) -> str:
    """0, 1, 2, 5 -> "0-2, 5"."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
