"""What is to be compared with what, and its name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path


def digest(*parts: object) -> str:
    """16 hex digits of texts and numbers."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def plain(path: str) -> str:
    """A path as whoever compares tells it."""
    return str(Path(path))


@dataclass(frozen=True, slots=True)
class Pair:
    """What is to be compared with what. `b` "": `a` holds both sides. `refused`: why it cannot be; else "".

    The other fields are as in `ComparisonConfig` and in table comparison_task; paths are absolute.
    """

    host: str
    root: str
    how: str
    a: str
    b: str = ""
    manifest: str = ""
    run: str = ""
    run_how: str = ""
    step: int | None = None
    tokens: str = ""
    repeats_a: tuple[str, ...] = ()
    repeats_b: tuple[str, ...] = ()
    control: str = ""
    variant: str = ""
    goal: str = "unknown"
    basis: str | None = None
    policy: str | None = None
    intervention: str | None = None
    criterion: str = ""
    planted: str = ""
    plant: str = ""
    refused: str = ""

    @property
    def task(self) -> str:
        """16 hex digits that name the pair, on every host and after every restart."""
        return digest(self.a, self.b, self.control, self.variant, self.plant, self.refused and self.how)

    @property
    def files(self) -> list[str]:
        """All that it reads."""
        named = (self.a, self.b, self.tokens, *self.repeats_a, *self.repeats_b)
        return [path for path in named if path]

    @property
    def claimed(self) -> list[str]:
        """Files of which a manifest may say something that decides the result."""
        return [path for path in (self.a, self.b, *self.repeats_a, *self.repeats_b) if path]

    @property
    def declaration(self) -> str:
        """All of it that decides the result besides the contents of files and the criterion."""
        said = asdict(self)
        for key in ("host", "root", "run_how", "refused", "criterion", "planted"):
            del said[key]
        return json.dumps(said, sort_keys=True)
