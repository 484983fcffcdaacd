"""One artifact: what its manifest says it is, and what it is.

    judge(before, said, look, now) -> Verdict      pure

States:

    pending     not looked at yet, or still being written
    verified    size and SHA-256 are as the manifest says
    recorded    no manifest says what it should be; the SHA-256 that it had at first is kept
    changed     it was verified or recorded, and is other bytes now
    differs     other size or other SHA-256 than the manifest says, since it was first seen
    missing     named, and not there
    refused     it leads out of the watched root, or is no regular file; not read
    unreadable  it cannot be read
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SETTLE_S: Final = 10.0
"""A file that was written within so many seconds, and is not as it should be, may still be written."""
GRACE_S: Final = 30.0
"""A file that a manifest of this age names and that is not there may still arrive: a network file system is slow."""

PENDING: Final = "pending"
VERIFIED: Final = "verified"
RECORDED: Final = "recorded"
CHANGED: Final = "changed"
DIFFERS: Final = "differs"
MISSING: Final = "missing"
REFUSED: Final = "refused"
UNREADABLE: Final = "unreadable"


@dataclass(frozen=True, slots=True)
class Before:
    """What was known of it: the SHA-256 that it was verified or recorded with; "" if it never was."""

    kept: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """What it should be. `size` None, `sha256` "": not said. `by`: who says it; `at`: when that was written."""

    size: int | None
    sha256: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class Look:
    """What it is. `failed`: "" or one of missing, refused, unreadable, with the reason in `why`; else size and time are
    set, and `sha256` once it is hashed."""

    failed: str = ""
    why: str = ""
    size: int = 0
    modified: float = 0.0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """State and reason. `hash`: nothing can be said before it is hashed. `kept` as in `Before`, from now on."""

    state: str
    why: str
    kept: str = ""
    hash: bool = False


def judge(before: Before, said: Said, look: Look, now: float) -> Verdict:  # noqa: PLR0911  one return a case
    """What is to be said of it now; `now` in seconds since 1970. Files dated in the future are taken as at rest."""
    kept = before.kept
    if look.failed == MISSING:
        if kept:
            return Verdict(MISSING, f"it was {_was(said)} with SHA-256 {kept}, and is gone", kept)
        if 0 <= now - said.at < GRACE_S:
            return Verdict(PENDING, f"named by {said.by}, not there yet", kept)
        return Verdict(MISSING, f"named by {said.by}, and not there", kept)
    if look.failed:
        return Verdict(look.failed, look.why, kept)
    fresh = 0 <= now - look.modified < SETTLE_S
    if said.size is not None and look.size != said.size:
        return _other(before, said, f"{look.size} bytes, where {said.by} says {said.size}", fresh=fresh)
    if not look.sha256:
        return Verdict(PENDING, f"its {look.size} bytes are not hashed yet", kept, hash=True)
    if said.sha256:
        if look.sha256 == said.sha256:
            what = "SHA-256" if said.size is None else "size and SHA-256"
            return Verdict(VERIFIED, f"{what} as {said.by} says", look.sha256)
        if look.sha256 == kept:
            return Verdict(DIFFERS, f"SHA-256 {kept} as before, where {said.by} now says {said.sha256}", kept)
        return _other(before, said, f"SHA-256 {look.sha256}, where {said.by} says {said.sha256}", fresh=fresh)
    if not kept or look.sha256 == kept:
        return Verdict(RECORDED, f"{said.by} says no SHA-256; this one is kept from the first look", look.sha256)
    return _other(before, said, f"SHA-256 {look.sha256}, where it was {kept} at first", fresh=fresh)


def _other(before: Before, said: Said, detail: str, *, fresh: bool) -> Verdict:
    if before.kept:
        return Verdict(CHANGED, f"changed after it was {_was(said)}: {detail}", before.kept)
    if fresh:
        return Verdict(PENDING, f"still being written: {detail}", before.kept)
    return Verdict(DIFFERS, detail, before.kept)


def _was(said: Said) -> str:
    return VERIFIED if said.sha256 else RECORDED
