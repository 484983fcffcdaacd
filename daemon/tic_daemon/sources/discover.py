"""Finds the logs under the watched roots and decides what each one is.

    Discovery(roots, config).survey() -> Survey
        candidates   one a log with its rotated pieces, and why it was taken
        left_out     what has a log's name and was not taken, and why
        directories  where names and growth must be watched

Taken are files with a log's name (`layouts.log_name`, `include`, `[[source]] skip = false`). Left out are everything
under `.tic/`, what `exclude` or `skip` names, what is no regular file, and what its first bytes betray as no log.
Links are followed to what they point at: the canonical path is the source, and two names of one file are one source.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from tic_daemon.config import Config, SourceConfig, zone_offset
from tic_daemon.record import flat
from tic_daemon.results import layout as results
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.sources import faultfiles
from tic_daemon.sources.envfiles import MAX_FILES, is_env_file
from tic_daemon.sources.identity import Seen
from tic_daemon.sources.layouts import PathFacts, facts_of, is_foreign_debug_log, log_name
from tic_daemon.sources.mounts import Mounts
from tic_daemon.sources.results import MAX_FILES as MAX_RESULT_FILES
from tic_daemon.sources.rotation import piece_of
from tic_daemon.sources.smi import is_smi_name
from tic_daemon.sources.smifiles import MAX_FILES as MAX_SMI_FILES
from tic_daemon.sources.sniff import SNIFF_BYTES, gunzip_head, why_not_a_log
from tic_daemon.wandb.directories import is_log_name as is_wandb_log

_NEVER_ENTERED = {".tic": "the daemon's own state", ".git": "a repository", "node_modules": "packages"}
_STORE = "tic.duckdb"
_YEAR_2200 = 7_258_118_400.0
_ENOUGH_TO_JUDGE = 512
_ACTOR = re.compile(rb"^:actor_name:([^\r\n]{1,200})", re.MULTILINE)
_ACTOR_ROLES = (("rollout", ("vllm", "sglang", "rollout")), ("driver", ("taskrunner", "main_task", "controller")))
_LEFT_OUT_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """One log to follow.

    Attributes:
        path: canonical path of the log; its pieces are `files`, the oldest first, the log itself last (if it exists).
        root: the watched root under which it was found.
        facts: what path, first bytes and configuration tell, configuration over all.
        told_role: the role that path or configuration tell; `facts.role` may come from the first bytes.
        run_hint, run_how: the run and who said so: "config", "path", "wandb" or "" (nobody).
        why: every decision in words.
    """

    path: str
    root: str
    files: tuple[Seen, ...]
    facts: PathFacts
    host: str
    told_role: str = "unknown"
    run_hint: str = ""
    run_how: str = ""
    network: bool = False
    zone_s: int | None = None
    error: str = ""
    why: tuple[str, ...] = ()

    @property
    def traits(self) -> SourceTraits:
        """What the scanner may know: path and configuration only, so that it never depends on when we looked."""
        facts = self.facts
        return SourceTraits(
            role=self.told_role,
            framework=facts.framework,
            rank=facts.rank,
            pid=facts.pid,
            single_process=facts.single_process,
            stream=facts.stream,
            console=facts.console,
        )


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or directory that was not taken, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What one walk over the roots found. `others` counts files without a log's name by their extension;
    `env_files` are (path, root) of what may set the environment of a run, `smi_files` of what may be nvidia-smi's
    text, `wandb_files` transaction logs of W&B, `result_files` of what may be a manifest of results; `fault_files` are
    what a fault left, in the directories `walked`; `record_files` what says what a run was made of."""

    candidates: tuple[Candidate, ...]
    left_out: tuple[LeftOut, ...]
    directories: tuple[str, ...]
    others: Counter[str] = field(default_factory=Counter)
    env_files: tuple[tuple[str, str], ...] = ()
    smi_files: tuple[tuple[str, str], ...] = ()
    result_files: tuple[tuple[str, str], ...] = ()
    fault_files: tuple[faultfiles.Found, ...] = ()
    walked: tuple[str, ...] = ()
    wandb_files: tuple[tuple[str, str], ...] = ()
    record_files: tuple[tuple[str, str], ...] = ()


