"""The data of `train` in PyTorch: IDX files, their preparation, and the order of samples (docs/trainer.md)."""

import struct

import torch
from dropout import LOW, philox
from folder import HELD_OUT, TRAIN
from torch.nn import functional

WINDOW_KEY = 0x77696E64


def read_idx(path):
    data = bytearray(path.read_bytes())
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4:4 + 4 * rank])
    return torch.frombuffer(data, dtype=torch.uint8, offset=4 + 4 * rank).reshape(shape)


class Crop:
    """--crop=HEIGHTxWIDTH+PADDING and --flip: the steps of torchvision's RandomCrop(padding=), RandomHorizontalFlip and
    CenterCrop, with the chance of `train` (trainer/compute/image_windows.hpp). Images are channels x rows x columns, from 0
    to 1."""

    def __init__(self, crop, flip, seed):
        self.flip, self.seed, self.size, self.padding = flip, seed, None, 0
        if crop is not None:
            size, _, padding = crop.partition("+")
            height, _, width = size.partition("x")
            self.size, self.padding = (int(height), int(width or height)), int(padding or 0)

    def windows(self, samples, epoch, image_sides):
        """A row, a column and whether it is flipped, for each sample."""
        counter = [torch.as_tensor(samples), *(torch.full((len(samples),), word) for word in (0, epoch & LOW, epoch >> 32))]
        words = philox(counter, (self.seed & LOW, self.seed >> 32 ^ WINDOW_KEY))
        sides = self.size or image_sides
        places = [side + 2 * self.padding - cropped + 1 for side, cropped in zip(image_sides, sides)]
        return [(first * places[0] >> 32, second * places[1] >> 32, self.flip and third & 1)
                for first, second, third, _ in words.tolist()]

    def random(self, image, window):
        row, column, flipped = window
        image = functional.pad(image, (self.padding,) * 4)
        height, width = self.size or image.shape[1:]
        image = image[:, row:row + height, column:column + width]
        return image.flip(2) if flipped else image

    def centre(self, image):
        if self.size is None:
            return image
        missing = [max(0, cropped - side) for cropped, side in zip(self.size, image.shape[1:])]
        image = functional.pad(image, (missing[1] // 2, (missing[1] + 1) // 2, missing[0] // 2, (missing[0] + 1) // 2))
        row, column = (round((side - cropped) / 2) for side, cropped in zip(image.shape[1:], self.size))
        return image[:, row:row + self.size[0], column:column + self.size[1]]


IMAGENET = "0.485,0.456,0.406:0.229,0.224,0.225"


class Data:
    """Both sets of a folder. Without `normalize` they are normalised by the mean and deviation of the one for training.
    Targets are labels or masks, which have the windows of their images."""

    def __init__(self, folder, masked=False, channels_last=False, normalize=None, crop=None):
        pixels = {name: read_idx(folder / f"{name}-images-idx3-ubyte") for name in (TRAIN, HELD_OUT)}
        self.shape = (*pixels[TRAIN].shape[1:], 1)[:3]
        channels = self.shape[2]
        of_channels = pixels[TRAIN].reshape(-1, channels).double() / 255
        mean = of_channels.mean(0).float()
        deviation = of_channels.std(0, unbiased=False).float()
        if normalize is not None:
            given = {"imagenet": IMAGENET, "none": "0:1"}.get(normalize, normalize)
            mean, deviation = (torch.tensor([float(number) for number in part.split(",")]) for part in given.split(":"))
        self.images, self.targets, self.crop = {}, {}, crop
        self.mean, self.deviation = mean.reshape(-1, 1, 1), deviation.reshape(-1, 1, 1)
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        for name, read in pixels.items():
            self.images[name] = (read.reshape(-1, *self.shape).float() / 255).permute(0, 3, 1, 2)
            if masked:
                self.targets[name] = read_idx(folder / f"{name}-masks-idx3-ubyte").float() / 255
            else:
                self.targets[name] = read_idx(folder / f"{name}-labels-idx1-ubyte").long()
        self.masked = masked
        if crop is not None and crop.size is not None:
            self.shape = (*crop.size, channels)

    def batch(self, name, indices, epoch=0):
        images, targets = self.images[name][indices], self.targets[name][indices]
        if self.crop is not None and name == TRAIN:
            windows = self.crop.windows(indices, epoch, images.shape[2:])
            images = torch.stack([self.crop.random(*one) for one in zip(images, windows)])
            if self.masked:
                targets = torch.stack([self.crop.random(one[None], window)[0] for one, window in zip(targets, windows)])
        elif self.crop is not None:
            images = torch.stack([self.crop.centre(one) for one in images])
            if self.masked:
                targets = torch.stack([self.crop.centre(one[None])[0] for one in targets])
        return ((images - self.mean) / self.deviation).contiguous(memory_format=self.layout), targets

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
