"""Which of the files on disk is which generation of a source: the same answer live and after any restart.

Given the pieces of one log on disk (oldest first, the log itself last) and the generations known so far, `trace` says
where each known generation lies now and which files are new generations, in order:

1. A file with a generation's inode and its bytes (head, and the 64 bytes before the offset) is that generation. The
   device number alone may differ: network mounts get another one at every mount.
2. A rotated piece that has a generation's bytes under another inode is its copy (copytruncate, gzip): what is unread
   is read there. The log itself never is a copy: a new log often begins as the old one did.
3. A rotated piece that holds only a beginning of an open generation that has no place any more was copied from it
   before the last bytes that we read: it says nothing new.
4. What is left is new if it stands behind the newest file that is known, or where numbers are free: generations were
   begun there, and nothing of them was kept before the daemon died. Any other that stands before was there earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tic_daemon.sources.identity import TAIL_BYTES, Prints, Seen, is_prefix, read_range, same_head, same_tail


@dataclass(frozen=True, slots=True)
class Known:
    """A generation as lineage needs it. `recent`: its last bytes read, as far as they are remembered."""

    number: int
    device: int
    inode: int
    prints: Prints
    closed: bool
    recent: bytes = b""


@dataclass(slots=True)
class Lineage:
    """The answer.

    `place`: known generation -> its file; `begun`: free number -> the file of a generation that was begun before and
    of which nothing is known; `new`: behind all that is known, oldest first; `repeats`: copies of what was read.
    """

    place: dict[int, Seen] = field(default_factory=dict)
    begun: dict[int, Seen] = field(default_factory=dict)
    new: list[Seen] = field(default_factory=list)
    repeats: list[Seen] = field(default_factory=list)


def trace(files: Sequence[Seen], known: Sequence[Known], base: str, numbers: Collection[int]) -> Lineage:
    """See the module's docstring; `base` is the path of the log itself, `numbers` those in use, recognisable or not.

    Reads little of files that it does not know.
    """
    out = Lineage()
    index = {file.path: i for i, file in enumerate(files)}
    pieces = [file for file in files if file.path != base]

    def place(candidates: Sequence[Seen], some: Sequence[Known], test: Callable[[Seen, Known], bool]) -> None:
        for one in some:
            for file in candidates:
                if one.number not in out.place and file not in out.place.values() and test(file, one):
                    out.place[one.number] = file

    def in_order(file: Seen, one: Known) -> bool:
        at = index[file.path]
        return all((index[other.path] < at) == (number < one.number) for number, other in out.place.items())

    place(list(reversed(files)), sorted(known, key=lambda one: -one.number), _is_itself)
    for closed in (False, True):
        some = sorted((one for one in known if one.closed is closed), key=lambda one: one.number)
        place(pieces, some, lambda file, one: in_order(file, one) and _is_copy(file, one))
    lost = [one for one in known if not one.closed and one.number not in out.place]
    left = [file for file in files if file not in out.place.values()]
    out.repeats = [file for file in left if file.path != base and any(_is_beginning(file, one) for one in lost)]
    newest = max((index[file.path] for file in (*out.place.values(), *out.repeats)), default=-1)
    unknown = [file for file in left if file not in out.repeats]
    unknown = [file for i, file in enumerate(unknown) if not _in_the_making(file, unknown[i + 1 :])]
    out.new = [file for file in unknown if index[file.path] > newest]
    earlier = [file for file in unknown if index[file.path] < newest]
    earlier = [file for file in earlier if not _in_the_making(file, files[index[file.path] + 1 :])]
    out.begun = _begun(earlier, index, out.place, numbers)
    return out


def _begun(
    files: Sequence[Seen], index: Mapping[str, int], place: Mapping[int, Seen], numbers: Collection[int]
) -> dict[int, Seen]:
    """Free numbers for files that stand before a known one: between its neighbours' numbers, the newest file first."""
    out: dict[int, Seen] = {}
    for file in reversed(files):
        placed = [*place.items(), *out.items()]
        below = max((n for n, other in placed if index[other.path] < index[file.path]), default=-1)
        above = min((n for n, other in placed if index[other.path] > index[file.path]), default=0)
        if free := [number for number in range(below + 1, above) if number not in numbers and number not in out]:
            out[free[-1]] = file
    return dict(sorted(out.items()))


def _is_itself(file: Seen, one: Known) -> bool:
    prints = one.prints
    if file.inode != one.inode:
        return False
    if file.gz:
        return same_head(file, prints)  # its tail would cost decompressing all of it
    return file.size >= prints.offset and same_head(file, prints) and same_tail(file, prints)


def _is_copy(file: Seen, one: Known) -> bool:
    prints = one.prints
    if not file.gz and (file.size != prints.offset if one.closed else file.size < prints.offset):
        return False
    return same_head(file, prints) and same_tail(file, prints)


def _is_beginning(file: Seen, one: Known) -> bool:
    prints = one.prints
    if not same_head(file, prints):
        return False
    if file.gz:
        return True  # shorter than the offset, else it would be the copy
    tail = min(TAIL_BYTES, file.size)
    end = len(one.recent) - (prints.offset - file.size)
    if file.size >= prints.offset or end > len(one.recent):
        return False
    if end < tail:
        return True  # its end lies before all that is remembered: the head must do
    return read_range(file, file.size - tail, tail) == one.recent[end - tail : end]


def _in_the_making(file: Seen, later: Sequence[Seen]) -> bool:
    """At first sight: a copy that copytruncate or gzip has just begun, or not yet truncated the original after."""
    return any(
        file.path == f"{other.path}.gz" or (file.size >= TAIL_BYTES and is_prefix(file, other)) for other in later
    )
