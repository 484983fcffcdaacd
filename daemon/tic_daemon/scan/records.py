"""`[mismatch]` records: a header line and lines of `key=value` behind it, from any number of writers at once.

    [mismatch] run=<id> step=<n> policy=<digest> input=<sha> phase=<prefill|decode> rank=<n> repeat=<n>
      scope=<fixed-input|independent-rollout> intervention=<none|name>
      metric=<name> value=<number> reference=<run/repeat/boundary>
      self_repeat=<noise> report=<relative-path> classification=<defect|numerical|quantization|unknown>

One record may be open per writer. It is complete with its last field, and given out at the end of that line. Fields of
the seed that come later for the same writer belong to no open record and are dropped.

An incomplete record ends at the next header of its writer, at the writer's next line that is no continuation, 40 lines
or 64 KiB behind its header, or with the file. Where the lines do not say who writes (`proc` ""), a line that is no
continuation may be anybody's, so it ends nothing. If two such records of different ranks are open at once, nobody can
say whose the next fields are: both are given out with their header's fields alone, as incomplete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from tic_daemon.scan.events import At, Mismatch
from tic_daemon.scan.values import at_from_json, at_to_json, integer, number

Pairs = list[tuple[str, str]]
FIELDS: Final = (
    "run", "step", "policy", "input", "phase", "rank", "repeat", "scope", "intervention", "metric", "value",
    "reference", "self_repeat", "report", "classification",
)  # fmt: skip
METRICS: Final = frozenset({
    "logprob_mae", "logprob_max", "probability_mae", "kl_k1", "kl_k2", "kl_k3", "relative_l2", "cosine", "vocab_tv",
    "vocab_argmax", "vocab_logsoftmax_max",
})  # fmt: skip
HEADER: Final = re.compile(r"\[mismatch\]:?[ \t]*(?=[A-Za-z_]\w*=)")
MAX_LINES: Final = 40
MAX_BYTES: Final = 64 * 1024
_MAX_FIELDS: Final = 64
_TOKEN: Final = re.compile(r"""\s*([A-Za-z_][\w.\-]{0,63})=("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"']\S*|(?=\s|$))""")
_ESCAPED: Final = re.compile(r"\\(.)")
# A record whose fields are all there, in the seed's order, without quotes, placeholders and what a sentence or another
# writer adds. Nearly all are so.
_LINE: Final = re.compile(
    r"\[mismatch\] " + " ".join(rf"{key}=([^\s\"',;\[|<{{$%.…][^\s\"',;\[|]*)" for key in FIELDS[:-1])
    + " classification=([a-z]+)"
)  # fmt: skip
_KEY: Final = re.compile(r"[A-Za-z_][\w.\-]{0,63}").fullmatch
_KNOWN: Final = frozenset(FIELDS)
_OWN: Final = "tic"
_all: Final = itemgetter(*FIELDS)
_UNSAID: Final = ("", "unknown")
# What stands for a value in a template or in source code: `<id>`, `{run}`, `$RUN`, `%s`, `...`
_PLACEHOLDER: Final = re.compile(r"<[^<>]*>|\{[^{}]*\}|\$\{?\w+\}?|%\(?\w.*|\.{2,}|…")
_PUNCTUATION: Final = ",;"


@dataclass(slots=True)
class OpenRecord:
    """A record of which the last field has not come yet. `fields` keep their order. `loose`: its logger prefixes the
    first line alone, so its fields may follow in lines without any name. `conflict`: a field was said twice."""

    at: At
    end: int
    last_line: int
    fields: dict[str, str]
    raw: list[str]
    loose: bool = False
    conflict: bool = False

    def complete(self) -> bool:
        """Whether every field of the seed is there and says something."""
        return _complete(self.fields)

    def to_json(self) -> list[Any]:
        return [at_to_json(self.at), self.end, self.last_line, self.fields, self.raw, self.loose, self.conflict]

    @classmethod
    def from_json(cls, value: list[Any]) -> OpenRecord:
        return cls(at_from_json(value[0]), *value[1:])


def tokens(text: str) -> tuple[Pairs, bool]:
    """The `key=value` pairs at the start of a text in order, and whether it holds nothing else."""
    found: Pairs = []
    if '"' not in text and "'" not in text:
        words = text.split(None, _MAX_FIELDS)
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or not (key in _KNOWN or _KEY(key)):
                return found, False
            found.append((key, value.rstrip(_PUNCTUATION)))
        if found and found[-1][1][-1:] == ".":  # the end of a sentence
            found[-1] = (found[-1][0], found[-1][1][:-1])
        return found, bool(found)
    place, size = 0, len(text)
    while place < size and len(found) < _MAX_FIELDS:
        token = _TOKEN.match(text, place)
        if token is None:
            break
        value = token[2]
        if value[:1] in {'"', "'"}:
            value = _ESCAPED.sub(r"\1", value[1:-1])
        found.append((token[1], value))
        place = token.end()
    return found, bool(found) and not text[place:].strip()


def fields_of(text: str) -> dict[str, str] | None:
    """The fields of a text that holds fields of the seed alone, each once, without quotes; None of any other text."""
    if '"' in text or "'" in text or "," in text or ";" in text or text[-1:] == ".":
        return None
    words = text.split()
    try:
        fields = dict([word.split("=", 1) for word in words])  # a word without `=` raises
    except ValueError:
        return None
    return fields if fields and len(fields) == len(words) and _KNOWN.issuperset(fields) else None


def is_record(pairs: Pairs) -> bool:
    """Whether a field of the seed is among them, and they are no template of a record: that names no run."""
    return any(key in _KNOWN for key, _value in pairs) and not is_template(dict(pairs))


def whole_line(text: str) -> tuple[str, ...] | None:
    """The values of `FIELDS` of a line that is nothing but a whole record in its usual form; None of any other."""
    hit = _LINE.fullmatch(text)
    return hit.groups() if hit is not None else None


def is_template(fields: dict[str, str]) -> bool:
    """Whether the values are placeholders, as in documentation that somebody prints."""
    return any(_PLACEHOLDER.fullmatch(fields.get(key, "")) for key in ("run", "step", "metric", "value"))


class Records:
    """Open records of one source by writer."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open: dict[str, OpenRecord] = {}

    def whole(self, at: At, end: int, fields: dict[str, str], raw: str) -> list[Mismatch] | None:
        """A header line with `fields`: its record if that is complete in itself, else None. Changes nothing."""
        return _mismatch(at, end, fields, raw, conflict=False, complete=True) if _complete(fields) else None

    def header(self, at: At, end: int, pairs: Pairs, raw: str, *, loose: bool = False) -> list[Mismatch]:
        """A header line of writer `at.proc`. `pairs`: its fields; `end`: the offset behind the line; `loose`: see
        `OpenRecord`.

        Returns the records that it closes, itself too if it is complete.
        """
        record = OpenRecord(at, end, at.line_no, {}, [raw], loose)
        _fill(record, pairs)
        if record.complete():
            return _given(record)
        former = self.open.pop(at.proc, None)
        if former is None:
            self.open[at.proc] = record
            return []
        if at.proc == "" and _foreign(former, record):
            # Interleaved writers without a name: neither gets the fields that follow.
            return _given(_header_only(former)) + _given(record)
        self.open[at.proc] = record
        return _given(former)

    def follow(self, proc: str, end: int, line_no: int, text: str, raw: str, noise: bool) -> list[Mismatch]:
        """Any other line of a writer. `noise`: a blank line or a progress bar, which ends nothing."""
        record, ends = self.open.get(proc), bool(proc) and not noise
        if record is None:
            owners = [] if proc else [key for key, former in self.open.items() if former.loose]
            if len(owners) != 1:
                return []
            proc, ends = owners[0], False  # a line without a name ends nobody's record
            record = self.open[proc]
        pairs, clean = ([], False) if noise else tokens(text)
        if clean and is_record(pairs):
            _fill(record, pairs)
            record.end, record.last_line = end, line_no
            record.raw.append(raw)
            ends = record.complete()
        if not ends:
            return []
        del self.open[proc]
        return _given(record)

    def expire(self, offset: int, line_no: int) -> list[Mismatch]:
        """Close what began too long before this line."""
        found: list[Mismatch] = []
        for proc, record in list(self.open.items()):
            if line_no - record.at.line_no > MAX_LINES or offset - record.at.byte_offset > MAX_BYTES:
                del self.open[proc]
                found += _given(record)
        return found

    def close(self) -> list[Mismatch]:
        """The file is over: all records as they are."""
        found = [mismatch for record in self.open.values() for mismatch in _given(record)]
        self.open.clear()
        return found


def _fill(record: OpenRecord, pairs: Pairs) -> None:
    """Add fields. The first value of a key stays; a different second one is kept beside it and spoils the record."""
    fields = record.fields
    for key, value in pairs:
        former = fields.get(key)
        if not former:
            if len(fields) >= _MAX_FIELDS:
                record.conflict = True
                return
            fields[key] = value
        elif former != value:
            record.conflict = True
            fields.setdefault(f"{key}#2", value)


def _foreign(former: OpenRecord, record: OpenRecord) -> bool:
    """Whether two nameless headers are of different writers: they name different ranks."""
    first, second = former.fields.get("rank", ""), record.fields.get("rank", "")
    return bool(first and second and first != second)


def _header_only(record: OpenRecord) -> OpenRecord:
    """What the header line alone says; lines taken in since may be the other writer's."""
    text = record.raw[0]
    place = text.find("[mismatch]")
    bare = OpenRecord(record.at, record.at.byte_offset + record.at.byte_length, record.at.line_no, {}, [text])
    _fill(bare, tokens(text[place + len("[mismatch]") :])[0])
    return bare


def _complete(fields: dict[str, str]) -> bool:
    try:
        return all(_all(fields))
    except KeyError:
        return False


def _given(record: OpenRecord) -> list[Mismatch]:
    """The event of a record."""
    raw, complete = "\n".join(record.raw), record.complete()
    return _mismatch(record.at, record.end, record.fields, raw, conflict=record.conflict, complete=complete)


def _mismatch(at: At, end: int, fields: dict[str, str], raw: str, *, conflict: bool, complete: bool) -> list[Mismatch]:
    """The event of a record; none for a record that this program printed itself. `end`: offset behind its last line."""
    if fields.get("producer") == _OWN:
        return []
    values = _all(fields) if complete else [fields.get(key, "") for key in FIELDS]
    extra = (
        {}
        if complete and len(fields) == len(FIELDS)
        else {key: value for key, value in fields.items() if key not in _KNOWN}
    )
    shown = json.dumps(extra, ensure_ascii=False) if extra else "{}"
    return [mismatch(at, end, values, raw, conflict=conflict, complete=complete, extra=shown)]


def mismatch(
    at: At, end: int, values: Sequence[str], raw: str, *, conflict: bool = False, complete: bool = True,
    extra: str = "{}",
) -> Mismatch:  # fmt: skip
    """The event of a record. `values`: of `FIELDS`, "" where one is missing; `extra`: other fields, as JSON."""
    run, step_text, policy, shown_input, phase, rank_text, repeat, scope, intervention, metric, value_text, reference, \
        noise_text, report, classification = values  # fmt: skip
    step, value, noise = integer(step_text), number(value_text), number(noise_text)
    if (
        conflict
        or (step is None and step_text not in _UNSAID)
        or (value is None and value_text not in _UNSAID)
        or (noise is None and noise_text not in _UNSAID)
    ):
        state = "parse_error"
    elif not complete:
        state = "incomplete"
    else:
        state = "ok" if metric in METRICS else "unknown_metric"
    rank = integer(rank_text)
    if rank is not None and not 0 <= rank < 2**31:
        rank = None
    proc = at.proc or (f"rank:{rank}" if rank is not None else "")
    carried = step is None and at.step is not None
    # Built anew, since `replace` costs as much as all the rest of a record.
    at = At(
        at.byte_offset, end - at.byte_offset, at.line_no, proc, at.pid,
        at.rank if at.rank is not None else rank, at.actor, at.stream, at.stamp, at.stamp_res_us, at.stamp_utc,
        at.after_stamp, at.after_utc, at.step if step is None else step, carried, policy,
    )  # fmt: skip
    return Mismatch(
        at, run, shown_input, phase, rank_text, repeat, scope, intervention, metric, value, value_text, reference,
        noise, noise_text, report, classification, extra, state, raw,
    )  # fmt: skip
