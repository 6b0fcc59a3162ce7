"""CIFAR-10's binary files as the IDX files that `train` reads, enlarged; the part of scripts/gpu-check that learns them."""

import os
import pathlib
import time

from gpu_part import HELD_OUT, TRAIN, Failed, Skipped, final, header, lines_of, part, write_idx

SIDE, PLANE = 32, 32 * 32
RECORD = 1 + 3 * PLANE  # a label; the planes of red, green and blue, each row by row
FILES = {TRAIN: [f"data_batch_{i}.bin" for i in range(1, 6)], HELD_OUT: ["test_batch.bin"]}


def cifar_folder(places):
    """The folder with the files, in one of these places or in a folder there; None."""
    for place in places:
        for folder in (place, place / "cifar-10-batches-bin", place / "cifar-10"):
            if all((folder / name).is_file() for names in FILES.values() for name in names):
                return folder
    return None


def torn_file(folder):
    """The first of the files that has no whole number of records; None."""
    paths = (folder / name for names in FILES.values() for name in names)
    return next((path for path in paths if path.stat().st_size == 0 or path.stat().st_size % RECORD), None)


def enlarged(record, factor):
    """The picture of a record, channels last: each pixel `factor` times in both directions."""
    step = 3 * factor
    wide = bytearray(PLANE * step)
    for channel in range(3):
        plane = record[1 + channel * PLANE:1 + (channel + 1) * PLANE]
        for copy in range(factor):
            wide[3 * copy + channel::step] = plane
    row = SIDE * step
    return b"".join(bytes(wide[first:first + row]) * factor for first in range(0, len(wide), row))


def convert(source, target, factor):
    torn = torn_file(source)
    if torn:
        raise Failed(f"{torn} has no whole number of records of {RECORD} bytes")
    target.mkdir(parents=True)
    for name, files in FILES.items():
        sizes = [(source / file).stat().st_size for file in files]
        labels = bytearray()
        with (target / f"{name}-images-idx3-ubyte").open("wb") as images:
            images.write(header((sum(sizes) // RECORD, SIDE * factor, SIDE * factor, 3)))
            for file in files:
                data = (source / file).read_bytes()
                for first in range(0, len(data), RECORD):
                    record = data[first:first + RECORD]
                    labels.append(record[0])
                    images.write(enlarged(record, factor))
        write_idx(target / f"{name}-labels-idx1-ubyte", (len(labels),), bytes(labels))


# AlexNet's windows are made for 227 pixels a side. An IDX file has at most 4 GiB: 160 pixels.
FACTOR, EPOCHS, ACCURACY = 5, 20, 0.82


@part(110)
def cifar(check):
    """AlexNet learns CIFAR-10 in fp16 with the loss scale: accuracy 0.82 after 20 epochs (with --data or DDPRUN_TEST_DATA)."""
    places = [pathlib.Path(place) for place in (check.data_folder, os.environ.get("DDPRUN_TEST_DATA")) if place]
    source = cifar_folder(places)
    if source is None:
        where = " or ".join(map(str, places)) or "no folder: set --data or DDPRUN_TEST_DATA"
        raise Skipped(f"CIFAR-10's binary files (data_batch_1.bin to test_batch.bin) were looked for in {where}")
    model, factor, epochs, wanted = ("lenet", 1, 2, 0) if check.emulated else ("alexnet", FACTOR, EPOCHS, ACCURACY)
    begun = time.monotonic()
    data = check.new_folder()
    convert(source, data, factor)
    converted, begun = time.monotonic() - begun, time.monotonic()
    out = check.new_folder()
    try:
        ended = final(check.train_run(f"--model={model}", f"--data={data}", "--batch=64", "--optimizer=adamw", "--lr=0.0001",
                                      "--weight-decay=0.01", "--precision=fp16", f"--epochs={epochs}",
                                      "--checkpoint-every=off", out=out))
    except Failed as why:
        raise Failed(f"{why}; {accuracies(out)}") from None
    text = (f"accuracy {ended['test_accuracy']:.4f} after {epochs} epochs in {time.monotonic() - begun:.0f} s "
            f"({converted:.0f} s for the data), {ended['skipped']} steps skipped")
    if ended["test_accuracy"] < wanted:
        raise Failed(f"{text}: less than {wanted}")
    return text


def accuracies(out):
    """Of the epochs of a run that was not finished."""
    lines = lines_of(out) if (out / "metrics.jsonl").exists() else []
    found = [line["test_accuracy"] for line in lines if line["type"] == "epoch" and line.get("test_accuracy") is not None]
    return "accuracy of its epochs: " + (", ".join(f"{accuracy:.3f}" for accuracy in found) or "none ended")
