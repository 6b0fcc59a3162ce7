"""torch.distributed.rpc, which finds its peers in the store, too."""

import os

import torch
import torch.distributed.rpc as rpc

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
result = rpc.rpc_sync(f"worker{(rank + 1) % size}", torch.add, args=(torch.ones(2), rank))
rpc.shutdown()
print(f"rank {rank} of {size}: {result.tolist()}", flush=True)
