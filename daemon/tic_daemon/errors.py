"""The errors that tic raises on purpose.

    TicError                 says what, where, and what to do next; carries its exit code
    ├── ConfigError          tic.toml or a command-line value cannot be used
    ├── RuleError            a rule pack cannot be used
    ├── StoreError           the store cannot be opened or read
    │   ├── StoreOwnedError      another daemon writes this store
    │   ├── StoreVersionError    the store was written by a newer program
    │   └── StoreFull            no space left: nothing was written, the same commit can be tried again
    ├── UnknownRunError      no such run, or the run has no records
    ├── CompareError         a file to be compared cannot be read, or asks for what is not safe
    └── ConnectError         the live endpoint cannot be reached or refuses

Anything else that escapes is a defect.
"""

from __future__ import annotations


class TicError(Exception):
    """Base of all expected errors.

    Args:
        what: one sentence, what went wrong and where.
        hint: what the user can do next; empty if there is nothing to say.
    """

    exit_code = 2

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}\n  {self.hint}" if self.hint else self.what


class ConfigError(TicError):
    """tic.toml or a command-line value cannot be used."""


class RuleError(TicError):
    """A rule pack cannot be used."""


class StoreError(TicError):
    """The store cannot be opened or read."""

    exit_code = 15


class StoreOwnedError(StoreError):
    """Another daemon writes this store."""


class StoreVersionError(StoreError):
    """The store was written by a newer program."""


class StoreFull(StoreError):
    """No space left where the store lies, or no memory. Nothing of the commit was written; it can be tried again."""


class UnknownRunError(TicError):
    """No such run, or a run without any record."""

    exit_code = 15


class CompareError(TicError):
    """A file to be compared cannot be read, is cut or malformed, or asks for what is not safe to give."""


class ConnectError(TicError):
    """The live endpoint cannot be reached or refuses the request."""

    exit_code = 15
