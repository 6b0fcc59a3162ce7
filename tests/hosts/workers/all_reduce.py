"""Sums the ranks over gloo, and prints where all met. With UNTIL_SIZE=N: again and again, until N ranks are there."""

import datetime
import os
import socket
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))


def sum_of_ranks():
    value = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(value)
    return value.item()


total = sum_of_ranks()
dist.barrier()
env = os.environ
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {total:g}, local rank {env['LOCAL_RANK']} of node "
      f"{env['GROUP_RANK']}/{env['GROUP_WORLD_SIZE']} on {socket.gethostname()}, at {env['MASTER_ADDR']}:{env['MASTER_PORT']}, "
      f"gloo by {env.get('GLOO_SOCKET_IFNAME', 'the name')}", flush=True)
while dist.get_world_size() < int(env.get("UNTIL_SIZE", "0")):
    time.sleep(0.1)
    sum_of_ranks()
# PyTorch 1.13 now and then aborts at exit with a group that is left.
dist.destroy_process_group()
