"""How scripts/gpu-check runs programs for a part, and reads what they wrote."""

import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "pytorch" / "twins"))
from folder import write_folder  # noqa: E402


class Failed(Exception):
    """A part's promise does not hold; the text says how."""


class Skipped(Exception):
    """This machine cannot tell; the text says why."""


class Part:
    """Runs programs for one part: with its log, until its time is up."""

    def __init__(self, options, folder, name, limit):
        self.emulated = options.emulated
        self.build = options.build
        self.folder = folder / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.log = folder / f"{name}.log"
        self.log.write_text("")
        self.end = time.monotonic() + limit
        self.made = 0

    def program(self, real, emulated=None):
        path = self.build / (emulated if self.emulated and emulated else real)
        if not path.is_file():
            raise Failed(f"{path} is missing: build it, or name another folder by --build")
        return str(path)

    @property
    def train(self):
        return self.program("bin/train", "tests/train_emulated")

    @property
    def ddprun(self):
        return self.program("bin/ddprun")

    def new_folder(self):
        self.made += 1
        return self.folder / f"{self.made}"

    def data(self):
        """The option for a data set of small pictures: on a GPU in software the generated one takes too long."""
        if not self.emulated:
            return "--data=generated"
        folder = self.new_folder()
        write_folder(folder, (28, 28, 1), (256, 32))
        return f"--data={folder}"

    def start(self, command, output, **environment):
        settings = os.environ | {"DDPRUN_TEST_BIN": str(self.build / "bin")} | environment
        libraries = self.build / "lib"
        if libraries.is_dir():
            paths = [str(libraries), settings.get("LD_LIBRARY_PATH")]
            settings["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
        with self.log.open("a") as log:
            print("$", *command, file=log)
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                                errors="replace", env=settings, start_new_session=True)

    def run(self, command, code=0, **environment):
        """What it printed. `code`: how it must end; None: in any way."""
        process = self.start(command, subprocess.PIPE, **environment)
        try:
            said, _ = process.communicate(timeout=max(0.1, self.end - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            self.note(said)
            raise Failed(f"the time was up during: {' '.join(command)}") from None
        self.note(said)
        if code is not None and process.returncode != code:
            last = said.strip().splitlines()[-1:] or ["no output"]
            raise Failed(f"exit code {process.returncode} instead of {code}: {last[0]}; the command: {' '.join(command)}")
        return said

    def note(self, said):
        with self.log.open("a") as log:
            log.write(said)

    def train_run(self, *options, device="cuda", launch=(), out=None, code=0, **environment):
        """The lines of metrics.jsonl of a run."""
        out = out or self.new_folder()
        self.run([*launch, self.train, f"--device={device}", f"--out={out}", *options], code, **environment)
        return lines_of(out)


def lines_of(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def final(lines):
    return [line for line in lines if line["type"] == "final"][-1]


def losses(lines):
    return [line["train_loss"] for line in lines if line["type"] == "epoch"]


def distance(ours, theirs):
    """The greatest of the relative distances."""
    if len(ours) != len(theirs) or not ours:
        raise Failed(f"{len(ours)} losses beside {len(theirs)}")
    greatest = max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(ours, theirs))
    return greatest if math.isfinite(greatest) else math.inf
