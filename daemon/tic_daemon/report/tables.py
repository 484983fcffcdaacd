"""The views of a run or a candidate as Parquet: the rows that belong to it, of the report's moment.

Rows come through the reader, live or not, of one store or of several, and are written with the types that DuckDB names,
in one order: the same rows give the same file.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tic_daemon.report.moment import Moment, listed
from tic_daemon.report.subject import Subject
from tic_daemon.store.reader import Result

_RUNS: Final = """list_contains(from_json(?, '["VARCHAR"]'), run_id)"""
SINGLE: Final = "SELECT * FROM part ORDER BY ALL"
"""Of a view that several stores only put together."""
OF_RUNS: Final = (
    "runs", "attempts", "locks", "marks", "steps", "step_coverage", "exec_state_now", "lifecycle_findings",
    "coverage", "liveness", "sources", "wandb_runs", "wandb_reads", "wandb_gaps", "comparisons", "comparison_versions",
    "trace_first_divergence", "control_groups", "comparison_queue", "artifacts", "manifests", "receipt_shards",
    "record_reports", "evidence_gaps", "run_records", "run_fingerprints", "record_values", "lamps", "fault_files",
    "checkpoints", "transport_sets", "compile_after_bench", "bench_marks", "env_pins", "gpus", "gpu_processes",
)  # fmt: skip
LONG: Final = {
    "faults": "", "mismatches": SINGLE, "metrics": SINGLE, "timings": SINGLE, "exec_states": SINGLE,
    "weight_lifecycle": SINGLE, "step_lines": SINGLE, "transports": SINGLE, "compiles": SINGLE, "config_values": SINGLE,
    "wandb_step_rows": SINGLE, "wandb_uploads": SINGLE, "comparison_sequences": "", "comparison_tokens": "",
    "trace_boundaries": "",
}  # fmt: skip
"""Views that grow without end, read in ranges, and how the answers of several stores become one."""
OF_CANDIDATES: Final = ("candidates", "gates", "evidence_current", "cases", "baselines")
OF_PAIRS: Final = ("pair_declarations", "pairs", "pair_rules", "pair_values")
_PAIRS: Final = """
SELECT pair FROM pair_declarations WHERE list_has_any(from_json(?, '["VARCHAR"]'), list_concat(a, b))"""


@dataclass(frozen=True, slots=True)
class Written:
    """One table as it was written."""

    view: str
    file: str
    rows: int


def write(
    moment: Moment, subject: Subject, candidates: Sequence[str], criteria: Sequence[str], into: Path
) -> list[Written]:
    """Writes the tables, each as `VIEW.parquet`.

    Args:
        candidates: those whose gates and evidence belong to it. criteria: those that judged it. into: a directory.

    Raises:
        TicError: a view cannot be read whole.
    """
    runs = listed(subject.runs)
    found = [_written(view, [moment.whole(view, "run_id", subject.runs)], into) for view in OF_RUNS]
    found += [_written(view, moment.ranges(view, _RUNS, runs, gather=how), into) for view, how in LONG.items()]
    found += [_written(view, [moment.whole(view, "candidate_id", candidates)], into) for view in OF_CANDIDATES]
    found.append(_written("criteria", [moment.whole("criteria", "criterion_id", criteria)], into))
    named = [str(row["pair"]) for row in moment.rows(_PAIRS, runs)]
    found += [_written(view, [moment.whole(view, "pair", named)], into) for view in OF_PAIRS]
    return sorted(found, key=lambda one: one.view)


def _written(view: str, pages: Sequence[Result] | Iterator[Result], into: Path) -> Written:
    path, rows = into / f"{view}.parquet", 0
    pages = iter(pages)
    first = next(pages)
    schema = schema_of(first)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        page: Result | None = first
        while page is not None:
            writer.write_table(
                pa.Table.from_arrays(
                    [
                        pa.array(column, field.type)
                        for column, field in zip(_columns(page, len(schema)), schema, strict=True)
                    ],
                    schema=schema,
                )
            )
            rows += len(page.rows)
            page = next(pages, None)
    return Written(view, f"tables/{path.name}", rows)


def _columns(page: Result, width: int) -> list[list[object]]:
    return [list(column) for column in zip(*page.rows, strict=True)] if page.rows else [[] for _ in range(width)]


def schema_of(found: Result) -> pa.Schema:
    """The Arrow schema of DuckDB's types by name."""
    return pa.schema([pa.field(name, _arrow(kind)) for name, kind in zip(found.columns, found.types, strict=True)])


@functools.cache
def _arrow(kind: str) -> pa.DataType:
    con = duckdb.connect(":memory:", config={"threads": 1})
    try:
        return con.execute(f"SELECT NULL::{kind} AS one LIMIT 0").to_arrow_table().schema[0].type
    finally:
        con.close()
