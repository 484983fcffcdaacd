"""Numbers, PCI ids, key/value lists and the JSON form of `At`: the small readers that the scanner's parts share.

    number("np.float64(0.41)")   0.41        number("abc")   None: the text is no number
    key_values(form, text)       [(key, value, text as printed), ...] of a step or metric line

All lists are read by hand in one pass, since a step line of 15 KiB is no rarity and must neither be cut nor stall.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, Final

from tic_daemon.scan.events import At

_NUMBER: Final = re.compile(
    r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|nan|inf(?:inity)?)", re.IGNORECASE | re.ASCII
)
_CAST: Final = re.compile(r"(?:np|numpy|torch)\.\w+\(([^()]*)\)|(?:tensor|array)\(([^(),\[\]]*)(?:,[^()]*)?\)")
_INTEGER: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_INT64: Final = 2**63
_SAFE_DIGITS: Final = 19
# Ray may cut the line: what stands behind the last dash is then a key without a value.
_VERL: Final = re.compile(r" - (?=[\w@/.+-]+:|[\w@/.+-]*$)")
_VERL_PART: Final = re.compile(r"[\w@/.+-]+:").match
_PIPE_NAMED: Final = re.compile(r"\s*([A-Za-z][^:]{0,80}):\s*(\S.*)")
_PIPE_BARE: Final = re.compile(r"\s*([A-Za-z][^:\d]{0,80}?)\s+([+-]?(?:\d|nan|inf).*)", re.IGNORECASE)
_PIPE_NUMBER: Final = re.compile(r"[+-]?(?:\d[\d,]*\.?\d*(?:[eE][+-]?\d+)?|nan|inf)", re.IGNORECASE)
_TITAN: Final = re.compile(r"([A-Za-z_]\w*):\s*([+-]?(?:\d[\d,.]*(?:[eE][+-]?\d+)?|nan|inf))([^\s:]*)")
_NCCL_BUS: Final = re.compile(r"[0-9a-fA-F]{1,9}")
_PCI: Final = re.compile(r"(?:PCI:)?(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?")
MAX_PAIRS: Final = 4096

Pair = tuple[str, float | None, str]


def json_object(raw: bytes) -> dict[str, Any] | None:
    """The JSON object that a line is, or None if it is anything else."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def number(text: str) -> float | None:
    """A printed number as a float, or None. Casts of numpy and torch are looked through; `1_000` is no number."""
    try:
        found = float(text)
    except ValueError:
        found = None
    if found is not None and text.isascii() and "_" not in text and text[0] > " " and text[-1] > " ":
        return found  # what else `float` takes is not how numbers are printed
    if "(" not in text:
        return None
    cast = _CAST.fullmatch(text)
    inner = (cast[1] or cast[2] or "").strip() if cast else ""
    return float(inner) if _NUMBER.fullmatch(inner) else None


def integer(text: str) -> int | None:
    """A printed integer that fits in 64 bits, or None."""
    if text.isascii() and text.isdigit() and len(text) < _SAFE_DIGITS:
        return int(text)
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -_INT64 <= value < _INT64 else None


def pci(text: str) -> str:
    """One spelling for one GPU: `0000:5d:00` from `PCI:0000:5d:00`, `00000000:5D:00.0` or NCCL's `5d000`.

    NCCL prints domain, bus, device and function as one hexadecimal number. Anything else stays as printed.
    """
    hit = _PCI.fullmatch(text)
    if hit:
        return f"{int(hit[1] or '0', 16):04x}:{hit[2]}:{hit[3]}".lower()
    if _NCCL_BUS.fullmatch(text):
        value = int(text, 16)
        return f"{value >> 20:04x}:{value >> 12 & 0xFF:02x}:{value >> 4 & 0xFF:02x}"
    return text


def key_values(form: str, text: str) -> list[Pair]:
    """Keys and values behind the head of a line.

    Args:
        form: "verl" (`key:value - key:value`), "dict" (a Python dict's repr), "pipe" (`key: value | key value |`) or
            "titan" (`key: value  key: value`).
        text: what stands behind the part that the rule matched.
    """
    reader = _READERS.get(form)
    return reader(text) if reader else []


