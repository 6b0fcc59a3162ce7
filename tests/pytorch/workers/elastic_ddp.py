"""A DDP job that goes on after failures, and has no checkpoint: a worker that is new gets the state from one that was kept.

elastic_ddp.py FOLDER STEPS [with|except] [SECONDS]: how the rounds are written, and how long each step takes at least. Each rank
appends `step loss round` to FOLDER/losses.RANK after each step, and its pid to FOLDER/pids. The data of a step depend on the step
and the rank alone, so the losses do not depend on what was interrupted.
"""

import os
import pathlib
import sys
import time

folder = pathlib.Path(sys.argv[1])
steps = int(sys.argv[2])
form = sys.argv[3] if len(sys.argv) > 3 else "with"
pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0


def append(name, text):
    with open(folder / name, "a", encoding="utf-8") as file:
        file.write(text + "\n")  # one write


append("pids", f"{os.environ['RANK']} {os.getpid()}")  # before torch is imported, so that this can be interrupted, too

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from ddprun import elastic  # noqa: E402

torch.manual_seed(1)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
done = 0


def train(round):
    global done
    append("rounds", f"{round.number} {round.rank} {os.getpid()} {'new' if round.is_new else 'kept'} {round.source_rank}")
    if not round.is_new:
        round.check(done)
    dist.init_process_group("gloo")
    assert (dist.get_rank(), dist.get_world_size()) == (round.rank, round.world_size)
    done = round.share(done, model, optimizer, schedule)
    # So DDP does not order its buckets anew after its first step, and sums are the same to the last bit in each round.
    parallel = DistributedDataParallel(model, find_unused_parameters=True)
    while done < steps:
        chance = torch.Generator().manual_seed(done * 1000 + round.rank)
        inputs = torch.randn(16, 10, generator=chance)
        optimizer.zero_grad()
        loss = ((parallel(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        done += 1
        append(f"losses.{round.rank}", f"{done} {loss.item().hex()} {round.number}")
        round.check(done)
        if pause:
            time.sleep(pause)
    dist.barrier()
    return parallel


if form == "with":
    for one in elastic.rounds():
        with one:
            train(one)
else:
    for one in elastic.rounds():
        try:
            train(one)
        except elastic.Interrupted:
            continue
        except RuntimeError as error:
            if not one.interrupted_by(error):
                raise
append(f"parameters.{os.environ['RANK']}", str([value.double().sum().item().hex() for value in model.parameters()]))
dist.destroy_process_group()