def discover(roots: Sequence[Path], config: Config) -> list[Candidate]:
    """All logs under `roots` now."""
    return list(Discovery(roots, config).survey().candidates)


class Discovery:
    """Walks the same roots again and again; what was judged once is not read twice.

    Args:
        roots: directories or files to watch. One that is missing now is looked for at every walk.
        config: what tic.toml says.
        known_paths: paths that the store knows already: of several names of one file, a known one stays its name.
    """

    def __init__(self, roots: Sequence[Path], config: Config, known_paths: Collection[str] = ()) -> None:
        self.roots = [os.path.realpath(root) for root in roots]
        self._config = config
        self._known = set(known_paths)
        self._judged: dict[tuple[str, int, int], tuple[int, str, str]] = {}
        self._names: dict[str, tuple[str, str, str, faultfiles.Named | bool]] = {}
        self._facts: dict[str, PathFacts] = {}
        self._mounts = Mounts.read()
        self._fault_names = faultfiles.Names()
        self._left_out: frozenset[str] = frozenset()
        self._wandb_files: frozenset[str] = frozenset()

    def is_left_out(self, path: str) -> bool:
        """Whether a file that is no source would stay none: it has no log's name, or the last walk left it out."""
        name = path.rpartition("/")[2]
        if path in self._left_out or path in self._wandb_files:
            return True
        if is_wandb_log(name):
            return False
        if self._fault_names.of(name) or results.may_be(name):
            return False
        config = self._config
        wanted = [*config.include, *(said.path for said in config.sources if said.skip is False)]
        return not log_name(piece_of(name).base) and not any(config.matches(glob, path) for glob in wanted)

    def root_of(self, path: str) -> str:
        """The innermost watched root that `path` lies under; "" for one that a link led to."""
        under = [root for root in self.roots if path == root or path.startswith(f"{root.rstrip('/')}/")]
        return max(under, key=len, default="")

    def survey(self) -> Survey:
        """Walks all roots."""
        self._mounts = Mounts.read()
        walk = _Walk(self._config, self._mounts)
        for root in self.roots:
            walk.start(root)
            for path, name, via in walk.files(root):
                self._consider(walk, root, path, name, via)
        candidates = self._one_source_a_file(walk, [self._decide(walk, base) for base in sorted(walk.groups)])
        walk.directories.update(os.path.dirname(file.path) for one in candidates for file in one.files)  # noqa: PTH120
        self._left_out = frozenset(one.path for one in walk.left_out)
        self._wandb_files = frozenset(walk.wandb_files)
        self._judged = {key: value for key, value in self._judged.items() if key[0] in walk.seen_paths}
        return Survey(
            tuple(one for one in candidates if one.files or one.error),
            tuple(walk.left_out),
            tuple(sorted(walk.directories)),
            walk.others,
            tuple(walk.env_files.items()),
            tuple(walk.smi_files.items()),
            tuple(walk.result_files.items()),
            tuple(walk.fault_files),
            tuple(walk.walked),
            tuple(walk.wandb_files.items()),
            tuple(walk.record_files.items()),
        )

    def _consider(self, walk: _Walk, root: str, path: str, name: str, via: str) -> None:
        directory = path[: -len(name)] if path.endswith(name) else f"{path.rpartition('/')[0]}/"
        known = self._names.get(name)
        if known is None:
            base = piece_of(name).base
            left = self._fault_names.of(name) or results.may_be(name)
            known = self._names[name] = (base, log_name(base), os.path.splitext(name)[1], left)  # noqa: PTH122
        base_name, sure, extension, left = known
        base = directory + base_name
        said = self._config.source_for(base) if self._config.sources else None
        if self._is_other(walk, root, path, name, left, said, via):
            return
        # A log that has nvidia-smi's name is followed as one, too: it may hold more than that.
        named = is_smi_name(name)
        most = MAX_SMI_FILES * 2 if named else MAX_SMI_FILES if extension == ".txt" and not sure else 0
        if len(walk.smi_files) < most and not self._unwanted(path, name, said):
            walk.smi_files[path] = root
        if not sure and not any(self._config.matches(glob, path) for glob in self._config.include):
            if said is None or said.skip is not False:
                walk.others[extension] += 1
                if not self._unwanted(path, name, said):
                    self._take_beside(walk, root, path, name, via)
                return
            sure = "maybe"
        if why := self._unwanted(base, base_name, said):
            walk.leave_out(path, why)
            return
        try:
            info = os.stat(path)  # noqa: PTH116 - names need not be valid text; os functions are exact
        except OSError as error:
            walk.leave_out(path, f"cannot be looked at: {error.strerror}")
            return
        if not stat.S_ISREG(info.st_mode):
            walk.leave_out(path, f"no regular file ({_kind(info.st_mode)})")
            return
        seen = Seen(path, info.st_dev, info.st_ino, info.st_size, info.st_mtime, piece_of(name).gz)
        why, actor = self._judge(seen, sure == "log")
        if why.startswith("!"):
            walk.groups.setdefault(base, _Group(root)).error = why[1:]
        elif why:
            walk.leave_out(path, why)
            return
        group = walk.groups.setdefault(base, _Group(root))
        group.files[path] = seen
        group.actor = group.actor or actor
        if via:
            group.why.append(f"reached through the link {via}")

    def _is_other(
        self, walk: _Walk, root: str, path: str, name: str, left: faultfiles.Named | bool, said: SourceConfig | None,
        via: str,
    ) -> bool:  # fmt: skip
        """Notes what is no log of lines. True: nothing more is to be done with it."""
        wandb = is_wandb_log(name)
        if not (left or wandb):
            return False
        why = self._unwanted(path, name, said)
        if wandb:
            if why:
                walk.leave_out(path, why)
            else:
                walk.wandb_files[path] = root
            return True
        if isinstance(left, faultfiles.Named):
            return not why and self._take_fault_file(walk, root, path, left, via)
        return not why and self._take_result_file(walk, root, path, via)

    def _take_result_file(self, walk: _Walk, root: str, path: str, via: str) -> bool:
        """Notes what may be a manifest, sidecar or page of results. True: it is no log."""
        if not results.kind_of(path):
            return False
        if (not via or self.root_of(path)) and len(walk.result_files) < MAX_RESULT_FILES:
            walk.result_files[path] = root
        return True

    def _take_beside(self, walk: _Walk, root: str, path: str, name: str, via: str) -> None:
        """Notes what sets the environment of a run, or says what it was made of."""
        if is_env_file(name) and len(walk.env_files) < MAX_FILES:
            walk.env_files[path] = root
        inside = not via or bool(self.root_of(path))
        if flat.may_be(name) and flat.kind_of(path) and inside and len(walk.record_files) < MAX_RESULT_FILES:
            walk.record_files[path] = root

    def _take_fault_file(self, walk: _Walk, root: str, path: str, named: faultfiles.Named, via: str) -> bool:
        """Notes what a fault left. True: it is no text, and nothing more is to be done with it."""
        try:
            info = os.lstat(path)
        except OSError:
            return False
        if not stat.S_ISREG(info.st_mode) or not self._fault_names.is_dump(named, info.st_mode):
            return False
        if (not via or self.root_of(path)) and len(walk.fault_files) < faultfiles.MAX_FILES:
            walk.fault_files.append(faultfiles.Found(path, root, named, info.st_size, faultfiles.modified(info)))
        return named.kind in faultfiles.DUMPS

    def _unwanted(self, base: str, base_name: str, said: SourceConfig | None) -> str:
        if said is not None and said.skip:
            return f"tic.toml line {said.line}: skip"
        for glob in self._config.exclude:
            if self._config.matches(glob, base):
                return f"tic.toml: exclude {glob}"
        parent = base[: -len(base_name) - 1].rpartition("/")[2]
        if is_foreign_debug_log(base_name, parent) and (said is None or said.skip is None):
            return "W&B's log about itself"
        return ""

    def _judge(self, file: Seen, named_like_log: bool) -> tuple[str, str]:
        """(why the content is no log, Ray actor name). The why begins with "!" if the file cannot be read."""
        key = (file.path, file.device, file.inode)
        known = self._judged.get(key)
        if known and (known[0] == file.size or (not known[1] and known[0] >= _ENOUGH_TO_JUDGE)):
            return known[1], known[2]
        try:
            fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                head: bytes | None = os.pread(fd, SNIFF_BYTES, 0)
            finally:
                os.close(fd)
        except OSError as error:
            return f"!{error.strerror or error}", ""
        if file.gz and head:
            head = gunzip_head(head)
        why = (
            "no gzip file in spite of its name" if head is None else why_not_a_log(head, named_like_log=named_like_log)
        )
        actor = _ACTOR.search(head or b"")
        name = actor[1].decode("utf-8", "replace") if actor else ""
        self._judged[key] = (file.size, why, name)
        return why, name

    def _decide(self, walk: _Walk, base: str) -> Candidate:
        group, config = walk.groups[base], self._config
        facts = self._facts.get(base)
        if facts is None:
            facts = self._facts[base] = facts_of(base)
        why, told_role = [*facts.why, *dict.fromkeys(group.why)], facts.role
        if group.actor:
            why.append(f"Ray actor {group.actor} (first lines)")
            role = next((r for r, words in _ACTOR_ROLES if any(w in group.actor.lower() for w in words)), "")
            if role and facts.role == "unknown":
                facts = replace(facts, role=role)
                why.append(f"role {role} from the actor's name")
        mount = self._mounts.of(base)
        network, host, zone_s = mount.network, config.host, None
        if network:
            why.append(f"read by re-opening: {mount.point} is {mount.fstype}")
        run, how = facts.run_hint, facts.run_how
        said = config.source_for(base) if config.sources else None
        if said is not None and said != SourceConfig(base):
            over = {
                key: value
                for key in ("role", "framework", "rank", "stream", "single_process", "console")
                if (value := getattr(said, key)) is not None
            }
            facts, told_role = replace(facts, **over), said.role or told_role
            network = network if said.network is None else said.network
            host, zone_s = said.host or host, _zone(said.zone, group.files.values()) if said.zone else None
            told = [*over, *(key for key in ("run", "zone", "host", "network") if getattr(said, key) is not None)]
            why.append(f"tic.toml line {said.line}: {', '.join(told) or 'nothing'}")
        if named := config.run_for(base):
            run, how = named, "config"
            why.append(f"run {named} from tic.toml")
        files = sorted(group.files.values(), key=lambda seen: piece_of(seen.path.rpartition("/")[2]).age)
        return Candidate(
            base, group.root, tuple(files), facts, host, told_role, run, how, network, zone_s, group.error, tuple(why)
        )

    def _one_source_a_file(self, walk: _Walk, candidates: list[Candidate]) -> list[Candidate]:
        """Of several names of one file, keeps one: a name that the store knows, else the first by sort."""
        owner: dict[tuple[int, int], str] = {}
        for one in sorted(candidates, key=lambda c: (not any(f.path in self._known for f in c.files), c.path)):
            for file in one.files:
                owner.setdefault((file.device, file.inode), one.path)
        out = []
        for one in candidates:
            kept = tuple(f for f in one.files if owner[(f.device, f.inode)] == one.path)
            for file in one.files:
                if file not in kept:
                    walk.leave_out(file.path, f"another name of {owner[(file.device, file.inode)]}")
            self._known.update(file.path for file in kept)
            out.append(replace(one, files=kept))
        return out


