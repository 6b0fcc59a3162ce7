"""A real Slurm ends jobs at their time limit, or for others, and starts them again later."""

import re
import shlex
import time
import unittest

import bench
from bench import BIN, DDPRUN, MEETING_WORKER, ONE_EACH, SlurmTest, all_of, met, running, until

bench.enter_namespaces()


class SlurmEndsJobs(SlurmTest):
    def test_the_time_limit_ends_everything_on_all_nodes(self):
        job = self.start_sleepers("--time=1")
        out, _ = job.communicate(timeout=180)
        self.assertIn("DUE TO TIME LIMIT", out)
        self.assertEqual(job.returncode, 143, out)
        self.assert_nothing_runs(limit=20)

    def test_a_job_that_slurm_ends_goes_on_after_its_requeue(self):
        # The batch file of the documentation, with a SIGTERM from Slurm at once: as before the time limit.
        worker = 'echo worker of $TORCHELASTIC_RUN_ID; case $TORCHELASTIC_RUN_ID in *.0) exec sleep 600;; esac'
        file = self.folder / "requeued"
        self.output_of("sbatch", "-N3", "--cpus-per-task=1", "--job-name=requeued", "--open-mode=append",
                       f"--output={file}", f"--export=ALL,PATH={BIN}:/usr/bin:/bin", self.BATCH_FILE,
                       "--no-python", "sh", "-c", worker)
        until(lambda: len(running("sleep")) == 3, 60, lambda: file.exists() and file.read_text())
        self.output_of("scancel", "--signal=TERM", "--name=requeued")
        until(lambda: file.read_text().count(".1\n") == 3, 60, file.read_text)
        until(lambda: not self.output_of("squeue", "--noheader"), 60, file.read_text)
        runs = re.findall(r"worker of \d+\.0\.(\d)", file.read_text())
        self.assertEqual(sorted(runs), ["0"] * 3 + ["1"] * 3, file.read_text())


GRACE_TIME = 15  # of Slurm, from its SIGTERM to the next one, at which ddprun kills; its SIGKILL follows after KillWait
# Before the requeue it runs until a SIGTERM, as one that writes a checkpoint then. Slurm sends that to each process, sleep
# among them, and ddprun sends it, too.
WORKER = """
echo "run of $TORCHELASTIC_RUN_ID by $RANK"
case $TORCHELASTIC_RUN_ID in
  *.0) trap 'echo "end of $TORCHELASTIC_RUN_ID by $RANK"; exit 0' TERM; while :; do sleep 600 & wait; done ;;
esac
"""
STUBBORN_WORKER = WORKER.replace("exit 0", ":")


class SlurmPreemption(SlurmTest):
    settings = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE"
    partitions = (f"PartitionName=low Nodes=ALL Default=YES PriorityTier=1 GraceTime={GRACE_TIME} State=UP\n"
                  "PartitionName=high Nodes=ALL PriorityTier=2 PreemptMode=OFF State=UP")

    def preempt(self, *words):
        """A batch job of partition low is ended by one of partition high, and is started again.

        What it has printed, and after how many seconds the other had ended on its nodes.
        """
        file = self.folder / "low"
        file.unlink(missing_ok=True)
        job = self.output_of("sbatch", "--parsable", "--requeue", "-N3", "--open-mode=append", f"--output={file}",
                             f"--export=ALL,PATH={BIN}:/usr/bin:/bin", *words).strip()
        until(lambda: len(running("sleep")) == 3, 60, lambda: file.exists() and file.read_text())
        began = time.monotonic()
        out = self.output_of("srun", "--partition=high", "-N3", ONE_EACH, DDPRUN, MEETING_WORKER)
        took = time.monotonic() - began
        self.assertEqual(met(out), all_of(3, 1), out)
        until(lambda: not self.output_of("squeue", "--noheader"), 120, file.read_text)
        self.assert_nothing_runs()
        self.assertRegex(self.shown(job), r" JobState=COMPLETED (.*\n)*.* Restarts=1 .* ExitCode=0:0", file.read_text())
        return file.read_text(), took

    def check(self, out, said, runs):
        """All workers of these runs have said so, and no others."""
        found = set(re.findall(rf"{said} of \d+\.0\.(\d) by (\d)", out))
        self.assertEqual(found, {(run, rank) for run in runs for rank in "012"}, out)

    def test_a_job_of_the_batch_file_of_the_documentation_goes_on_afterwards(self):
        out, took = self.preempt("--cpus-per-task=1", self.BATCH_FILE, "--no-python", "sh", "-c", WORKER)
        self.check(out, "run", "01")
        self.check(out, "end", "0")
        self.assertLess(took, GRACE_TIME - 2, out)  # without the second SIGTERM

    def test_workers_that_ignore_sigterm_are_killed_at_the_second_one_and_the_job_starts_again(self):
        # Its script goes on until Slurm ends it. One that ends before that would end the job.
        srun = shlex.join(["srun", ONE_EACH, str(DDPRUN), "--grace-period=600", "--no-python", "sh", "-c", STUBBORN_WORKER])
        out, took = self.preempt("--wrap", f"{srun}; [ $SLURM_RESTART_COUNT ] || sleep 600")
        self.check(out, "run", "01")
        self.assertGreaterEqual(took, GRACE_TIME, out)


if __name__ == "__main__":
    unittest.main()
