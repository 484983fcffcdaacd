"""Peeling: what launchers, loggers and runtimes put in front of a line, taken off from the left until nothing fits.

    peel(text, years)   -> Wrapped: the payload and everything that the wrappers said

The table of `_PEELERS` is ordered by the first character of what is left; within one character the order matters and
says why. A wrapper is recognised by its whole shape, never by a part of it: what is not peeled is not anchored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from tic_daemon.scan import system_logs as sl
from tic_daemon.scan.stamps import CLOCK, DATE, SECOND, ZONE, Years, full, resolution, zoned
from tic_daemon.scan.wrapped import Wrapped, container_key, key_of_writer, key_within

_CLASS: Final = {
    "E": "error", "F": "error", "C": "error", "ERROR": "error", "CRITICAL": "error", "FATAL": "error", "ERR": "error",
    "EXCEPTION": "error", "W": "warning", "WARN": "warning", "WARNING": "warning",
}  # fmt: skip
_LEVELS: Final = "DEBUG|INFO|WARNING|ERROR|CRITICAL"

Peeler = Callable[[re.Match[str], Wrapped], None]

_PROC: Final = re.compile(
    r"\(([A-Za-z_][\w.:-]{0,80}(?:\([^()\n]{0,80}\))?)(?: rank=(\d{1,6})| TP(\d{1,4}))? pid=(\d+)"
    r"(?:, ip=([\w.:-]+))?\) "
)
_RAYLET: Final = re.compile(r"\((raylet|autoscaler|gcs_server|pid)(?:[ +][\w+.]*)?(?:, ip=([\w.:-]+))?\) ")
_AREAL: Final = re.compile(rf"\(AReaL\) (\d{{8}})-{CLOCK}\.(\d{{3}}) ([^:\n]{{1,60}}?) ([A-Z]+): ")
_TEE: Final = re.compile(r"\[(?!rank\d)([A-Za-z_]\w{0,60}?\d{1,6})\]:")
_MPIRUN: Final = re.compile(r"\[(?:[\w.-]{1,80}@)?\d{1,6},(\d{1,6})\]<(stdout|stderr)>:? ?")
_KUBECTL: Final = re.compile(r"\[pod/([\w.-]{1,253})/[\w.-]{1,63}\] ")
_RANK: Final = re.compile(r"\[rank(\d{1,6})\]:( |(?=\[|[IWEFCV]\d{4} ))")
_GLOG: Final = re.compile(
    rf"\[([IWEF])(?:(\d{{1,2}})(\d\d) {CLOCK}\.\d{{6,9}}(?: \d+)?)? ([\w./-]+\.(?:cpp|cc|h|hpp|cu)):\d+\] ?"
)
_TORCH: Final = re.compile(
    rf"([IWEFCV])(\d\d)(\d\d) {CLOCK}\.(\d{{6}}) +(\d+) (?:site-packages/)?[\w./-]+:\d+\] "
    r"(?:\[\d+/\d+\] )?(?:\[__\w+\] )?"
)
_NCCL: Final = re.compile(
    rf"(?:\[{DATE} {CLOCK}\] )?([A-Za-z0-9][\w.-]*):(\d+):(\d+) \[(\d+)\] (?:[\w./-]+:\d+ (?:\(\w+\) )?)?NCCL "
    r"(INFO|WARN|ERROR|TRACE|ABORT|VERSION) "
)
_VLLM: Final = re.compile(
    rf"(?:\[[^\[\]\n]{{1,40}}\] )?({_LEVELS}) (\d\d)-(\d\d) {CLOCK}(?:\.(\d{{3,6}}))? \[[\w./-]+:\d+\] ?"
)
_VLLM_FULL: Final = re.compile(rf"({_LEVELS}) (\d\d)-(\d\d)-(\d{{4}})-{CLOCK}(?:\.(\d{{3,6}}))? \[[\w./-]+:\d+\] ?")
_OPENRLHF: Final = re.compile(rf"({_LEVELS}) (\d\d)-(\d\d) {CLOCK} [\w./-]+\.py:\d+\] ?")
_SGLANG: Final = re.compile(
    rf" ?\[{DATE} {CLOCK}(?:\.(\d{{1,6}}))?((?: (?:DP|PP|ATTN_CP|ATTN_TP|MOE_DP|MOE_EP|CP|TP|EP)\d+)*)\] ?"
)
_SLIME: Final = re.compile(rf"\[{DATE} {CLOCK}(?:\.(\d{{1,6}}))?((?: \w+)*)\] \w+\.py:\d+ - ")
_RAYCPP: Final = re.compile(
    rf"\[{DATE} {CLOCK},(\d{{3}}) ([DIWEFC]) (\d+) (\d+)\] (?:\(\w+\) )?[\w./-]+\.(?:cc|h|cpp):\d+: "
)
_FLASHINFER: Final = re.compile(rf"{DATE} {CLOCK},(\d{{3}}) - ({_LEVELS}) - (?:\w+\.py:\d+ - )?flashinfer[\w.]*: ")
_TILELANG: Final = re.compile(rf"{DATE} {CLOCK}  \[TileLang:[\w.]+:([A-Z]+)\](?: \(\w+\.py:\d+\))?: ")
_CRI: Final = re.compile(rf"{DATE}T{CLOCK}\.(\d{{1,9}}){ZONE} (stdout|stderr) ([PF])(?::\w+)? ")
_DOCKER: Final = re.compile(rf"{DATE}T{CLOCK}\.(\d{{3,9}}){ZONE} ")
_COMPOSE: Final = re.compile(rf"{DATE} {CLOCK}\.(\d{{3}}) \| (?!(?:{_LEVELS}|SUCCESS|TRACE)\b)")
_LABEL: Final = re.compile(r" {0,5}(\d{1,6}): ")
# pdsh, clush and launchers on top of them: `gpu-b07: `. Only before `[rankN]` and with a digit: "hint: " is prose
_HOST: Final = re.compile(r"(?=[\w.-]{0,63}\d)([A-Za-z0-9][\w.-]{1,63}): (?=\[rank\d)")
# Docker Compose pads the names of its containers to one width.
_CONTAINER: Final = re.compile(r"([A-Za-z0-9][\w.-]{0,62}) {2,60}\| ?")
_LOGURU: Final = re.compile(
    rf"(?:{DATE} )?{CLOCK}(?:\.(\d{{3,6}}))? (?:\| )?+ *(SUCCESS|TRACE|{_LEVELS}) +(?:\| [\w.<>:-]+ - |\| )?"
)
_PYLOG: Final = re.compile(
    rf"(?:\[titan\] )?\[?{DATE} {CLOCK}[,.](\d{{3,6}})\]? ?"
    r"(?:torch\.distributed[\w.]{0,80}: |(?:- )?(?:\[?[\w.]+(?:\(\d+\))?\]? ?- ?|\[[\w./:-]+\] ?)){0,3}"
    rf"(?:- )?\[?({_LEVELS})\]? ?(?:[-:|] |(?=\S)|\[[\w./:-]+\] ?(?:- )?)"
)
# Ray's Python loggers set a tab behind the time.
_RAYPY: Final = re.compile(rf"{DATE} {CLOCK},(\d{{3}})[\t ]({_LEVELS}) [\w./-]{{1,80}}\.py:\d+ -- ")
# Rich's columns: time, level in eight, message, file. The time is left out if it is that of the record before; without
# it the file at the end of the line must be there, too, to tell a record from a text that is indented.
_RICH: Final = re.compile(rf"\[(?:(\d\d)/(\d\d)/(\d\d) )?{CLOCK}\] (?=[A-Z ]{{8}} \S)({_LEVELS}) {{1,5}}")
_RICH_MORE: Final = re.compile(
    rf" {{11}}(?: {{9}})?(?=[A-Z ]{{8}} \S)({_LEVELS}) {{1,5}}(?=.{{0,2000}} [\w.<>-]{{1,80}}:\d{{1,6}} *$)"
)
_RICH_FILE: Final = re.compile(r" +[\w.<>-]{1,80}:\d{1,6} *$")
_PYTHON: Final = re.compile(rf"({_LEVELS}):(?:{DATE} {CLOCK},(\d{{3}})|[\w.]+):")
_UVICORN: Final = re.compile(rf"({_LEVELS}|TRACE): {{2,}}")
_WHAT: Final = re.compile(r"  what\(\):  ")
_REPEATED: Final = re.compile(r"\[repeated (\d{1,9})x across cluster\](?: \(Ray deduplicates logs.*)?$")


class _Head(NamedTuple):
    """What `(Worker_TP0 pid=4521) ` says. `pid` is None where the number is too large for one. `kinds`, `proc`: of a
    line that begins with it and goes on with vLLM's header."""

    engine: bool
    actor: str
    pid: int | None
    rank: int | None
    ip: str
    kinds: tuple[str, ...]
    proc: str


