"""What manifests say of a file that is compared: identity, receipts, and proofs.

Which manifest speaks for a file, and where in it, is in said.py. Nothing that a manifest names is opened.
What no manifest says is None, and never filled in. The keys are in docs/reference/compare.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tic_daemon.compare import said
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.replay import Replay, replay_of
from tic_daemon.compare.sides import Segments, Side, segments_of
from tic_daemon.errors import CompareError
from tic_daemon.results.manifest import MAX_BYTES

_File = tuple[str, int, str]
_RECEIPT: Final = ("host", "pid", "produced_at", "command")


@dataclass(frozen=True, slots=True)
class Receipt:
    """Who made a file: the process and the time. One receipt is one act of producing."""

    host: str
    pid: int
    produced_at: str
    command: str


@dataclass(frozen=True, slots=True)
class Claims:
    """What is said of one side. None or empty: nothing is said.

    Attributes:
        source: the manifest, or "".
        gaps: where the manifest and the file disagree, in words.
        run, step, phase, rank, repeat, scope, intervention: as a `[mismatch]` record has them.
        policy, inputs, basis: versions that must be equal on both sides.
        receipt: who made the file.
        bypass: an option under which both sides are one thing, or "".
        hooks, score_source, negative_control: the three proofs that zeros are real.
        path_hits: how often each named path was taken.
        execution: recorded execution state by name.
        samples_policy: the version that sampled the tokens, where it is said.
        replay: the receipt of a replay.
        captures, forwards: how often a Graph was captured, and how many forward steps ran.
        segments: by request, from which response position on each policy version sampled.
        criterion: SHA-256 of the criterion that was frozen with the run, or "".
        digest: SHA-256 of the manifest as it was read, or "". said: hash of what it says of this file.
    """

    source: str = ""
    gaps: tuple[str, ...] = ()
    run: str | None = None
    step: int | None = None
    phase: str | None = None
    rank: int | None = None
    repeat: str | None = None
    scope: str | None = None
    intervention: str | None = None
    policy: str | None = None
    inputs: str | None = None
    basis: str | None = None
    receipt: Receipt | None = None
    bypass: str = ""
    hooks: int | None = None
    score_source: str = ""
    negative_control: str = ""
    path_hits: Mapping[str, int] | None = None
    execution: Mapping[str, str] | None = None
    criterion: str = ""
    samples_policy: str = ""
    replay: Replay | None = None
    captures: int | None = None
    forwards: int | None = None
    segments: Mapping[str, Segments] | None = None
    digest: str = ""
    said: str = ""

    @property
    def zeros_proved(self) -> bool:
        """Whether all three proofs are there."""
        return bool(self.hooks and self.hooks > 0 and self.score_source and self.negative_control)


def claims(side: Side, manifest: Path | None = None) -> Claims:
    """What manifests say of a side.

    Args:
        manifest: that names the file, if it is known and none of those beside it.

    Raises:
        CompareError: a manifest is there and cannot be read.
    """
    return claims_of(side.path, side.size, side.sha256, manifest)


def claims_of(name: str, size: int, sha256: str, manifest: Path | None = None) -> Claims:
    """What manifests say of a file or a directory.

    Args:
        size, sha256: of the file. No hash: nothing is held against the manifest's.
        manifest: that names the file, if it is known and none of those beside it.

    Raises:
        CompareError: a manifest is there and cannot be read.
    """
    source = said.source_of(name, str(manifest or ""))
    if not source:
        return Claims()
    whole, digest = _load(Path(source))
    found = said.of(whole, source, name)
    if found is None:
        return Claims()
    return replace(_claims((name, size, sha256), source, found), digest=digest, said=said.digest(found))


def _load(path: Path) -> tuple[dict[str, Any], str]:
    """What it says, and the SHA-256 of the bytes that say it."""
    with Opened(path) as file:
        if file.size > MAX_BYTES:
            raise CompareError(f"{path} has {file.size} bytes: no manifest")
        data = file.read(0, file.size)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CompareError(f"{path} is no JSON: {error}", "it may not be written to its end yet") from error
    if not isinstance(found, dict):
        raise CompareError(f"{path} is no JSON object")
    return found, hashlib.sha256(data).hexdigest()


def _claims(file: _File, source: str, found: said.Said) -> Claims:
    def text(key: str) -> str | None:
        return said.word(found.get(key))

    def integer(key: str) -> int | None:
        value = found.get(key)
        return value if type(value) is int else None

    return Claims(
        source, tuple(_gaps(file, source, found)), text("run"), integer("step"), text("phase"), integer("rank"),
        text("repeat"), text("scope"), text("intervention"), text("policy_version"), text("input_sha256"),
        text("basis"),
        _receipt(found.get("producer")), text("bypass") or "", integer("hook_count"), text("score_source") or "",
        text("negative_control") or "", _counts(found.get("path_hits")), _texts(found.get("execution")),
        text("criterion_sha256") or "", text("samples_policy") or "", replay_of(found.get("replay")),
        integer("graph_captures"), integer("forward_steps"), _segments(found.get("policy_segments"), source),
    )  # fmt: skip


def _gaps(file: _File, source: str, entry: said.Said) -> list[str]:
    found: list[str] = []
    path, own_size, own_digest = file
    if not own_digest:
        return found
    sizes = (entry.get("size"), entry.get("bytes"), entry.get("size_bytes"))
    size = next((value for value in sizes if value is not None), None)
    digest = entry.get("sha256") or entry.get("hash") or entry.get("digest")
    if isinstance(digest, str):
        digest = digest.lower().removeprefix("sha256:").removeprefix("sha-256:")
    if size is not None and size != own_size:
        found.append(f"{path} has {own_size} bytes, {source} says {size}")
    if digest is not None and digest != own_digest:
        found.append(f"{path} has SHA-256 {own_digest}, {source} says {digest}")
    return found


def _segments(value: Any, source: str) -> dict[str, Segments] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise CompareError(f"{source}: policy_segments is no object of requests")
    return {str(key): segments_of(own, f"{source}: policy_segments of {key!r}") for key, own in value.items()}


def _receipt(value: Any) -> Receipt | None:
    """A receipt is whole or it is none."""
    if not isinstance(value, dict):
        return None
    host, pid, produced_at, command = (value.get(key) for key in _RECEIPT)
    if not all(isinstance(one, str) and one for one in (host, produced_at, command)) or type(pid) is not int:
        return None
    return Receipt(str(host), pid, str(produced_at), str(command))


def _counts(value: Any) -> dict[str, int] | None:
    if not isinstance(value, dict):
        return None
    return {str(key): number for key, number in value.items() if type(number) is int and number >= 0}


def _texts(value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    return {
        str(key): str(one) for key, one in value.items() if type(one) in {float, bool} or said.word(one) is not None
    }
