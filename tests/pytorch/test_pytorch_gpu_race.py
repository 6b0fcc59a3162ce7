"""PyTorch's side of scripts/gpu-race (bench/gpu/pytorch_gpu.py), as far as a CPU can run it."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "lib"))
import gpu_race  # noqa: E402


class OnTheCpu(unittest.TestCase):
    def setUp(self):
        torches = [torch for torch in harness.torches() if torch.release >= (2, 3)]
        if not torches:
            self.skipTest("no Python has torch 2.3 or newer")
        self.python = torches[0].python

    def run_side(self, *options):
        done = subprocess.run([self.python, "-B", gpu_race.PYTORCH, "--device=cpu", "--seconds=0.1", *options], capture_output=True,
                              text=True, check=False, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_the_twins_train_in_bf16_and_their_operations_are_counted(self):
        for case, flops in ((gpu_race.SMALL["resnet18-28"], 208e6), (gpu_race.SMALL["textclf-large-16"], 50e6)):
            found = self.run_side("--precision=bf16", f"--shape={case.shape}", f"--tokens={case.tokens}", *case.options())
            self.assertGreater(found["rate"], 0)
            self.assertAlmostEqual(found["flops"] / flops, 1, delta=0.1)

    def test_the_rates_of_the_machine_are_measured(self):
        found = self.run_side("--ceilings")
        self.assertTrue(all(found[name] > 0 for name in (*gpu_race.PRECISIONS, "copy")), found)


if __name__ == "__main__":
    unittest.main()