# A process writes the same head in front of every line: reading it once is enough.
_HEADS: Final[dict[str, _Head]] = {}
_HEAD_SIZE: Final = 160
_MAX_HEADS: Final = 4096


def _proc(hit: re.Match[str], found: Wrapped) -> None:
    name, rank, tensor, pid, ip = hit.groups()
    engine, actor = name.startswith(_ENGINE), f"{name} TP{tensor}" if tensor else name
    number, own_rank = int(pid) if len(pid) < 18 else None, int(rank) if rank else None
    kinds = (_VLLM_KIND if engine else _RAY_KIND) + _VLLM_RECORD_KIND
    head = _Head(engine, actor, number, own_rank, ip or "", kinds, key_of_writer(number, own_rank, actor))
    if len(hit[0]) <= _HEAD_SIZE and hit[0].count(") ") == 1:
        if len(_HEADS) >= _MAX_HEADS:
            _HEADS.clear()
        _HEADS[hit[0]] = head
    _apply(head, found)


def _apply(head: _Head, found: Wrapped) -> None:
    engine, actor, pid, rank, ip, _kinds, _proc = head
    found.kinds += _VLLM_KIND if found.actor or engine else _RAY_KIND
    if not found.outer:
        found.outer = actor
    found.actor = actor
    if pid is not None:
        found.pid = pid
    if rank is not None:
        found.rank = rank
    if ip:
        found.ip = ip


