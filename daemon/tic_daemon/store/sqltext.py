"""SQL files of the schema, with what several share: a line `-- include NAME` stands for `schema/shared/NAME`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SCHEMA: Final = Path(__file__).with_name("schema")
_INCLUDE: Final = re.compile(r"^-- include ([\w.]+)$", re.MULTILINE)


def read(path: Path) -> str:
    """The file's text, with what it includes in place."""
    return _INCLUDE.sub(lambda hit: (SCHEMA / "shared" / hit[1]).read_text("utf-8"), path.read_text("utf-8"))
