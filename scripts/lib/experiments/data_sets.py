"""The data sets of the experiments: where they are, their first samples, and tiny ones of the same kinds."""

import pathlib
import random
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from gpu_cifar import FILES, RECORD, cifar_folder  # noqa: E402
from gpu_part import HELD_OUT, TRAIN, write_folder  # noqa: E402
from experiments.data_files import (  # noqa: E402
    WHERE, check_cifar, check_idx, copy_idx, reading, unpack_cifar, unpack_cifar_classes)
from experiments.page import Sample  # noqa: E402
from experiments.refused import Refused  # noqa: E402

TINY = {TRAIN: 48, HELD_OUT: 16}


def missing(name, path, source):
    """`path`: a file of the data set, in a folder of `source`."""
    relative = path.relative_to(source)
    beside = source.joinpath(*relative.parts[1:])
    if beside.exists() or beside.with_suffix("").exists():
        advice = f"{beside.name} is in {source} itself: name the parent folder, with {relative.parts[0]}/ in it, by --data=DIR"
    else:
        advice = (f"get {name} from {WHERE[name]}, name its parent folder with --data=DIR or DDPRUN_TEST_DATA; or try --quick, "
                  "which needs no data")
    return Refused(f"{path} not found: {advice}")


def prepared(sample, source, work):
    """The folder for --data, below `work` if it had to be written. `source`: the user's folder of data sets. Refused: a file is
    missing or damaged."""
    if sample.name in TINY_SETS:
        return written(sample, work, TINY_SETS[sample.name])
    if source is None:
        raise Refused(f"no folder of data sets: {sample.name} is needed; name the folder with --data=DIR or "
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
                raise missing("fashion-mnist", folder / f"{name}.gz", source)
            files[name] = found[0], count
    if is_whole(sample):
        for path, _ in files.values():
            check_idx("fashion-mnist", path)
        return folder

    def write(target):
        for name, (path, count) in files.items():
            copy_idx("fashion-mnist", path, target / name, count)

    return written(sample, work, write)


def cifar(sample, source, work):
    """The binary files, from a folder or an archive; else the class folders of cifar-10-jpg.tar.gz, kept as JPEG."""
    folder = cifar_folder([source])
    if folder is None:
        binary, jpg = source / "cifar-10-binary.tar.gz", source / "cifar-10-jpg.tar.gz"
        if binary.is_file():
            folder = cifar_folder([written(Sample("cifar-10-binary"), work, lambda target: unpack_cifar(binary, target))])
        elif jpg.is_file():
            return written(sample, work, lambda target: unpack_cifar_classes(jpg, target, sample))
    if folder is None:
        raise missing("cifar-10", source / "cifar-10-batches-bin" / "data_batch_1.bin", source)
    check_cifar(folder)
    if is_whole(sample):
        return folder

    def write(target):
        for part, count in ((TRAIN, sample.train), (HELD_OUT, sample.held_out)):
            for name in FILES[part]:
                kept = -1 if count is None else count // len(FILES[part]) * RECORD
                with (folder / name).open("rb") as file:
                    (target / name).write_bytes(file.read(kept))

    return written(sample, work, write)


def sst2(sample, source, work):
    folder = source / "sst2"
    for name in ("train.tsv", "dev.tsv"):
        if not (folder / name).is_file():
            raise missing("sst2", folder / name, source)
    if is_whole(sample):
        return folder

    def write(target):
        for name, count in (("train.tsv", sample.train), ("dev.tsv", sample.held_out)):
            with reading("sst2", folder / name):
                lines = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
            (target / name).write_text("".join(lines[:count]), encoding="utf-8")

    return written(sample, work, write)


def crackforest(sample, source, _):
    folder = source / "crackforest"
    for name in ("train/images", "train/masks", "val/images", "val/masks"):
        if not (folder / name).is_dir():
            raise missing("crackforest", folder / name, source)
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
