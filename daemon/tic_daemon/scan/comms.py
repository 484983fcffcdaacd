"""Which communicator a line of NCCL speaks of, and whether it says anything new.

With NCCL_DEBUG=INFO every rank of every communicator prints one line for each channel and neighbour: some hundred
thousand lines where a job is large, of which a handful differ. Kept is the first line with each (communicator,
transport, direction): a change log, like the execution state. How often a label came is not kept: channels are opened
when they are first used, so that no line is ever the last and no count is ever whole. The lines stay in the log.

A channel's line does not name its communicator (before NCCL 2.16 it did). It is the one that the same thread began
last, if the line's ranks fit into it, else the last of the process that they fit into: newer NCCL connects in threads
of its own. `comm_by` says which of the two it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tic_daemon.scan.events import EnvSeen, Event, Transport

MAX_PROCS: Final = 64
MAX_COMMS: Final = 16
MAX_SAID: Final = 256
"""What is remembered lies in the source's cursor, so it is bounded. The oldest is forgotten first, and what it says
again is kept again: that costs rows in the console of a very large job, and loses nothing."""
_PLAIN: Final = frozenset({"network", "version", "all2all", "nvshmem"})
"""What holds for the process rather than for one communicator."""


@dataclass(slots=True)
class Comm:
    """One communicator of one process, as far as its lines have told."""

    comm: str = ""
    comm_id: str = ""
    thread: str = ""
    rank: int | None = None
    nranks: int | None = None
    nnodes: int | None = None
    mnnvl: bool | None = None
    clique_id: str = ""
    clique_size: int | None = None
    said: list[str] = field(default_factory=list)

    def fits(self, event: Transport) -> bool:
        """Whether the ranks that a channel's line names can be this communicator's."""
        if event.what != "channel":
            return True
        if self.rank is None or self.nranks is None or event.own_rank is None or event.peer_rank is None:
            return True
        return event.own_rank == self.rank and event.peer_rank < self.nranks


@dataclass(slots=True)
class Process:
    """Communicators of one process, the one begun last at the end, and what it said of itself."""

    comms: list[Comm] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Comms:
    """What was said so far in one generation, by process. `every`: what is said again is news, too; not kept."""

    procs: dict[str, Process] = field(default_factory=dict)
    every: bool = False

    def news(self, event: Transport | EnvSeen, key: str, thread: str) -> list[Event]:
        """The event with its communicator; nothing if the same was said before.

        Args:
            key: of the process that wrote the line. thread: id of its thread, "" if the line has none.
        """
        found = self._news(event, key, thread)
        return found or ([event] if self.every else [])

    def _news(self, event: Transport | EnvSeen, key: str, thread: str) -> list[Event]:
        process = self.procs.get(key)
        if process is None:
            if len(self.procs) >= MAX_PROCS:
                del self.procs[next(iter(self.procs))]
            process = self.procs[key] = Process()
        if isinstance(event, EnvSeen):
            return [event] if _first(process.said, f"{event.name}={event.value}") else []
        if event.what in _PLAIN:
            return [event] if _first(process.said, f"{event.what} {event.transport}") else []
        comm, by = _found(process, event, thread)
        if comm is None:
            return [event] if _first(process.said, f"{event.what} {event.transport} {event.direction}") else []
        _learn(comm, event)
        if not _first(comm.said, f"{event.what} {event.transport} {event.direction}"):
            return []
        return [
            replace(
                event, comm=comm.comm, comm_id=comm.comm_id, comm_by=by, own_rank=comm.rank, nranks=comm.nranks,
                nnodes=comm.nnodes, mnnvl=comm.mnnvl, clique_id=comm.clique_id, clique_size=comm.clique_size,
            )
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready values; {} if nothing is remembered."""
        return {
            key: [
                process.said,
                [
                    [
                        comm.comm, comm.comm_id, comm.thread, comm.rank, comm.nranks, comm.nnodes, comm.mnnvl,
                        comm.clique_id, comm.clique_size, comm.said,
                    ]
                    for comm in process.comms
                ],
            ]
            for key, process in self.procs.items()
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Comms:
        """Back from `to_json`."""
        return cls({key: Process([Comm(*one) for one in comms], said) for key, (said, comms) in value.items()})


def _found(process: Process, event: Transport, thread: str) -> tuple[Comm | None, str]:
    """The communicator that the line speaks of, begun if it is new, and how it is known."""
    comms = process.comms
    if event.what == "comm":
        known = next((one for one in comms if one.comm == event.comm and one.comm_id == event.comm_id), None)
        if known is not None:
            comms.remove(known)  # an address is used again: what it said before was another communicator's
        if len(comms) >= MAX_COMMS:
            del comms[0]
        comms.append(Comm(event.comm, event.comm_id, thread))
        return comms[-1], "line"
    newest = comms[::-1]
    if event.comm:
        named = next((one for one in newest if one.comm == event.comm), None)
        if named is not None:
            return named, "line"
    if thread:
        own = next((one for one in newest if one.thread == thread and one.fits(event)), None)
        if own is not None:
            return own, "thread"
    return next(((one, "process") for one in newest if one.fits(event)), (None, ""))


def _learn(comm: Comm, event: Transport) -> None:
    if event.what in {"comm", "topology"} and event.own_rank is not None:
        comm.rank = event.own_rank
    if event.nranks is not None:
        comm.nranks = event.nranks
    if event.nnodes is not None:
        comm.nnodes = event.nnodes
    if event.mnnvl is not None:
        comm.mnnvl = event.mnnvl
    if event.clique_id:
        comm.clique_id = event.clique_id
    if event.clique_size is not None:
        comm.clique_size = event.clique_size


def _first(said: list[str], what: str) -> bool:
    """Whether this is new; it is remembered."""
    if what in said:
        return False
    if len(said) >= MAX_SAID:
        del said[0]
    said.append(what)
    return True
