#!/usr/bin/env python3
"""What a crash costs, as a user feels it: from `kill -9` of a worker to the next step that is finished, and from the command to
the first step. The job is gpt.py, an unmodified PyTorch script with a checkpoint after each step, under ddprun, ddprun --preload
and torchrun, in turns; gpt_elastic.py, whose workers go on when another one was killed; and `train` with its smallest model and no
checkpoint, on the 14,000 pictures that each worker draws when it starts, and on a few. Printed are medians, and their ratio to ddprun without --preload.

Example: bench/recovery/recovery.py --python=venv/bin/python --workers=4 --turns=5 --kills=4
"""

import argparse
import contextlib
import os
import pathlib
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 60  # seconds; what takes longer counts as this


class Job:
    """One run of a script. Steps are (round, step, seconds of the monotonic clock)."""

    def __init__(self, command, script, environment, folder):
        self.record = folder / "steps"
        self.began = time.monotonic()
        with open(folder / "output", "w", encoding="utf-8") as output:
            self.process = subprocess.Popen([*command, str(HERE / script), str(self.record), str(folder / "checkpoint")],
                                            env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            start_new_session=True)
        self.output = folder / "output"

    def steps(self):
        with contextlib.suppress(FileNotFoundError):
            return [(int(number), int(step), int(ns) / 1e9) for number, step, ns in
                    (line.split() for line in self.record.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n"))]
        return []

    def wait_for(self, wanted):
        """When the first step was finished of which `wanted` is true."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            for step in self.steps():
                if wanted(step):
                    return step[2]
            if self.process.poll() is not None:
                raise SystemExit(f"recovery: the job has ended:\n{self.output.read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.002)
        return until

    def workers(self):
        """Their pids, by rank."""
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
                if os.fsencode(self.record) in words and os.getsid(int(name)) == int(name) != self.process.pid:
                    found[int(name)] = os.stat(f"/proc/{name}").st_ctime
        return sorted(found)

    def first_step(self):
        return self.wait_for(lambda step: True)

    def kill_one(self):
        """Seconds from the kill of a worker to the next finished step."""
        victim = random.choice(self.workers()[-self.size:])
        before, done, _ = max(self.steps())
        now = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        return self.wait_for(lambda step: step[0] > before and step[1] > done) - now

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class TrainJob(Job):
    """A run of `train`, whose workers report their steps in progress pages."""

    OPTIONS = ("--checkpoint-every=off", "--epochs=1000000", "--batch=16", "--shards=4", "--quiet")

    def __init__(self, command, program, environment, folder):
        self.folder = folder
        self.output = folder / "output"
        program, _, pictures = program.partition(":")
        data = ["--data", str(self.few_pictures(folder / "data", int(pictures)))] if pictures else []
        self.began = time.monotonic()
        with open(self.output, "w", encoding="utf-8") as output:
            # The folder is the mark of its processes.
            self.process = subprocess.Popen([*command, program, *self.OPTIONS, *data], env=environment | {"TMPDIR": str(folder)},
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)

    @staticmethod
    def few_pictures(folder, count):
        """A data set in IDX, which takes no time to load."""
        folder.mkdir()
        for kind, number in (("train", count), ("t10k", 32)):
            random_bytes = random.Random(number).randbytes
            (folder / f"{kind}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, number, 28, 28) + random_bytes(number * 784))
            (folder / f"{kind}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, number) + bytes(i % 10 for i in range(number)))
        return folder

    def pages(self):
        """The file of the progress page of each worker that runs, by its pid."""
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{name}/comm").read_text(encoding="utf-8") != "train\n":
                    continue
                for entry in pathlib.Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    if entry.startswith(b"DDPRUN_PROGRESS_FILE=" + os.fsencode(self.folder)):
                        found[int(name)] = entry.partition(b"=")[2]
        return found

    def finishes_a_step(self, page):
        """When the worker with this page has finished a step."""
        until = time.monotonic() + LIMIT
        first = None
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError, struct.error):
                _, version, step = struct.unpack("=6sHQ", pathlib.Path(os.fsdecode(page)).read_bytes()[:16])
                if version == 1 and first is None:
                    first = step
                elif version == 1 and step > first:
                    return time.monotonic()
            time.sleep(0.001)
        return until

    def new_page(self, before):
        until = time.monotonic() + LIMIT
        while time.monotonic() < until and self.process.poll() is None:
            if new := set(self.pages().items()) - set(before.items()):
                return new.pop()[1]
        raise SystemExit(f"recovery: no worker was started:\n{self.output.read_text(encoding='utf-8')[-2000:]}")

    def first_step(self):
        return self.finishes_a_step(self.new_page({}))

    def kill_one(self):
        before = self.pages()
        now = time.monotonic()
        os.kill(random.choice(list(before)), signal.SIGKILL)
        return self.finishes_a_step(self.new_page(before)) - now


def run(command, script, environment, kills):
    """Seconds to the first step, and from each kill to the next finished step."""
    kind = Job if script.endswith(".py") else TrainJob
    with tempfile.TemporaryDirectory() as name:
        job = kind(command, script, environment | {"PYTHONPATH": str(HERE.parents[1] / "python")}, pathlib.Path(name))
        try:
            start = job.first_step() - job.began
            recoveries = []
            for _ in range(kills):
                time.sleep(random.uniform(0.2, 0.4))
                recoveries.append(job.kill_one())
                if recoveries[-1] >= LIMIT:
                    break
            return start, recoveries
        finally:
            job.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parents[1] / "build" / "release" / "bin")
    parser.add_argument("--python", default="python3", help="that has PyTorch")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--kills", type=int, default=4, help="in each job")
    parser.add_argument("--only", default="", help="jobs with this in their name (default: all)")
    arguments = parser.parse_args()
    Job.size = arguments.workers
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DDPRUN"))}
    environment |= {"PYTHON_EXEC": arguments.python, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    common = [f"--nproc-per-node={arguments.workers}", f"--max-restarts={arguments.kills}"]
    ours = [str(arguments.bin / "ddprun"), "--restart-delay=0", *common]
    preloaded = [*ours, "--preload=auto"]
    launchers = {
        "ddprun": (ours, "gpt.py"),
        "ddprun --preload=auto": (preloaded, "gpt.py"),
        "elastic": (ours, "gpt_elastic.py"),
        "elastic --preload=auto": (preloaded, "gpt_elastic.py"),
        "train": (ours, str(arguments.bin / "train")),
        "train, 256 pictures": (ours, f"{arguments.bin / 'train'}:256"),
        # Its restarts find addresses of the failed round, and fail again.
        "torchrun": ([arguments.python, "-m", "torch.distributed.run", *common[:1], "--max-restarts=100", "--monitor-interval=0.1"], "gpt.py"),
    }
    launchers = {name: how for name, how in launchers.items() if arguments.only in name}
    starts = {name: [] for name in launchers}
    recoveries = {name: [] for name in launchers}
    for turn in range(arguments.turns):
        for name, (command, script) in launchers.items():
            start, after_kills = run(command, script, environment, arguments.kills)
            starts[name].append(start)
            recoveries[name] += after_kills
            print(f"turn {turn + 1}: {name}: first step after {start:.2f} s, a step after a kill in "
                  + ", ".join(f"{seconds:.2f}" for seconds in after_kills) + " s", file=sys.stderr, flush=True)
    first = next(iter(launchers))
    plain = statistics.median(starts[first]), statistics.median(recoveries[first])
    print(f"{arguments.workers} workers, {arguments.turns} turns, {arguments.kills} kills in each")
    print(f"{'':24}{'first step':>22}{'kill to next step':>24}")
    for name in launchers:
        start, recovery = statistics.median(starts[name]), statistics.median(recoveries[name])
        print(f"{name:24}{start:10.2f} s {start / plain[0]:6.2f} x  {recovery:12.2f} s {recovery / plain[1]:6.2f} x")


if __name__ == "__main__":
    main()
