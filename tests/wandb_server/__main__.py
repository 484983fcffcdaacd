"""`python -m tests.wandb_server STEPS KEYS`: a server in a process of its own, with one run lab/grpo/large, until killed.

Its memory is not the reader's, so measurements use it. The first line that it prints is its URL.
"""

from __future__ import annotations

import sys
import threading

from tests.wandb_server.server import WandbServer


def main() -> None:
    steps, keys = int(sys.argv[1]), int(sys.argv[2])
    with WandbServer() as server:
        names = [f"train/metric_{n}" for n in range(keys)]
        server.add_run(
            "lab/grpo/large",
            (
                {"_step": step, "_timestamp": 1.7e9 + step, **{name: step / (n + 1.5) for n, name in enumerate(names)}}
                for step in range(steps)
            ),
        )
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
