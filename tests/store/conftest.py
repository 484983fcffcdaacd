"""A workspace whose store has the base views alone: what the public views say is tested under tests/evidence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tic_daemon.store import migrate
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.writer import Writer


@pytest.fixture(scope="session")
def base_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    schema = tmp_path_factory.mktemp("schema") / "schema"
    shutil.copytree(migrate.SCHEMA, schema)
    for view in (schema / "views").glob("[1-9]*.sql"):
        view.unlink()
    return schema


@pytest.fixture(autouse=True)
def _base_schema_only(monkeypatch: pytest.MonkeyPatch, base_schema: Path) -> None:
    monkeypatch.setattr(migrate, "SCHEMA", base_schema)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
def open_writer(workspace: Path) -> Iterator[Callable[[], Writer]]:
    """Opens the workspace's store; whatever is still open is closed at the end."""
    opened: list[Writer] = []

    def opener() -> Writer:
        writer = Writer.open(StoreLayout.find(workspace))
        opened.append(writer)
        return writer

    yield opener
    for writer in opened:
        writer.close()
