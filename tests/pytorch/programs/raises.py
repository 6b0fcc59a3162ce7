"""An exception on rank 1 in the middle of training; rank 0 waits for it in a collective."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(5):
    if dist.get_rank() == 1:
        print(f"RESULT step {step}\n", end="")
        if step == 2:
            raise ValueError("nan in the loss")
    dist.all_reduce(torch.ones(1))
    dist.barrier()
