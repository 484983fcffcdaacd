"""One piece of a line, read: who wrote it, when, and what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tic_daemon.scan import writers, yields
from tic_daemon.scan.engine import Hit
from tic_daemon.scan.events import (
    At,
    EnvSeen,
    Event,
    Fault,
    Gap,
    Metric,
    Mismatch,
    ProcessSeen,
    SourceRun,
    StampAfter,
    StepEvent,
    Transport,
)
from tic_daemon.scan.lines import clean, is_bar, transport
from tic_daemon.scan.records import HEADER, fields_of, is_record, is_template, mismatch, tokens, whole_line
from tic_daemon.scan.rule import Rule
from tic_daemon.scan.stamps import Years
from tic_daemon.scan.state import Proc, State
from tic_daemon.scan.step_from import Bar, Held, bar_of
from tic_daemon.scan.tracebacks import OPENER, RAY_CREATION, RAY_OPENER, RICH_OPENER, Trace, ray_copy
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.scan.values import integer, pci
from tic_daemon.scan.verdict import MENTION, foreign_rank, verdict, without_cuda, wrap_fits
from tic_daemon.scan.wrapped import Wrapped
from tic_daemon.scan.wrappers import peel

REGEX_LIMIT: Final = 4096
_INT32: Final = 2**31
QUOTE_BYTES: Final = 64 * 1024
_QUOTE_OPEN: Final = ("[prompt]", "[response]", "[ground_truth]")
_QUOTE_CLOSE: Final = "[score]"
_ACTOR: Final = ":actor_name:"

# Loggers that put their prefix on a record's first line alone: its traceback follows without any. Launchers and Ray
# prefix every line.
_FIRST_LINE_ONLY: Final = frozenset({
    "sglang", "slime", "python", "pylog", "loguru", "areal", "torch_log", "raycpp", "rich"
})  # fmt: skip
_LAUNCHERS: Final = frozenset({"torchrun", "srun_label"})
_EVERY_LINE: Final = frozenset({"ray", "vllm", "torchrun", "rank", "rank_glog", "srun_label"})

OWN: Final = (
    b"[mismatch]", OPENER.encode(), b"[prompt]", b"[response]", b"[ground_truth]", b"[score]", b":actor_name:",
    RAY_OPENER.encode(), RAY_CREATION.encode(), RICH_OPENER.encode(),
)  # fmt: skip
"""Literals that are read here, beside those of the rules; they have the first numbers."""
_OFTEN_SAID: Final = frozenset({"transport", "env"})
_PLANS: Final = 4096
_FIRST_PART: Final = re.compile(rb"[^\r]*[^\s][^\r]*")


Plan = tuple[bool, tuple[Rule, ...]]


class Plans:
    """Which rules to try for which literals.

    Args:
        of_literal: the rules of each literal, by its number.
        order: place of each rule, by name, in the order in which rules are tried.
    """

    def __init__(self, of_literal: Sequence[tuple[Rule, ...]], order: Mapping[str, int]) -> None:
        self.of_literal = of_literal
        self._order = order
        self._known: dict[tuple[int, ...], Plan] = {}
        self._alone: list[Plan | None] = [None] * len(of_literal)

    def of(self, hits: Sequence[Hit]) -> Plan:
        """Whether one of `OWN` is among the hits, and the rules to try, in order. The hits of lines repeat."""
        if len(hits) == 1:
            alone = hits[0][1]
            plan = self._alone[alone]
            if plan is None:
                plan = self._alone[alone] = self._made((alone,))
            return plan
        numbers = tuple([number for _place, number in hits])
        plan = self._known.get(numbers)
        if plan is None:
            if len(self._known) >= _PLANS:
                self._known.clear()
            plan = self._known[numbers] = self._made(numbers)
        return plan

    def _made(self, numbers: Sequence[int]) -> Plan:
        rules = {rule.name: rule for number in numbers for rule in self.of_literal[number]}
        ordered = sorted(rules.values(), key=lambda rule: self._order[rule.name])
        return min(numbers) < len(OWN), tuple(rule for rule in ordered if rule.yields != "mismatch")

    def place(self, rule: Rule, hits: Sequence[Hit]) -> int:
        """Where the first literal of a rule ends."""
        return next(place for place, number in hits if rule in self.of_literal[number])


def _loose(line: Wrapped) -> bool:
    """Whether the rest of this line's record may come in lines without any prefix."""
    return bool(line.kinds) and line.kinds[-1] in _FIRST_LINE_ONLY and not _EVERY_LINE.intersection(line.kinds)


