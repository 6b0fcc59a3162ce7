"""A small GPT in plain PyTorch: DDP over gloo, a checkpoint after each step. It knows nothing of its launcher. Rank 0 appends
`ROUND STEP MONOTONIC_NS` to the file of its first argument after each step; the checkpoint is in that of the second."""

import os
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

WORDS, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 256, 64, 4, 2, 64, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.taken, self.given = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("later", torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), 1))

    def attend(self, x):
        q, k, v = (part.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in self.taken(x).split(WIDTH, 2))
        scores = q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5 + self.later
        return self.given((scores.softmax(-1) @ v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.first(x))
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        return self.head(self.blocks(self.words(tokens) + self.places(torch.arange(LENGTH))))


def main(record, checkpoint):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    done = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["step"]
    dist.barrier()  # all have read it
    while True:
        done += 1
        chance = numpy.random.default_rng([done, rank])
        tokens = torch.from_numpy(chance.integers(0, WORDS, (BATCH, LENGTH)))
        optimizer.zero_grad()
        functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
        optimizer.step()
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": done}, checkpoint + ".part")
            os.replace(checkpoint + ".part", checkpoint)
            with open(record, "a", encoding="utf-8") as file:
                file.write(f"{os.environ['TORCHELASTIC_RESTART_COUNT']} {done} {time.monotonic_ns()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
