"""DistributedDataParallel as its tutorial has it: a small network, gradients averaged over gloo."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)  # the ranks differ until rank 0's parameters are broadcast
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(10):
    source = torch.Generator().manual_seed(100 * step + rank)
    inputs = torch.randn(32, 20, generator=source)
    loss = ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss.detach())
    if rank == 0:
        print(f"RESULT step {step} loss {loss.item():.9g}\n", end="")
norm = sum(parameter.detach().double().norm().item() for parameter in model.parameters())
print(f"RESULT rank {rank} of {size} (local {os.environ['LOCAL_RANK']}): parameters {norm:.12g}\n", end="")
dist.barrier()
del model, optimizer
dist.destroy_process_group()
