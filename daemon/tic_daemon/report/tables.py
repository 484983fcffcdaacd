"""The views of a run or a candidate as Parquet: the rows that belong to it, of the report's moment.

Rows come through the reader, live or not, of one store or of several, and are written with the types that DuckDB names,
in one order: the same rows give the same file.
"""

from __future__ import annotations

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
    "timings", "coverage", "liveness", "sources", "wandb_runs", "wandb_gaps", "comparisons", "trace_first_divergence",
    "control_groups", "comparison_queue", "artifacts", "manifests", "evidence_gaps", "run_records", "run_fingerprints",
    "record_values", "lamps", "fault_files", "checkpoints", "transport_sets", "compiles", "bench_marks", "env_pins",
)  # fmt: skip
LONG: Final = {
    "faults": "", "mismatches": SINGLE, "metrics": SINGLE, "exec_states": SINGLE, "weight_lifecycle": SINGLE,
    "comparison_sequences": "", "comparison_tokens": "", "trace_boundaries": "",
}  # fmt: skip
"""Views that grow without end, read in ranges, and how the answers of several stores become one."""
OF_CANDIDATES: Final = ("candidates", "gates", "evidence_current", "cases", "baselines")
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
    found += [
        _written(view, [moment.whole(view, "pair", named)], into) for view in ("pairs", "pair_rules", "pair_values")
    ]
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
    asked = ", ".join(f'NULL::{kind} AS "c{number}"' for number, kind in enumerate(found.types))
    con = duckdb.connect(":memory:", config={"threads": 1})
    try:
        kinds = con.execute(f"SELECT {asked} LIMIT 0").to_arrow_table().schema
    finally:
        con.close()
    return pa.schema([pa.field(name, field.type) for name, field in zip(found.columns, kinds, strict=True)])
