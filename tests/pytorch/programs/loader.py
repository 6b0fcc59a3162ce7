"""A DataLoader with worker processes and a DistributedSampler, objects gathered from all ranks."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank = dist.get_rank()
samples = TensorDataset(torch.arange(40.0))
sampler = DistributedSampler(samples, seed=3)
loader = DataLoader(samples, batch_size=4, sampler=sampler, num_workers=2)
for epoch in range(2):
    sampler.set_epoch(epoch)
    mine = [batch.sum().item() for (batch,) in loader]
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, {"rank": rank, "sums": mine})
    print(f"RESULT rank {rank} epoch {epoch}: {everyones}\n", end="")
dist.barrier()
dist.destroy_process_group()
