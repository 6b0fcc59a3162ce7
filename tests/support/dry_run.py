"""What ddprun would do for a command line of the documentation."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("DDPRUN_TEST_BIN", ".")).resolve()
# A namespace of processes, whose first one is a container's.
UNSHARE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]


def may_unshare():
    try:
        return subprocess.run([*UNSHARE, "/bin/true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class DryRunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "train.py").touch()

    def plan(self, words, **environment):
        """What ddprun would do: the values of --dry-run. This machine may have fewer GPUs than the example's."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PET_", "SLURM_"))}
        command = [BIN / "ddprun", "--dry-run", "--gpus=none", *words]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
                              cwd=self.folder, env=kept | environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return {match.group(1): match.group(2) for match in re.finditer(r"(?m)^(\w[\w ]*?) {1,}(?=\S)(.*)$", done.stdout)} | {"text": done.stdout}

    def assert_nodes(self, plan, nodes, endpoint):
        self.assertRegex(plan["text"], rf"(?m)^nodes +{nodes}\b")
        self.assertRegex(plan["text"], rf"(?m)^rendezvous +{re.escape(endpoint)}")
