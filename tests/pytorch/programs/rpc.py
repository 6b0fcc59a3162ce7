"""torch.distributed.rpc: every worker calls the next one."""

import os

import torch
import torch.distributed.rpc as rpc

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
answer = rpc.rpc_sync(f"worker{(rank + 1) % size}", torch.add, args=(torch.ones(2), rank))
print(f"RESULT rank {rank} of {size}: {answer.tolist()}\n", end="")
rpc.shutdown()
