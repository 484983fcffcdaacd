"""A W&B server for tests: the real client reads from it and uploads to it, over loopback, without an account.

    with WandbServer() as server:
        run = server.add_run("lab/grpo/a1", rows)          # or let the client upload: environment in `server.env(...)`
        server.faults.append(Fault("HistoryPage", Status(429, {"Retry-After": "1"}), times=2))

    runs.py      what the server holds of a run, and how it tells it: order, duplicates, spellings of NaN, exports
    graphql.py   answers to the operations that the client sends
    faults.py    what can go wrong on the way
    server.py    HTTP

Where nothing is known of the real server's behaviour there is a switch, and its default is said with it.
"""

from tests.wandb_server.faults import (
    Close,
    Cut,
    Edit,
    Fault,
    Hang,
    Lose,
    Raw,
    Status,
    graphql_errors,
    no_history,
    no_history_keys,
    no_live_data,
    no_project,
    only_rows,
)
from tests.wandb_server.runs import Run
from tests.wandb_server.server import WandbServer

__all__ = [
    "Close",
    "Cut",
    "Edit",
    "Fault",
    "Hang",
    "Lose",
    "Raw",
    "Run",
    "Status",
    "WandbServer",
    "graphql_errors",
    "no_history",
    "no_history_keys",
    "no_live_data",
    "no_project",
    "only_rows",
]
