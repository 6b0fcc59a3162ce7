"""Restarts of PyTorch groups under ddprun: after failures, and after kill -9 at random moments."""

import os
import random
import signal
import time
import unittest

from harness import WORKERS, Started, TorchTest, run, with_each_torch

STEPS = 60


def wait_for(what, limit=60):
    """Calls `what` until it gives something."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if (found := what()) is not None:
            return found
        time.sleep(0.002)
    raise AssertionError(f"waited {limit} s for {what.__name__}")


class FailingGroup(TorchTest):
    def check_failing_group(self, torch, restarts, *options):
        result = self.ddprun(torch, ["--nproc-per-node=2", f"--max-restarts={restarts}", "--restart-delay=0", *options], "fails.py",
                             limit=60 + 20 * restarts)
        self.assertEqual(self.lines(result), [f"rank {rank} of 2: round {restarts}" for rank in range(2)], result)


class KilledGroup(FailingGroup):
    def command(self, torch, folder, max_restarts, *options):
        return torch.ddprun("--nproc-per-node=2", f"--max-restarts={max_restarts}", "--restart-delay=0", "--rdzv-id=a run with checkpoints",
                            *options, WORKERS / "checkpoints.py", folder, STEPS)

    def kill_at_random_moments(self, chance, folder, kills):
        """Kills a worker of each of the first `kills` rounds: one while it starts, the others in training."""
        for number in range(kills):
            def start_of_the_round():
                path = folder / f"{number}.{victim}.pid"
                return int(path.read_text()) if path.exists() else None

            def steps_done():
                path = folder / "step"
                step = int(path.read_text()) if path.exists() else 0
                return step if step >= wanted else None

            victim = chance.randrange(2)
            wanted = 0 if number == 1 else chance.randrange(5, STEPS // 3) + STEPS // 3 * (number // 2)
            pid = wait_for(start_of_the_round)
            if wanted > 0:
                wait_for(steps_done)
            time.sleep(chance.uniform(0, 0.5 if wanted == 0 else 0.03))
            os.kill(pid, signal.SIGKILL)
        (folder / "may end").touch()

    def check_kills(self, torch, *options):
        """The parameters at the end are those of a job without kills and without the options."""
        undisturbed, killed = self.folder / "undisturbed", self.folder / "killed"
        undisturbed.mkdir()
        (undisturbed / "may end").touch()
        killed.mkdir()
        result = run(self.command(torch, undisturbed, 0), torch.environment(), self.folder)
        self.assertEqual(result.status, 0, result)
        seed = random.randrange(1 << 30)
        with self.subTest(f"seed {seed}"), Started(self.command(torch, killed, 4, *options), torch.environment(), self.folder) as job:
            try:
                self.kill_at_random_moments(random.Random(seed), killed, kills=3)
            except (AssertionError, ProcessLookupError) as error:
                self.fail(f"{error!r}: {job.wait(30)}")
            result = job.wait(100)
            self.assertEqual(result.status, 0, result)
            self.assertEqual((killed / "result").read_text(), (undisturbed / "result").read_text())
            self.assertTrue((killed / "3.0.pid").exists(), result)
            self.assertFalse((killed / "4.0.pid").exists(), result)
            self.assertNotIn("imports for itself", result.err)


class Leaving(TorchTest):
    @with_each_torch
    def test_the_rank_that_leaves_with_exit_code_0_is_named_before_those_that_lost_it(self, torch):
        for workers in (2, 4):
            with self.subTest(workers=workers):
                result = run(torch.ddprun(f"--nproc-per-node={workers}", WORKERS / "breaks.py", "leaves", 1), torch.environment(),
                             self.folder)
                self.assertEqual(result.status, 1, result)
                self.assertRegex(result.err, "ddprun: culprit: probably rank 1 .*, which had ended with exit code 0, ")


class Restarts(KilledGroup):
    @with_each_torch
    def test_a_group_of_which_a_worker_fails_meets_no_stale_keys_after_the_restart(self, torch):
        self.check_failing_group(torch, 6)

    @with_each_torch
    def test_a_script_with_checkpoints_survives_kills_and_ends_as_without_them(self, torch):
        self.check_kills(torch)


if __name__ == "__main__":
    unittest.main()
