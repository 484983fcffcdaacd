"""A driver with three actors that print what a trainer's workers print; actor 1 fails as a CUDA context does.

    python ray_job.py DIRECTORY

Ray's session lies in DIRECTORY. After the fault the console is closed, and the other actors go on for three steps.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import ray

ERROR = """\
[rank{0}]: Traceback (most recent call last):
[rank{0}]:   File "/srv/train.py", line 402, in update
[rank{0}]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered
[rank{0}]: CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace might be incorrect.
"""


@ray.remote(max_restarts=0)
class WorkerDict:
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def pid(self) -> int:
        return os.getpid()

    def step(self, step: int) -> None:
        print(f"step:{step} - actor/grad_norm:0.1", flush=True)

    def fail(self) -> None:
        print(ERROR.format(self.rank), end="", file=sys.stderr, flush=True)
        time.sleep(1)  # what is forwarded is read from the file while the process lives
        os.kill(os.getpid(), signal.SIGABRT)


def main() -> None:
    ray.init(num_cpus=3, include_dashboard=False, _temp_dir=sys.argv[1])
    workers: list[Any] = [WorkerDict.options(num_cpus=1).remote(rank) for rank in range(3)]  # type: ignore[attr-defined]
    print("workers", *ray.get([worker.pid.remote() for worker in workers]), flush=True)
    for step in (1, 2):
        ray.get([worker.step.remote(step) for worker in workers])
    time.sleep(1)
    try:
        ray.get(workers[1].fail.remote())
    except ray.exceptions.RayActorError as error:
        print(f"ray.exceptions.{type(error).__name__}: {error}", flush=True)
    time.sleep(3)  # until what Ray holds back is forwarded
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for step in (3, 4, 5):
        time.sleep(1)
        ray.get([workers[rank].step.remote(step) for rank in (0, 2)])
    ray.shutdown()


if __name__ == "__main__":
    main()
