"""Who wrote a line, and in which attempt: the identities that the lock stands on.

A writer is a process as far as its lines tell. Unknown writers are the same as nobody, not even as themselves. An
attempt owns the processes that started in it; a line of an unknown process may belong to any attempt whose cut it
stands after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tic_daemon.evidence.bounds import UTC_CLOCK, Line, Source, clock_of, to_clock


@dataclass(frozen=True, slots=True)
class FirstLine:
    """The first line of process `line.proc` in its generation, with the pid that it prints."""

    line: Line
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declared attempt. `cut` has (generation, offset) by source; `from_us` (UTC) is set for a cut by time."""

    cut: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    from_us: int | None = None


@dataclass(frozen=True, slots=True)
class Writer:
    """`key` None: unknown. `epoch` None: its begin is unknown. `single`: it wrote all lines of the generation."""

    key: str | None
    epoch: str | None
    single: bool
    pid: int | None = None


class Writers:
    """Writers and attempts of one run.

    Args:
        sources: by id.
        first_lines: first lines of all processes, procs "" left out.
        declarations: in order; the first of them opens attempt 2.
    """

    def __init__(
        self, sources: Mapping[int, Source], first_lines: Iterable[FirstLine], declarations: Sequence[Declaration] = ()
    ) -> None:
        self.sources = sources
        self._seen: dict[tuple[int, int], dict[str, FirstLine]] = {}
        for first in first_lines:
            procs = self._seen.setdefault((first.line.source_id, first.line.generation), {})
            known = procs.get(first.line.proc)
            if known is None or first.line.offset < known.line.offset:
                procs[first.line.proc] = first
        self.declarations = declarations

    @property
    def generations(self) -> set[tuple[int, int]]:
        """(source, generation) of which a process is known."""
        return set(self._seen)

    def writer(self, source_id: int, generation: int, proc: str) -> Writer:
        """The writer of the lines of `proc` in a generation."""
        source = self.sources[source_id]
        procs = self._seen.get((source_id, generation), {})
        single = source.single_process or len(procs) <= 1
        pid: int | None
        if source.single_process and source.pid is not None:
            pid = source.pid
        elif len(procs) <= 1:
            only = next(iter(procs.values()), None)
            pid = only.pid if only is not None and only.pid is not None else source.pid
        elif source.single_process:
            pid = None
        else:
            pid = procs[proc].pid if proc in procs else None
        if not single and proc == "":
            return Writer(None, None, False)
        if pid is not None and not source.console:
            return Writer(f"{source_id}#{pid}", f"host:{source.host}#{pid}", single, pid)
        key = f"{source_id}:{generation}" if single else f"{source_id}:{generation}:{proc}"
        if pid is not None:
            return Writer(key, f"console:{source_id}#{pid}", single, pid)
        return Writer(key, f"file:{source_id}" if source.single_process else None, single)

    def _appearances(
        self, epoch: str, generations: Iterable[tuple[int, int]]
    ) -> list[tuple[int, tuple[int, int], int | None]]:
        """(source, place, UTC time or None) of the first lines of an epoch."""
        found = []
        for source_id, generation in generations:
            procs = self._seen.get((source_id, generation), {})
            for proc in list(procs) or [""]:
                writer = self.writer(source_id, generation, proc)
                if writer.epoch != epoch:
                    continue
                first = procs.get(proc)
                place = (generation, 0 if writer.single or first is None else first.line.offset)
                at = None
                # Where one process writes, unmarked lines may stand before the first that names it: their times are
                # lost.
                surely_first = not writer.single or self.sources[source_id].single_process
                told = first is not None and (surely_first or first.line.offset == 0)
                if told and first is not None and first.line.stamp is not None:
                    source = self.sources[source_id]
                    if clock_of(first.line.utc, source) == UTC_CLOCK:
                        at = to_clock(first.line.stamp, first.line.utc, source)
                found.append((source_id, place, at))
        return found

    def attempts(
        self, line: Line, generations: Iterable[tuple[int, int]], latest_us: int | None = None
    ) -> tuple[int, int]:
        """(lowest, highest) attempt that a line may belong to.

        Args:
            generations: all (source, generation) of the run.
            latest_us: for a fault, the latest UTC time at which it was made: what is older than a cut by time is not
                after it.
        """
        writer = self.writer(line.source_id, line.generation, line.proc)
        if writer.epoch is not None:
            appearances = self._appearances(writer.epoch, generations)
            own = highest = 1
            for number, declaration in enumerate(self.declarations, start=2):
                if declaration.from_us is not None:
                    fits = all(at is not None and at >= declaration.from_us for _, _, at in appearances)
                    # A process whose first line tells no time may have begun on either side.
                    may_fit = all(at is None or at >= declaration.from_us for _, _, at in appearances) and (
                        latest_us is None or latest_us >= declaration.from_us
                    )
                else:
                    fits = may_fit = all(
                        source_id not in declaration.cut or place >= declaration.cut[source_id]
                        for source_id, place, _ in appearances
                    )
                if fits:
                    own = number
                if may_fit:
                    highest = number
            return own, max(own, highest)
        highest = 1
        for number, declaration in enumerate(self.declarations, start=2):
            if declaration.from_us is not None:
                after = latest_us is None or latest_us >= declaration.from_us
            else:
                cut = declaration.cut.get(line.source_id)
                after = cut is None or line.place >= cut
            if after:
                highest = number
        return 1, highest
