"""FSDP2: `fully_shard` on a device mesh of CPUs."""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
rank = dist.get_rank()
torch.manual_seed(5)
model = torch.nn.Sequential(torch.nn.Linear(24, 48), torch.nn.ReLU(), torch.nn.Linear(48, 1))
for layer in model:
    if isinstance(layer, torch.nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(6):
    source = torch.Generator().manual_seed(100 * step + rank)
    inputs = torch.randn(16, 24, generator=source)
    loss = (model(inputs) - inputs.mean(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"RESULT rank {rank} step {step} loss {loss.item():.9g}\n", end="")
full = sum(parameter.full_tensor().double().norm().item() for parameter in model.parameters())
print(f"RESULT rank {rank} parameters {full:.12g}\n", end="")
dist.barrier()
del model, optimizer
dist.destroy_process_group()
