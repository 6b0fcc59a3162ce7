"""A small GPT trained on generated text, as training scripts are written: options on the command line, DDP
with gradient accumulation, a cosine schedule, gradient clipping, evaluation and a checkpoint by rank 0."""

import argparse
import contextlib
import math
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--block", type=int, default=32)
parser.add_argument("--width", type=int, default=48)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--out", default="out")
options = parser.parse_args()


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.tokens, self.places = nn.Embedding(letters, options.width), nn.Embedding(options.block, options.width)
        self.blocks = nn.Sequential(*[Block(options.width) for _ in range(options.layers)])
        self.norm, self.head = nn.LayerNorm(options.width), nn.Linear(options.width, letters, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


dist.init_process_group("gloo")
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
is_first = rank == 0
torch.manual_seed(7)
words = ["one", "rank", "fails", "all", "others", "wait", "and", "then", "train", "again"]
text = " ".join(words[i] for i in torch.randint(len(words), (4000,), generator=torch.Generator().manual_seed(1)))
letters = sorted(set(text))
data = torch.tensor([letters.index(letter) for letter in text])
chance = torch.Generator().manual_seed(1000 + rank)


def batch():
    starts = torch.randint(len(data) - options.block - 1, (8,), generator=chance)
    return (torch.stack([data[i:i + options.block] for i in starts]),
            torch.stack([data[i + 1:i + 1 + options.block] for i in starts]))


model = DistributedDataParallel(GPT(len(letters)))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
accumulate = 2
for step in range(options.steps):
    for group in optimizer.param_groups:
        group["lr"] = 3e-3 * (0.1 + 0.45 * (1 + math.cos(math.pi * step / options.steps)))
    for micro in range(accumulate):
        with contextlib.nullcontext() if micro == accumulate - 1 else model.no_sync():
            loss = model(*batch()) / accumulate
            loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if is_first:
        print(f"RESULT iter {step}: loss {loss.item() * accumulate:.6f}, norm {norm.item():.6f}\n", end="")
with torch.no_grad():
    total = model.module(data[None, :options.block], data[None, 1:options.block + 1])
if is_first:
    os.makedirs(options.out, exist_ok=True)
    torch.save(model.module.state_dict(), os.path.join(options.out, "ckpt.pt"))
print(f"RESULT rank {rank} of {size}: val loss {total.item():.7f}\n", end="")
dist.barrier()
del model, optimizer
dist.destroy_process_group()
