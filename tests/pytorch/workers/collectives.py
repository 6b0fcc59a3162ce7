"""What scripts use of torch.distributed besides DDP, over gloo: barriers, objects, groups, the sampler."""

import datetime
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()

if rank == 0:
    time.sleep(0.3)
    left_by_rank_0 = time.monotonic()
dist.barrier()
passed = [time.monotonic()] * size
dist.all_gather_object(passed, passed[rank])
if rank == 0:
    assert min(passed) >= left_by_rank_0, "a rank passed the barrier before rank 0 came"

objects = [None] * size
dist.all_gather_object(objects, {"rank": rank, "text": "x" * (10 + rank)})
assert objects == [{"rank": other, "text": "x" * (10 + other)} for other in range(size)], objects
sent = [{"from": 0, "to": "all"}] if rank == 0 else [None]
dist.broadcast_object_list(sent, src=0)
assert sent == [{"from": 0, "to": "all"}], sent

for members in ([0, 1], list(range(size)), [size - 1]):
    group = dist.new_group(members)
    if rank in members:
        value = torch.tensor([float(rank)])
        dist.all_reduce(value, group=group)
        assert value.item() == sum(members), (members, value)
        dist.barrier(group=group)

dist.monitored_barrier(timeout=datetime.timedelta(seconds=30))

data = TensorDataset(torch.arange(103))
sampler = DistributedSampler(data, shuffle=True, seed=7)
loader = DataLoader(data, batch_size=5, sampler=sampler, num_workers=1)
orders = []
for epoch in range(2):
    sampler.set_epoch(epoch)
    mine = [int(sample) for (samples,) in loader for sample in samples]
    everyones = [None] * size
    dist.all_gather_object(everyones, mine)
    assert len({len(samples) for samples in everyones}) == 1
    assert set().union(*everyones) == set(range(103))
    orders.append(mine)
assert orders[0] != orders[1]
# Last, since gloo gives up its connections over it: rank 1 stays away, and the error of rank 0 names it.
if rank != 1:
    try:
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=1 if rank == 0 else 20))
    except RuntimeError as error:
        if rank == 0:
            assert "Rank 1 failed to pass monitoredBarrier" in str(error), error
    else:
        raise AssertionError("monitored_barrier passed without rank 1")
else:
    time.sleep(2)
print(f"rank {rank} of {size}: collectives", flush=True)
