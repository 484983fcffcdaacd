"""Random lives of a results directory, with restarts: in the end each artifact is called what an oracle calls it.

The oracle reads the disk and remembers one thing: with which content each artifact was last found as it should be. It knows
nothing of stamps, queues or rows.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.results.test_archive import NOW, World, manifest, put

NAMES = ("a", "b", "d/c")
CONTENTS = (b"1", b"2", b"33")

step = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(CONTENTS)),
    st.tuples(st.just("touch"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("unlink"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("replace"), st.sampled_from(NAMES), st.sampled_from(CONTENTS)),
    st.tuples(st.just("name"), st.none(), st.dictionaries(st.sampled_from(NAMES), st.sampled_from(CONTENTS))),
    st.tuples(st.just("spoil"), st.none(), st.none()),
    st.tuples(st.just("drop"), st.none(), st.none()),
    st.tuples(st.just("look"), st.none(), st.booleans()),
)


class Oracle:
    """`written`: what the manifest on disk names, None if it cannot be read; `named`: what it named when it last could."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.written: dict[str, bytes] | None = {}
        self.named: dict[str, bytes] = {}
        self.kept: dict[str, bytes] = {}

    def states(self) -> dict[str, str]:
        out = {}
        if self.written is not None:
            self.named = self.written
        for name, meant in self.named.items():
            path = self.run / name
            data = path.read_bytes() if path.exists() else None
            if data is None:
                out[name] = "missing"
            elif data == meant:
                out[name] = "verified"
                self.kept[name] = meant
            elif name in self.kept and (data != self.kept[name] or len(data) != len(meant)):
                out[name] = "changed"
            else:
                out[name] = "differs"
        return out


@settings(max_examples=60)
@given(st.lists(step, max_size=14))
def test_any_life(steps: list[tuple[str, str | None, object]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        world = World(Path(place))
        run = world.root / "results" / "r1"
        oracle = Oracle(run)
        at = NOW - 90_000

        def look() -> None:
            world.look()
            assert world.states() == oracle.states()
            assert world.look() == [], "a look at what did not change told something"

        for action, name, value in [("name", None, dict.fromkeys(NAMES, b"1")), *steps, ("look", None, True)]:
            at += 1
            path = run / (name or "manifest.json")
            if action == "write":
                put(path, value, at)  # type: ignore[arg-type]
            elif action == "replace":
                put(run / "new", value, at)  # type: ignore[arg-type]
                path.parent.mkdir(parents=True, exist_ok=True)
                (run / "new").rename(path)
            elif action == "touch" and path.exists():
                os.utime(path, (at, at))
            elif action == "unlink":
                path.unlink(missing_ok=True)
            elif action == "name":
                oracle.written = dict(value)  # type: ignore[call-overload]
                manifest(run, dict(value), at)  # type: ignore[call-overload]
            elif action == "spoil" and path.exists():
                put(path, "{", at)
                oracle.written = None
            elif action == "drop":
                path.unlink(missing_ok=True)
                oracle.written = {}
            elif action == "look":
                look()
                if value:
                    world.again()
        rows = [row for row in world.rows if hasattr(row, "sha256") and row.sha256]
        for row in rows:
            assert row.sha256 in {hashlib.sha256(data).hexdigest() for data in CONTENTS}
