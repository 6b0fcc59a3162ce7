"""scripts/kill-a-worker on the real programs: what the quickstart tells a newcomer to try next has to be true."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = os.environ.get("DDPRUN_TEST_BIN", ".")


class KillAWorker(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.project = pathlib.Path(folder.name) / "a project"
        shutil.copytree(ROOT / "scripts", self.project / "scripts")

    def run_script(self, *arguments, **environment):
        return subprocess.run([self.project / "scripts" / "kill-a-worker", *arguments], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL, timeout=280, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""} | environment)

    def test_a_worker_is_killed_and_the_weights_are_those_of_an_undisturbed_run(self):
        done = self.run_script("--epochs=3", DDPRUN_BIN=BIN)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"kill -9 \d+")
        self.assertIn("killed by SIGKILL", done.stdout)
        hashes = re.findall(r"^weights .*: +(\w+)$", done.stdout, re.MULTILINE)
        self.assertEqual(len(hashes), 2)
        self.assertEqual(hashes[0], hashes[1])

    def test_before_anything_is_built_it_names_the_quickstart(self):
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("scripts/quickstart", done.stderr)


if __name__ == "__main__":
    unittest.main()
