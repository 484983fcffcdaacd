"""The scanner: bytes of one source in, events out; a deterministic function of the bytes, whatever the chunks.

    Scanner(rules)                   one per process: the compiled database of all literals
    Scanner.open(traits, state)      -> SourceScanner, one per source and generation
    SourceScanner.feed(data)         whole lines;  feed_piece(data): part of a line that is too long
    SourceScanner.peek(tail)         what the open records and the unfinished line would give now
    SourceScanner.finish(tail)       the generation is over

Most lines are never looked at: one pass of the multi-pattern engine tells which lines hold a literal of any rule, a
fast search tells where a new process appears, and Python reads those lines alone. While a record or a traceback is
open, or while a process' next stamp is wanted, the lines that may belong to it are read too. Which lines are read
follows from the bytes alone, so that chunks and restarts change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from tic_daemon.scan import writers
from tic_daemon.scan.docker_json import DOCKER_JSON, cri_of
from tic_daemon.scan.engine import Hit, make_engine
from tic_daemon.scan.events import At, Event, Gap
from tic_daemon.scan.json_log import plain_of
from tic_daemon.scan.lines import is_whole, logger_prefix, pieces, transport
from tic_daemon.scan.piece import OWN, REGEX_LIMIT, PieceReader, Plans
from tic_daemon.scan.records import whole_line
from tic_daemon.scan.rule import Rule
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.stamps import Years
from tic_daemon.scan.state import Counters, Cut, Piece, State
from tic_daemon.scan.tracebacks import OPENER
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.scan.wrappers import peel

HEAD_LIMIT: Final = 64 * 1024
CRI_LIMIT: Final = 1 << 20
MAX_PIECES: Final = 64
_PREVIOUS: Final = 512
_BAR_PARTS: Final = 3
"""Carriage returns behind which a line's first bar is surely whole: one before it, one behind a launcher's prefix."""
_DIGITS: Final = frozenset("0123456789")
_JSON_OR_DIGIT: Final = _DIGITS | {"{"}
_GLUED: Final = re.compile(r" classification=[a-z]+(?:[\[(:])").search
_NONE: Final[list[int]] = []
_OPENER: Final = OPENER.split()[0]
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
# Literals that tell of lines which a container runtime has cut.
_CUT: Final = (b" stdout P ", b" stderr P ", DOCKER_JSON)


class Scanner:
    """All rules, compiled into one search. Not thread-safe.

    Args:
        rules: the rules in force.
        engine: auto | hyperscan | ahocorasick.
    """

    def __init__(self, rules: RuleSet, engine: str = "auto") -> None:
        table: dict[bytes, list[Rule]] = {literal: [] for literal in (*OWN, *_CUT)}
        for literal, of_literal in rules.by_literal.items():
            table.setdefault(literal.encode(), []).extend(of_literal)
        self.rules = rules
        order = {rule.name: place for place, rule in enumerate(rules.rules)}
        self.plans = Plans([tuple(group) for group in table.values()], order)
        self.engine = make_engine(list(table), engine, writers.WORDS)

    def open(self, traits: SourceTraits, state: str | None = None) -> SourceScanner:
        """A scanner at the start of a generation, or where `state` was taken."""
        return SourceScanner(self, traits, State.load(state) if state else State(Years(traits.reference_time)))


class SourceScanner:
    """Scans one generation of one source."""

    def __init__(self, scanner: Scanner, traits: SourceTraits, state: State) -> None:
        self._scanner = scanner
        self._traits = traits
        self._state = state
        self._reader = PieceReader(traits, state, scanner.plans)

    @property
    def counters(self) -> Counters:
        """Lines read, lines with bad UTF-8, NUL bytes, lines over the cap, bytes skipped in them."""
        return self._state.counters

    @property
    def byte_offset(self) -> int:
        """Offset of the next byte to be fed."""
        return self._state.offset

    @property
    def line_no(self) -> int:
        """Number of the next line, from 1."""
        return self._state.line_no

    def state(self) -> str:
        """All that a later scanner needs to go on exactly here, as compact JSON."""
        return self._state.dump()

    def keep_repeats(self) -> None:
        """Give events of lines, too, that say again what an earlier line said (comms.py). Not part of the state."""
        self._state.comms.every = True

    def note_time(self, now: datetime) -> None:
        """The file grew at this naive local time: helps the first stamp without a year, which may come days after the
        file was found. Changes nothing once such a stamp was read."""
        years = self._state.years
        if not years.anchored and (years.reference is None or now > years.reference):
            years.reference = now

    def feed(self, data: bytes) -> list[Event]:
        """Scan whole lines. `data` ends with a newline."""
        if self._state.piece is not None and data:
            data = self._end_piece(data)
        if data:
            self._chunk(data)
        return self._taken()

    def feed_piece(self, data: bytes) -> list[Event]:
        """Scan part of a line that is too long to wait for its newline. Carriage returns end a part of it; of a part
        over 64 KiB the first 64 KiB are read and the rest is skipped and counted."""
        state = self._state
        if not data:
            return []
        if state.piece is None:
            state.piece = Piece(state.offset)
            state.counters.capped_lines += 1
        state.counters.nul_bytes += data.count(0)
        self._part(state.piece, data)
        return self._taken()

    def peek(self, tail: bytes) -> list[Event]:
        """Events of the open records and of an unterminated last line, as if the file ended here."""
        return self._scanner.open(self._traits, self.state()).finish(tail)

    def finish(self, tail: bytes) -> list[Event]:
        """End of the generation: `tail` is its last line, without newline; open records are closed."""
        if tail and self._state.piece is not None:
            self._part(self._state.piece, tail)
            tail = b""
        if self._state.piece is not None:
            self._close_piece(self._state.piece, b"")
        if tail:
            self._chunk(tail)
        for stream in list(self._state.cri):
            self._join(stream, self._state.offset)
        self._reader.settle(b"")
        self._reader.give(self._state.records.close())
        return self._taken()

    def _taken(self) -> list[Event]:
        events, self._reader.events = self._reader.events, []
        return events

    # Chunks of whole lines

    def _chunk(self, data: bytes) -> None:
        """Read the lines of a chunk that are worth it, in order, each once."""
        state, reader, engine = self._state, self._reader, self._scanner.engine
        base, line_no, size, single = state.offset, state.line_no, len(data), reader.single
        if base == 0 and data.startswith(_UTF16):
            what = "the file is UTF-16, of which nothing is understood; have it written as UTF-8, or convert it"
            reader.events.append(Gap(At(0, 2, 1), "encoding", 0, 2, what))
        # Without colours, refreshes and bytes to mend most lines need no more than to be decoded.
        plain = self._count(data) and not (b"\r" in data or b"\x1b" in data)
        take, plan = reader.take, reader.plans.of
        hits = engine.scan(data)
        new = writers.Newcomers(data, state, self._traits, single, engine.present)
        wanted = writers.Wanted(data, state, single, engine.present)
        records, traces, cuts, wants, procs = state.records.open, state.traces.open, state.cri, state.wants, state.procs
        hits.append((size + 1, -1))  # behind the last line
        newline_before, newline_from, newlines = data.rfind, data.find, data.count
        hit = position = 0
        place = hits[0][0]
        while position < size:
            target = place - 1
            if records or traces or cuts or state.held or (single and not procs):
                target = position
            elif wants or new.places:
                known = position <= wanted.best and wanted.changed == state.wants_changed
                soon = wanted.best if known else wanted.next(position)
                target = min(target, soon, new.next(position)) if new.places else min(target, soon)
            if target >= size:
                break
            start = newline_before(b"\n", position, target) + 1 or position
            end = newline_from(b"\n", target) + 1 or size
            line_no += newlines(b"\n", position, start)
            first = hit
            while place <= end:
                hit += 1
                place = hits[hit][0]
            found = hits[first:hit]
            line, own = "", False
            if plain and found and not (records or traces or cuts or state.held):
                own, rules = plan(found)
                line = data[start : end - (data[end - 1] == 10)].decode("ascii")
            if own and len(found) == 1 and not rules and (values := whole_line(line)) is not None:
                reader.record(line, values, base + start, end - start, line_no)
            elif line and _is_one(line) and not (own and _needs_more(line)):
                take(line, None, base + start, end - start, line_no, found, start, own, rules, b"")
            else:
                self._line(data, start, end, base, line_no, found, new.within(position, end) if new.places else _NONE)
            if new.places:
                new.passed(end)
            line_no += data[end - 1] == 10
            position = end
        line_no += newlines(b"\n", position)
        self._end_chunk(data, line_no)

    def _end_chunk(self, data: bytes, line_no: int) -> None:
        """What is to be remembered of a chunk. `line_no`: of the line behind it."""
        state = self._state
        state.counters.lines += line_no - state.line_no + (data[-1] != 10)
        state.line_no = line_no
        state.offset += len(data)
        for key in [key for key, (until, _tries) in state.wants.items() if until < state.offset]:
            writers.unwant(state, key)
        last = data.rfind(b"\n", 0, len(data) - 1) + 1
        state.previous = data[last : last + _PREVIOUS]

    def _forced(self) -> bool:
        """Whether the very next line must be read."""
        state, single = self._state, self._reader.single
        return bool(state.records.open or state.traces.open or state.cri or state.held or (single and not state.procs))

    def _count(self, data: bytes) -> bool:
        """Count NULs and lines that are no UTF-8; whether the chunk is ASCII without NULs."""
        counters = self._state.counters
        nul, ascii_only = b"\0" in data, data.isascii()
        if nul:
            counters.nul_bytes += data.count(0)
        if not ascii_only:
            try:
                data.decode()
            except UnicodeDecodeError:
                counters.bad_utf8 += sum(map(_is_bad, data.split(b"\n")))
        return ascii_only and not nul

    def _line(
        self, data: bytes, start: int, end: int, base: int, line_no: int, hits: list[Hit], marks: list[int]
    ) -> None:
        """Read one physical line: [start, end) of the chunk, newline included."""
        state = self._state
        if state.records.open:
            self._reader.close_records(base + start, line_no)
        if state.traces.open:
            state.traces.expire(line_no)
        stop = end
        if data[stop - 1] == 10:
            stop -= 1
        if stop > start and data[stop - 1] == 13:
            stop -= 1
        raw = data[start:stop]
        if state.held:
            self._reader.settle(raw)
        if (state.cri or (hits and raw[:1].isdigit())) and self._cri(raw, base + start, base + end, line_no):
            return
        previous = b""
        if _OPENER.encode() in raw:
            before = data.rfind(b"\n", 0, start - 1) + 1 if start else 0
            previous = data[before : min(start, before + _PREVIOUS)] if start else state.previous
        if hits and raw.startswith(DOCKER_JSON):
            previous = previous.removeprefix(DOCKER_JSON)
            if self._docker(raw, base + start, base + end, line_no, previous):
                return
        if hits and raw.endswith(b"}") and self._json(raw, base + start, end - start, line_no):
            return
        if is_whole(raw):
            self._reader.read(raw, base + start, end - start, line_no, hits, start, previous)
        else:
            found = [(place - start, number) for place, number in hits]
            marks = [place - start for place in marks]
            self._pieces(raw, base + start, base + end, line_no, found, marks, previous)

    def _pieces(
        self, raw: bytes, offset: int, end: int, line_no: int, hits: list[Hit], marks: Iterable[int], previous: bytes
    ) -> None:
        """Read the pieces of a line's content; `end` is the offset behind its newline."""
        parts = pieces(raw)
        if len(parts) == 1:
            start, stop = parts[0]
            found = [hit for hit in hits if start < hit[0] <= stop]
            said = transport(raw) if start else b""
            self._reader.read(
                raw[start:stop], offset + start, end - offset - start, line_no, found, start, previous, said
            )
            return
        alone = not hits or self._forced() or bool(self._state.wants)
        wanted = set(range(max(0, len(parts) - MAX_PIECES), len(parts))) if alone else set()
        places = [place for place, _number in hits] + [place + 1 for place in marks]
        head = transport(raw)
        number = 0
        for place in sorted(places):
            while number < len(parts) and parts[number][1] < place:
                number += 1
            if number < len(parts) and parts[number][0] < place:
                wanted.add(number)
        for number in sorted(wanted):
            start, stop = parts[number]
            found = [hit for hit in hits if start < hit[0] <= stop]
            follows = parts[number + 1][0] if number + 1 < len(parts) else end - offset
            said = head if start else b""
            outer = logger_prefix(raw, start)
            bar = _bar_before(raw, parts, number) if found else b""
            self._reader.read(
                raw[start:stop], offset + start, follows - start, line_no, found, start, previous, said, outer, bar
            )

    # Lines that a container runtime has cut

    def _cri(self, raw: bytes, offset: int, end: int, line_no: int) -> bool:
        """Whether the line is part of one that is joined here. Parts of a line carry P, its last one F."""
        if not raw[:4].isdigit():
            return False
        head = raw[:80].decode("latin-1")
        line = peel(head, Years(None))
        if line.kinds[:1] != ("cri",):
            return False
        if line.stream not in self._state.cri:
            if line.partial:
                self._gather(line.stream, raw.replace(b" P ", b" F ", 1), offset, line_no)
            return line.partial
        text = raw[_cri_length(raw) :]
        self._gather(line.stream, text, offset + len(raw) - len(text), line_no)
        if not line.partial:
            self._join(line.stream, end)
        return True

    def _docker(self, raw: bytes, offset: int, end: int, line_no: int, previous: bytes) -> bool:
        """Whether the line is an entry of Docker's json-file driver, and then read. Its offsets within a line are of
        the decoded text."""
        entry = cri_of(raw)
        if entry is None:
            return False
        stream, head, text = entry
        said = text.removesuffix(b"\n")
        self._gather(stream, said if stream in self._state.cri else head + said, offset, line_no)
        if said != text:
            self._join(stream, end, previous)
        return True

    def _gather(self, stream: str, part: bytes, offset: int, line_no: int) -> None:
        """Keep a part of a line that goes on; `offset` is where it stands in the file."""
        cut = self._state.cri.get(stream)
        if cut is None:
            self._state.cri[stream] = Cut([[0, offset, line_no]], part)
        elif len(cut.raw) < CRI_LIMIT:
            cut.parts.append([len(cut.raw), offset, line_no])
            cut.raw += part
        else:
            self._state.counters.skipped_bytes += len(part)

    def _json(self, raw: bytes, offset: int, length: int, line_no: int) -> bool:
        """Whether the line is a JSON logger's record, and then read."""
        head = transport(raw)
        if not raw.startswith(b"{", len(head)) or (texts := plain_of(raw[len(head) :])) is None:
            return False
        for text in texts:
            self._reader.read(text, offset, length, line_no, self._scanner.engine.scan(text), 0, b"", head)
        return True

    def _join(self, stream: str, end: int, previous: bytes = b"") -> None:
        """Read a line whose last part has come. `end` is the offset behind it."""
        cut = self._state.cri.pop(stream)
        raw, hits = cut.raw, self._scanner.engine.scan(cut.raw)
        every = self._forced() or bool(self._state.wants) or any(word in raw for word in writers.WORDS)
        for start, stop in pieces(raw):
            found = [hit for hit in hits if start < hit[0] <= stop]
            if found or every:
                offset, line_no = _place(cut, start)
                last = end if stop == len(raw) else _place(cut, stop)[0]
                said = transport(raw) if start else b""
                self._reader.read(raw[start:stop], offset, last - offset, line_no, found, start, previous, said)

    # Lines that are too long

    def _part(self, piece: Piece, data: bytes) -> None:
        """More bytes of a long line. Its parts between carriage returns are read one by one."""
        state = self._state
        if (held := state.held) is not None:
            held.behind += data
            if held.behind.count(b"\r") >= _BAR_PARTS or len(held.behind) > REGEX_LIMIT:
                self._reader.settle(held.behind)
        if piece.skip_from >= 0:
            place = data.find(b"\r")
            if place < 0:
                state.counters.skipped_bytes += len(data)
                state.offset += len(data)
                return
            state.counters.skipped_bytes += place
            self._gap(piece.skip_from, state.offset + place)
            piece.skip_from = -1
            state.offset += place
            data = data[place:]
        data = piece.pending + data
        begin = state.offset - len(piece.pending)
        cut = data.rfind(b"\r") + 1
        if cut:
            self._fragment(data[:cut], begin)
        rest = data[cut:]
        state.offset = begin + len(data)
        if len(rest) > HEAD_LIMIT:
            self._fragment(rest[:HEAD_LIMIT], begin + cut)
            piece.skip_from = begin + cut + HEAD_LIMIT
            state.counters.skipped_bytes += len(rest) - HEAD_LIMIT
            rest = b""
        piece.pending = rest

    def _fragment(self, raw: bytes, offset: int) -> None:
        """Parts of the long line that are whole, cut to the length that is read of each."""
        start = offset
        for part in raw.split(b"\r"):
            head = part[:HEAD_LIMIT]
            hits = self._scanner.engine.scan(head) if head else []
            if hits:
                self._pieces(head, start, start + len(head), self._state.line_no, hits, (), b"")
            if len(part) > HEAD_LIMIT:
                self._state.counters.skipped_bytes += len(part) - HEAD_LIMIT
                self._gap(start + HEAD_LIMIT, start + len(part))
            start += len(part) + 1

    def _end_piece(self, data: bytes) -> bytes:
        """The rest of a long line, up to its newline. Returns what follows it."""
        piece = self._state.piece
        assert piece is not None  # noqa: S101 - the caller has looked
        place = data.find(b"\n") + 1 or len(data)
        self._state.counters.nul_bytes += data.count(0, 0, place)
        self._part(piece, data[: place - 1])
        self._close_piece(piece, b"\n")
        return data[place:]

    def _close_piece(self, piece: Piece, newline: bytes) -> None:
        state = self._state
        if state.held:
            self._reader.settle(state.held.behind)
        if piece.skip_from >= 0:
            self._gap(piece.skip_from, state.offset)
        elif piece.pending:
            self._fragment(piece.pending, state.offset - len(piece.pending))
        state.offset += len(newline)
        state.counters.lines += 1
        state.line_no += 1
        state.piece = None

    def _gap(self, first: int, end: int) -> None:
        """[first, end) of the long line was not read."""
        start = self._state.piece.start if self._state.piece is not None else first
        at = At(start, end - start, self._state.line_no)
        what = f"a line without a newline or carriage return for {HEAD_LIMIT} bytes; the rest was skipped"
        self._reader.events.append(Gap(at, "capped_line", first, end, what))


