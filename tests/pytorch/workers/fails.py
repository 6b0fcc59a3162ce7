"""A gloo group of which one rank fails in every round but the last: what met stale keys in a store that outlives a
round. The ranks come at different times, so that a fast one could read what a slow one wrote in the round before."""

import datetime
import os
import random
import sys
import time

import torch
import torch.distributed as dist

number, last = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["TORCHELASTIC_MAX_RESTARTS"])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
time.sleep(random.Random(1000 * number + rank).choice([0, 0, 0.02, 0.3]))
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
value = torch.tensor([number * 100.0 + rank])
dist.all_reduce(value)
assert value.item() == size * number * 100 + size * (size - 1) / 2, (number, value)
if number < last:
    if rank == number % size:
        sys.exit(3)
    time.sleep(100)  # until ddprun stops it
dist.barrier()
dist.destroy_process_group()
print(f"rank {rank} of {size}: round {number}", flush=True)
