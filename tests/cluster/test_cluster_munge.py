"""Nodes of a step of Slurm know each other by the MUNGE of the cluster, which Slurm itself uses."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import bench
from bench import DDPRUN, MEETING_WORKER, ONE_EACH, SlurmTest, all_of, met, until

bench.enter_namespaces()

SOCKET = pathlib.Path("/run/munge/munge.socket.2")
STEP = ["srun", "-N3", ONE_EACH]


def after_a_stranger(ddprun, conf):
    """On the second node this ddprun, which is to be refused, comes first."""
    return f"""
if [ "$SLURM_NODEID" = 1 ]; then
  {ddprun} --rdzv-conf=join_timeout=6{conf} {MEETING_WORKER}
  echo "the stranger ended with $?"
fi
exec {DDPRUN} {MEETING_WORKER}
"""


class Munge(SlurmTest):
    needed = ["munged"]
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

    def check_stranger_is_refused(self, ddprun, conf=""):
        out = self.output_of(*STEP, "sh", "-c", after_a_stranger(ddprun, conf))
        self.assertIn("the stranger ended with 69", out)
        self.assertEqual(met(out), all_of(3, 1), out)
        return out

    def test_all_nodes_of_a_step_prove_their_user_without_an_option(self):
        out = self.output_of(*STEP, DDPRUN, MEETING_WORKER)
        self.assertEqual(met(out), all_of(3, 1), out)
        self.assertNotIn("MUNGE", out)

    def test_a_node_that_cannot_use_munge_is_refused_and_the_others_meet(self):
        self.check_stranger_is_refused(DDPRUN, ",munge_socket=/nowhere")

    @unittest.skipUnless(shutil.which("setpriv"), "no setpriv")
    def test_another_user_of_the_cluster_cannot_join(self):
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(DDPRUN)]
        if subprocess.run([*other, "--version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("another user cannot run ddprun here")
        out = self.check_stranger_is_refused(" ".join(other))
        self.assertIn("was refused: it has not proven by MUNGE that it is of the rendezvous's user", out)

    def test_workers_restart_on_all_nodes(self):
        out = self.output_of(*STEP, DDPRUN, "--max-restarts=1", "--restart-delay=0", MEETING_WORKER, "fail", "1", "0", "3")
        self.assertEqual(len(re.findall(r"met rank=\d/3 .* restarts=1 ", out)), 3, out)


if __name__ == "__main__":
    unittest.main()
