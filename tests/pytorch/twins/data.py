"""The data of `train` in PyTorch: IDX files, their normalisation, and the order of samples (docs/trainer.md)."""

import struct

import torch
from folder import HELD_OUT, TRAIN


def read_idx(path):
    data = bytearray(path.read_bytes())
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4:4 + 4 * rank])
    return torch.frombuffer(data, dtype=torch.uint8, offset=4 + 4 * rank).reshape(shape)


class Data:
    """Both sets of a folder, normalised by the mean and deviation of the one for training. Targets are labels or masks."""

    def __init__(self, folder, masked=False, channels_last=False):
        pixels = {name: read_idx(folder / f"{name}-images-idx3-ubyte") for name in (TRAIN, HELD_OUT)}
        self.shape = (*pixels[TRAIN].shape[1:], 1)[:3]
        channels = self.shape[2]
        of_channels = pixels[TRAIN].reshape(-1, channels).double() / 255
        mean = of_channels.mean(0).float()
        deviation = of_channels.std(0, unbiased=False).float()
        self.images, self.targets = {}, {}
        layout = torch.channels_last if channels_last else torch.contiguous_format
        for name, read in pixels.items():
            images = (read.reshape(-1, *self.shape).float() / 255 - mean) / deviation
            self.images[name] = images.permute(0, 3, 1, 2).contiguous(memory_format=layout)
            if masked:
                self.targets[name] = read_idx(folder / f"{name}-masks-idx3-ubyte").float() / 255
            else:
                self.targets[name] = read_idx(folder / f"{name}-labels-idx1-ubyte").long()

    def batch(self, name, indices):
        return self.images[name][indices], self.targets[name][indices]

    def count(self, name):
        return len(self.targets[name])


class Order:
    """Which samples each shard gets in each step: those of DistributedSampler and DataLoader, shards as replicas."""

    def __init__(self, samples, shards, batch, seed):
        self.samples, self.shards, self.batch, self.seed = samples, shards, batch, seed
        self.of_shard = -(-samples // shards)
        self.steps = -(-self.of_shard // batch)  # of one epoch

    def indices(self, step):
        """A list for each shard."""
        epoch, block = divmod(step, self.steps)
        permutation = torch.randperm(self.samples, generator=torch.Generator().manual_seed(self.seed + epoch)).tolist()
        padded = (permutation * self.shards)[:self.of_shard * self.shards]
        return [padded[shard::self.shards][block * self.batch:(block + 1) * self.batch] for shard in range(self.shards)]
