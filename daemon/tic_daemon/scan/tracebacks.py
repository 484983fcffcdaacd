"""Python tracebacks in progress, one per writer: whether a line stands in one that the runtime itself has opened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

OPENER: Final = "Traceback (most recent call last):"
# Rich draws a box: `╭── Traceback (most recent call last) ──╮`, `│ /srv/train.py:4 in main   │`, and below it the
# exception.
RICH_OPENER: Final = "─ Traceback (most recent call last) ─"
_RICH_SIDES: Final = frozenset("│╭╰")
_RICH_FRAME: Final = re.compile(r"│ \S[^│]{0,300}:\d{1,6} in \S")
# Ray hands an exception of an actor's method to the caller and prints it nowhere else: the line that opens such a copy
# names the process. `ray.exceptions.RayTaskError(X): ray::WorkerDict.update_actor() (pid=184142, ip=10.31.4.12, ...`
RAY_OPENER: Final = ": ray::"
RAY_CREATION: Final = " creation task, ray::"
ray_copy: Final = re.compile(
    r"(?:ray\.exceptions\.RayTaskError(?:\([\w.]{1,80}\))?: |Unhandled error \(suppress with [^()\n]{1,80}\): |"
    r"ray\.exceptions\.ActorDiedError: The actor died because of an error raised in its creation task, )"
    r"ray::(\w[^()\s]{0,120})\(\) \(pid=(\d{1,17}), ip=[\w.:-]+[,)]"
).match
MAX_OWN: Final = 200
MAX_LINES: Final = 4096
_AFTER: Final = 8
_AFTER_LINES: Final = 64
_CHAIN: Final = ("During handling of the above", "The above exception was", OPENER)
# `torch.AcceleratorError: ...`, `RuntimeError`, `ray.exceptions.RayTaskError(AcceleratorError): ...`
_EXCEPTION: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:\([\w.]+\))?(?::|$)")


@dataclass(slots=True)
class Trace:
    """One traceback.

    Attributes:
        proven: a runtime opened it (an error-class record, `[rankN]:`, ...), not just somebody's text.
        needs_files: it counts only with at least one line of a file and a number: its opener alone proves nothing.
        owner: key, pid, rank and actor of the writer whose traceback goes on in lines without any prefix, or None.
        line_no: of the opener. `own`: lines since. `files`: such lines among them.
        indent: blanks in front of each of its lines.
        copied: somebody's (a Ray driver's) copy of the owner's traceback: what it says is the owner's.
        after: lines left for the exception's message, 0 while the exception has not come.
    """

    proven: bool
    needs_files: bool
    line_no: int
    owner: tuple[str, int | None, int | None, str] | None = None
    own: int = 0
    files: int = 0
    after: int = 0
    after_line: int = 0
    copied: bool = False
    indent: int = 0

    @property
    def trusted(self) -> bool:
        """Whether what the exception says was written by the runtime."""
        return self.proven and (self.files > 0 or not self.needs_files)


class Tracebacks:
    """Open tracebacks by writer."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open: dict[str, Trace] = {}

    def begin(self, key: str, trace: Trace) -> None:
        """An opener of this writer. A chained one ("During handling of ...") keeps what its first was worth."""
        former = self.open.get(key)
        if former is not None and former.trusted and not trace.proven:
            trace.proven, trace.needs_files, trace.owner = True, True, former.owner
        self.open[key] = trace

    def see(self, key: str, text: str, line_no: int) -> Trace | None:
        """A later line of this writer. Returns the traceback if the line is its exception or belongs to its message."""
        trace = self.open.get(key)
        if trace is None or trace.line_no == line_no:
            return None
        if trace.indent:
            text = text.removeprefix(" " * trace.indent)
        trace.own += 1
        if trace.own > MAX_OWN:
            del self.open[key]
            return None
        if not text or text[0] in " \t":
            trace.files += text.startswith('  File "')
        elif text[0] in _RICH_SIDES:
            trace.files += _RICH_FRAME.match(text) is not None
        elif text.startswith(_CHAIN):
            trace.after = 0
        elif trace.after:
            trace.after -= 1
            if not trace.after:
                del self.open[key]
            return trace
        elif _EXCEPTION.match(text):
            trace.after, trace.after_line = _AFTER, line_no
            return trace
        return None

    def expire(self, line_no: int) -> None:
        """Forget what began too long before this line."""
        for key, trace in list(self.open.items()):
            gone = line_no - trace.line_no > MAX_LINES
            if gone or (trace.after and line_no - trace.after_line > _AFTER_LINES):
                del self.open[key]

    def to_json(self) -> dict[str, list[Any]]:
        """For the scanner's state."""
        return {
            key: [
                t.proven, t.needs_files, t.line_no, t.owner, t.own, t.files, t.after, t.after_line, t.copied, t.indent
            ]
            for key, t in self.open.items()
        }  # fmt: skip

    def load(self, value: dict[str, list[Any]]) -> None:
        """Back from `to_json`."""
        for key, fields in value.items():
            proven, needs, line_no, owner, *rest = fields
            self.open[key] = Trace(proven, needs, line_no, tuple(owner) if owner else None, *rest)
