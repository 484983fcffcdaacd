"""From raw bytes of a physical line to the pieces that are read one by one.

    clean(raw)          escapes, NULs and byte order marks out; invalid UTF-8 replaced
    pieces(raw)         [start, end) of each piece: carriage-return refreshes, glued progress bars dropped, and splits
                        where a second writer's header stands inside the line

All positions are byte positions in the raw line, before anything is removed, so that every event keeps its exact bytes.
"""

from __future__ import annotations

import re
from typing import Final

from tic_daemon.scan.stamps import Years
from tic_daemon.scan.wrappers import peel

_ESCAPE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)|[@-Z\\^_])")
_BOM: Final = b"\xef\xbb\xbf"
_SGR: Final = rb"(?:\x1b\[[0-9;]*m)*"

# A header that only a log formatter writes: `(EngineCore pid=32114) INFO 11-29 20:48:30 `.
_HEADER: Final = re.compile(
    rb"\([A-Za-z][\w.-]{0,60}(?: rank=\d+| TP\d+)? pid=\d+\)" + _SGR + rb" " + _SGR
    + rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)" + _SGR + rb" " + _SGR + rb"\d\d-\d\d "
)  # fmt: skip
_BAR: Final = re.compile(
    rb"[^|\r\n]{0,160}?\d{1,3}%(?:\|[^|\r\n]{0,300}\|| Completed \|)[^\[\]|\r\n]{0,80}\[[^\]\r\n]{0,300}\]"
)
_RECORD: Final = re.compile(rb"\[mismatch\]:?[ \t]*(?=[A-Za-z_]\w*=)")
_STEP: Final = re.compile(rb"step:\d+ - (?=[\w@/.+-]+:)")
# A complete record ends with its last field's word, whatever another writer put behind it without a newline.
_RECORD_END: Final = re.compile(
    rb" classification=(?:defect|numerical|quantization|unknown)(?=\[|\(|step:\d+ - [\w@/.+-]+:)"
)
# A torn write leaves no blank in front; behind a quote, a colon, a diff's sign or an escape the line is cited.
_TORN: Final = re.compile(
    rb"(?<=[\w\])}%.])(?<!\\[nrt])\[rank\d{1,6}\]:"
    rb"(?=\[[IWEF]\d{3,4} \d\d:| (?:Traceback \(most recent call|[A-Za-z_][\w.]{0,80}(?:Error|Exception): ))"
)
# vLLM's processes name themselves, so that their names do not hold for what others wrote into the same line.
_TRANSPORT: Final = re.compile(
    rb"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:?\d\d) (?:(?:stdout|stderr) [PF](?::\w+)? )?)?"
    rb"(?:[A-Za-z0-9][\w.-]{0,62} {2,60}\| )?"
    rb"(?: {0,5}\d{1,6}: (?=[(\[]))?"
    rb"(?:" + _SGR + rb"\((?!Worker[ _]|VllmWorker|EngineCore|A[Pp][Ii]Server|MainProcess|DPEngineCore|StageEngineCore)"
    rb"[A-Za-z_][\w.:-]{0,80}(?:\([^()\n]{0,80}\))? pid=\d+(?:, ip=[\w.:-]+)?\)" + _SGR + rb" )?"
    rb"(?:\[(?!rank\d)[A-Za-z_]\w{0,60}?\d{1,6}\]:)?"
)
_LOOK_BACK: Final = 4096
# `grep -n` output: the record stands in another file, which is read by itself.
_GREP: Final = re.compile(rb"^\S*[./]\S*:(?:\d+:)?$")
_TOKENS: Final = re.compile(rb"[A-Za-z_][\w.\-]*=(?:\"[^\"]*\"|'[^']*'|[^\s\"'`]*)(?:[ \t]+|$)")
_SEED_KEYS: Final = (b"run=", b"step=", b"policy=", b"input=", b"metric=", b"value=", b"phase=", b"rank=")


def clean(raw: bytes) -> str:
    """The text of a piece of a line: no escape sequences, no NULs, no byte order mark; bad UTF-8 as U+FFFD."""
    if b"\x1b" in raw:
        raw = _ESCAPE.sub(b"", raw)
    if b"\0" in raw:
        raw = raw.replace(b"\0", b"")
    if raw[:3] == _BOM:
        raw = raw[3:]
    return raw.decode("utf-8", "replace")


def is_whole(raw: bytes) -> bool:
    """A cheap look that spares most lines the rest: whether a line is certainly one piece."""
    if b"%" in raw and (b"%|" in raw or b"% Completed |" in raw):
        return False
    if b"\r" in raw or raw[:1] == b"\0" or raw.find(b"[mismatch]", 1) >= 0 or raw.find(b"[rank", 1) >= 0:
        return False
    if b" classification=" in raw and _RECORD_END.search(raw) is not None:
        return False
    header = raw.find(b" pid=")
    return header < 0 or (raw[:1] == b"(" and raw.find(b" pid=", header + 1) < 0)


