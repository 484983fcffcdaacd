"""What all tests share.

Property tests try the same examples each time in `make test`, and new ones in `make test-all`: a suite that gates a
change must say of the same tree the same thing twice; looking for what nobody thought of is for the runs that nobody
waits for (TIC_THOROUGH, see `examples`).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tic_daemon import without

TESTS = Path(__file__).resolve().parent

settings.register_profile("the same each time", derandomize=True)
if not os.environ.get("TIC_THOROUGH"):
    settings.load_profile("the same each time")

if sys.dont_write_bytecode:
    # Each worker would compile and rewrite hundreds of files of tests anew, at eight seconds of a core.
    sys.dont_write_bytecode = False
    # Hundreds of programs are started: each would compile a hundred modules, which an installed program never does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(TESTS.parent / ".pytest_cache" / "bytecode"))


if importlib.util.find_spec("pandas") is None:
    # DuckDB looks for it in every directory for each value of a statement: that was a quarter of the time of the screens.
    without.pandas()


@pytest.fixture(scope="module", autouse=True)
def _no_daemon_outlives_its_tests() -> Iterator[None]:
    """A daemon that a failed test left would take its part of the machine from all tests that follow."""
    yield
    if harness := sys.modules.get("tests.e2e.harness"):
        harness.end_all()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Where all tests are collected by several workers, each imports a part of the modules before the others.

    In a fresh checkout each module is compiled by whoever comes to it first. In one order all come to each at the same
    time, and all compile all of them, at ten seconds of a core each.
    """
    number, count = os.environ.get("PYTEST_XDIST_WORKER", ""), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if count < 2 or [Path(name).resolve() for name in session.config.args] != [TESTS]:
        return
    for path in sorted(TESTS.rglob("test_*.py"))[int(number.removeprefix("gw")) :: count]:
        # One that cannot be imported, or skips itself, is told of when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests, and property tests with all of their examples, may take their time: they are run beside other work, on
    machines of which nobody waits for them."""
    thorough = bool(os.environ.get("TIC_THOROUGH"))
    for item in items:
        if (thorough or item.get_closest_marker("slow")) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1500))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays to the end: looking through it for garbage took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
