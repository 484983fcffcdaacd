"""Property tests try the same examples each time in `make test`, and new ones in `make test-all`.

A suite that gates a change must say of the same tree the same thing twice; looking for what nobody thought of is for
the runs that nobody waits for (TIC_THOROUGH, see `examples`).
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("the same each time", derandomize=True)
if not os.environ.get("TIC_THOROUGH"):
    settings.load_profile("the same each time")