def pieces(raw: bytes) -> list[tuple[int, int]]:
    """Byte ranges of the pieces of one line (without its newline), in order. Progress bars with text glued behind are
    left out; everything else of the line is in exactly one piece."""
    if b"\r" not in raw:
        return _resync(raw, 0, len(raw))
    found: list[tuple[int, int]] = []
    start = 0
    while start <= len(raw):
        end = raw.find(b"\r", start)
        if end < 0:
            end = len(raw)
        if end > start:
            found += _resync(raw, start, end)
        start = end + 1
    return found or [(0, len(raw))]


def transport(raw: bytes) -> bytes:
    """What container runtimes, Ray and torchrun put in front of a whole line, whatever the process wrote into it: it
    holds for every piece of the line."""
    head = _TRANSPORT.match(raw)
    return head[0] if head is not None else b""


def logger_prefix(raw: bytes, start: int) -> bytes:
    """What stands before a record that begins behind a blank in the middle of a line: a logger's prefix of a form that
    no wrapper knows as a whole, though perhaps its beginning. Text that is glued is another writer's."""
    if start == 0 or not raw.startswith(b"[mismatch]", start) or not raw[start - 1 : start].isspace():
        return b""
    first = max(raw.rfind(b"\r", 0, start) + 1, start - _LOOK_BACK)
    return b"" if b"%" in raw[first:start] else raw[first:start]


def is_bar(raw: bytes) -> bool:
    """Whether a piece is a progress bar's refresh and nothing else."""
    bar = _BAR.match(raw)
    return bar is not None and bar.end() >= len(raw.rstrip())


def _resync(raw: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Split [start, end) where another record begins inside it."""
    while start < end and raw[start] == 0:  # the hole that copytruncate leaves in front of the next line
        start += 1
    cuts = _headers(raw, start, end) | _records(raw, start, end) | _torn(raw, start, end)
    start = max(start, _behind_bars(raw, start, end))
    found = []
    for cut in sorted(cut for cut in cuts if cut > start):
        found.append((start, cut))
        start = cut
    found.append((start, end))
    return found


def _headers(raw: bytes, start: int, end: int) -> set[int]:
    """Where a formatter's header stands behind other text."""
    cuts: set[int] = set()
    if raw.find(b" pid=", start + 1, end) >= 0:
        hit = _HEADER.search(raw, start + 1, end)
        while hit:
            # `(RayWorkerProc pid=9) (Worker_TP0 pid=9) INFO ...` is one record in two wrappers.
            if peel(clean(raw[max(start, hit.start() - _LOOK_BACK) : hit.start()]), Years(None)).text.strip():
                cuts.add(hit.start())
            hit = _HEADER.search(raw, hit.end(), end)
    return cuts


def _records(raw: bytes, start: int, end: int) -> set[int]:
    """Where a `[mismatch]` record begins behind other text."""
    cuts: set[int] = set()
    first = raw.find(b"[mismatch]", start, end)
    if first >= 0:
        # Behind wrappers alone it is this line's own record.
        own = peel(clean(raw[start : min(end, start + _LOOK_BACK)]), Years(None)).text.startswith("[mismatch]")
        hit = _RECORD.search(raw, first + 1 if own else first, end)
        while hit:
            more = _RECORD.search(raw, hit.end(), end)
            if _is_record(raw, start, hit.start(), more.start() if more else end):
                cuts.add(hit.start())
            hit = more
    if raw.find(b" classification=", start, end) >= 0:
        cuts.update(behind.end() for behind in _RECORD_END.finditer(raw, start, end))
    return cuts


def _torn(raw: bytes, start: int, end: int) -> set[int]:
    """Where a rank's own line begins behind another writer's that was cut off."""
    if raw.find(b"[rank", start + 1, end) < 0:
        return set()
    hits = (hit.start() for hit in _TORN.finditer(raw, start + 1, end))
    return {at for at in hits if not any(raw.count(quote, start, at) % 2 for quote in (b'"', b"'", b"`"))}


def _behind_bars(raw: bytes, start: int, end: int) -> int:
    """Where the text begins that is glued behind progress bars, or -1 if there are none or nothing is."""
    if raw.find(b"%", start, end) < 0 or (bar := _BAR.match(raw, start, end)) is None:
        return -1
    after = bar.end()
    while (more := _BAR.match(raw, after, end)) is not None:
        after = more.end()
    if after >= end:
        return -1
    if raw[after : after + 1].isspace():  # a bar's own text goes on behind a blank, but a step line is none
        step = _STEP.match(raw, after + 1, end)
        return step.start() if step else -1
    return after


def _is_record(raw: bytes, start: int, at: int, end: int) -> bool:
    """Whether `[mismatch]` in the middle of a line begins a record, and not a sentence about records.

    It does behind a progress bar, behind a torn write (no blank between), and behind a blank if nothing but fields of
    the seed follow. It does not behind a quote or in `grep` output.
    """
    before = raw[start:at]
    last = before[-1:]
    if last in (b'"', b"'", b"`", b"(", b"<", b"*") or _GREP.match(before):
        return False
    if not last.isspace():
        return True
    if _BAR.match(before):
        return True
    fields = raw[at:end].split(None, 1)[1].rstrip()
    if sum(key in b" " + fields for key in _SEED_KEYS) < 3:
        return False
    place = 0
    while place < len(fields):
        token = _TOKENS.match(fields, place)
        if token is None:
            return False
        place = token.end()
    return True
