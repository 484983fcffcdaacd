"""One rank of a job under torchrun, with gloo: rank 2 raises what torch raises after an illegal access, the rest wait for it."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

ERROR = (
    "CUDA error: an illegal memory access was encountered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
)


def main() -> None:
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    print(f"step:1 - loss:{total.item()}", flush=True)
    if dist.get_rank() == 2:
        time.sleep(0.5)
        raise RuntimeError(ERROR)
    for _ in range(40):
        dist.all_reduce(total)
        time.sleep(0.25)


if __name__ == "__main__":
    main()
