"""How many examples a heavy property test tries: a third in `make test`, all of them in `make test-all`."""

from __future__ import annotations

import os


def examples(number: int) -> int:
    """`number` where TIC_THOROUGH is set, else a third of it, at least 1."""
    return number if os.environ.get("TIC_THOROUGH") else max(1, number // 3)
