"""ddprun.elastic under ddprun itself: kills at random moments, and the losses of an undisturbed job."""

import contextlib
import os
import random
import re
import time
import unittest

from elastic_job import PACKAGE, SCRIPT, Killer, Record
from harness import Started, TorchTest, with_each_torch

STEPS = 300  # more than there are before the last kill, however fast new workers start
SIZE = 4


class Job(TorchTest):
    def start(self, torch, folder, form, pause, *options):
        folder.mkdir()
        command = torch.ddprun(f"--nproc-per-node={SIZE}", "--restart-delay=0", *options, SCRIPT, folder, STEPS, form, pause)
        return Started(command, torch.environment(PYTHONPATH=str(PACKAGE), OMP_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR"), folder)

    def pid_of(self, record, rank):
        """The newest process of the rank, if it runs."""
        pids = [int(line.split()[1]) for line in (record.folder / "pids").read_text(encoding="utf-8").splitlines()
                if line.split()[0] == str(rank)]
        with contextlib.suppress(OSError):
            with open(f"/proc/{pids[-1]}/cmdline", "rb") as file:
                return pids[-1] if os.fsencode(record.folder) in file.read() else None
        return None

    def check_kills(self, torch, kills, *options):
        with self.start(torch, self.folder / "undisturbed", "with", 0) as job:
            result = job.wait(120)
            self.assertEqual(result.status, 0, result)
        undisturbed = Record(self.folder / "undisturbed", SIZE)
        record = Record(self.folder / "killed", SIZE)
        seed = random.randrange(1 << 30)
        with self.subTest(seed=seed), self.start(torch, record.folder, "with", 0.02, f"--max-restarts={2 * kills}", *options) as job:
            killer = Killer(random.Random(seed), record, kills, lambda rank: self.pid_of(record, rank))
            end = time.monotonic() + 60 + 20 * kills
            while job.process.poll() is None and killer.left > 0 and time.monotonic() < end:
                killer.turn()
                time.sleep(0.01)
            result = job.wait(120)
            self.assertEqual((result.status, killer.left), (0, 0), result)
            record.check(self, undisturbed, STEPS)
            # Without a survivor the job begins anew, as there is no checkpoint.
            rounds = [line.split() for line in (record.folder / "rounds").read_text(encoding="utf-8").splitlines()]
            if not [line for line in rounds if int(line[0]) > 0 and line[4] == "None"]:
                self.assertEqual(record.repeated(), [0] * SIZE, result)
            self.assertTrue([line for line in rounds if line[3] == "kept"], result)
            self.assertEqual(re.findall("[Cc]rash loop", result.err), [])


class Kills(Job):
    @with_each_torch
    def test_a_job_with_kills_has_the_losses_of_an_undisturbed_one(self, torch):
        self.check_kills(torch, 5)

    @with_each_torch
    def test_a_preloaded_job_with_kills_has_the_losses_of_an_undisturbed_one(self, torch):
        self.check_kills(torch, 2, "--preload=auto")


if __name__ == "__main__":
    unittest.main()
