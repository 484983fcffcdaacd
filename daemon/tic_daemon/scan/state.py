"""What the scanner remembers of one generation between two reads; as JSON it lies in the source's cursor."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tic_daemon.scan.comms import Comms
from tic_daemon.scan.denials import Denials
from tic_daemon.scan.records import OpenRecord, Records
from tic_daemon.scan.stamps import Years
from tic_daemon.scan.step_from import Blocks, Held
from tic_daemon.scan.tracebacks import Tracebacks
from tic_daemon.scan.values import time_from_json

VERSION: Final = 1


@dataclass(slots=True)
class Proc:
    """One writer: its last stamp (and whether that is UTC), and the last step that it ended."""

    stamp: datetime | None = None
    utc: bool = False
    step: int | None = None


@dataclass(slots=True)
class Counters:
    """What could not be read as text. `bad_utf8` counts lines, of all lines; the rest count bytes or lines as named."""

    lines: int = 0
    bad_utf8: int = 0
    nul_bytes: int = 0
    capped_lines: int = 0
    skipped_bytes: int = 0


@dataclass(slots=True)
class Cut:
    """First parts of a line that a container runtime has cut. `parts`: for each part its place in `raw`, the offset
    of the same byte in the file, and its line number."""

    parts: list[list[int]]
    raw: bytes


@dataclass(slots=True)
class Piece:
    """A line too long to be handed over whole: where it began, what of it waits, where skipping began (-1: not)."""

    start: int
    pending: bytes = b""
    skip_from: int = -1


@dataclass(slots=True)
class State:
    """All of it. Offsets are of the next byte and the next line to be read.

    Attributes:
        procs: writers seen, by key. `rejected`: keys that looked like a writer's but were not, with how often.
        wants: writers whose unstamped events wait for a later stamp: key -> [give up at this offset, tries left].
            `wants_changed` counts its changes, for those who keep what follows from it.
        quotes: writers that are printing a prompt or response: key -> offset of the last marker.
        cri: first parts of lines that a container runtime has cut, by stream.
        previous: the first bytes of the line before.
        comms: communicators begun, and what was said of them, see `comms`.
        denials: what engines have said that does not hold, see `denials`.
        blocks, held: step numbers that stand on other lines, see `step_from`.
    """

    years: Years
    offset: int = 0
    line_no: int = 1
    run: str = ""
    actor: str = ""
    full: bool = False
    previous: bytes = b""
    counters: Counters = field(default_factory=Counters)
    procs: dict[str, Proc] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    wants: dict[str, list[int]] = field(default_factory=dict)
    wants_changed: int = 0
    quotes: dict[str, int] = field(default_factory=dict)
    cri: dict[str, Cut] = field(default_factory=dict)
    piece: Piece | None = None
    records: Records = field(default_factory=Records)
    traces: Tracebacks = field(default_factory=Tracebacks)
    blocks: Blocks = field(default_factory=Blocks)
    held: Held | None = None
    comms: Comms = field(default_factory=Comms)
    denials: Denials = field(default_factory=Denials)

    def dump(self) -> str:
        """Compact JSON. Parts that are empty are left out."""
        years, counters = self.years, self.counters
        reference = years.reference.isoformat() if years.reference else None
        value: dict[str, Any] = {
            "v": VERSION, "o": self.offset, "l": self.line_no, "y": [reference, years.anchored],
            "c": [
                counters.lines, counters.bad_utf8, counters.nul_bytes, counters.capped_lines, counters.skipped_bytes
            ],
        }  # fmt: skip
        optional: dict[str, Any] = {
            "run": self.run, "actor": self.actor, "full": self.full, "prev": self.previous.decode("latin-1"),
            "procs": {
                key: [proc.stamp.isoformat() if proc.stamp else None, proc.utc, proc.step]
                for key, proc in self.procs.items()
            },
            "rejected": self.rejected, "wants": self.wants, "quotes": self.quotes,
            "cri": {key: [cut.parts, cut.raw.decode("latin-1")] for key, cut in self.cri.items()},
            "piece": [self.piece.start, self.piece.pending.decode("latin-1"), self.piece.skip_from]
            if self.piece else None,
            "records": {key: record.to_json() for key, record in self.records.open.items()},
            "traces": self.traces.to_json(),
            "blocks": self.blocks.to_json(), "held": self.held.to_json() if self.held else None,
            "comms": self.comms.to_json(), "denials": self.denials.to_json(),
        }  # fmt: skip
        value |= {key: part for key, part in optional.items() if part}
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> State:
        """Back from `dump`."""
        value = json.loads(text)
        reference, anchored = value["y"]
        state = cls(Years(time_from_json(reference), anchored), value["o"], value["l"])
        state.counters = Counters(*value["c"])
        state.run, state.actor = value.get("run", ""), value.get("actor", "")
        state.full = value.get("full", False)
        state.previous = value.get("prev", "").encode("latin-1")
        for key, (stamp, utc, step) in value.get("procs", {}).items():
            state.procs[key] = Proc(time_from_json(stamp), utc, step)
        state.rejected, state.wants = value.get("rejected", {}), value.get("wants", {})
        state.quotes = value.get("quotes", {})
        state.cri = {key: Cut(parts, raw.encode("latin-1")) for key, (parts, raw) in value.get("cri", {}).items()}
        if (piece := value.get("piece")) is not None:
            state.piece = Piece(piece[0], piece[1].encode("latin-1"), piece[2])
        for key, record in value.get("records", {}).items():
            state.records.open[key] = OpenRecord.from_json(record)
        state.traces.load(value.get("traces", {}))
        state.blocks = Blocks(*value.get("blocks", []))
        if (held := value.get("held")) is not None:
            state.held = Held.from_json(held)
        state.comms = Comms.from_json(value.get("comms", {}))
        state.denials = Denials.from_json(value.get("denials", []))
        return state
