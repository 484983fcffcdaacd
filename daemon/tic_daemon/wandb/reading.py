"""The reading child from the parent's side: started in a place of its own, heard with a deadline, ended whole.

    with ReadingChild() as child:
        for message in child.read(Asked("lab/grpo/a1"), deadline_s=300):
            ...

The client's environment is passed on, so that it finds server and key as it always does; what would lead it to the
trainer's own service, to a run or to a mode is left out, and its caches lie in a directory that goes with the child.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final, Self

from tic_daemon import linechild
from tic_daemon.errors import TicError
from tic_daemon.linechild import LineChild
from tic_daemon.wandb.masking import masked
from tic_daemon.wandb.process_tree import end_tree
from tic_daemon.wandb.reading_child import HOME
from tic_daemon.wandb.wire import LINE_BYTES, Asked, Decoder, Ended, Message, WireError

CHILD: Final = "tic_daemon.wandb.reading_child"

RETRIES: Final = {
    "WANDB_X_GRAPHQL_RETRY_MAX": "4",
    "WANDB_X_GRAPHQL_RETRY_WAIT_MIN_SECONDS": "1",
    "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "15",
    "WANDB_X_GRAPHQL_TIMEOUT_SECONDS": "30",
    "WANDB_X_FILE_TRANSFER_RETRY_MAX": "3",
    "WANDB_X_FILE_TRANSFER_RETRY_WAIT_MAX_SECONDS": "15",
}
"""The client's own would wait up to 26 minutes for one page. What the environment says already stays."""

MEMORY: Final = {"GOMEMLIMIT": "48MiB", "GOGC": "50"}
"""wandb-core is a Go program: it collects its garbage sooner rather than grow to twice what it holds."""

_LEFT_OUT: Final = ("WANDB_SERVICE", "WANDB_MODE", "WANDB_RUN_ID", "WANDB_RUN_GROUP", "WANDB_RESUME", "WANDB_DISABLED")


class ReadFailed(TicError):
    """The child did not bring a reading to its end; `outcome` is timeout or error."""

    def __init__(self, outcome: str, what: str) -> None:
        super().__init__(what)
        self.outcome = outcome


class ReadingChild:
    """One child; may be asked several times, one after the other. After a failure it is gone.

    Args:
        environ: what the client finds; default: this process' own.
        stopped: asked now and then; true ends the reading as if its time were up.
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, *, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._home = Path(tempfile.mkdtemp(prefix=HOME))
        self._child = LineChild(
            CHILD, environ=self._child_environ(), errors=(self._home / "errors").open("w+b"), most=LINE_BYTES,
            stopped=stopped, cwd=self._home, end=end_tree,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._child.alive

    def close(self) -> None:
        """Ends the child and all that it started; removes its directory."""
        self._child.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def read(self, asked: Asked, deadline_s: float) -> Iterator[Message]:
        """The messages of one reading; the last one is an `Ended`.

        The time that the caller takes between two messages does not count.

        Raises:
            ReadFailed: the time was up, or the child died; it is ended.
        """
        decoder = Decoder()
        left = deadline_s
        try:
            self._child.say(asked.to_line())
            while True:
                began = time.monotonic()
                line = self._child.line(began + left)
                left -= time.monotonic() - began
                message = decoder.message(line)
                yield message
                if isinstance(message, Ended):
                    return
        except (linechild.Late, linechild.Stopped) as error:
            late = isinstance(error, linechild.Late)
            why = "no end after the time that it was given" if late else "the daemon ends"
            raise self._failed("timeout", f"the reading was ended: {why}") from error
        except linechild.Died as error:
            raise self._failed(
                "error", f"the reading process ended with {error.code}{self._masked(error.words)}"
            ) from error
        except linechild.TooLong as error:
            raise self._failed("error", "a row is longer than can be kept") from error
        except WireError as error:
            raise self._failed("error", f"the reading process said what is not understood: {error}") from error
        except GeneratorExit:
            self.close()  # what it still says of this reading would be taken for the next one
            raise

    def _failed(self, outcome: str, what: str) -> ReadFailed:
        self.close()
        return ReadFailed(outcome, what)

    def _masked(self, words: str) -> str:
        key = self._environ.get("WANDB_API_KEY")
        return f": {masked(words, [key] if key else [])}" if words else ""

    def _child_environ(self) -> dict[str, str]:
        environ = {name: held for name, held in self._environ.items() if name not in _LEFT_OUT}
        for name, held in (RETRIES | MEMORY).items():
            environ.setdefault(name, held)
        home = str(self._home)
        environ |= {
            "WANDB_CACHE_DIR": str(self._home / "cache"),
            "WANDB_DATA_DIR": home,
            "WANDB_DIR": home,
            "WANDB_SILENT": "true",
            "WANDB_CONSOLE": "off",
            "WANDB_ERROR_REPORTING": "false",
            "WANDB_DISABLE_GIT": "true",
        }
        return environ


def client_in_words() -> str:
    """Which client would read histories here, or why none does. Whether it has an account is for a reading to tell."""
    if not client_there():
        return "not read back: the W&B client is not installed, pip install 'tic-tui[wandb]'"
    try:
        return f"read back with wandb {metadata.version('wandb')}, of the server and account that it finds"
    except metadata.PackageNotFoundError:
        return "read back with a W&B client of unknown version, of the server and account that it finds"


def client_there() -> bool:
    """Whether the W&B client is installed where this runs; costs nothing."""
    try:
        return importlib.util.find_spec("wandb") is not None
    except (ImportError, ValueError):
        return False
