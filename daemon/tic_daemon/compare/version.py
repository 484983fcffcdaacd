"""Which comparing this is."""

from __future__ import annotations

from typing import Final

COMPARATOR: Final = 4
"""Version of everything that a number or a verdict depends on. A planted error proves a criterion for one version."""
