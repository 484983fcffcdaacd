"""Receipts of workers, for evidence: which of them a row rests on, and which hashes it names.

Manifest hash, policy content id and receipt hash answer three questions, and are three fields. What a receipt says of
shards is held against verified files by view `receipt_shards`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import duckdb

_OF: Final = """
SELECT run_id, host, path, sha256, coalesce(size, 0), role, coalesce(policy_content_id, ''), coalesce(policy, '')
FROM i_receipt WHERE list_contains(?, run_id) ORDER BY path, host
"""


@dataclass(frozen=True, slots=True)
class Receipt:
    """One receipt of a run. `role`: trainer, rollout or "". `content`, `policy`: the policy content id and version that
    it names; ""."""

    host: str
    path: str
    sha256: str
    size: int
    role: str
    content: str
    policy: str

    def fits(self, policy: str) -> bool:
        """Whether it may be of this policy version."""
        return self.policy in ("", policy)


def of_runs(con: duckdb.DuckDBPyConnection, runs: Sequence[str]) -> dict[str, list[Receipt]]:
    """The receipts of runs, by run."""
    found: dict[str, list[Receipt]] = {}
    for run, *values in con.execute(_OF, [list(runs)]).fetchall():
        found.setdefault(str(run), []).append(Receipt(*values))
    return found


def content_of(receipts: Sequence[Receipt]) -> str:
    """The policy content id that they name; "" if none or several."""
    named = {one.content for one in receipts if one.content}
    return named.pop() if len(named) == 1 else ""


def sha256_of(receipts: Sequence[Receipt]) -> str:
    """The hash of the rollout's receipt; of several, that of their hashes in order, a line each; "" of none."""
    hashes = sorted({one.sha256 for one in receipts if one.role == "rollout"})
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest() if hashes else ""
