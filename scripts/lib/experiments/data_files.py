"""Files of the data sets, checked while they are read: a damaged one is found before the first row runs."""

import contextlib
import gzip
import math
import pathlib
import struct
import sys
import tarfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from gpu_cifar import FILES, torn_file  # noqa: E402
from gpu_part import header  # noqa: E402
from experiments.refused import Refused  # noqa: E402

WHERE = {
    "fashion-mnist": "https://github.com/zalandoresearch/fashion-mnist (data/fashion)",
    "cifar-10": "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "sst2": "https://github.com/clairett/pytorch-sentiment-classification (data/SST2)",
    "crackforest": "https://github.com/cuilimeng/CrackForest-dataset (masks from its .mat files)",
}
PIECE = 1 << 20


def damaged(name, path, why):
    return Refused(f"{path} is damaged ({why}): get {name} again from {WHERE[name]}")


@contextlib.contextmanager
def reading(name, path):
    """What gzip, tarfile and the decoder raise on a damaged file becomes Refused."""
    try:
        yield
    except (EOFError, UnicodeDecodeError, gzip.BadGzipFile, tarfile.TarError, zlib.error) as why:
        raise damaged(name, path, str(why).split("\n", 1)[0]) from None


def open_idx(path):
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def copy_idx(name, path, target, count):
    """The first `count` items, or all, of a whole file, as a file that is not compressed."""
    check_idx(name, path)
    with reading(name, path), open_idx(path) as file, target.open("wb") as copy:
        sides = idx_sides(name, path, file)
        sides[0] = min(sides[0], sides[0] if count is None else count)
        copy.write(header(sides))
        for piece in idx_pieces(name, path, file, math.prod(sides)):
            copy.write(piece)


def check_idx(name, path):
    """Reads the file to its end: gzip's checksum is there."""
    with reading(name, path), open_idx(path) as file:
        size = math.prod(idx_sides(name, path, file))
        for _ in idx_pieces(name, path, file, size):
            pass
        if file.read(1):
            raise damaged(name, path, "there are bytes behind the last item of its header")


def idx_sides(name, path, file):
    start = file.read(4)
    if len(start) < 4 or start[:3] != header(())[:3]:
        raise damaged(name, path, "it doesn't begin as an IDX file of bytes")
    sides = file.read(4 * start[3])
    if not start[3] or len(sides) < 4 * start[3]:
        raise damaged(name, path, "it ends within its header")
    return list(struct.unpack(f">{start[3]}I", sides))


def idx_pieces(name, path, file, size):
    """Small ones, whatever size the header names."""
    left = size
    while left:
        piece = file.read(min(left, PIECE))
        if not piece:
            raise damaged(name, path, f"its header names {size} bytes, but {left} are missing")
        left -= len(piece)
        yield piece


def check_cifar(folder):
    torn = torn_file(folder)
    if torn:
        raise damaged("cifar-10", torn, "it has no whole number of records")


def unpack_cifar(archive, target):
    """The binary files of cifar-10-binary.tar.gz."""
    with reading("cifar-10", archive), tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and member.name.endswith(".bin"):
                (target / pathlib.PurePath(member.name).name).write_bytes(tar.extractfile(member).read())
    for name in (name for names in FILES.values() for name in names):
        if not (target / name).is_file():
            raise damaged("cifar-10", archive, f"{name} is not in it")
    check_cifar(target)


def unpack_cifar_classes(archive, target, sample):
    """The first files of each class, by name."""
    with reading("cifar-10", archive), tarfile.open(archive) as tar:
        members = {}
        for member in tar:
            parts = pathlib.PurePath(member.name).parts
            if member.isfile() and len(parts) >= 3 and parts[-3] in ("train", "test"):
                members.setdefault(parts[-3:-1], []).append(member)
        if {part for part, _ in members} != {"train", "test"}:
            raise damaged("cifar-10", archive, "train/CLASS/*.jpg and test/CLASS/*.jpg are not in it")
        classes = len({name for _, name in members})
        for (part, name), found in sorted(members.items()):
            count = sample.train if part == "train" else sample.held_out
            (target / part / name).mkdir(parents=True)
            for member in sorted(found, key=lambda each: each.name)[:None if count is None else count // classes]:
                (target / part / name / pathlib.PurePath(member.name).name).write_bytes(tar.extractfile(member).read())
