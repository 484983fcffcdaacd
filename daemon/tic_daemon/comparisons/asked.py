"""What the worker is asked to compare, and when and by whom a side was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tic_daemon.compare.comparison import Comparison, Declared
from tic_daemon.compare.manifests import Claims
from tic_daemon.comparisons.pair import Pair
from tic_daemon.evidence.judge import Goal


@dataclass(frozen=True, slots=True)
class Asked:
    """A pair to be compared, and what the store calls it.

    Attributes:
        id: of the comparison that comes of it. content: what it hangs on.
        manifests: that name its files, by path.
        sha256: of files that are verified, by path: other bytes are another comparison.
        said: hash of what its manifest says of each side and repeat, by path (compare/said.py): other words are too.
        reports: directory of reports; "": none is written.
    """

    pair: Pair
    id: str
    content: str
    manifests: dict[str, str] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    reports: str = ""

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Asked:
        """Out of `asdict` that went through JSON, which has no tuples."""
        lists = {name: tuple(said["pair"][name]) for name in ("repeats_a", "repeats_b")}
        return cls(**{**said, "pair": Pair(**{**said["pair"], **lists})})

    @property
    def declared(self) -> Declared:
        """As `compare` takes it. Run and step, which directories may tell, contradict no manifest."""
        one = self.pair
        return Declared(
            one.basis, one.policy, path_of(one.tokens), Goal(one.goal), path_of(one.criterion),
            path_of(one.planted), one.plant, intervention=one.intervention,
            repeats_a=tuple(map(Path, one.repeats_a)), repeats_b=tuple(map(Path, one.repeats_b)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Produced:
    """When and by whom a side was made, naive UTC. `how`: receipt, file (its time), or ""."""

    at: datetime | None = None
    how: str = ""
    host: str = ""
    pid: int | None = None


def produced(claims: Claims | None, path: str) -> Produced:
    """When a side was made: by its receipt, if that tells the zone; else when its file was written last."""
    receipt = claims.receipt if claims is not None else None
    host, pid = (receipt.host, receipt.pid) if receipt is not None else ("", None)
    if receipt is not None:
        try:
            at = datetime.fromisoformat(receipt.produced_at)
            if at.tzinfo is not None:
                return Produced(at.astimezone(UTC).replace(tzinfo=None), "receipt", host, pid)
        except (ValueError, OverflowError):
            pass
    try:
        seconds = max((one.stat().st_mtime for one in _files(Path(path))), default=None)
        if seconds is not None:
            return Produced(datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None), "file", host, pid)
    except (OSError, ValueError, OverflowError):
        pass
    return Produced(None, "", host, pid)


def made_of(asked: Asked, sides: tuple[Produced, Produced], run: str | None, step: int | None) -> dict[str, Any]:
    """What is asked of the store: `comparison_standing.Made`. `run`, `step`: as manifests say."""
    pair, (a, b) = asked.pair, sides
    return {
        "host": pair.host, "root": pair.root, "path": pair.manifest or pair.a, "run": pair.run or run or "",
        "step": pair.step if pair.step is not None else step,
        "produced_a": a.at, "produced_how_a": a.how, "producer_host_a": a.host, "producer_pid_a": a.pid,
        "produced_b": b.at, "produced_how_b": b.how, "producer_host_b": b.host, "producer_pid_b": b.pid,
    }  # fmt: skip


def judging(found: Comparison) -> dict[str, Any] | None:
    """What a store is asked about the criterion: `proofs.Through`, without run and times. None: there is none."""
    through = found.through
    if found.criterion is None:
        return None
    types = [", ".join(dict.fromkeys(pair[place] for pair in found.alignment.elements)) for place in (0, 1)]
    return {
        "criterion": through["criterion"], "metric": through["metric"], "readers": through["readers"], "dtypes": types,
        "comparator": through["comparator"],
    }  # fmt: skip


def path_of(text: str) -> Path | None:
    """A path, or None for ""."""
    return Path(text) if text else None


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("rank_*.jsonl")) if path.is_dir() else [path]
