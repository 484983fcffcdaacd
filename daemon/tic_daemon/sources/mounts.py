"""Which paths lie on network file systems, from /proc/self/mountinfo.

On NFS, Lustre, GPFS and their like a held descriptor answers from an attribute cache for up to a minute, and inotify
says nothing of what other hosts write; only a fresh open() asks the server. FUSE is counted among them: sshfs,
gcsfuse, s3fs and JuiceFS are FUSE, and one open a second costs little where the guess is wrong. `[[source]] network`
overrides.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

# fmt: off
NETWORK_TYPES = frozenset(
    {
        "nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "9p", "cifs", "smb3", "smbfs", "afs", "glusterfs",
        "ocfs2", "gfs2", "pvfs2", "orangefs", "wekafs", "panfs", "virtiofs", "vboxsf", "prl_fs", "vmhgfs",
        "acfs", "daos", "cvmfs", "quobyte",
    }
)
# fmt: on
# FUSE file systems that are local by construction.
_LOCAL_FUSE = frozenset({"fuse.lxcfs", "fuse.fuse-overlayfs", "fuse.squashfuse", "fuse.gvfsd-fuse", "fuse.portal"})
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount: where, file system type as the kernel names it, and whether it counts as a network file system."""

    point: str
    fstype: str
    network: bool


class Mounts:
    """The mount table at one moment; `of(path)` gives the mount that a canonical path lies on."""

    def __init__(self, mounts: list[Mount]) -> None:
        # Later lines are mounted over earlier ones at the same point, and a dict keeps the last.
        self._by_point = {mount.point: mount for mount in mounts}

    @classmethod
    def read(cls, table: str = "/proc/self/mountinfo") -> Mounts:
        """The table now. Empty (everything local) where the system has none."""
        try:
            return cls(parse(Path(table).read_text("utf-8", "surrogateescape")))
        except OSError:
            return cls([])

    def of(self, path: str) -> Mount:
        """The mount with the longest point that is `path` or above it."""
        at = path or "/"
        while at not in self._by_point and at not in ("/", ""):
            at = os.path.dirname(at)  # noqa: PTH120 - names need not be valid text; str functions are exact
        return self._by_point.get(at, Mount("/", "unknown", False))


def parse(text: str) -> list[Mount]:
    """Mounts of a mountinfo text; lines that do not fit are left out."""
    out = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if len(fields) < 6 or not tail[0]:
            continue
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4])
        out.append(Mount(point, tail[0], is_network(tail[0])))
    return out


def is_network(fstype: str) -> bool:
    """Whether a file system type is a network one."""
    if fstype.startswith("fuse"):
        return fstype not in _LOCAL_FUSE and fstype != "fusectl"
    return fstype in NETWORK_TYPES
