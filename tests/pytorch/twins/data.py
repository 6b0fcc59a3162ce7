"""The data of `train` in PyTorch: IDX files, their normalisation, and the order of samples (docs/trainer.md)."""

import struct

import torch
from safetensors_file import bytes_of

CLASSES = 10
TRAIN, HELD_OUT = "train", "t10k"


def read_idx(path):
    data = bytearray(path.read_bytes())
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4:4 + 4 * rank])
    return torch.frombuffer(data, dtype=torch.uint8, offset=4 + 4 * rank).reshape(shape)


def write_idx(path, tensor):
    path.write_bytes(struct.pack(f">4B{tensor.dim()}I", 0, 0, 8, tensor.dim(), *tensor.shape) + bytes_of(tensor))


def write_folder(folder, shape, counts):
    """Pictures of noise with a bright band at the height that is the label: something to learn in a few steps."""
    random = torch.Generator().manual_seed(1)
    folder.mkdir(parents=True)
    height, width, channels = shape
    for name, count in zip((TRAIN, HELD_OUT), counts):
        labels = torch.randint(CLASSES, (count,), generator=random, dtype=torch.uint8)
        labels[0] = CLASSES - 1  # `train` takes the number of classes from the greatest label
        images = torch.randint(180, (count, height, width, channels), generator=random, dtype=torch.uint8)
        for image, label in zip(images, labels.tolist()):
            image[label * height // CLASSES:(label + 2) * height // CLASSES] += 70
        write_idx(folder / f"{name}-images-idx3-ubyte", images)
        write_idx(folder / f"{name}-labels-idx1-ubyte", labels)


class Data:
    """Both sets of a folder, normalised by the mean and deviation of the one for training."""

    def __init__(self, folder):
        pixels = {name: read_idx(folder / f"{name}-images-idx3-ubyte") for name in (TRAIN, HELD_OUT)}
        self.shape = (*pixels[TRAIN].shape[1:], 1)[:3]
        channels = self.shape[2]
        of_channels = pixels[TRAIN].reshape(-1, channels).double() / 255
        mean = of_channels.mean(0).float()
        deviation = of_channels.std(0, unbiased=False).float()
        self.images = {}
        for name, read in pixels.items():
            images = (read.reshape(-1, *self.shape).float() / 255 - mean) / deviation
            self.images[name] = images.permute(0, 3, 1, 2).contiguous()
        self.labels = {name: read_idx(folder / f"{name}-labels-idx1-ubyte").long() for name in (TRAIN, HELD_OUT)}

    def batch(self, name, indices):
        return self.images[name][indices], self.labels[name][indices]


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