class PieceReader:
    """Reads pieces of one generation in order. All that it remembers is in `state`.

    Args:
        traits, state: of the generation.
        plans: of the scanner.
    """

    def __init__(self, traits: SourceTraits, state: State, plans: Plans) -> None:
        self.traits = traits
        self.plans = plans
        self.state = state
        self.single = writers.single_key(traits) if traits.single_process else ""
        self.pid = traits.pid if self.single else None
        self.rank, self.stream = traits.rank, traits.stream
        self.events: list[Event] = []
        self._bar: Bar | None = None

    def read(
        self, raw: bytes, offset: int, length: int, line_no: int, hits: Sequence[Hit], origin: int, previous: bytes,
        head: bytes = b"", outer: bytes = b"", bar: bytes = b"",
    ) -> None:  # fmt: skip
        """Read one piece.

        Args:
            raw: its bytes, without the newline.
            offset, length: of the piece within the generation, newline included.
            line_no: of its physical line.
            hits: literals found in it, growing; empty for a line that is read for its writer or its stamp alone.
            origin: what to subtract from the hits' places to have them within the piece.
            previous: start of the physical line before it; needed with a hit of a traceback's opener alone.
            head: what stands in front of the whole line (`lines.transport`), of a piece behind it.
            outer: the line up to this piece, if one writer wrote both.
            bar: the piece before this one, if nothing but what wipes a progress bar stands between.
        """
        self._bar = bar_of(peel(clean(bar), Years(None)).text) if bar else None
        own, rules = self.plans.of(hits) if hits else (False, ())
        said = peel(clean(outer), self.state.years) if outer else None
        self.take(clean(head + raw), raw, offset, length, line_no, hits, origin, own, rules, previous, said)
        self._bar = None

    def take(
        self, text: str, raw: bytes | None, offset: int, length: int, line_no: int, hits: Sequence[Hit], origin: int,
        own: bool, rules: Sequence[Rule], previous: bytes, outer: Wrapped | None = None,
    ) -> None:  # fmt: skip
        """As `read`, of a piece whose text and plan are known. `raw`: None if `text` says all of it."""
        state = self.state
        line = peel(text, state.years)
        if outer is not None:
            line.inherit(outer)
        key = writers.key_of(line, self.traits, self.single) if self.single else line.proc
        trace: Trace | None = None
        if state.traces.open:
            self._end_traces(line, key)
            trace = state.traces.see(key, line.text, line_no)
            if trace is not None and trace.indent:
                line.text = line.text.removeprefix(" " * trace.indent).rstrip()
            if trace is not None and trace.owner is not None and not trace.copied:
                key, pid, rank, actor = trace.owner
                line.named_by(pid, rank, actor)
        proc = state.procs.get(key)
        piece = _Piece(self, raw, text, line, key, proc or Proc(), offset, length, line_no)
        if key:
            if proc is None or key in state.wants:
                self._writer(piece, known=proc is not None)
            if line.stamp is not None:
                piece.proc.stamp, piece.proc.utc = line.stamp.at, line.stamp.utc
        if own:
            self._markers(piece, previous)
        if state.records.open or (own and line.text.startswith("[mismatch]")):
            self._records(piece)
        if rules:
            self._rules(piece, rules, hits, origin, trace)

    def _end_traces(self, line: Wrapped, key: str) -> None:
        """A line's header ends what goes on without one."""
        traces = self.state.traces.open
        if not key and not line.bare:
            traces.pop("", None)
        elif line.within and line.within != key:
            traces.pop(line.within, None)
        elif line.kinds[-1:] == ("sglang",):
            traces.pop(key, None)

    def record(self, text: str, values: Sequence[str], offset: int, length: int, line_no: int) -> None:
        """As `take`, of a line that is a whole record and nothing else, while no record and no traceback is open.

        Args:
            values: of the record's fields (`records.whole_line`).
        """
        key = self.single
        proc = self.state.procs.get(key)
        piece = _Piece(self, None, text, Wrapped(text, self.state.years), key, proc or Proc(), offset, length, line_no)
        if key and (proc is None or key in self.state.wants):
            self._writer(piece, known=proc is not None)
        self._whole(piece, values)

    def settle(self, raw: bytes) -> None:
        """The line behind the one whose events are held begins with `raw`."""
        held, self.state.held = self.state.held, None
        if held is None:
            return
        head = transport(raw)
        first = _FIRST_PART.search(raw, len(head))
        line = peel(clean(head + (first[0] if first else b"")), Years(None))
        key = writers.key_of(line, self.traits, self.single) if self.single else line.proc
        for event in held.settled(bar_of(line.text) if key == held.key else None):
            self.events.append(event)
            at = event.at
            if isinstance(event, StepEvent) and key and key in self.state.procs:
                self.state.procs[key].step = at.step
            if at.stamp is None and at.proc:
                writers.want(self.state, at.proc, at.byte_offset + at.byte_length)

    def close_records(self, offset: int, line_no: int) -> None:
        """Close records that began too long before this line."""
        if self.state.records.open:
            self.give(self.state.records.expire(offset, line_no))

    def give(self, records: Sequence[Mismatch]) -> None:
        """Hand out closed records; a record of a new run says that the source is that run's from here on."""
        for record in records:
            at = record.at
            if record.run and record.run not in (self.state.run, "unknown"):
                self.state.run = record.run
                self.events.append(SourceRun(at, record.run, "record"))
            if at.proc and at.proc not in self.state.procs:
                self._seen(at.proc, at, Proc())
            self.events.append(record)
            if at.stamp is None and at.proc:
                writers.want(self.state, at.proc, at.byte_offset + at.byte_length)

    def _is_quoted(self, piece: _Piece, run: str) -> bool:
        """Whether a record stands in a printed prompt or response and is another run's than this source: models write
        what they have seen. A record of the run at hand counts, since not every quotation is closed."""
        quoted = self.state.quotes.get(piece.key)
        return quoted is not None and piece.offset - quoted <= QUOTE_BYTES and self.state.run not in {"", run}

    def _writer(self, piece: _Piece, *, known: bool) -> None:
        """Announce a new writer; answer the events that wait for its next stamp."""
        key, proc, stamp = piece.key, piece.proc, piece.line.stamp
        if not known:
            self._seen(key, piece.at(""), proc)
        want = self.state.wants.get(key)
        if want is not None:
            want[1] -= 1
            expired = piece.offset > want[0] or want[1] <= 0
            if stamp is not None and not expired:
                self.events.append(StampAfter(piece.at("")))
            if stamp is not None or expired:
                writers.unwant(self.state, key)

    def _seen(self, key: str, at: At, proc: Proc) -> None:
        if len(self.state.procs) >= writers.MAX_PROCS:
            if not self.state.full:
                self.state.full = True
                what = f"more than {writers.MAX_PROCS} process keys; later ones are not announced"
                self.events.append(Gap(at, "too_many_processes", at.byte_offset, at.byte_offset + at.byte_length, what))
            return
        self.state.procs[key] = proc
        self.state.rejected.pop(key, None)
        self.events.append(ProcessSeen(at))

    @property
    def actor(self) -> str:
        """Actor of a file of one process, from its first lines or its path."""
        return self.state.actor or self.traits.actor

    def _markers(self, piece: _Piece, previous: bytes) -> None:
        """Lines that change what the next ones are worth: tracebacks, quoted text, Ray's magic first lines."""
        text = piece.line.text
        if text.startswith("["):
            if text.startswith(_QUOTE_OPEN):
                self.state.quotes[piece.key] = piece.offset
            elif text.startswith(_QUOTE_CLOSE):
                self.state.quotes.pop(piece.key, None)
        elif text.startswith(_ACTOR) and self.single and piece.line.bare:
            self.state.actor = text[len(_ACTOR) :].strip()[:80]
        if (copy := ray_copy(text)) is not None:
            who, pid = copy[1].rpartition(".")[0] or copy[1], int(copy[2])
            owner = (f"pid:{pid}", pid, None, who[:80])
            self.state.traces.begin(piece.key, Trace(True, True, piece.line_no, owner, copied=True))
        opener = text.rstrip()
        if opener.endswith(OPENER):
            self._traceback(piece, opener[: -len(OPENER)].rstrip(), previous)
        elif RICH_OPENER in text and text.lstrip(" ").startswith("╭─"):
            self._traceback(piece, "", previous)

    def _traceback(self, piece: _Piece, head: str, previous: bytes) -> None:
        """An opener. `head` is what stands before it in the payload ("Scheduler hit an exception:")."""
        line, key = piece.line, piece.key
        last = line.kinds[-1] if line.kinds else ""
        error = line.level_class == "error"
        if head and not error and not (last == "sglang" and "exception" in head):
            return
        named = line.pid is not None and bool({"ray", "vllm"} & set(line.kinds))
        # A launcher's prefix on every line names the process as well as a pid does: before init_process_group there is
        # no `[rankN]:` yet. The traceback is this prefix' own: `File` lines under another do not count for it.
        named = named or last in _LAUNCHERS
        excepthook = last == "rank"
        before = peel(clean(previous), self.state.years)
        bare_after_error = line.bare and before.level_class == "error"
        # Rich sets a record's further lines below its message: the traceback is as far to the right as its opener.
        under_rich = bare_after_error and before.kinds[-1:] == ("rich",)
        indent = len(line.text) - len(line.text.lstrip(" ")) if under_rich else 0
        # The interpreter writes its tracebacks to stderr: bare ones in a file of stdout are printed text.
        own_file = bool(self.single) and self.traits.stream != "stdout"
        proven = error or excepthook or own_file or named or bare_after_error or bool(head)
        needs_files = not (error or excepthook)
        who = (key, line.pid, line.rank, line.actor)
        self.state.traces.begin(key, Trace(proven, needs_files, piece.line_no, indent=indent))
        if line.within and line.within != key and not self.single:
            self.state.traces.begin(line.within, Trace(proven, True, piece.line_no, who))
        elif key and not self.single and _loose(line):
            self.state.traces.begin("", Trace(proven, True, piece.line_no, who))

    def _records(self, piece: _Piece) -> None:
        records = self.state.records
        text = piece.line.text
        if (values := whole_line(text)) is not None:
            self._whole(piece, values)
            return
        header = HEADER.match(text) if text.startswith("[mismatch]") else None
        if header is not None:
            said = text[header.end() :]
            fields = fields_of(said)
            if fields and (is_template(fields) or self._is_quoted(piece, fields.get("run", ""))):
                return
            whole = records.whole(piece.at(""), piece.end, fields, piece.shown()) if fields else None
            if whole is not None:
                self.give(whole)
                return
            pairs, _clean = tokens(said)
            if is_record(pairs):
                if self._is_quoted(piece, dict(pairs).get("run", "")):
                    return
                self.give(records.header(piece.at(""), piece.end, pairs, piece.shown(), loose=_loose(piece.line)))
                return
        if records.open:
            noise = not text.strip() or is_bar(piece.bytes)
            self.give(records.follow(piece.key, piece.end, piece.line_no, text, piece.shown(), noise))

    def _whole(self, piece: _Piece, values: Sequence[str]) -> None:
        """A record that is complete in itself, of which every field is said once."""
        if not self._is_quoted(piece, values[0]):
            self.give([mismatch(piece.at(""), piece.end, values, piece.shown())])

    def _rules(
        self, piece: _Piece, rules: Sequence[Rule], hits: Sequence[Hit], origin: int, trace: Trace | None
    ) -> None:
        """Try every rule of which a literal was found: all that yield states and steps, and the first fault."""
        mention: tuple[Rule, re.Match[str]] | None = None
        confirmed = False
        long = len(piece.line.text) > REGEX_LIMIT
        for rule in rules:
            try:
                place = self.plans.place(rule, hits) - origin if long else 0
                if rule.yields == "fault":
                    if confirmed:
                        continue
                    hit, anchored = self._fault_hit(rule, piece, place)
                    if hit is not None and anchored:
                        self._fault(rule, hit, piece, trace, anchored=True)
                        confirmed = True
                    elif hit is not None and mention is None:
                        mention = (rule, hit)
                elif not rule.wrap or wrap_fits(rule.wrap, piece.line, self.traits):
                    self._other(rule, piece, place)
            except Exception as error:  # noqa: BLE001 - a rule is data from outside: it may fail, the daemon may not
                end = piece.offset + piece.length
                detail = f"rule {rule.name}: {type(error).__name__}: {error}"[:500]
                self.events.append(Gap(piece.at(""), "rule_error", piece.offset, end, detail))
        if mention is not None and not confirmed:
            self._fault(mention[0], mention[1], piece, trace, anchored=False)

    def _fault_hit(self, rule: Rule, piece: _Piece, place: int) -> tuple[re.Match[str] | None, bool]:
        """The rule's hit, and whether it stands where the rule wants it, under the wrapper that it asks for."""
        text = piece.line.text
        fits = wrap_fits(rule.wrap, piece.line, self.traits)
        if rule.anchor == "start" and fits:
            hit = rule.regex.match(text[:REGEX_LIMIT])
            if hit is not None:
                return hit, True
        window = text if len(text) <= REGEX_LIMIT else piece.around(place)
        if rule.anchor == "any" and fits and (hit := rule.find(window)) is not None:
            return hit, True
        hit = rule.regex.search(window)
        if hit is None and window is text and piece.text is not text and len(piece.text) <= REGEX_LIMIT:
            hit = rule.regex.search(piece.text)
            return hit, False
        return hit, False

    def _fault(self, rule: Rule, hit: re.Match[str], piece: _Piece, trace: Trace | None, *, anchored: bool) -> None:
        line, traits = piece.line, self.traits
        quoted = self.state.quotes.get(piece.key)
        if anchored and trace is not None and trace.copied and trace.trusted and trace.owner is not None:
            self._owned(piece, trace.owner)
        actor = line.actor or (self.actor if self.single else "")
        groups = hit.groupdict()
        foreign = bool(self.single) and line.rank is not None and foreign_rank(line.rank, traits)
        judged = verdict(
            rule, line, anchored=anchored, trusted=trace is not None and trace.trusted,
            quoted=quoted is not None and piece.offset - quoted <= QUOTE_BYTES,
            no_cuda=without_cuda(actor, line, traits), foreign_rank=foreign,
        )  # fmt: skip
        if self.state.denials.of(rule, piece.key):
            judged = MENTION
        at = piece.at(rule.stream, groups if judged != MENTION else yields.NO_GROUPS)
        self.events.append(
            Fault(
                at, rule.name, judged, line.text[:REGEX_LIMIT], groups.get("code") or "", pci(groups.get("bus") or ""),
                groups.get("node") or line.node, piece.shown(),
            )
        )  # fmt: skip
        piece.bound(at)

    def _owned(self, piece: _Piece, owner: tuple[str, int | None, int | None, str]) -> None:
        """The line is a copy of what another process raised: it is that one's. It was raised after the step that the
        caller ended last; the caller's clock does not tell when."""
        key, pid, rank, actor = owner
        piece.line.named_by(pid, rank, actor)
        piece.key, piece.proc = key, Proc(step=piece.proc.step)
        if key not in self.state.procs:
            self._seen(key, piece.at(""), Proc())

    def _other(self, rule: Rule, piece: _Piece, place: int) -> None:
        text = piece.line.text
        seen, numbers = text, rule.yields in {"step", "metric"}
        if rule.anchor == "start":
            if len(text) > REGEX_LIMIT and not (numbers and len(text) <= REGEX_LIMIT * 16):
                seen = text[:REGEX_LIMIT]
            hit = rule.regex.match(seen)
        else:
            if len(text) > REGEX_LIMIT:
                seen = piece.around(place)
            hit = rule.regex.search(seen)
        if hit is None:
            return
        state = self.state
        denied = state.denials.standing or state.denials.once
        if denied and state.denials.of(rule, piece.key):
            return
        if rule.yields == "context":
            self._context(rule, hit, piece.key)
            return
        make = self._maker(rule, hit, piece) if rule.step_from or state.blocks.epochs else piece.at
        if make is None:
            return
        found = yields.events(rule, hit, seen if rule.anchor == "any" else text, piece.line.node, make)
        if rule.yields in _OFTEN_SAID:
            found = self._news(found, piece)
        if rule.step_from == "bar" and self._bar is not None and found:
            held = self.state.held or Held(piece.key, self._bar, piece.proc.step)
            held.events += [event for event in found if isinstance(event, (StepEvent, Metric))]
            self.state.held = held
            return
        self.events += found
        if denied:
            state.denials.heard(rule, piece.key, found)
        if found and numbers:
            self._counted(found[0], piece)

    def _counted(self, first: Event, piece: _Piece) -> None:
        """A line of a step or of numbers gave events, of which this is the first."""
        at = first.at
        piece.bound(at)
        if not isinstance(first, StepEvent) or at.step is None:
            return
        if piece.key:
            piece.proc.step = at.step if first.edge == "end" else at.step - 1
            self.state.quotes.pop(piece.key, None)
        if first.edge == "begin":
            self.state.blocks.begin(piece.key, at.step)

    def _context(self, rule: Rule, hit: re.Match[str], key: str) -> None:
        """A line that says what other lines mean."""
        if rule.denies:
            self.state.denials.deny(rule, key)
        if "epoch" in rule.regex.groupindex:
            self.state.blocks.heading(key, hit.groupdict())

    def _news(self, found: list[Event], piece: _Piece) -> list[Event]:
        """Without what says the same as an earlier line."""
        if found and isinstance(found[0], (Transport, EnvSeen)):
            return self.state.comms.news(found[0], piece.key, piece.line.thread)
        return found

    def _maker(self, rule: Rule, hit: re.Match[str], piece: _Piece) -> yields.AtMaker | None:
        """What makes the events' `At`; None if their step stands elsewhere and is not known."""
        blocks, at = self.state.blocks, piece.at
        if rule.step_from == "begun":
            begun = blocks.begun.get(piece.key)
            return None if begun is None else lambda stream, groups, _step: at(stream, groups, begun)
        if rule.step_from == "bar":
            if (bar := self._bar) is None:
                return at
            return lambda stream, groups, _step: at(stream, groups, bar.done)
        before = blocks.steps_before(piece.key, hit.groupdict()) if blocks.epochs else 0
        if not before:
            return at
        return lambda stream, groups, step: at(stream, groups, None if step is None else step + before)


