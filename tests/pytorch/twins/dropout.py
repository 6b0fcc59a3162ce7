"""Dropout with the masks of `train` (trainer/compute/dropout_ops.hpp): words of Philox 4x32-10, counted by element."""

import math

import torch
from torch import nn

KEY = 0x64726F70
LOW = 0xFFFFFFFF


def philox(counter, key):
    """Four words for each counter. 64-bit products wrap, but every bit of them is there."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        first, second = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (second >> 32 & LOW) ^ c1 ^ k0, second & LOW, (first >> 32 & LOW) ^ c3 ^ k1, first & LOW
        k0, k1 = k0 + 0x9E3779B9 & LOW, k1 + 0xBB67AE85 & LOW
    return torch.stack((c0, c1, c2, c3), 1)


def blocks(shape, whole):
    """The numbers of the blocks of four elements of `shape`, where the first dimension counts samples, among samples of the
    shape `whole`. The last dimension of both is a multiple of four."""
    found = torch.arange(shape[0])
    for count, room in zip((*shape[1:-1], shape[-1] // 4), (*whole[:-1], whole[-1] // 4)):
        found = found[..., None] * room + torch.arange(count)
    return found.reshape(-1)


class Dropout(nn.Module):
    """The model's `number`-th dropout, of values or of whole channels. `place` is set before each forward pass."""

    def __init__(self, probability, number, whole_channels=False):
        super().__init__()
        self.probability = probability
        self.number = number
        self.whole_channels = whole_channels
        self.seed, self.step, self.shard = 0, 0, 0

    def place(self, seed, step, shard):
        self.seed, self.step, self.shard = seed, step, shard

    def forward(self, x, whole=None):
        """`whole`: the shape of a sample with all positions, among which its elements are numbered; None: its own."""
        if not self.training or self.probability == 0:
            return x
        shape = (*x.shape[:2], 1, 1) if self.whole_channels else x.shape
        count = math.prod(shape)
        block = torch.arange(-(-count // 4)) if whole is None else blocks(shape, whole)
        constant = [torch.full_like(block, word) for word in (self.number << 16 | self.shard, self.step & LOW, self.step >> 32)]
        words = philox((block, *constant), (self.seed & LOW, self.seed >> 32 ^ KEY)).reshape(-1)[:count]
        kept = (words >> 8).float() / 2**24 >= self.probability
        return x * kept.reshape(shape) * (1 / (1 - self.probability))
