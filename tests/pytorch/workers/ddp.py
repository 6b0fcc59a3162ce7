"""DistributedDataParallel over gloo. Argument: env or tcp, how the group is found."""

import copy
import datetime
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LIMIT = datetime.timedelta(seconds=60)
FEATURES, SAMPLES = 12, 8


def join(method):
    if method == "env":
        dist.init_process_group("gloo", init_method="env://", timeout=LIMIT)
    else:
        address = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        dist.init_process_group("gloo", init_method=address, rank=int(os.environ["RANK"]),
                                world_size=int(os.environ["WORLD_SIZE"]), timeout=LIMIT)


def batch(rank, step):
    source = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(SAMPLES, FEATURES, generator=source), torch.randn(SAMPLES, 1, generator=source)


def loss_of(model, rank, step):
    inputs, targets = batch(rank, step)
    return ((model(inputs) - targets) ** 2).mean()


def gradients(model):
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def average_of_all_ranks(model, size, step):
    """What the gradients have to be: every rank's computed here, one after the other."""
    total = 0
    for rank in range(size):
        alone = copy.deepcopy(model)
        alone.zero_grad()
        loss_of(alone, rank, step).backward()
        total = total + gradients(alone)
    return total / size


assert dist.is_torchelastic_launched()
join(sys.argv[1])
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)  # so the ranks differ until rank 0's parameters are broadcast
network = torch.nn.Sequential(torch.nn.Linear(FEATURES, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1))
before = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
parallel = DistributedDataParallel(network, bucket_cap_mb=0.01)  # several buckets
if rank > 0:
    assert not torch.equal(before, torch.cat([p.detach().flatten() for p in network.parameters()]))
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05, momentum=0.9)
for step in range(4):
    expected = average_of_all_ranks(network, size, step)
    optimizer.zero_grad()
    loss_of(parallel, rank, step).backward()
    assert torch.allclose(gradients(network), expected, atol=1e-6), (step, (gradients(network) - expected).abs().max())
    optimizer.step()
mine = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
everyones = [torch.empty_like(mine) for _ in range(size)]
dist.all_gather(everyones, mine)
assert all(torch.equal(mine, other) for other in everyones)
dist.barrier()
del parallel, optimizer  # it holds the group; else its threads could live until the interpreter ends
dist.destroy_process_group()
# In one piece: an unbuffered print writes the end of the line by itself, and several workers share a stream here.
os.write(1, f"rank {rank} of {size}: equal parameters, averaged gradients\n".encode())
