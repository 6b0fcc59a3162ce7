"""How scripts/gpu-check runs programs for a part, and reads what they wrote."""

import contextlib
import ctypes
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the checkout, or of the bundle
sys.path.insert(0, str(ROOT / "tests" / "pytorch" / "twins"))
from folder import HELD_OUT, TRAIN, header, write_folder, write_idx, write_noise  # noqa: E402, F401

LOG = "log.txt"  # of all parts
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OF_ANOTHER_JOB = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"}


class Failed(Exception):
    """A part's promise does not hold; the text says how."""


class TimeUp(Failed):
    """The time was up before it was known whether the promise holds."""


class Skipped(Exception):
    """This machine cannot tell; the text says why."""


def part(limit, alone=False):
    """Marks a part of scripts/gpu-check, with its limit in seconds. `alone`: it runs only where it is named."""
    def mark(function):
        function.limit, function.alone = limit, alone
        return function
    return mark


def end_on_signals():
    """The first Ctrl-C, SIGTERM or SIGHUP becomes SystemExit, so that every `finally` runs; further ones are ignored."""
    def end(number, _):
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for each in ENDING:
        if signal.getsignal(each) != signal.SIG_IGN:  # as under nohup
            signal.signal(each, end)


@contextlib.contextmanager
def held_driver(emulated):
    """While this `with` lasts, nvidia-smi looks at the GPUs now and then. The driver stays initialised meanwhile, which no
    start of a program has to wait for; no setting is changed. It ends with this script, also where that is killed."""
    tool = None if emulated else shutil.which("nvidia-smi")
    process = None
    c_library = ctypes.CDLL(None)
    set_death_signal = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        if tool:
            process = subprocess.Popen([tool, "--loop=30"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True,
                                       preexec_fn=lambda: c_library.prctl(set_death_signal, signal.SIGKILL))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield
    finally:
        if process:
            process.kill()
            process.wait()


class Part:
    """Runs programs for one part: with its log, until its time is up. Leaving its `with` kills those that still run, and
    moves the log to the end of log.txt: one file for all parts, which has all that is known whenever the script is cut off."""

    def __init__(self, options, folder, name, limit):
        self.emulated = options.emulated
        self.build = options.build
        self.data_folder = getattr(options, "data", None)  # of the user's data sets
        self.log = folder / f"{name}.log"
        self.log.write_text(f"== {name}, {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
        self.end = time.monotonic() + limit
        self.made = 0
        self.processes = []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"ddprun-{name}-"))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            problems = []
            for process in list(self.processes):
                try:
                    self.stop(process)
                except Failed as why:
                    problems.append(str(why))
            shutil.rmtree(self.folder, ignore_errors=True)
            self.note("".join(f"{problem}\n" for problem in problems))
            with (self.log.parent / LOG).open("a", errors="replace") as log:
                log.write(self.log.read_text(errors="replace"))
            self.log.unlink()
            if problems and kind is None:
                raise Failed(problems[0])
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def left(self):
        return max(0.1, self.end - time.monotonic())

    def program(self, real, emulated=None):
        path = self.build / (emulated if self.emulated and emulated else real)
        if not path.is_file():
            command = "scripts/build dev" if self.emulated else "scripts/build release release_tests"
            raise Failed(f"{path} is missing: in a checkout, {command} builds it; scripts/gpu-bundle builds and packs all "
                         "that is needed; --build names another folder")
        return str(path)

    @property
    def train(self):
        return self.program("bin/train", "tests/train_emulated")

    @property
    def ddprun(self):
        return self.program("bin/ddprun")

    def small(self, real, emulated):
        """Steps or samples: a GPU in software takes long for what a GPU does at once."""
        return emulated if self.emulated else real

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

    def settings(self, command):
        """The environment, without what a job around this script tells its own workers. The bundle's libraries are for its own
        programs: others, such as Python, have those of the machine."""
        unwanted = OF_ANOTHER_JOB | ({"CUDA_VISIBLE_DEVICES"} if self.emulated else set())
        settings = {name: value for name, value in os.environ.items()
                    if name not in unwanted and not name.startswith("TORCHELASTIC_")}
        settings["DDPRUN_TEST_BIN"] = str(self.build / "bin")
        libraries = self.build / "lib"
        own = (f"{self.build}/bin/", f"{self.build}/tests/test_")  # not the files of Python that lie in a bundle, too
        if libraries.is_dir() and any(str(word).startswith(own) for word in command):
            paths = [str(libraries), settings.get("LD_LIBRARY_PATH")]
            settings["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
        return settings

    def start(self, command, output=None, **environment):
        """A new process in a session of its own. Its output goes to the log, if nowhere else."""
        with self.log.open("a") as log:
            print("$", *command, file=log, flush=True)
            # A signal between the start and the list would leave the process behind.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            try:
                process = subprocess.Popen(command, stdout=output or log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                           text=True, errors="replace", env=self.settings(command) | environment,
                                           start_new_session=True,
                                           preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before))
                self.processes.append(process)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return process

    def stop(self, process):
        """Kills a process and its group. Returns the rest of its output."""
        if process.returncode is not None:
            return ""  # its number may be another process's by now
        if pathlib.Path(process.args[0]).name == "ddprun":  # its workers have sessions of their own: it stops them
            process.terminate()
            try:
                return process.communicate(timeout=5)[0] or ""
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            return process.communicate(timeout=5)[0] or ""
        except subprocess.TimeoutExpired:
            self.processes.remove(process)
            raise Failed(f"did not end after SIGKILL: {' '.join(map(str, process.args))}") from None

    def run(self, command, code=0, seconds=None, **environment):
        """What it printed. `code`: how it must end; None: in any way. `seconds`: its limit, if not that of the part."""
        process = self.start(command, subprocess.PIPE, **environment)
        try:
            said, _ = process.communicate(timeout=min(self.left(), seconds or math.inf))
        except subprocess.TimeoutExpired:
            self.note(self.stop(process))
            raise TimeUp(f"the time was up during: {' '.join(command)}") from None
        self.note(said)
        if code is not None and process.returncode != code:
            last = said.strip().splitlines()[-1:] or ["no output"]
            raise Failed(f"exit code {process.returncode} instead of {code}: {last[0]}; the command: {' '.join(command)}")
        return said

    def nvidia_smi(self, *options):
        """What it printed."""
        if not shutil.which("nvidia-smi"):
            raise Failed("nvidia-smi is missing: is NVIDIA's driver installed?")
        return self.run(["nvidia-smi", *options])

    def note(self, said):
        with self.log.open("a", errors="replace") as log:
            log.write(said)

    def train_run(self, *options, device="cuda", launch=(), out=None, code=0, **environment):
        """The lines of metrics.jsonl of a run."""
        out = out or self.new_folder()
        self.run([*launch, self.train, f"--device={device}", f"--out={out}", *options], code, **environment)
        return lines_of(out)


def measured_rate(check, process, out, seconds, patience=10):
    """The median of the rates of so many intervals, a second each, after the first; None if the time is up before any is
    measured. The run is then stopped. `patience`: for its start, in seconds."""
    end = min(check.end, time.monotonic() + 3 * seconds + patience)
    rates = []
    while process.poll() is None and time.monotonic() < end and len(rates) <= seconds:
        time.sleep(0.1)
        if (out / "metrics.jsonl").exists():
            rates = [line["samples_per_second"] for line in lines_of(out) if line["type"] == "interval"]
    if process.poll() is not None:
        last = check.log.read_text().strip().splitlines()[-1:]
        raise Failed(f"train ended by itself with exit code {process.returncode}: {''.join(last)}")
    check.stop(process)
    rates = sorted(rates[1:] or rates)
    return rates[len(rates) // 2] if rates else None


def lines_of(out):
    """Of a run that still writes: without the line that is not whole yet."""
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().split("\n")[:-1]]


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
