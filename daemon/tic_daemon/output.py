"""What `tic-daemon` prints: clean on any terminal, and never the reason for a wrong exit code.

Names of files, runs and packs come from outside; an error that quotes one must not move the cursor. And an exit code
is what a script acts on: a reader that went away (`| head`) changes nothing about it, a disk that is full is an error.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

from tic_daemon.errors import TicError

# C0 but newline and tab, DEL, C1, what reorders or hides text, and bytes that were no UTF-8 (lone surrogates).
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


def printable(text: str) -> str:
    r"""`text` with every character that a terminal could act on as its escape: `\x1b`, `\u202e`. Newlines stay."""
    return _UNSAFE.sub(lambda match: ascii(match.group())[1:-1], text)


def printable_json(text: str) -> str:
    r"""JSON text with every such character within its strings as JSON's escape: the same JSON for whoever reads it.

    `printable` writes `\x7f` and `\U000e0041`, which JSON does not know.
    """
    return _UNSAFE.sub(lambda match: _units(match.group()), text)


def _units(char: str) -> str:
    raw = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{raw[at]:02x}{raw[at + 1]:02x}" for at in range(0, len(raw), 2))


def one_line(text: str) -> str:
    r"""The same of what must not begin a line of its own: a newline is shown as `\n`."""
    return printable(text).replace("\n", "\\n")


def joined(lines: Iterable[str]) -> str:
    r"""Lines as one text. A break within one, of a name from outside, is shown as `\n` or `\r`: it begins no line."""
    return "\n".join(line.replace("\n", "\\n").replace("\r", "\\r") for line in lines)


def say(text: str) -> None:
    """Prints `text` and a newline. A reader that has gone away is no error; what the encoding lacks is escaped.

    Raises:
        TicError: it cannot be written, e.g. because the disk is full.
    """
    if sys.stdout is None:  # started with a closed standard output (`>&-`): only the exit code is wanted
        return
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except BrokenPipeError:
        let_go_of_stdout()
    except OSError as error:
        let_go_of_stdout()
        raise TicError(f"cannot write to standard output: {error.strerror or error}") from error


def let_go_of_stdout() -> None:
    """Standard output goes nowhere from now on: Python would complain once more when it flushes at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def complain(error: TicError) -> None:
    """Prints an expected error to standard error, in its one or two lines."""
    if sys.stderr is not None:
        print(printable(f"tic-daemon: {error}"), file=sys.stderr)
