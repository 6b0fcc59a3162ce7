#!/usr/bin/env python3
"""What a crash costs, as a user feels it: from `kill -9` of a worker to the next step that is finished, and from the command to
the first step. The job is gpt.py, an unmodified PyTorch script with a checkpoint after each step, under ddprun, ddprun --preload
and torchrun, in turns; and gpt_elastic.py, whose workers go on when another one was killed. Printed are medians, and their ratio to ddprun without --preload in the same turn.

Example: bench/recovery/recovery.py --python=venv/bin/python --workers=4 --turns=5 --kills=4
"""

import argparse
import contextlib
import os
import pathlib
import random
import shutil
import signal
import statistics
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

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def package(folder):
    """Makes the Python package ddprun, as a wheel has it, in a folder for PYTHONPATH."""
    shutil.copytree(HERE.parents[1] / "python" / "ddprun", folder / "ddprun", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "ddprun" / "_version.py").write_text('__version__ = "0"\n', encoding="utf-8")
    return folder


def run(command, script, environment, kills):
    """Seconds to the first step, and from each kill to the next finished step."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job = Job(command, script, environment | {"PYTHONPATH": str(package(folder / "package"))}, folder)
        try:
            start = job.wait_for(lambda step: True) - job.began
            recoveries = []
            for _ in range(kills):
                time.sleep(random.uniform(0.2, 0.4))
                victim = random.choice(job.workers()[-job.size:])
                before, done, _ = max(job.steps())
                now = time.monotonic()
                os.kill(victim, signal.SIGKILL)
                finished = job.wait_for(lambda step, done=done, before=before: step[0] > before and step[1] > done)
                recoveries.append(finished - now)
                if finished - now >= LIMIT:
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
        # Its restarts find addresses of the failed round, and fail again.
        "torchrun": ([arguments.python, "-m", "torch.distributed.run", *common[:1], "--max-restarts=100", "--monitor-interval=0.1"], "gpt.py"),
    }
    starts = {name: [] for name in launchers}
    recoveries = {name: [] for name in launchers}
    for turn in range(arguments.turns):
        for name, (command, script) in launchers.items():
            start, after_kills = run(command, script, environment, arguments.kills)
            starts[name].append(start)
            recoveries[name] += after_kills
            print(f"turn {turn + 1}: {name}: first step after {start:.2f} s, a step after a kill in "
                  + ", ".join(f"{seconds:.2f}" for seconds in after_kills) + " s", file=sys.stderr, flush=True)
    plain = statistics.median(starts["ddprun"]), statistics.median(recoveries["ddprun"])
    print(f"{arguments.workers} workers, {arguments.turns} turns, {arguments.kills} kills in each")
    print(f"{'':24}{'first step':>22}{'kill to next step':>24}")
    for name in launchers:
        start, recovery = statistics.median(starts[name]), statistics.median(recoveries[name])
        print(f"{name:24}{start:10.2f} s {start / plain[0]:6.2f} x  {recovery:12.2f} s {recovery / plain[1]:6.2f} x")


if __name__ == "__main__":
    main()
