"""Losses that PyTorch had, for machines without torch: python3 recorded.py [CASE...] writes recorded.json anew, or some of it.

The data are those of twins/folder.py and the initial weights those that `train` seeds, so a test needs `train` alone.
"""

import json
import pathlib
import sys
import tempfile

from harness import BIN, run, torches

TWINS = pathlib.Path(__file__).resolve().parent / "twins"
FILE = pathlib.Path(__file__).resolve().with_suffix(".json")
sys.path.insert(0, str(TWINS))
from folder import write_folder  # noqa: E402, which needs the line above

CALM = ("--momentum=0", "--lr=0.01")
# Each: the shape of a picture, numbers of samples, epochs of one step each, options. No shape: generated texts.
CASES = {
    "lenet, SGD": ((28, 28, 1), (64, 50), 30, ("--model=lenet", "--batch=64", "--weight-decay=0.01", *CALM)),
    "lenet, AdamW": ((28, 28, 1), (64, 50), 30, ("--model=lenet", "--batch=32", "--shards=2", "--optimizer=adamw", "--lr=0.0001",
                                                 "--weight-decay=0.1", "--decay=all")),
    "alexnet": ((63, 63, 3), (4, 4), 4, ("--model=alexnet", "--batch=4", *CALM)),
    "resnet18": ((20, 20, 3), (16, 8), 8, ("--model=resnet18", "--batch=8", "--shards=2", "--momentum=0", "--lr=0.0002")),
    "unet16": ((32, 32, 3), (4, 2), 4, ("--model=unet16", "--batch=2", "--shards=2", "--pos-weight=3", *CALM)),
    "unet16, deconv": ((32, 32, 1), (4, 2), 4, ("--model=unet16", "--batch=4", "--decoder=deconv", *CALM)),
    "textclf": (None, None, 20, ("--model=textclf", "--sentences=32", "--batch=16", "--shards=2", "--optimizer=adamw",
                                 "--lr=0.0005", "--weight-decay=0.01")),
    "unet-resnet34": ((64, 64, 3), (4, 2), 3, ("--model=unet-resnet34", "--batch=4", "--momentum=0", "--lr=0.001")),
}


def options_of(name, folder):
    """Writes the data."""
    shape, samples, epochs, options = CASES[name]
    if shape is None:
        return [*options, f"--epochs={epochs}", "--data=generated"]
    data = folder / "data"
    write_folder(data, shape, samples, masked="unet" in options[0])
    return [*options, f"--epochs={epochs}", f"--data={data}"]


def record(name, torch, folder):
    options = options_of(name, folder)
    out = folder / "out"
    of_update = ("--lr", "--momentum", "--optimizer", "--weight-decay", "--decay")
    still = [option for option in options if option.split("=")[0] not in of_update]
    first = [BIN / "train", "--device=cpu", *still, "--lr=0", "--momentum=0", "--max-steps=1", "--checkpoint-every=1",
             f"--out={out}"]
    follow = [torch.python, TWINS / "twin.py", "follow", *options, f"--init-from={out / 'latest' / 'model.safetensors'}",
              "--fresh-statistics"]
    for command in (first, follow):
        result = run(command, torch.environment(OMP_NUM_THREADS="1"), folder, limit=600)
        if result.status != 0:
            raise SystemExit(str(result))
    return json.loads(result.out)


def main():
    torch = torches()[0]
    recorded = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in sys.argv[1:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            recorded[name] = record(name, torch, pathlib.Path(folder))
        print(name, recorded[name], file=sys.stderr)
    FILE.write_text(json.dumps({name: recorded[name] for name in CASES}, indent=1) + "\n")


if __name__ == "__main__":
    main()
