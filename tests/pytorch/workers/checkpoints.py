"""Trains with checkpoints and goes on from the newest after a restart, told by torchrun's variables. Writes into the
folder that its argument names: ROUND.RANK.pid when a worker starts, step (the newest done), result (a hash of the
parameters). The last step waits for a file, so that a kill never comes too late."""

import datetime
import hashlib
import os
import pathlib
import sys
import time

folder = pathlib.Path(sys.argv[1])
steps = int(sys.argv[2])
restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
rank = int(os.environ["RANK"])


def write(name, text):
    """Whole or not at all, also for a reader."""
    part = folder / f"{name}.{os.getpid()}.part"
    part.write_text(text)
    part.replace(folder / name)


write(f"{restarts}.{rank}.pid", str(os.getpid()))  # before torch is imported, so that this can be interrupted, too

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.elastic.multiprocessing.errors import record  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def save(checkpoint):
    part = folder / f"checkpoint.{os.getpid()}.part"
    torch.save(checkpoint, part)
    part.replace(folder / "checkpoint")


@record
def main():
    assert restarts <= int(os.environ["TORCHELASTIC_MAX_RESTARTS"])
    assert os.environ["TORCHELASTIC_RUN_ID"] == "a run with checkpoints"
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(10, 30), torch.nn.ReLU(), torch.nn.Linear(30, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    done = 0
    if (folder / "checkpoint").exists():
        checkpoint = torch.load(folder / "checkpoint")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        done = checkpoint["step"]
        # All read it before rank 0 may write the next one.
        dist.barrier()
    assert restarts > 0 or done == 0
    for step in range(done + 1, steps + 1):
        while step == steps and not (folder / "may end").exists():
            time.sleep(0.005)
        source = torch.Generator().manual_seed(step * 100 + rank)
        inputs = torch.randn(16, 10, generator=source)
        optimizer.zero_grad()
        ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean().backward()
        optimizer.step()
        if rank == 0:
            if step % 3 == 0:
                save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step})
            write("step", str(step))
        time.sleep(0.01)
    dist.barrier()
    if rank == 0:
        digest = hashlib.sha256()
        for parameter in model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        write("result", digest.hexdigest())
    del model, optimizer
    dist.destroy_process_group()


main()
