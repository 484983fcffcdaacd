"""Dumps with manifests on disk, and a desk that works on them without a daemon."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from tests.compare.ptfile import T, write
from tests.results.test_archive import OLD, World, manifest
from tic_daemon.comparisons.desk import Desk
from tic_daemon.config import Config
from tic_daemon.store.comparison_rows import ComparisonRow, ComparisonSaidRow, ComparisonTaskRow, ComparisonTold
from tic_daemon.store.rows import ResultRow

Values = dict[str, list[float]]
SIDE: Values = {"r1": [-1.0, -2.0, -3.0], "r2": [-0.5, -0.25]}
OTHER: Values = {"r1": [-1.0, -2.5, -3.0], "r2": [-0.5, -0.25]}


def dump(values: Values, dtype: Any = np.float32) -> bytes:
    """A file of torch.save."""
    name = {np.float32: "float32", np.float64: "float64", np.float16: "float16"}[dtype]
    pairs = {
        key: (T(np.array(own, dtype), name), T(np.ones(len(own), np.bool_), "bool")) for key, own in values.items()
    }
    return _saved(pairs)


def of_zeros(tokens: int) -> bytes:
    """One long sequence."""
    return _saved({"r": (T(np.zeros(tokens, np.float32), "float32"), T(np.ones(tokens, np.bool_), "bool"))})


def _saved(value: object) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder) / "dump.pt", value).read_bytes()


def step(root: Path, number: int, files: dict[str, bytes], **heading: object) -> Path:
    """A step's directory with its manifest."""
    directory = root / "results" / "run-a" / f"step{number:03}"
    for name, data in files.items():
        place = directory / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    manifest(directory, dict(files), OLD, run="run-a", step=number, **heading)
    return directory


class Bench:
    """A workspace, what is told of its results, and desks over it; `again()` is a restart of the daemon."""

    def __init__(self, root: Path, **config: Any) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.config = Config(root, **config)
        self.world = World(root)
        self.rows: list[ComparisonTold] = []
        self.desk: Desk | None = None

    def _no_store(self) -> duckdb.DuckDBPyConnection:
        """A store of what was told, which knows nothing of logs."""
        con = duckdb.connect(":memory:")
        con.execute("CREATE TABLE comparison_said (rec_id BIGINT, host VARCHAR, path VARCHAR, said VARCHAR)")
        con.execute("CREATE TABLE comparison (host VARCHAR, task VARCHAR, content VARCHAR)")
        for number, row in enumerate(self.rows):
            if isinstance(row, ComparisonSaidRow):
                con.execute("INSERT INTO comparison_said VALUES (?, ?, ?, ?)", [number, row.host, row.path, row.said])
            elif isinstance(row, ComparisonRow):
                con.execute("INSERT INTO comparison VALUES (?, ?, ?)", [row.host, row.task, row.content])
        return con

    def again(self) -> Desk:
        self.close()
        self.desk = Desk(
            "h", self.config, [str(self.root)], self.root / "reports", self.world.rows, list(self.tasks().values()), self._no_store
        )  # fmt: skip
        return self.desk

    def compare(self, seconds: float = 60.0) -> list[ComparisonTold]:
        """Looks at the results, and works until nothing is left. What it told."""
        self.world.look(final=True)
        news: list[ResultRow] = self.world.told
        desk = self.desk or self.again()
        before = len(self.rows)
        desk.note(news)
        desk.hurry()
        desk.begin()
        self.until(lambda: not desk.busy(), seconds)
        return self.rows[before:]

    def until(self, done: Callable[[], bool], seconds: float = 60.0) -> None:
        limit = time.monotonic() + seconds
        assert self.desk is not None
        while True:
            self.rows += self.desk.take()
            self.desk.kept()
            if done():
                self.rows += self.desk.take()
                return
            assert time.monotonic() < limit, self.tasks()
            time.sleep(0.01)

    def tasks(self) -> dict[str, ComparisonTaskRow]:
        """The newest row of each task."""
        return {row.task: row for row in self.rows if isinstance(row, ComparisonTaskRow)}

    def states(self) -> dict[str, tuple[str, str]]:
        """State and reason by the name of side A's file."""
        return {row.side_a.rpartition("/")[2]: (row.state, row.why) for row in self.tasks().values()}

    def close(self) -> None:
        if self.desk is not None:
            self.desk.close()
            self.desk = None


def compared(rows: Iterable[ComparisonTold]) -> list[ComparisonRow]:
    return [row for row in rows if isinstance(row, ComparisonRow)]
