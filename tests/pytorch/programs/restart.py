"""DDP with a checkpoint after each step; in the first attempt rank 1 is killed in the middle, as the memory killer does.
The next attempt goes on from the checkpoint, so the result is that of an undisturbed run."""

import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(3)
model = DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
first_step = 0
if os.path.exists("checkpoint.pt"):
    saved = torch.load("checkpoint.pt")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first_step = saved["step"]
dist.barrier()
for step in range(first_step, 12):
    source = torch.Generator().manual_seed(100 * step + rank)
    optimizer.zero_grad()
    model(torch.randn(8, 16, generator=source)).square().sum().backward()
    optimizer.step()
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, "part.pt")
        os.replace("part.pt", "checkpoint.pt")
    dist.barrier()
    if attempt == 0 and rank == 1 and step == 6:
        os.kill(os.getpid(), signal.SIGKILL)
norm = model.module.weight.detach().double().norm().item()
print(f"rank {rank}: attempt {attempt}\n", end="")
print(f"RESULT rank {rank}: from step {first_step}, weights {norm:.12g}\n", end="")
dist.barrier()
del model, optimizer
dist.destroy_process_group()
