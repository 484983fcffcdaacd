"""Whether one file holds both sides of a comparison: by its first bytes and keys, never by its name.

Only as much is read as tells it: the first line of JSON lines, the structure of a file of torch.save.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tic_daemon.compare import frameworks, plainfiles
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.torchfile import TorchFile
from tic_daemon.errors import CompareError

_LINES: Final = (("inference_logprobs", "prime-rl"), ("generation_logprobs", "nemo-rl"))
_BOTH: Final = ("slime", "miles", "miles-debug")
_HEAD: Final = 16


def both_sides(path: Path) -> str:
    """The reader of a file that holds both sides; "": it holds one, or is no dump at all."""
    try:
        with Opened(path) as file:
            head = bytes(file.read(0, min(file.size, _HEAD)))
            if head.startswith(b"PK\x03\x04"):
                root = TorchFile(file).root
                known = [name for name, is_it, _ in frameworks.TORCH_LAYOUTS if isinstance(root, dict) and is_it(root)]
                return known[0] if known and known[0] in _BOTH else ""
            if head.lstrip().startswith(b"{"):
                first = next(plainfiles.lines(file), {})
                return next((name for key, name in _LINES if key in first), "")
    except (CompareError, AttributeError, TypeError):  # whatever it is, it is no dump that is known to hold both
        return ""
    return ""
