"""What some tests need and not every machine has. It is looked for, and loaded only by who uses it."""

from __future__ import annotations

import importlib.util

import pytest


def wandb_client() -> None:
    """Skips the test, or the module, where the W&B client is not installed.

    A client that is there and cannot be loaded fails whoever starts it. To load it takes over a second of a core, and
    each process that collects the tests would.
    """
    if importlib.util.find_spec("wandb") is None:
        pytest.skip("the W&B client is not installed", allow_module_level=True)
