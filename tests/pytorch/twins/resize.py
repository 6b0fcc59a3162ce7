"""How far an image of bytes in another size is from what PyTorch and, where it is installed, Pillow make of it.

resize.py FOLDER HEIGHT WIDTH CHANNELS NEW_HEIGHT NEW_WIDTH: FOLDER has `image`, its pixels, and `resized`: the pixels of the
bilinear one, then of the nearest one. Prints one line of JSON: the greatest and the mean difference from PyTorch's floats, the
same from its bytes where it resizes bytes, and whether all bytes are those of Pillow, which resizes the columns and then the
rows, and of the nearest pixels.
"""

import json
import pathlib
import sys

import torch
from torch.nn import functional

try:
    from PIL import Image
except ImportError:
    Image = None


def difference(ours, theirs):
    distance = ours.double() - theirs.double()
    return {"most": distance.abs().max().item(), "mean": distance.mean().item()}


def of_bytes(image, size):
    """None: this PyTorch resizes no bytes."""
    try:
        return functional.interpolate(image, size, mode="bilinear", antialias=True)
    except RuntimeError:
        return None


def main(folder, height, width, channels, *size):
    read = (pathlib.Path(folder) / "image").read_bytes()
    resized = torch.frombuffer(bytearray((pathlib.Path(folder) / "resized").read_bytes()), dtype=torch.uint8)
    bilinear, nearest = resized.reshape(2, *size, channels).permute(0, 3, 1, 2)
    image = torch.frombuffer(bytearray(read), dtype=torch.uint8).reshape(1, height, width, channels).permute(0, 3, 1, 2)
    result = {"floats": difference(bilinear, functional.interpolate(image.double(), size, mode="bilinear", antialias=True)[0])}
    theirs = of_bytes(image, size)
    result["bytes"] = None if theirs is None else difference(bilinear, theirs[0])
    result["nearest"] = torch.equal(functional.interpolate(image.double(), size, mode="nearest")[0], nearest.double())
    result["pillow"] = None
    if Image is not None:
        pillow = Image.frombytes("L" if channels == 1 else "RGB", (width, height), read)
        for sides in ((size[1], height), size[::-1]):
            pillow = pillow.resize(sides, Image.BILINEAR)
        result["pillow"] = pillow.tobytes() == bilinear.permute(1, 2, 0).contiguous().numpy().tobytes()
    print(json.dumps(result))


main(sys.argv[1], *map(int, sys.argv[2:]))