def _is_one(line: str) -> bool:
    """As `lines.is_whole`, for a line without escapes; nor may it be one that a container runtime has cut."""
    if (
        line[0] in _JSON_OR_DIGIT
        or (line[-1] == "}" and '{"' in line)
        or line.find("[rank", 1) >= 0
        or (" classification=" in line and _GLUED(line) is not None)
        or ("%" in line and ("%|" in line or "% Completed |" in line))
    ):
        return False
    return " pid=" not in line or (line[0] == "(" and line.count(" pid=") == 1)


def _needs_more(line: str) -> bool:
    """Whether a line with a literal of the reader's own may hold several pieces, or hangs on the line before it."""
    if _OPENER in line:
        return True
    first = line.find("[mismatch]")
    return first > 0 or (first == 0 and line.find("[mismatch]", 1) > 0)


def _bar_before(raw: bytes, parts: list[tuple[int, int]], number: int) -> bytes:
    """The piece before `number` if only blanks stand between: what tqdm writes to wipe a bar, and then a line."""
    before = number - 1
    while before >= 0 and not raw[parts[before][0] : parts[before][1]].strip():
        before -= 1
    if before < 0 or before == number - 1:
        return b""
    return raw[parts[before][0] : parts[before][1]]


def _is_bad(line: bytes) -> bool:
    if line.isascii():
        return False
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return False


def _place(cut: Cut, place: int) -> tuple[int, int]:
    """Offset in the file, and line number, of a byte of a joined line."""
    first, offset, line_no = next(part for part in reversed(cut.parts) if part[0] <= place)
    return offset + place - first, line_no


def _cri_length(raw: bytes) -> int:
    """Bytes of the CRI prefix: three blanks end it."""
    place = -1
    for _ in range(3):
        place = raw.find(b" ", place + 1)
    return place + 1
