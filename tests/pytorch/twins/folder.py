"""Small data sets as IDX files, for interpreters without torch: the same bytes everywhere."""

import math
import random
import struct

CLASSES = 10
TRAIN, HELD_OUT = "train", "t10k"


def header(sides):
    return struct.pack(f">4B{len(sides)}I", 0, 0, 8, len(sides), *sides)


def write_idx(path, sides, data):
    path.write_bytes(header(sides) + data)


def write_noise(folder, name, shape, count, masked=False):
    """Pictures and masks of nothing but noise, or labels in turn: at once also where there are hundreds of megabytes."""
    numbers = random.Random(1)
    files = {"images": (count, *shape)} | ({"masks": (count, *shape[:2])} if masked else {})
    for kind, sides in files.items():
        with (folder / f"{name}-{kind}-idx3-ubyte").open("wb") as file:
            file.write(header(sides))
            for _ in range(count):
                file.write(numbers.getrandbits(8 * math.prod(sides[1:])).to_bytes(math.prod(sides[1:]), "little"))
    if not masked:
        write_idx(folder / f"{name}-labels-idx1-ubyte", (count,), bytes(i % CLASSES for i in range(count)))


def write_folder(folder, shape, counts, masked=False):
    """Pictures of noise with a bright band at the height that is the label, or that is the mask: something to learn in a
    few steps."""
    folder.mkdir(parents=True)
    numbers = random.Random(1)
    height, width, channels = shape
    row = width * channels
    for name, count in zip((TRAIN, HELD_OUT), counts):
        labels = [numbers.randrange(CLASSES) for _ in range(count)]
        labels[0] = CLASSES - 1  # `train` takes the number of classes from the greatest label
        images, masks = bytearray(), bytearray()
        for label in labels:
            first, last = label * height // CLASSES, (label + 2) * height // CLASSES
            for y in range(height):
                inside = first <= y < last
                noise = numbers.getrandbits(8 * row).to_bytes(row, "little")
                images += bytes(value * 180 // 256 + 70 * inside for value in noise)
                masks += (b"\xff" if inside else b"\0") * width
        write_idx(folder / f"{name}-images-idx3-ubyte", (count, *shape), bytes(images))
        if masked:
            write_idx(folder / f"{name}-masks-idx3-ubyte", (count, height, width), bytes(masks))
        else:
            write_idx(folder / f"{name}-labels-idx1-ubyte", (count,), bytes(labels))
