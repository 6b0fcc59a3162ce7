"""No process outlives a job with --preload: its processes are killed at random moments, most of them while it imports and
forks."""

import contextlib
import os
import random
import signal
import time

from preload_job import SANITIZER, SANITIZER_IN_NAMESPACE, PreloadTest, eventually, text_of

SLEEPS = "import counted, time\ntime.sleep(600)\n"
SLOW = "import counted, time\ntime.sleep(0.05)\n"


def name_of(pid):
    return text_of(f"/proc/{pid}/comm").decode().strip()


class KilledJobs(PreloadTest):
    def setUp(self):
        super().setUp()
        self.module("slow", SLOW)

    def killed_job(self, level, victim):
        """A job of two workers. `victim` is sent SIGKILL within the time that its start takes."""
        self.count.unlink(missing_ok=True)
        process = self.start("--preload=slow", "--nproc-per-node=2", f"--contain={level}", "--grace-period=0.1",
                             self.script(SLEEPS), ASAN_OPTIONS=SANITIZER_IN_NAMESPACE if level == "pidns" else SANITIZER)
        moment = random.choice(["start", "import", "fork", "run"])
        if moment != "start":
            self.assertTrue(eventually(self.imports))
        time.sleep({"start": 0.3, "import": 0.05, "fork": 0.04, "run": 0.3}[moment] * random.random()
                   + {"start": 0, "import": 0, "fork": 0.045, "run": 0.1}[moment])
        pid = process.pid if victim == "ddprun" else self.find(victim)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if victim in ("importer", "worker") or pid is None:
            # The job may go on: with workers that import for themselves, or because it was not a worker's process yet.
            time.sleep(0.1 * random.random())
            process.send_signal(signal.SIGTERM)
        result = self.wait(process, limit=30)
        self.assertEqual(eventually(lambda: not self.processes()), True, f"{level} {victim} {moment}: {result}")
        if victim == "importer":
            ends = (143, -signal.SIGTERM) if moment == "start" else (143,)  # it may not have begun to wait for signals
            self.assertIn(result.status, ends, f"{level} {moment}: {result}")

    def find(self, victim):
        if victim == "agent":
            return next((pid for pid in self.processes() if name_of(pid) == "ddp-agent"), None)
        if victim == "importer":
            return next(iter(self.imports()), None)
        workers = [pid for pid in self.processes() if name_of(pid).startswith("python") and pid not in self.imports()]
        return random.choice(workers) if workers else None

    def levels(self):
        return ["tree", "auto", *(["pidns"] if os.geteuid() == 0 else [])]

    def kill_many(self, victim, times):
        for number in range(times):
            with self.subTest(number=number):
                self.killed_job(random.choice(self.levels()), victim)
