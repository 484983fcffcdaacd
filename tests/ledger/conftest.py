"""One store for the tests of gates and proofs: each has runs and candidates of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ledger.made import BITWISE
from tests.ledger.test_gates import World
from tic_daemon.scan.rules import RuleSet
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.writer import Writer


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    writer = Writer.open(StoreLayout.find(tmp_path_factory.mktemp("ws")))
    writer.put_fault_rules(RuleSet.load([]).fault_rules())
    found = World(writer)
    found.freeze(BITWISE)
    found.prepare(60)
    yield found
    writer.close()
