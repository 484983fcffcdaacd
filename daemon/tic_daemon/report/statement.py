"""The in-toto Statement (v1) of a bundle, over every other file of it by SHA-256. Whoever keeps it signs it.

It follows from bundle.json alone, byte for byte, so that it cannot say other than that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tic_daemon.report.shape import INDEX, PREDICATE_TYPE, STATEMENT_TYPE


def of(index: Mapping[str, Any], raw: bytes) -> bytes:
    """The statement.

    Args:
        index: what bundle.json says. raw: its bytes.
    """
    listed = [*((one["path"], one["sha256"]) for one in index["files"]), (INDEX, hashlib.sha256(raw).hexdigest())]
    predicate = {
        name: index[name] for name in ("format", "version", "made_by", "subject", "as_of", "stores", "missing")
    }
    said = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": path, "digest": {"sha256": digest}} for path, digest in sorted(listed)],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }
    return as_bytes(said)


def as_bytes(said: Mapping[str, Any]) -> bytes:
    """JSON as bundles hold it."""
    return (json.dumps(said, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")