@dataclass(slots=True)
class _Group:
    root: str
    files: dict[str, Seen] = field(default_factory=dict)
    why: list[str] = field(default_factory=list)
    actor: str = ""
    error: str = ""


class _Walk:
    """State of one walk: what was entered, found and left out."""

    def __init__(self, config: Config, mounts: Mounts) -> None:
        self._config = config
        self._mounts = mounts
        self._entered: set[tuple[int, int]] = set()
        self.directories: set[str] = set()
        self.walked: set[str] = set()
        self.groups: dict[str, _Group] = {}
        self.left_out: list[LeftOut] = []
        self.others: Counter[str] = Counter()
        self.env_files: dict[str, str] = {}
        self.smi_files: dict[str, str] = {}
        self.wandb_files: dict[str, str] = {}
        self.result_files: dict[str, str] = {}
        self.record_files: dict[str, str] = {}
        self.fault_files: list[faultfiles.Found] = []
        self.seen_paths: set[str] = set()
        self._stack: list[str] = []

    def leave_out(self, path: str, why: str) -> None:
        """Keeps the reason; after ten thousand only counts, so that a huge tree cannot fill the memory."""
        if len(self.left_out) < _LEFT_OUT_LIMIT:
            self.left_out.append(LeftOut(path, why))
        else:
            self.others["(left out)"] += 1

    def start(self, root: str) -> None:
        """The next root."""
        self._stack = [root]

    def files(self, root: str) -> Iterator[tuple[str, str, str]]:
        """(canonical path, its name, the link it was reached through or "") of every entry that is no directory."""
        if not os.path.isdir(root):  # noqa: PTH112
            if os.path.lexists(root) and root not in self.seen_paths:
                self.seen_paths.add(root)
                self.directories.add(os.path.dirname(root))  # noqa: PTH120
                yield root, root.rpartition("/")[2], ""
            return
        while self._stack:
            directory = self._stack.pop()
            try:
                info = os.stat(directory)  # noqa: PTH116
                if (info.st_dev, info.st_ino) in self._entered:
                    continue
                self._entered.add((info.st_dev, info.st_ino))
                with os.scandir(directory) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self.leave_out(directory, f"directory cannot be read: {error.strerror}")
                continue
            if any(entry.name == _STORE for entry in found) or self._is_state(directory):
                # Opening a store's files, or only closing them again, would break DuckDB's lock on them.
                self.leave_out(directory, "a daemon's store")
                continue
            self.directories.add(directory)
            self.walked.add(directory)
            yield from self._entries(found)

    def _is_state(self, directory: str) -> bool:
        state = self._config.state_dir
        return ".tic" in directory.split("/") or (state is not None and directory == os.path.realpath(state))

    def _entries(self, entries: list[os.DirEntry[str]]) -> Iterator[tuple[str, str, str]]:
        for entry in entries:
            try:
                linked = entry.is_symlink()
                path = os.path.realpath(entry.path, strict=True) if linked else entry.path
                is_directory = entry.is_dir()
            except OSError as error:  # dangling, a loop, or no right to look
                if log_name(piece_of(entry.name).base):
                    self.leave_out(entry.path, f"link that leads nowhere: {error.strerror}")
                continue
            if is_directory:
                self._enter(path, entry.name)
            elif path not in self.seen_paths:
                if linked and any(f"/{name}/" in path for name in _NEVER_ENTERED):
                    self.leave_out(entry.path, "leads into a directory that is never entered")
                    continue
                if linked and path.startswith(_KERNEL):  # reading /proc/kmsg takes its lines away from others
                    self.leave_out(entry.path, "leads to an interface of the kernel, no log")
                    continue
                self.seen_paths.add(path)
                yield path, path.rpartition("/")[2], entry.path if linked else ""

    def _enter(self, path: str, name: str) -> None:
        if name in _NEVER_ENTERED or any(part in _NEVER_ENTERED for part in path.split("/")):
            self.leave_out(path, _NEVER_ENTERED.get(name, "inside a directory that is never entered"))
        elif f"{path}/".startswith(_KERNEL):
            self.leave_out(path, "an interface of the kernel, no logs")
        elif self._config.exclude and any(self._config.matches(glob, f"{path}/") for glob in self._config.exclude):
            self.leave_out(path, "tic.toml: exclude")
        else:
            self._stack.append(path)


_KERNEL = ("/proc/", "/sys/")


def _zone(zone: str, files: Iterable[Seen]) -> int:
    """Seconds east of UTC when the log was last written to: today's offset may be that of another half of the year."""
    written = max((file.mtime for file in files), default=None)
    if written is None:
        return zone_offset(zone)
    return zone_offset(zone, datetime.fromtimestamp(min(max(written, 0.0), _YEAR_2200), UTC))


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "directory"), (stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device"))
    return next((word for test, word in kinds if test(mode)), "device")