class _Piece:
    """A piece with what was read of it. Its `At` is made when an event needs one."""

    __slots__ = ("end", "key", "length", "line", "line_no", "offset", "proc", "raw", "reader", "text")

    def __init__(
        self, reader: PieceReader, raw: bytes | None, text: str, line: Wrapped, key: str, proc: Proc,
        offset: int, length: int, line_no: int,
    ) -> None:  # fmt: skip
        self.reader, self.raw, self.text, self.line = reader, raw, text, line
        self.key, self.proc, self.offset, self.length, self.line_no = key, proc, offset, length, line_no
        self.end = offset + length

    def at(self, stream: str, groups: yields.Groups = yields.NO_GROUPS, step: int | None = None) -> At:
        """The piece's `At`. Own step first, else the one that its writer ended last. `stream` is a rule's, `groups`
        hold its pid and rank: for what neither the wrappers nor the file tell."""
        reader, line, proc = self.reader, self.line, self.proc
        pid, rank = line.pid, line.rank
        if pid is None:
            pid = reader.pid
            if pid is None and groups:
                pid = integer(groups.get("pid") or "")
        if rank is None:
            rank = reader.rank
            if rank is None and groups:
                rank = integer(groups.get("rank") or "")
                if rank is not None and abs(rank) >= _INT32:
                    rank = None
        carried = False
        if step is None:
            step = proc.step
            carried = step is not None
        actor = line.actor or (reader.actor if reader.single else "")
        stream = line.stream or reader.stream or stream
        stamp = line.stamp
        if stamp is None:
            return At(
                self.offset, self.length, self.line_no, self.key, pid, rank, actor, stream, None, 0, False,
                proc.stamp, proc.utc and proc.stamp is not None, step, carried,
            )  # fmt: skip
        return At(
            self.offset, self.length, self.line_no, self.key, pid, rank, actor, stream,
            stamp.at, stamp.res_us, stamp.utc, None, False, step, carried,
        )  # fmt: skip

    def bound(self, at: At) -> None:
        """An event of this line without a stamp wants the writer's next one."""
        if at.stamp is None and self.key:
            writers.want(self.reader.state, self.key, self.end)

    @property
    def bytes(self) -> bytes:
        """The piece as it lies in the file."""
        return self.text.encode() if self.raw is None else self.raw

    def shown(self) -> str:
        """The piece as printed, for the row."""
        raw = self.raw
        if raw is None:
            return self.text[: yields.MAX_RAW]
        return raw[: yields.MAX_RAW].decode("utf-8", "backslashreplace").replace("\0", "\\x00")

    def around(self, place: int) -> str:
        """4 KiB of the piece around a literal's hit: what a regular expression may see of a long line."""
        return clean(self.bytes[max(0, place - REGEX_LIMIT // 2) : place + REGEX_LIMIT // 2])
