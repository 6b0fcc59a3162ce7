"""Runs a row of an experiment, and keeps its result."""

import dataclasses
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from experiments.page import Row

COMMON = ("--device=cpu", "--threads-per-shard=1")
KILL_ATTEMPTS = 5


class RowFailed(Exception):
    """The text is the reason; the log has more."""


class DataRefused(RowFailed):
    """train can't read the data, so every row with the same data would fail."""


@dataclasses.dataclass(frozen=True)
class Result:
    command: str  # Row.command()
    date: str
    machine: dict  # cores, cpu, version of train, what it computes with
    final: dict  # lines of metrics.jsonl
    epochs: list
    evaluated: dict = None

    def best(self, key):
        """A figure of the best epoch."""
        return self.epochs[self.final["best_epoch"]][key] if "best_epoch" in self.final else None


def lines_of(out):
    """The whole lines of metrics.jsonl so far."""
    try:
        texts = (out / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [json.loads(text) for text in texts]


def epochs_of(lines):
    """The line of each epoch; if a restart repeated it, the last one."""
    found = {line["epoch"]: line for line in lines if line["type"] == "epoch"}
    return [found[epoch] for epoch in sorted(found)]


def machine(train):
    version = subprocess.run([train, "--version"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    compute = re.search(r"^compute: (.*)$", version, re.MULTILINE)
    return {"cores": len(os.sched_getaffinity(0)), "cpu": names[0].strip() if names else "unknown CPU",
            "version": version.splitlines()[0],
            "compute": compute.group(1) if compute else ""}


def kept_result(folder, row):
    """The result of a row that is done. None: there is no result, or it is of a row with other options."""
    try:
        result = Result(**json.loads((folder / "result.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return result if result.command == row.command() else None


class Runner:
    """Runs rows with the programs in `programs`; the end of its `with` stops a run that still goes on."""

    def __init__(self, programs):
        self.train, self.ddprun = programs / "train", programs / "ddprun"
        self.running = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.running is None or self.running.poll() is not None:
            return
        self.running.terminate()  # ddprun ends its workers
        try:
            self.running.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait()

    def run(self, row: Row, data, folder):
        """The result, which is written to `folder`, too."""
        machine_now = machine(self.train)
        for _ in range(KILL_ATTEMPTS):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            if self.run_once(row, data, folder):
                break
        else:
            raise RowFailed(f"in {KILL_ATTEMPTS} attempts the run ended before its worker could be killed")
        lines = lines_of(folder / "run")
        finals = [line for line in lines if line["type"] == "final"]
        if not finals:
            raise RowFailed("train wrote no final line to metrics.jsonl")
        evaluated = self.evaluate(row, data, folder) if row.evaluated else None
        result = Result(row.command(), datetime.date.today().isoformat(), machine_now, finals[-1], epochs_of(lines), evaluated)
        unfinished = folder / "result.json.new"
        unfinished.write_text(json.dumps(dataclasses.asdict(result), indent=1))
        unfinished.rename(folder / "result.json")
        return result

    def run_once(self, row, data, folder):
        """False: a worker was to be killed, but the run ended first."""
        out = folder / "run"
        lanes = [] if "--parallel=dp" in row.options else ["--lanes=1"]  # with DataParallel each replica has one lane
        options = [*COMMON, *lanes, f"--data={data}", f"--out={out}", *row.options]
        kills = row.kill_after_epoch is not None
        launcher = [self.ddprun, f"--nproc-per-node={row.workers}", *(["--max-restarts=1"] if kills else [])]
        alone = row.workers == 1 and not kills
        self.start([self.train, *options] if alone else [*launcher, "train", *options], folder)
        killed = kills and self.kill_a_worker(row, out)
        self.wait(folder, data)
        return killed or not kills

    def start(self, command, folder):
        with (folder / "log.txt").open("a") as log:
            print("$", *command, file=log, flush=True)
            self.running = subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, start_new_session=True)

    def wait(self, folder, data):
        code = self.running.wait()
        if code != 0:
            text = (folder / "log.txt").read_text(errors="replace")
            errors = [line for line in text.splitlines() if "error:" in line] or text.splitlines()
            kind = DataRefused if code == 2 and names_file_in(data, errors[-1]) else RowFailed
            raise kind(f"exit code {code}: {errors[-1].strip()}")

    def kill_a_worker(self, row, out):
        """Kills one worker as soon as the line of the epoch is written. False: the run ended first."""
        while self.running.poll() is None:
            time.sleep(0.02)
            if any(line["epoch"] >= row.kill_after_epoch for line in epochs_of(lines_of(out))):
                for pid in workers_of(out):
                    try:
                        os.kill(pid, signal.SIGKILL)
                        return True
                    except ProcessLookupError:
                        pass
                return False
        return False

    def evaluate(self, row, data, folder):
        options = [option for option in row.options if option != "--tensorboard"]  # train --eval refuses it
        self.start([self.train, "--eval", f"--resume-from={folder / 'run'}", *COMMON, f"--data={data}", f"--out={folder / 'evaluated'}",
                    *options], folder)
        self.wait(folder, data)
        lines = [line for line in lines_of(folder / "evaluated") if line["type"] == "evaluated"]
        if not lines:
            raise RowFailed(f"train --eval wrote no figures to {folder / 'evaluated' / 'metrics.jsonl'}")
        return lines[-1]


def names_file_in(folder, line):
    """Whether the line names the folder or a file in it. A folder with a longer name does not count."""
    return re.search(rf"(?<!\S){re.escape(str(folder))}(?=[/:\s]|$)", line) is not None


def workers_of(out):
    """Process ids of the workers that write to `out`."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if pathlib.PurePath(words[0]).name == "train" and f"--out={out}" in words:
            found.append(int(path.parent.name))
    return found
