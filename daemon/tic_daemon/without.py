"""What a process of ours does without."""

from __future__ import annotations

import sys


class _Absent:
    """Finds nothing, and says of pandas that there is none before any directory is looked through."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        # Whoever asks importlib.util.find_spec whether there is pandas, as the W&B client does, expects None.
        if name == "pandas" and sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def pandas() -> None:
    """Keeps pandas out of this process, of which nothing needs it.

    DuckDB's client asks for it twice for each value that is handed to a statement: where it is missing, every directory
    of the path is looked through each time (0.1 ms; ten values took 1.5 ms, and take 0.4), and where it is installed it
    is loaded, with some 40 MB. For whole programs alone: who embeds us may want it.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _Absent())
