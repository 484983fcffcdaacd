"""A line and what its wrappers said of it: who wrote it, when, at which level."""

from __future__ import annotations

from typing import Final

from tic_daemon.scan.stamps import Stamp, Years

_TRANSPORT: Final = frozenset({"cri", "docker", "compose"})
_CONTAINER: Final = "in:"


class Wrapped:
    """A line after peeling. Filled by the peelers, left alone afterwards.

    Attributes:
        text: the line without its wrappers.
        level: as printed ("ERROR", "E"), "" if no wrapper has one. `level_class`: error | warning | info | none.
        outer: the first name of a process or actor, where a line has several.
        actor: process or actor name ("Worker_TP0", "TaskRunner", "TP2", "default3", "kernel").
        pid, rank: as printed. ip, node: address and host name as printed.
        proc: key of the writing process: by pid, else by rank, else by name; "" if no wrapper says who writes.
        within: key of what is around it, where one prints for several: of the Ray actor of SGLang's schedulers, or of
            the container, whose pids are its own.
        stream: "stdout" or "stderr" if the wrapper says so.
        stamp: the line's time, from the outermost wrapper that has one.
        repeat: copies that Ray folded into this line, 1 if none.
        thread: the writing thread's id as printed (NCCL), "" if no wrapper says it.
        kinds: the wrappers, outermost first.
        partial: a CRI line that is continued by the next one of its stream.
        years: gives stamps without a year their year.
    """

    __slots__ = (
        "actor", "ip", "kinds", "level", "level_class", "node", "outer", "partial", "pid", "proc", "rank", "repeat",
        "stamp", "stream", "text", "thread", "within", "years",
    )  # fmt: skip

    def __init__(self, text: str, years: Years) -> None:
        self.text = text
        self.years = years
        self.level = self.actor = self.outer = self.proc = self.ip = self.node = self.stream = self.within = (
            self.thread
        ) = ""
        self.level_class = "none"
        self.pid: int | None = None
        self.rank: int | None = None
        self.stamp: Stamp | None = None
        self.repeat = 1
        self.kinds: tuple[str, ...] = ()
        self.partial = False

    @property
    def bare(self) -> bool:
        """Whether the program itself put nothing in front of its text: container runtimes prefix every line."""
        return not self.kinds or _TRANSPORT.issuperset(self.kinds)

    def time(self, stamp: Stamp | None) -> None:
        """The outermost stamp stays."""
        if self.stamp is None:
            self.stamp = stamp

    def short(self, month: int, day: int, clock: str, fraction: str, res_us: int) -> None:
        """A stamp without a year."""
        if self.stamp is None and day:
            micro = int((fraction + "000000")[:6]) if fraction else 0
            at = self.years.resolve(month, day, int(clock[:2]), int(clock[3:5]), int(clock[6:8]), micro)
            if at is not None:
                self.stamp = Stamp(at, res_us, False)

    def name(self, actor: str, pid: str | None) -> None:
        """Name and pid; an inner wrapper knows the process better than the launcher around it."""
        self.actor = actor
        if pid is not None and len(pid) < 18:
            self.pid = int(pid)

    def inherit(self, outer: Wrapped) -> None:
        """This is the end of a line whose beginning said `outer`: what is not known here is as there."""
        if self.stamp is None:
            self.stamp = outer.stamp
        if not self.proc:
            self.named_by(outer.pid, outer.rank, outer.actor)

    def named_by(self, pid: int | None, rank: int | None, actor: str) -> None:
        """Who writes is known from elsewhere."""
        self.pid, self.rank, self.actor, self.outer = pid, rank, actor, actor
        self.proc = key_of_writer(pid, rank, actor)


def key_within(line: Wrapped) -> str:
    """The key of a writer with something around it. Ranks are those of the whole job, wherever they run."""
    if not line.within.startswith(_CONTAINER):
        return f"{line.within} {line.actor}"
    if line.pid is None and line.rank is not None:
        return key_of_writer(None, line.rank, "")
    inner = "" if _CONTAINER + line.actor == line.within else line.actor
    key = key_of_writer(line.pid, None, inner)
    if line.pid is not None and "sglang" in line.kinds and inner:  # a scheduler in a Ray actor in a container
        key = f"{key} {inner}"
    return f"{line.within} {key}".rstrip()


def container_key(name: str) -> str:
    """The key of a container, or a pod, that a launcher names before each line."""
    return _CONTAINER + name


def key_of_writer(pid: int | None, rank: int | None, actor: str) -> str:
    """By pid, else by rank, else by name; "" if nothing says who writes."""
    if pid is not None:
        return f"pid:{pid}"
    if rank is not None:
        return f"rank:{rank}"
    return f"actor:{actor}" if actor else ""
