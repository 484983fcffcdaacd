"""Hyperscan databases, compiled once: kept in the process and in the user's cache (usercache.py).

To compile the literals of 290 rules takes 0.05 s of a core, to read them back a ten-thousandth of a second. The file
begins with a digest of the rest: one that was cut, or has a flipped bit, is never given to the library. It is for one
kind of processor: on another the library refuses it, and the literals are compiled at each start.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
from typing import TYPE_CHECKING, Final

from tic_daemon import usercache

if TYPE_CHECKING:
    import hyperscan

log = logging.getLogger(__name__)

_DIGEST: Final = 32


def database(patterns: tuple[bytes, ...], single: int) -> hyperscan.Database:
    """A database in block mode that finds each pattern under its number, with scratch memory of its own.

    Args:
        single: so many of the last are told of once a text.
    """
    import hyperscan  # noqa: PLC0415 - there is no wheel for every platform

    found = hyperscan.loadb(_serialized(patterns, single), hyperscan.HS_MODE_BLOCK)
    found.scratch = hyperscan.Scratch(found)
    return found


@functools.lru_cache(maxsize=4)
def _serialized(patterns: tuple[bytes, ...], single: int) -> bytes:
    import hyperscan  # noqa: PLC0415 - as above

    folder = usercache.folder()
    made_of = hashlib.sha256(repr((vars(hyperscan).get("__version__"), patterns, single)).encode()).hexdigest()[:24]
    path = None if folder is None else folder / f"literals-{made_of}.hs"
    spoilt = True
    if path is not None and usercache.holds(path):
        with contextlib.suppress(OSError):
            kept = path.read_bytes()
            data = kept[_DIGEST:]
            spoilt = kept[:_DIGEST] != hashlib.sha256(data).digest()
            if not spoilt:
                with contextlib.suppress(hyperscan.HyperscanError):
                    hyperscan.loadb(data, hyperscan.HS_MODE_BLOCK)
                    usercache.used(path)
                    return data
    new = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = [0] * (len(patterns) - single) + [hyperscan.HS_FLAG_SINGLEMATCH] * single
    new.compile(expressions=list(patterns), ids=list(range(len(patterns))), flags=flags)
    data = hyperscan.dumpb(new)
    if path is not None and spoilt:
        part = usercache.part_of(path)
        try:
            part.write_bytes(hashlib.sha256(data).digest() + data)
            usercache.put(part, path)
        except OSError as error:
            log.debug("%s is not kept: %s", path, error)
            with contextlib.suppress(OSError):
                part.unlink()
    return data
