"""A main function under @record that raises on rank 1; rank 0 waits for it in a collective."""

import os

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    print(f"RESULT rank {os.environ['RANK']} begins\n", end="")
    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        raise ValueError("the learning rate is nan")
    dist.all_reduce(torch.ones(1))


main()
