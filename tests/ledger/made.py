"""Ledgers for tests: entries as people and the daemon write them, and stores that hold them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tic_daemon.ledger import closure, criterion
from tic_daemon.ledger.canon import canonical
from tic_daemon.ledger.entries import Entry
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.writer import Writer

NOON = datetime(2026, 11, 30, 12, 0, 0)
BITWISE = 'metric = "bitwise"\ngoal = "cross_stack"\ngate = "zero_update"\ncell = "replay"\nplanted = "one bit"\n'


def entry(kind: str, number: int = 0, **said: Any) -> Entry:
    """An entry that is said `number` seconds after noon."""
    row_id = said.pop("id", hashlib.sha256(f"{kind}{number}{sorted(said.items())}".encode()).hexdigest()[:32])
    body = canonical(said.pop("body", {}))
    artifacts = canonical(said.pop("artifacts", []))
    return Entry(row_id, kind, NOON + timedelta(seconds=number), "ann", "h1", body=body, artifacts=artifacts, **said)


def frozen(text: str = BITWISE, number: int = 0) -> Entry:
    """A criterion."""
    found = criterion.parse(text.encode())
    return entry("criterion", number, criterion=found.sha256, body={"text": text, "path": "/c.toml", **found.as_json()})


def declared(
    name: str, number: int = 0, *, run: str = "", parent: str = "", fields: dict[str, str] | None = None, **body: Any
) -> Entry:
    """A candidate."""
    found = closure.of(fields if fields is not None else {"object.layers": name})
    said = {"name": name, "fields": dict(found.fields), **body}
    return entry("candidate", number, candidate=found.sha256, run_id=run, target=parent, body=said)


def sha(text: str) -> str:
    """A SHA-256 of something."""
    return hashlib.sha256(text.encode()).hexdigest()


def json_of(value: Any) -> str:
    """Canonical JSON as this file understands it, independent of the program."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@contextmanager
def store(path: Path, entries: Sequence[Entry] = ()) -> Iterator[Writer]:
    """A store with these rows in its chain."""
    writer = Writer.open(StoreLayout.find(path))
    try:
        if entries:
            writer.commit([], ledger=entries)
        yield writer
    finally:
        writer.close()


SHOWN = [{"path": "/closure.txt", "size": 5, "sha256": sha("c"), "host": "h1"}]
"""The file of a dependency closure, as an exemption with closure `sha("c")` names it."""
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ENTRIES = st.builds(
    Entry,
    id=st.uuids().map(lambda one: one.hex),
    kind=st.sampled_from(["case", "supersede", "baseline"]),
    said_at=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)),
    who=TEXT,
    host=TEXT,
    run_id=TEXT,
    attempt=st.none() | st.integers(1, 9),
    step=st.none() | st.integers(-5, 1 << 40),
    policy=TEXT,
    reason=TEXT,
    target=TEXT,
    body=st.dictionaries(TEXT, TEXT, max_size=2).map(canonical),
)
"""Rows for the chain, which asks for no meaning."""
