"""What was read and is not committed yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from tic_daemon.store.comparison_rows import ComparisonTold
from tic_daemon.store.rows import CheckpointRow, FaultFileRow, ResultRow, SourceDelta


@dataclass(slots=True)
class Batch:
    """Rows that go into one commit.

    Attributes:
        deltas, bytes: of sources, and how many bytes of them were read.
        began: when the first of them was read, naive UTC.
        checkpoints, fault_files: seen beside the logs.
        results, compared: verified and compared files.
    """

    deltas: list[SourceDelta] = field(default_factory=list)
    bytes: int = 0
    began: datetime | None = None
    checkpoints: list[CheckpointRow] = field(default_factory=list)
    fault_files: list[FaultFileRow] = field(default_factory=list)
    results: list[ResultRow] = field(default_factory=list)
    compared: list[ComparisonTold] = field(default_factory=list)

    def add(self, deltas: Iterable[SourceDelta], began: datetime | None = None) -> None:
        """More of sources. `began`: when their reading began, if a commit is to say how long they took."""
        for delta in deltas:
            self.deltas.append(delta)
            self.bytes += delta.bytes
            self.began = self.began or began

    @property
    def beside(self) -> bool:
        """Whether rows wait that are of no source."""
        return bool(self.checkpoints or self.fault_files or self.results or self.compared)
