"""First bytes of a file: is it text that somebody logs, or something that only has such a name?

A file with a log's name is left out only for a magic number or our own header: a log may begin with NULs (truncated
under a writer without O_APPEND) or hold any garbage, and garbage is counted, not hidden. A file that was taken in for
a vaguer name (*.txt, `include`) must also look like text.
"""

from __future__ import annotations

import zlib

SNIFF_BYTES = 4096
OWN_HEADER = b"tic-daemon log"
"""The first line of every log that the daemon itself writes holds this."""

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive or torch file"),
    (0, b"PK\x05\x06", "a zip archive"),
    (0, b"\x80\x02", "a pickle"),
    (0, b"\x80\x03", "a pickle"),
    (0, b"\x80\x04\x95", "a pickle"),
    (0, b"\x80\x05\x95", "a pickle"),
    (0, b"\x93NUMPY", "a numpy array"),
    (8, b"DUCK", "a DuckDB database"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"ARROW1", "an Arrow file"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"\x89HDF\r\n", "an HDF5 file"),
    (0, b":W&B", "a W&B history"),
    (0, b"\x7fELF", "a program"),
    (0, b"\x89PNG\r\n", "an image"),
    (0, b"\xff\xd8\xff", "an image"),
    (0, b"GIF8", "an image"),
    (0, b"%PDF-", "a PDF"),
    (0, b"\x1f\x8b", "a gzip file without .gz in its name"),
    (0, b"BZh", "a bzip2 file"),
    (0, b"\xfd7zXZ\0", "an xz file"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file"),
    (0, b"\x04\x22\x4d\x18", "an lz4 file"),
    (257, b"ustar", "a tar archive"),
    (0, b"LPKSHHRH", "a systemd journal (export it with `journalctl -o short-iso`)"),
)
_TEXT_CONTROLS = frozenset(b"\t\n\r\x0b\x0c\x08\x1b\x07")


def why_not_a_log(head: bytes, *, named_like_log: bool) -> str:
    """Why a file with these first bytes (decompressed) is no log; "" if nothing speaks against it."""
    if OWN_HEADER in head[:200]:
        return "our own log"
    for offset, magic, what in _MAGIC:
        if head.startswith(magic, offset):
            return what
    # safetensors: little-endian length of a JSON header, then the header.
    if len(head) > 9 and head[8:10] == b'{"' and 0 < int.from_bytes(head[:8], "little") < 1 << 32:
        return "a safetensors file"
    if not named_like_log:
        text = head.lstrip(b"\0")
        odd = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in text)
        if odd > len(text) // 20:
            return "binary"
    return ""


def gunzip_head(compressed: bytes, limit: int = SNIFF_BYTES) -> bytes | None:
    """First bytes of a gzip stream whose first bytes are `compressed`; None if it is none."""
    try:
        return zlib.decompressobj(wbits=31).decompress(compressed, limit)
    except zlib.error:
        return None
