"""gpt.py with ddprun.elastic: workers that have not failed go on, and no checkpoint is written. It takes the arguments of gpt.py."""

import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from ddprun import elastic
from gpt import BATCH, LENGTH, WORDS, Model

torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
done = 0


def train(round, record):
    global done
    if not round.is_new:
        round.check(done)
    dist.init_process_group("gloo")
    done = round.share(done, model, optimizer)
    parallel = DistributedDataParallel(model)
    while True:
        chance = numpy.random.default_rng([done + 1, round.rank])
        tokens = torch.from_numpy(chance.integers(0, WORDS, (BATCH, LENGTH)))
        optimizer.zero_grad()
        functional.cross_entropy(parallel(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
        optimizer.step()
        done += 1
        round.check(done)
        if round.rank == 0:
            with open(record, "a", encoding="utf-8") as file:
                file.write(f"{round.restart_count} {done} {time.monotonic_ns()}\n")


for one in elastic.rounds():
    with one:
        train(one, sys.argv[1])
