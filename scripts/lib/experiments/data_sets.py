"""The data sets of the experiments: where they are, their first samples, and tiny ones of the same kinds."""

import gzip
import pathlib
import random
import shutil
import struct
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from gpu_cifar import FILES, RECORD, cifar_folder  # noqa: E402
from gpu_part import HELD_OUT, TRAIN, header, write_folder  # noqa: E402
from experiments.page import Sample  # noqa: E402

WHERE = {
    "fashion-mnist": "https://github.com/zalandoresearch/fashion-mnist (data/fashion)",
    "cifar-10": "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "sst2": "https://github.com/clairett/pytorch-sentiment-classification (data/SST2)",
    "crackforest": "https://github.com/cuilimeng/CrackForest-dataset (masks from its .mat files)",
}
TINY = {TRAIN: 48, HELD_OUT: 16}


class Missing(Exception):
    """A data set is not there; the text tells which file, and where to get it."""


def missing(name, path):
    return Missing(f"{path} not found: get {name} from {WHERE[name]}, name its parent folder with --data=DIR or "
                   "DDPRUN_TEST_DATA; or try --quick, which needs no data")


def prepared(sample, source, work):
    """The folder for --data, below `work` if it had to be written. `source`: the user's folder of data sets."""
    if sample.name in TINY_SETS:
        return written(sample, work, TINY_SETS[sample.name])
    if source is None:
        raise Missing(f"no folder of data sets: {sample.name} is needed; name the folder with --data=DIR or "
                      "DDPRUN_TEST_DATA; or try --quick, which needs no data")
    return {"fashion-mnist": fashion_mnist, "cifar-10": cifar, "sst2": sst2, "crackforest": crackforest}[sample.name](
        sample, source, work)


def is_whole(sample):
    return sample.train is None and sample.held_out is None


def written(sample, work, write):
    """The folder, which `write` fills unless it is there already. A script that is killed leaves no half of it."""
    folder = work / f"{sample.name}-{sample.train or 'all'}-{sample.held_out or 'all'}"
    if not folder.is_dir():
        unfinished = work / f".{folder.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write(unfinished)
        unfinished.rename(folder)
    return folder


def fashion_mnist(sample, source, work):
    folder = source / "fashion-mnist"
    files = {}
    for part, count in ((TRAIN, sample.train), (HELD_OUT, sample.held_out)):
        for name in (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"):
            found = [path for path in (folder / f"{name}.gz", folder / name) if path.is_file()]
            if not found:
                raise missing("fashion-mnist", folder / f"{name}.gz")
            files[name] = found[0], count
    if is_whole(sample):
        return folder

    def write(target):
        for name, (path, count) in files.items():
            with (gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
                sides = file.read(4)[3]
                all_of_them, *rest = struct.unpack(f">{sides}I", file.read(4 * sides))
                kept = min(all_of_them, count or all_of_them)
                size = kept
                for side in rest:
                    size *= side
                (target / name).write_bytes(header((kept, *rest)) + file.read(size))

    return written(sample, work, write)


def cifar(sample, source, work):
    """The binary files, from a folder or an archive; else the class folders of cifar-10-jpg.tar.gz, kept as JPEG."""
    folder = cifar_folder([source])
    if folder is None:
        binary, jpg = source / "cifar-10-binary.tar.gz", source / "cifar-10-jpg.tar.gz"
        if binary.is_file():
            folder = cifar_folder([written(Sample("cifar-10-binary"), work, lambda target: unpack(binary, target))])
        elif jpg.is_file():
            return written(sample, work, lambda target: unpack_classes(jpg, target, sample))
    if folder is None:
        raise missing("cifar-10", source / "cifar-10-batches-bin" / "data_batch_1.bin")
    if is_whole(sample):
        return folder

    def write(target):
        for part, count in ((TRAIN, sample.train), (HELD_OUT, sample.held_out)):
            for name in FILES[part]:
                kept = -1 if count is None else count // len(FILES[part]) * RECORD
                with (folder / name).open("rb") as file:
                    (target / name).write_bytes(file.read(kept))

    return written(sample, work, write)


def unpack(archive, target):
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and member.name.endswith(".bin"):
                (target / pathlib.PurePath(member.name).name).write_bytes(tar.extractfile(member).read())


def unpack_classes(archive, target, sample):
    """The first files of each class, by name."""
    with tarfile.open(archive) as tar:
        members = {}
        for member in tar:
            parts = pathlib.PurePath(member.name).parts
            if member.isfile() and len(parts) >= 3 and parts[-3] in ("train", "test"):
                members.setdefault(parts[-3:-1], []).append(member)
        classes = len({name for _, name in members})
        for (part, name), found in sorted(members.items()):
            count = sample.train if part == "train" else sample.held_out
            (target / part / name).mkdir(parents=True)
            for member in sorted(found, key=lambda each: each.name)[:None if count is None else count // classes]:
                (target / part / name / pathlib.PurePath(member.name).name).write_bytes(tar.extractfile(member).read())


def sst2(sample, source, work):
    folder = source / "sst2"
    for name in ("train.tsv", "dev.tsv"):
        if not (folder / name).is_file():
            raise missing("sst2", folder / name)
    if is_whole(sample):
        return folder

    def write(target):
        for name, count in (("train.tsv", sample.train), ("dev.tsv", sample.held_out)):
            lines = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
            (target / name).write_text("".join(lines[:count]), encoding="utf-8")

    return written(sample, work, write)


def crackforest(sample, source, _):
    folder = source / "crackforest"
    for name in ("train/images", "train/masks", "val/images", "val/masks"):
        if not (folder / name).is_dir():
            raise missing("crackforest", folder / name)
    return folder


def tiny_idx(target, shape, masked=False):
    target.rmdir()
    counts = (4, 2) if masked else (TINY[TRAIN], TINY[HELD_OUT])
    write_folder(target, shape, counts, masked)


def tiny_cifar(target):
    numbers = random.Random(1)
    for part, names in FILES.items():
        for name in names:
            records = (bytes([i % 10]) + numbers.getrandbits(8 * (RECORD - 1)).to_bytes(RECORD - 1, "little")
                       for i in range(-(-TINY[part] // len(names))))
            (target / name).write_bytes(b"".join(records))


def tiny_texts(target):
    numbers = random.Random(1)
    words = [["poor", "dull", "bad"], ["good", "fine", "great"], ["film", "plot", "a", "the", "scene"]]
    for name, count in (("train.tsv", 4 * TINY[TRAIN]), ("dev.tsv", TINY[HELD_OUT])):
        lines = []
        for i in range(count):
            chosen = [numbers.choice(words[2]) for _ in range(4)] + [numbers.choice(words[i % 2])]
            lines.append(f"{' '.join(chosen)}\t{i % 2}\n")
        (target / name).write_text("".join(lines))


# Drawn here, for --quick: what they are a stand-in for.
TINY_SETS = {"tiny-fashion-mnist": lambda target: tiny_idx(target, (28, 28, 1)), "tiny-cifar-10": tiny_cifar,
             "tiny-sst2": tiny_texts, "tiny-crackforest": lambda target: tiny_idx(target, (64, 64, 3), masked=True)}
