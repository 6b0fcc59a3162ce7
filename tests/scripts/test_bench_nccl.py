"""bench_nccl under ddprun, on GPUs and an NCCL in software."""

import os
import subprocess
import unittest

from gpu_scripts import BUILD


class BenchNccl(unittest.TestCase):
    def bench(self, workers, *options, **environment):
        return subprocess.run([BUILD / "bin" / "ddprun", f"--nproc-per-node={workers}", "--output=raw",
                               BUILD / "tests" / "bench_nccl_emulated", *options], capture_output=True, text=True, check=False,
                              timeout=100, env=os.environ | environment)

    def test_the_table_has_a_line_for_each_size_with_time_and_bandwidths(self):
        done = self.bench(3, "--max-bytes=2M", "--factor=64", "--iterations=2", "--warm-up=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], "^# NCCL 2.28.9, 3 ranks of emulated GPU; mean of 2 sums after 1, of all ranks; in place$")
        self.assertEqual(lines[1].split(), ["#", "size", "count", "type", "redop", "time", "algbw", "busbw", "#wrong"])
        rows = [line.split() for line in lines[3:]]
        self.assertEqual([int(row[0]) for row in rows], [8, 512, 32768, 2097152])
        for row in rows:
            size, count, microseconds, algorithm, bus, wrong = (float(row[i]) for i in (0, 1, 4, 5, 6, 7))
            self.assertEqual((count, row[2:4], wrong), (size / 4, ["float", "sum"], 0))
            self.assertAlmostEqual(algorithm, size / microseconds / 1e3, delta=0.006)
            self.assertAlmostEqual(bus, algorithm * 4 / 3, delta=0.012)

    def test_workers_share_a_gpu_only_where_that_is_asked_for(self):
        options = ("--max-bytes=8", "--iterations=1")
        done = self.bench(2, *options, DDPRUN_EMULATED_GPUS="1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("bench_nccl: --device cuda: 2 workers on this machine, but 1 GPU is visible", done.stderr)
        done = self.bench(2, *options, "--share-gpu", DDPRUN_EMULATED_GPUS="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("which may share GPUs: no figures to compare", done.stdout)

    def test_a_peer_that_hangs_ends_it_at_the_deadline(self):
        done = self.bench(2, "--max-bytes=8", "--timeout=2", DDPRUN_FAKE_NCCL="1:hang=5")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"bench_nccl: error: rank [01] has waited 2\.\d+ s for the sum of bucket 0")

    def test_what_cannot_work_is_refused_with_what_to_do(self):
        for workers, options, expected in (
                (1, (), "one worker has nobody to sum with: start two or more, by `ddprun --nproc-per-node=gpu bench_nccl`"),
                (2, ("--min-bytes=64", "--max-bytes=8"), "--min-bytes=64 is more than --max-bytes=8"),
                (2, ("--iterations=0",), "--iterations: Value 0 not in range")):
            done = self.bench(workers, *options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    unittest.main()
