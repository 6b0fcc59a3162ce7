"""The part of scripts/gpu-check that learns CIFAR-10, of its binary files or of an archive of JPEG files."""

import os
import pathlib
import tarfile
import time

from gpu_part import HELD_OUT, ROOT, TRAIN, Failed, Skipped, final, lines_of, part

RECORD = 1 + 3 * 32 * 32  # a label; the planes of red, green and blue, each row by row
FILES = {TRAIN: [f"data_batch_{i}.bin" for i in range(1, 6)], HELD_OUT: ["test_batch.bin"]}
ARCHIVE = "cifar-10-jpg.tar.gz"  # ANY/train/CLASS/NAME.jpg and ANY/test/CLASS/NAME.jpg; scripts/gpu-bundle --cifar packs it


def cifar_folder(places):
    """The folder with the binary files, in one of these places or in a folder there; None."""
    for place in places:
        for folder in (place, place / "cifar-10-batches-bin", place / "cifar-10"):
            if all((folder / name).is_file() for names in FILES.values() for name in names):
                return folder
    return None


def torn_file(folder):
    """The first of the binary files that has no whole number of records; None."""
    paths = (folder / name for names in FILES.values() for name in names)
    return next((path for path in paths if path.stat().st_size == 0 or path.stat().st_size % RECORD), None)


def unpack(archive, target):
    """The folder with train/ and test/."""
    with tarfile.open(archive) as tar:
        for member in tar:
            path = pathlib.PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts:
                raise Failed(f"{archive} would write outside of its folder: {member.name}")
            if member.isfile():
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(tar.extractfile(member).read())
    found = [folder.parent for folder in sorted(target.glob("**/train")) if (folder.parent / "test").is_dir()]
    if not found:
        raise Failed(f"{archive} has no folders train/ and test/")
    return found[0]


def cifar_data(check):
    """What `train --data` reads."""
    places = [pathlib.Path(place) for place in (check.data_folder, os.environ.get("DDPRUN_TEST_DATA")) if place]
    folder = cifar_folder(places)
    if folder:
        return folder
    archives = [place / ARCHIVE for place in (*places, ROOT / "data") if (place / ARCHIVE).is_file()]
    if archives:
        return unpack(archives[0], check.new_folder())
    where = " or ".join(map(str, places)) or "no folder: set --data or DDPRUN_TEST_DATA"
    raise Skipped(f"CIFAR-10's binary files (data_batch_1.bin to test_batch.bin), or {ARCHIVE}, were looked for in {where}")


# AlexNet's windows are made for 227 pixels a side; 160 are enough.
SHAPE, EPOCHS, ACCURACY = "160x160x3", 20, 0.82


@part(150)
def cifar(check):
    """AlexNet learns CIFAR-10 in fp16 with the loss scale: accuracy 0.82 after 20 epochs (with --data or DDPRUN_TEST_DATA, or in
    a bundle that has the pictures)."""
    data = cifar_data(check)
    model, shape, epochs, wanted = ("lenet", "32x32x3", 2, 0) if check.emulated else ("alexnet", SHAPE, EPOCHS, ACCURACY)
    begun = time.monotonic()
    out = check.new_folder()
    try:
        ended = final(check.train_run(f"--model={model}", f"--data={data}", f"--image-shape={shape}", "--batch=64",
                                      "--optimizer=adamw", "--lr=0.0001", "--weight-decay=0.01", "--precision=fp16",
                                      f"--epochs={epochs}", "--checkpoint-every=off", out=out))
    except Failed as why:
        raise type(why)(f"{why}; {accuracies(out)}") from None
    text = (f"accuracy {ended['test_accuracy']:.4f} after {epochs} epochs in {time.monotonic() - begun:.0f} s, "
            f"{ended['skipped']} steps skipped")
    if ended["test_accuracy"] < wanted:
        raise Failed(f"{text}: less than {wanted}")
    return text


def accuracies(out):
    """Of the epochs of a run that was not finished."""
    lines = lines_of(out) if (out / "metrics.jsonl").exists() else []
    found = [line["test_accuracy"] for line in lines if line["type"] == "epoch" and line.get("test_accuracy") is not None]
    return "accuracy of its epochs: " + (", ".join(f"{accuracy:.3f}" for accuracy in found) or "none ended")
