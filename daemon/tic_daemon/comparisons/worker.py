"""`python -m tic_daemon.comparisons.worker MEMORY_MB`: compares what it is asked to, one after the other.

Lines of wire.py come on standard input and go to standard output. It has the lowest claim on the processor, one thread
for arithmetic, and so much memory. When standard input ends, so does it, in the middle of whatever it does: whoever
asked is gone.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO, Final

from tic_daemon.comparisons import wire
from tic_daemon.errors import CompareError
from tic_daemon.evidence.judge import Standing
from tic_daemon.priority import session_behind

NICE: Final = 15
AMONG_SESSIONS: Final = 10
"""A tenth of what a session gets that has its share: on a machine that is full it must still come to its end."""


def main() -> int:
    """See the module."""
    out = os.fdopen(os.dup(1), "wb")
    lines = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # what prints must not be taken for an answer
    session_behind(NICE, AMONG_SESSIONS)
    if len(sys.argv) > 1:
        _bound(int(sys.argv[1]) << 20)
    told: queue.Queue[wire.Message] = queue.Queue()
    threading.Thread(target=_listen, args=(lines, told), daemon=True).start()
    speaker = _Speaker(out, told)
    while True:
        message = told.get()
        if "compare" in message:
            _compare(speaker, message["compare"])
        elif "alone" in message:
            _alone(speaker, Path(message["alone"]))


def _bound(size: int) -> None:
    import resource  # noqa: PLC0415  POSIX only

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _listen(lines: BinaryIO, told: queue.Queue[wire.Message]) -> None:
    for text in lines:
        told.put(wire.read(text))
    os._exit(0)  # nobody waits for what is being done


class _Speaker:
    """Answers, and asks back."""

    def __init__(self, out: BinaryIO, told: queue.Queue[wire.Message]) -> None:
        self._out, self._told = out, told

    def say(self, message: wire.Message) -> None:
        self._out.write(wire.line(message))
        self._out.flush()

    def standing(self, made: dict[str, Any]) -> tuple[Standing, str, str, str]:
        self.say({"where": made})
        state, why, order, proved = self._told.get()["standing"]
        return Standing(state), why, order, proved

    def at(self, done: int, total: int | None) -> None:
        self.say({"at": [done, total]})


def _alone(speaker: _Speaker, path: Path) -> None:
    from tic_daemon.comparisons.alone import both_sides  # noqa: PLC0415  it loads numpy

    try:
        speaker.say({"held": both_sides(path)})
    except MemoryError:
        speaker.say({"held": ""})


def _compare(speaker: _Speaker, asked: dict[str, Any]) -> None:
    from tic_daemon.comparisons.asked import Asked  # noqa: PLC0415  both load numpy
    from tic_daemon.comparisons.made import Changed, compare_pair  # noqa: PLC0415  it loads numpy

    try:
        row, parts = compare_pair(Asked.read(asked), speaker.standing, speaker.at)
        for part in parts:
            speaker.say({"row": wire.packed(part)})
        speaker.say({"done": wire.packed(row)})
    except Changed as error:
        speaker.say({"changed": error.what})
    except CompareError as error:
        speaker.say({"failed": f"{error.what}; {error.hint}" if error.hint else error.what})
    except MemoryError:
        speaker.say({"failed": "it needs more memory than `memory_mb` under [compare] in tic.toml allows"})
    except OSError as error:
        speaker.say({"failed": f"{error.filename or asked['pair']['a']}: {error.strerror or error}", "machine": True})
    except Exception as error:  # noqa: BLE001  a defect costs this comparison, and is told
        speaker.say({"failed": f"a defect of the program: {type(error).__name__}: {error}"})


if __name__ == "__main__":
    sys.exit(main())
