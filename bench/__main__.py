"""Run all benchmarks: `python -m bench [--megabytes N] [--only NAME]`."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from pathlib import Path

PARTS = ("ingest", "live", "live_read", "views", "screen", "wandb_local", "compare", "beside")


def main() -> int:
    """Print the report; the figures of the last full run are kept by hand in docs/performance.md."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the ingest file; default 1000")
    parser.add_argument("--only", choices=PARTS, help="one part only")
    parser.add_argument("--folder", type=Path, default=Path("bench-out"), help="where scratch files go")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"
    )
    for name in (args.only,) if args.only else PARTS:
        part = importlib.import_module(f"bench.{name}")
        lines = part.main(args.folder, args.megabytes) if name == "ingest" else part.main(args.folder)
        print("\n".join(lines), flush=True)
    return 0


sys.exit(main())