def _verl(text: str) -> list[Pair]:
    parts = text.split(" - ")
    if len(parts) > MAX_PAIRS or not all(map(_VERL_PART, parts)):
        parts = [part.strip() for part in _VERL.split(text, maxsplit=MAX_PAIRS)]  # a dash inside a value
    pairs: list[Pair] = []
    for part in parts:
        key, colon, value = part.partition(":")
        if key and key[0] in _DASHES:
            key = key.lstrip("- ")
        if colon and key and " " not in key:
            printed = value.strip()
            pairs.append((key, number(printed), printed))
    return pairs


_DASHES: Final = frozenset("- ")


def _pipe(text: str) -> list[Pair]:
    """Megatron's `name: value |` and prime-rl's `Name value unit |`. The number is what the value begins with."""
    pairs: list[Pair] = []
    for part in text.split("|", MAX_PAIRS):
        hit = _PIPE_NAMED.match(part) or _PIPE_BARE.match(part)
        if hit:
            printed = hit[2].strip()
            value = _PIPE_NUMBER.match(printed)
            pairs.append((hit[1].strip(), number(value[0].replace(",", "")) if value else None, printed))
    return pairs


def _titan(text: str) -> list[Pair]:
    return [
        (hit[1], number(hit[2].replace(",", "")), hit[2] + hit[3])
        for number_, hit in enumerate(_TITAN.finditer(text))
        if number_ < MAX_PAIRS
    ]


def _dict(text: str) -> list[Pair]:
    """`{'a': 1, "b": np.float64(2.0), 'c': '1.2e-05', 'd': [1, 2]}`: one level; what nests is kept as text."""
    place = text.find("{")
    if place < 0:
        return []
    place += 1
    pairs: list[Pair] = []
    while place < len(text) and len(pairs) < MAX_PAIRS:
        while place < len(text) and text[place] in " ,\t":
            place += 1
        if place >= len(text) or text[place] not in "'\"":
            break
        close = _string_end(text, place)
        if close < 0:
            break
        key = text[place + 1 : close]
        colon = text.find(":", close)
        if colon < 0 or text[close + 1 : colon].strip():
            break
        stop = _value_end(text, colon + 1)
        printed = text[colon + 1 : stop].strip()
        bare = printed[1:-1] if len(printed) > 1 and printed[0] in "'\"" and printed[-1] == printed[0] else printed
        pairs.append((key, number(bare), printed))
        place = stop
        if place < len(text) and text[place] == "}":
            break
    return pairs


def _string_end(text: str, start: int) -> int:
    """Position of the quote that closes the one at `start`, or -1."""
    quote, place = text[start], start + 1
    while place < len(text):
        if text[place] == "\\":
            place += 2
            continue
        if text[place] == quote:
            return place
        place += 1
    return -1


def _value_end(text: str, start: int) -> int:
    """Position of the comma or brace that ends a value."""
    depth, place = 0, start
    while place < len(text):
        char = text[place]
        if char in "'\"":
            place = _string_end(text, place)
            if place < 0:
                return len(text)
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                return place
            depth -= 1
        elif char == "," and depth == 0:
            return place
        place += 1
    return place


_READERS: Final = {"verl": _verl, "dict": _dict, "pipe": _pipe, "titan": _titan}


def at_to_json(at: At) -> list[Any]:
    """An `At` as a JSON list."""
    return [
        at.byte_offset, at.byte_length, at.line_no, at.proc, at.pid, at.rank, at.actor, at.stream, _iso(at.stamp),
        at.stamp_res_us, at.stamp_utc, _iso(at.after_stamp), at.after_utc, at.step, at.step_carried, at.policy,
    ]  # fmt: skip


def at_from_json(value: list[Any]) -> At:
    """Back from `at_to_json`."""
    fields = list(value)
    fields[8], fields[11] = time_from_json(fields[8]), time_from_json(fields[11])
    return At(*fields)


def _iso(time: datetime | None) -> str | None:
    return time.isoformat() if time is not None else None


def time_from_json(text: str | None) -> datetime | None:
    """A naive time from its ISO text."""
    return datetime.fromisoformat(text) if text else None
