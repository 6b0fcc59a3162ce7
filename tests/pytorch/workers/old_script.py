"""A script of the days of `python -m torch.distributed.launch`: it gets its local rank as an argument."""

import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--world_size", type=int, default=0)
args = parser.parse_args()

dist.init_process_group(backend="gloo", init_method="env://")
args.world_size = dist.get_world_size()
value = torch.ones(1) * args.local_rank
dist.all_reduce(value)
assert args.local_rank == int(os.environ["LOCAL_RANK"])
print(f"local rank {args.local_rank} of {args.world_size}: lr {args.lr}, sum {value.item():g}", flush=True)
