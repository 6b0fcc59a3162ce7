"""Nodes of a step of Slurm know each other by the MUNGE of the cluster, which Slurm itself uses."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import bench
from bench import DDPRUN, MEETING_WORKER, SlurmTest, until

bench.NEEDED.append("munged")
bench.enter_namespaces()

SOCKET = pathlib.Path("/run/munge/munge.socket.2")
STEP = ["srun", "-N3", "--ntasks-per-node=1"]
# On the second node a ddprun that cannot use MUNGE comes first.
WITH_A_STRANGER = f"""
if [ "$SLURM_NODEID" = 1 ]; then
  {DDPRUN} --rdzv-conf=munge_socket=/nowhere,join_timeout=60 {MEETING_WORKER}
  echo "the stranger ended with $?"
fi
exec {DDPRUN} {MEETING_WORKER}
"""


class SlurmWithMunge(SlurmTest):
    auth = "munge"

    @classmethod
    def start(cls):
        # The default place of the socket, in a mount namespace of our own.
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
        cls.addClassCleanup(subprocess.run, ["umount", "--lazy", "/run"], check=False)
        SOCKET.parent.mkdir(mode=0o755)
        key = cls.folder / "key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o400)
        names = {name: f"--{name}-file={cls.folder}/munged.{name}" for name in ("pid", "log", "seed")}
        cls.daemon("munged", "--foreground", "--force", f"--key-file={key}", *names.values())
        until(SOCKET.exists, 60, lambda: (cls.folder / "munged.log").read_text())
        super().start()

    def met(self, out):
        return len(re.findall(r"met rank=\d/3 ", out))

    def test_all_nodes_of_a_step_prove_their_user_without_an_option(self):
        out = self.output_of(*STEP, DDPRUN, MEETING_WORKER)
        self.assertEqual(self.met(out), 3, out)
        self.assertNotIn("MUNGE", out)

    def test_a_node_that_cannot_use_munge_is_refused_and_the_others_meet(self):
        out = self.output_of(*STEP, "sh", "-c", WITH_A_STRANGER)
        self.assertIn("the stranger ended with 69", out)
        self.assertEqual(self.met(out), 3, out)

    @unittest.skipUnless(shutil.which("setpriv"), "no setpriv")
    def test_another_user_of_the_cluster_cannot_join(self):
        other = "setpriv --reuid=65534 --regid=65534 --clear-groups"
        if subprocess.run([*other.split(), DDPRUN, "--version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("another user cannot run ddprun here")
        out = self.output_of(*STEP, "sh", "-c", WITH_A_STRANGER.replace("munge_socket=/nowhere,", "").replace(f"  {DDPRUN}", f"  {other} {DDPRUN}"))
        self.assertIn("the stranger ended with 69", out)
        self.assertEqual(self.met(out), 3, out)

    def test_workers_restart_on_all_nodes(self):
        out = self.output_of(*STEP, DDPRUN, "--max-restarts=1", "--restart-delay=0", MEETING_WORKER, "fail", "1", "0", "3")
        self.assertEqual(len(re.findall(r"met rank=\d/3 .* restarts=1 ", out)), 3, out)
