"""What manifests say of files that are compared, told to the store whenever it is something else than the store has.

A comparison keeps what was said of its files when it was made (`comparison_file`, role said), and the view holds it
against what is told here. So a manifest may grow without taking anything away; and until it was looked at, what hangs
on it counts for nothing: the rows of manifests are told last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tic_daemon.comparisons.files import Contents
from tic_daemon.comparisons.pair import Pair, plain
from tic_daemon.results.safefile import RefusedError
from tic_daemon.store.comparison_rows import ComparisonSaidRow

KNOWN: Final = "SELECT path, arg_max(said, rec_id) FROM comparison_said WHERE host = ? GROUP BY path"
"""Of one host: what the store has."""
_REFUSED: Final = "refused"


class Sayings:
    """See the module. `known`: by path what the store has; taken over."""

    def __init__(self, host: str, known: dict[str, str]) -> None:
        self._host, self._known = host, known

    def news(self, made: Sequence[Pair], contents: Contents) -> list[ComparisonSaidRow]:
        """What is to be told after a look, of files of pairs and of those that were told of before."""
        files = {plain(path): (path, pair.root) for pair in made for path in pair.claimed}
        for path in self._known:
            if path not in contents.manifests:
                files.setdefault(path, (path, contents.root_of(path)))
        manifests = [row for row in contents.manifests.values() if row.present and row.kind in ("manifest", "meta")]
        said = [(name, _claim(contents, *where)) for name, where in files.items()]
        return list(self._other([*said, *((row.path, row.digest) for row in manifests)]))

    def _other(self, said: Iterable[tuple[str, str]]) -> Iterable[ComparisonSaidRow]:
        for path, now in said:
            if self._known.get(path, "") != now:
                self._known[path] = now
                yield ComparisonSaidRow(self._host, path, now)


def _claim(contents: Contents, path: str, root: str) -> str:
    try:
        return contents.claim(path, root)
    except RefusedError:
        return _REFUSED
