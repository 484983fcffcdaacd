"""Sections of what the workspace of the other tests has none of: each query of a report given a row, of its own columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from tests.report.conftest import Workspace
from tic_daemon.report import compared, document, faults, html, markdown, pairs, record
from tic_daemon.report.model import Document, Section
from tic_daemon.report.moment import Moment, moment
from tic_daemon.store.reader import Reader, Result, open_reader

VALUES: dict[str, Any] = {
    "BIGINT": 3, "INTEGER": 3, "UBIGINT": 3, "DOUBLE": 0.5, "BOOLEAN": True, "VARCHAR": "said", "TIMESTAMP": datetime(2026, 11, 30, 12),
    "VARCHAR[]": ["said"], "BIGINT[]": [3], "INTEGER[]": [3], "MAP(VARCHAR, VARCHAR)": {"said": "said"},
}  # fmt: skip


class Filled:
    """A reader that gives a row where there is none."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def query(self, sql: str, params: Sequence[object] = (), **how: Any) -> Result:
        found = self._reader.query(sql, params, **how)
        return (
            found
            if found.rows and found.rows != [(0,)]
            else replace(found, rows=[tuple(VALUES[kind] for kind in found.types)])
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


@pytest.fixture(scope="module")
def filled(ws: Workspace) -> Iterator[Moment]:
    reader = open_reader(ws.root)
    yield moment(Filled(reader))  # type: ignore[arg-type]
    reader.close()


def told(*sections: Section) -> str:
    """As Markdown; that the page can be made of it, too, is all that is asked of that."""
    document = Document(("x",), sections)
    assert len(html.render(document)) > 1000
    return markdown.render(document)


def test_wandb(filled: Moment) -> None:
    text = told(record.steps(filled, "compared"))
    assert (
        "| W&B run" in text.replace("\\&", "&") and "### Gaps" in text and "**confirmed**" in text and "step 3" in text
    )


def test_state(filled: Moment) -> None:
    text = told(record.state(filled, "compared"))
    for title in ("Life of the weights", "Wrong with the weights", "Compiled after the measurement began"):
        assert f"### {title}" in text
    assert "| said | said | `said` | `said` |" in text, "a field as claimed and as observed"


def test_gaps(filled: Moment) -> None:
    text = told(record.evidence_gaps(filled, "compared"))
    assert "| said | `said` | 3 to 3 | said | 2026-11-30 12:00:00 |" in text and "### Artifacts" in text


def test_faults(filled: Moment) -> None:
    text = told(faults.section(filled, "ghost"))
    assert "Attempt 3 is **locked** by 3 faults; shown as first: said, `said` in `said:3`" in text
    assert (
        "| after the fault: kept, and no evidence | 3 |" in text and "Which fault was first is undecided: said" in text
    )
    assert "### Files that a fault left" in text and "**locks**: said" in text


def test_comparisons(filled: Moment) -> None:
    text = told(compared.section(filled, "compared"))
    for title in ("Layer traces", "Control groups", "Not compared"):
        assert f"### {title}" in text


def test_pairs(filled: Moment) -> None:
    (section,) = pairs.sections(filled, ["said"])
    text = told(section)
    assert "## Pair said" in text and "| 3 | said | said | `said` | `said` | said |" in text and "0.5 and 0.5" in text


def test_lamps(filled: Moment) -> None:
    lamps = {row["lamp"]: row for row in filled.of("lamps", "compared")}
    text = told(Section("s", (document._lamps(filled, ["compared"]),)))
    for name in ("execution", "consistency", "quality"):
        assert f"| {name} | {lamps[name]['state']}" in text.replace("**", "") and str(lamps[name]["because"])[
            :20
        ] in text.replace("\\", "")
