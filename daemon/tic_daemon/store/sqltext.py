"""SQL files of the schema, with what several share: a line `-- include NAME` stands for `schema/shared/NAME`, and
`-- record fields` and `-- record patterns` for what record/fields.toml says, as a SELECT.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tic_daemon.record import fields

SCHEMA: Final = Path(__file__).with_name("schema")
_RECORD: Final = re.compile(r"^-- record (fields|patterns)$", re.MULTILINE)
_INCLUDE: Final = re.compile(r"^-- include ([\w.]+)$", re.MULTILINE)


def read(path: Path) -> str:
    """The file's text, with what it includes in place."""
    return filled(path.read_text("utf-8"))


def filled(text: str) -> str:
    """SQL with what it includes in place."""
    text = _INCLUDE.sub(lambda hit: (SCHEMA / "shared" / hit[1]).read_text("utf-8"), text)
    return _RECORD.sub(lambda hit: fields.as_sql(hit[1]), text)
