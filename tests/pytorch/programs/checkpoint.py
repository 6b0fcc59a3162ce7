"""torch.distributed.checkpoint: every rank saves its part of a sharded model, and a fresh model loads them."""

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
rank = dist.get_rank()


def model_of(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(10, 30), torch.nn.Linear(30, 2))
    fully_shard(model, mesh=mesh)
    return model


saved, loaded = model_of(1), model_of(2)
dcp.save({"model": saved.state_dict()}, checkpoint_id="saved")
state = {"model": loaded.state_dict()}
dcp.load(state, checkpoint_id="saved")
loaded.load_state_dict(state["model"])
equal = all(torch.equal(a.full_tensor(), b.full_tensor()) for a, b in zip(saved.parameters(), loaded.parameters()))
files = sorted(name for name in os.listdir("saved"))
print(f"RESULT rank {rank}: loaded equals saved: {equal}, files {files}\n", end="")
dist.barrier()
del saved, loaded, state
dist.destroy_process_group()
