"""Sums the ranks over gloo, and says where all met."""

import datetime
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
value = torch.tensor([float(dist.get_rank())])
dist.all_reduce(value)
dist.barrier()
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {value.item():g} at {os.environ['MASTER_ADDR']}, "
      f"gloo by {os.environ.get('GLOO_SOCKET_IFNAME', 'the name')}", flush=True)