_RICH_KIND: Final = ("rich",)
_VLLM_KIND: Final = ("vllm",)
_RAY_KIND: Final = ("ray",)
_VLLM_RECORD_KIND: Final = ("vllm_record",)
_ENGINE: Final = ("Worker_", "VllmWorker", "EngineCore", "APIServer", "ApiServer", "DPEngineCore", "StageEngineCore")


def _raylet(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("raylet",)
    found.actor = hit[1]
    found.ip = hit[2] or ""
    if hit[1] == "raylet":
        found.level = "ERROR"  # the raylet's console lines are reports of deaths; nothing else comes this way


def _areal(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("areal",)
    found.time(full(hit[1], hit[2], hit[3]))
    found.level = hit[5]


def _tee(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("torchrun",)
    found.actor = hit[1]


def _mpirun(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("mpirun",)
    found.rank = int(hit[1])  # rank in MPI_COMM_WORLD
    found.stream = hit[2]


def _in_container(name: str, found: Wrapped) -> None:
    found.actor = name
    found.within = container_key(name)


def _kubectl(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("kubectl",)
    _in_container(hit[1], found)


def _rank(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("rank" if hit[2] else "rank_glog",)
    found.rank = int(hit[1])


def _glog(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("glog",)
    found.level = hit[1]
    # The nine digits are not wall time: the stamp is good for its second only. torch up to 2.2 prints none.
    if hit[2]:
        found.short(int(hit[2]), int(hit[3]), hit[4], "", SECOND)


def _torch(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("torch_log",)
    found.level = hit[1]
    found.short(int(hit[2]), int(hit[3]), hit[4], hit[5], 1)
    if found.pid is None and len(hit[6]) < 18:
        found.pid = int(hit[6])


def _nccl(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("nccl",)
    if hit[1]:
        found.time(full(hit[1], hit[2]))
    found.node = hit[3]
    if found.pid is None and len(hit[4]) < 18:
        found.pid = int(hit[4])
    found.thread = hit[5]
    found.level = hit[7]
    if hit[7] == "WARN":
        found.kinds += ("nccl_warn",)


def _record(kind: str) -> Peeler:
    kinds = (kind,)
    fractions = kind == "vllm_record"

    def peel(hit: re.Match[str], found: Wrapped) -> None:
        found.kinds += kinds
        found.level = hit[1]
        fraction = (hit[5] or "") if fractions else ""
        found.short(int(hit[2]), int(hit[3]), hit[4], fraction, resolution(fraction))

    return peel


def _vllm_full(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += _VLLM_RECORD_KIND
    found.level = hit[1]
    found.time(full(f"{hit[4]}-{hit[2]}-{hit[3]}", hit[5], hit[6] or ""))


def _sglang(hit: re.Match[str], found: Wrapped) -> None:
    found.time(full(hit[1], hit[2], hit[3] or ""))
    ranks = hit[4].split()
    found.kinds += ("sglang" if hit[0][0] == "[" else "stamp",)
    if ranks:
        # The order of the ranks differs between versions: one name for one set.
        found.actor = " ".join(sorted(ranks))
        # Of the actor that started the ranks, which are processes of their own
        if found.pid is not None and not found.within:
            found.within = key_of_writer(found.pid, None, "")


def _slime(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("slime",)
    found.time(full(hit[1], hit[2], hit[3] or ""))


def _raycpp(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("raycpp",)
    found.time(full(hit[1], hit[2], hit[3]))
    found.level = hit[4]
    if found.pid is None and len(hit[5]) < 18:
        found.pid = int(hit[5])


def _dated(kind: str, level: int, fraction: int = 0) -> Peeler:
    def peel(hit: re.Match[str], found: Wrapped) -> None:
        found.kinds += (kind,)
        found.time(full(hit[1], hit[2], (hit[fraction] or "") if fraction else ""))
        if level:
            found.level = hit[level]

    return peel


def _cri(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("cri",)
    found.time(zoned(hit[1], hit[2], hit[3], hit[4]))
    found.stream = hit[5]
    found.partial = hit[6] == "P"


def _docker(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("docker",)
    found.time(zoned(hit[1], hit[2], hit[3], hit[4]))


def _loguru(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("loguru",)
    if hit[1]:  # without a date the clock alone bounds nothing
        found.time(full(hit[1], hit[2], hit[3] or ""))
    found.level = hit[4]


def _rich(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += _RICH_KIND
    if hit[1]:  # month, day, year, as Python's %x is without a locale
        found.time(full(f"20{hit[3]}-{hit[1]}-{hit[2]}", hit[4]))
    found.level = hit[5]


def _rich_more(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += _RICH_KIND
    found.level = hit[1]


def _python(hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("python",)
    found.level = hit[1]
    if hit[2]:
        found.time(full(hit[2], hit[3], hit[4]))


def _plain(kind: str) -> Peeler:
    def peel(hit: re.Match[str], found: Wrapped) -> None:
        found.kinds += (kind,)
        found.level = hit[1]

    return peel


def _what(_hit: re.Match[str], found: Wrapped) -> None:
    found.kinds += ("what",)
    found.level = "FATAL"


_vllm_record: Final = _record("vllm_record")
_Table = tuple[tuple[re.Pattern[str], Peeler], ...]
_PAREN: Final[_Table] = ((_PROC, _proc), (_AREAL, _areal), (_RAYLET, _raylet))
# `[rank3]:` looks like a torchrun prefix, so it is tried first; slime's header contains SGLang's.
_BRACKET: Final[_Table] = (
    (_MPIRUN, _mpirun), (_KUBECTL, _kubectl),
    (_RANK, _rank), (_GLOG, _glog), (_SLIME, _slime), (_RAYCPP, _raycpp), (_NCCL, _nccl),
    (_PYLOG, _dated("pylog", 4, 3)), (_SGLANG, _sglang), (_TEE, _tee), (sl.DMESG_T, sl.dmesg),
    (sl.DMESG_E, sl.dmesg_e), (sl.UPTIME, sl.kernel),
    (_VLLM, _vllm_record), (_RICH, _rich),
)  # fmt: skip
# The same behind `[` and a digit: what needs a letter there is left out.
_BRACKET_DIGIT: Final[_Table] = tuple(
    entry for entry in _BRACKET if entry[0] not in {_KUBECTL, _RANK, _GLOG, _TEE, sl.DMESG_T, sl.DMESG_E}
)
_BRACKET_RECORD: Final = re.compile(r"\[mismatch\][ \t]+[A-Za-z_]\w*=")
_DIGIT: Final[_Table] = (
    (_CRI, _cri), (sl.JOURNAL_ISO, sl.journal_iso), (_DOCKER, _docker), (_FLASHINFER, _dated("flashinfer", 4, 3)),
    (_TILELANG, _dated("tilelang", 3)), (_COMPOSE, _dated("compose", 0, 3)), (_LOGURU, _loguru),
    (_RAYPY, _dated("pylog", 4, 3)), (_PYLOG, _dated("pylog", 4, 3)), (sl.KMSG, sl.kernel), (_NCCL, _nccl),
    (sl.DMESG_ISO, sl.dmesg_iso), (sl.JOURNAL_UNIX, sl.journal_unix),
)  # fmt: skip
_UPPER: Final[_Table] = (
    (_VLLM, _vllm_record), (_VLLM_FULL, _vllm_full), (_TORCH, _torch), (_OPENRLHF, _record("openrlhf")),
    (_PYTHON, _python), (_UVICORN, _plain("uvicorn")), (sl.SYSLOG, sl.syslog), (sl.JOURNAL_FULL, sl.journal_full),
    (_NCCL, _nccl),
)  # fmt: skip
_LOWER: Final[_Table] = (
    (_NCCL, _nccl),
    (sl.UPTIME, sl.kernel),
    (sl.KERNEL, sl.kernel),
    (sl.DMESG_X, sl.nothing),
)
_BLANK: Final[_Table] = ((_WHAT, _what), (_SGLANG, _sglang), (_RICH_MORE, _rich_more))
_ANGLE: Final[_Table] = ((sl.RFC5424, sl.rfc5424), (sl.SYSLOG, sl.syslog))

_PEELERS: Final[dict[str, _Table]] = {
    " ": _BLANK, "<": _ANGLE,
    **dict.fromkeys("0123456789", _DIGIT),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _UPPER),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", _LOWER),
}  # fmt: skip

# One quick look that spares most payloads, which begin with a word, all those patterns.
_ANY_GATE: Final = r"[\w.-]+:\d+:\d+ "
_UPPER_GATE: Final = rf"(?:{_LEVELS}|TRACE)[ :]|[IWEFCV]\d{{4}} |[A-Z][a-z]{{2}} {{1,2}}\d|{_ANY_GATE}"
_LOWER_GATE: Final = rf"{_ANY_GATE}|kernel: |(?:kern|user|daemon|syslog) *:"
_Gate = Callable[[str, int], re.Match[str] | None]
_GATES: Final[dict[str, _Gate]] = {
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", re.compile(_UPPER_GATE).match),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", re.compile(_LOWER_GATE).match),
    **dict.fromkeys(
        "0123456789", re.compile(rf"\d\d:\d\d:|\d{{4}}-\d\d-|\d+,\d+,|\d{{9,11}}\.\d{{6}} |{_ANY_GATE}").match
    ),
}
# What stands behind most heads: vLLM's header, and then a word that no other wrapper begins with.
_RECORD_AHEAD: Final[_Gate] = re.compile(
    rf"({_LEVELS}) (\d\d-\d\d \d\d:\d\d:\d\d) \[[\w./-]+:\d+\] (?=[A-Za-z])(?!{_UPPER_GATE}|{_LOWER_GATE})"
).match

# What may follow a `srun --label` prefix beside another wrapper; anything else could be prose that counts.
_KNOWN: Final = (
    "[mismatch]", "[prompt]", "[response]", "[ground_truth]", "[score]", "step:", "Traceback (most recent call last):",
    '  File "', "torch.", "RuntimeError: ", "CUDA error", "CUDA Error", "Failed: Cuda error", "DeepEP ",
    "Memory access fault", "terminate called", "Fatal Python error",
)  # fmt: skip
_FIELDS: Final = re.compile(r"\s+[A-Za-z_]\w*=\S")
_DEPTH: Final = 12


def peel(text: str, years: Years) -> Wrapped:
    """Take all wrappers off a cleaned line.

    Args:
        text: one piece of a line as `lines.clean` gives it.
        years: gives stamps without a year their year; moves on with them.
    """
    if text[:1] == "(":
        close = text.find(") ", 0, _HEAD_SIZE) + 2
        head = _HEADS.get(text[:close])
        if head is not None and (ahead := _RECORD_AHEAD(text, close)) is not None:
            return _headed(text, years, head, ahead)
    found = Wrapped(text, years)
    start = _peel(text, 0, found)
    if start == 0:
        start = _labelled(text, found)
    if not found.kinds:
        return found
    if start:
        text = text[start:]
    if text[-1:] in _REPEAT_ENDS:
        text = _once(text, found)
    if found.kinds[-1] == "rich":
        text = _RICH_FILE.sub("", text)
    found.text = text
    found.proc = key_of_writer(found.pid, found.rank, found.actor)
    if found.within:
        found.proc = key_within(found)
    if found.level or found.kinds[-1] == "nccl_warn":
        # NCCL has no higher level than WARN: what fails is one.
        found.level_class = "error" if found.kinds[-1] == "nccl_warn" else _CLASS.get(found.level, "info")
    return found


_REPEAT_ENDS: Final = frozenset("])")


def _once(text: str, found: Wrapped) -> str:
    """The text without Ray's word that it came several times."""
    again = _REPEATED.match(text, text.rfind("[repeated "))
    if again is None:
        return text
    found.repeat = int(again[1])
    return text[: again.start()].rstrip()


def _headed(text: str, years: Years, head: _Head, ahead: re.Match[str]) -> Wrapped:
    """As `peel`, of a line that begins with a known head and vLLM's header behind it, as most do."""
    found = Wrapped(text, years)
    found.actor = found.outer = head.actor
    found.pid, found.rank, found.ip, found.kinds, found.proc = head[2:]
    found.level, when = ahead.groups()
    found.level_class = _CLASS.get(found.level, "info")
    found.stamp = years.second(when)
    text = text[ahead.end() :]
    found.text = _once(text, found) if text[-1] in _REPEAT_ENDS else text
    return found


def _labelled(text: str, found: Wrapped) -> int:
    """The prefixes that are so short that more than their begin decides: `srun --label`, pdsh, Docker Compose. As
    `_peel` from 0."""
    start = 0
    if text[:1] in _LABEL_STARTS and (label := _LABEL.match(text)) is not None:
        after = label.end()
        rest = _peel(text, after, found)
        if rest > after or text.startswith(_KNOWN, after) or _FIELDS.match(text, after):
            found.kinds = ("srun_label", *found.kinds)
            if not found.actor:
                found.actor = f"task{label[1]}"
            start = rest
    if start == 0 and ": [rank" in text and (host := _HOST.match(text)) is not None:
        found.node = host[1]
        start = _peel(text, host.end(), found)
        found.kinds = ("host_label", *found.kinds)
    if start == 0 and "  | " in text[:_CONTAINER_SIZE] and (container := _CONTAINER.match(text)) is not None:
        found.kinds = ("container",)
        _in_container(container[1], found)
        start = _peel(text, container.end(), found)
    return start


_LABEL_STARTS: Final = frozenset(" 0123456789")
_CONTAINER_SIZE: Final = 128


def _peel(text: str, start: int, found: Wrapped) -> int:
    """Peel from `start`; returns where the payload begins."""
    size = len(text)
    for _ in range(_DEPTH):
        if start >= size:
            break
        first = text[start]
        if first == "(":
            close = text.find(") ", start, start + _HEAD_SIZE) + 2
            head = _HEADS.get(text[start:close])
            if head is not None:
                _apply(head, found)
                start = close
                if (behind := _record_behind_head(text, start, found)) > 0:
                    return behind
                continue
            table = _PAREN
        elif first == "[":
            second = text[start + 1 : start + 2]
            if second == "m" and _BRACKET_RECORD.match(text, start) is not None:
                break  # the payload that comes most often
            table = _BRACKET_DIGIT if second in _DIGITS else _BRACKET
        else:
            gate = _GATES.get(first)
            if gate is not None and gate(text, start) is None:
                break
            table = _PEELERS.get(first, ())
        for pattern, read in table:
            hit = pattern.match(text, start)
            if hit is not None:
                read(hit, found)
                start = hit.end()
                break
        else:
            break
    return start


def _record_behind_head(text: str, start: int, found: Wrapped) -> int:
    """What stands behind most heads: vLLM's header, then no other. Returns where the payload begins, 0 if it is not
    so."""
    ahead = _RECORD_AHEAD(text, start)
    if ahead is None:
        return 0
    found.level, when = ahead.groups()
    found.kinds += _VLLM_RECORD_KIND
    if found.stamp is None:
        found.stamp = found.years.second(when)
    return ahead.end()


_DIGITS: Final = frozenset("0123456789")
