"""What a bundle looks like: names of its parts, its version, and the bounds within which one is read.

bundle.json             what is here, with size and SHA-256 of each file
statement.json          the in-toto Statement over all files, bundle.json among them
report.md report.html   what people read; plots/NAME.svg
tables/VIEW.parquet     rows of the public views
ledger/STORE.jsonl      the chain of each store, whole, a row a line
criteria/SHA256.toml    criteria as they were frozen
files/SHA256            manifests, closures, reports of comparisons, and dumps if asked for, as their bytes are
"""

from __future__ import annotations

import re
from typing import Final

FORMAT: Final = "tic-bundle"
VERSION: Final = 1
INDEX: Final = "bundle.json"
STATEMENT: Final = "statement.json"
REPORTS: Final = ("report.md", "report.html")
NAME: Final = re.compile(
    r"bundle\.json|statement\.json|report\.(md|html)|plots/[a-z0-9-]{1,40}\.svg|tables/[a-z_]{1,40}\.parquet"
    r"|ledger/[0-9a-zA-Z_-]{1,64}\.jsonl|criteria/[0-9a-f]{64}\.toml|files/[0-9a-f]{64}"
)
"""What a file of a bundle may be called; so no name leads anywhere, and each fits the header of a tar."""
FILES: Final = 100_000
INDEX_BYTES: Final = 64 << 20
LINE_BYTES: Final = 16 << 20
"""Of one row of a ledger; what a row says is two megabytes at most, six times that in escapes."""
PREDICATE_TYPE: Final = "https://github.com/tic-tui/tic-tui/blob/main/docs/reference/bundle.md#predicate-v1"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
TOGETHER: Final = "the hash of these hashes, a line each"
"""Of several receipts a row of the ledger names one hash: that of their hashes in order."""
NOT_ASKED: Final = "not asked for"
"""Why a dump is not in a bundle that was made without `--artifacts`."""
