"""ddprun started by the launchers of MPI, which number their processes but do not say where these run.

In a job of Slurm they start their helpers by srun, one on each node.
"""

import os
import shutil
import signal
import subprocess
import unittest

import bench
from bench import DDPRUN, MEETING_WORKER, SlurmTest, all_of, met, running, until

bench.enter_namespaces()


def open_mpi():
    """Debian's name for that one of several MPIs; elsewhere it is mpirun."""
    for name in ("mpirun.openmpi", "mpirun"):
        if shutil.which(name) and "Open MPI" in subprocess.run([name, "--version"], capture_output=True, text=True,
                                                               check=False).stdout:
            return name
    return "mpirun.openmpi"


class OpenMpi(SlurmTest):
    needed = [open_mpi()]
    # Here all nodes are at loopback, which it does not use by itself.
    mpirun = ["salloc", "-N3", *needed, "--allow-run-as-root", "--mca", "oob_tcp_if_include", "lo", "--map-by"]

    def test_mpirun_gives_each_node_its_rank(self):
        out = self.output_of(*self.mpirun, "ppr:1:node", DDPRUN, "--rdzv-endpoint=n1:29411", "--nproc-per-node=2",
                             MEETING_WORKER)
        self.assertEqual(met(out), all_of(3, 2), out)

    def test_without_an_endpoint_it_is_told_what_to_add(self):
        # mpirun ends the others when the first one fails.
        out = self.output_of(*self.mpirun, "ppr:1:node", DDPRUN, MEETING_WORKER, status=2)
        self.assertIn("OMPI_COMM_WORLD_SIZE=3: the nodes need an address where they meet, which mpirun does not give; "
                      "add --rdzv-endpoint=HOST, where HOST is one of the nodes", out)

    def test_several_processes_on_a_node_are_told_what_to_type(self):
        out = self.output_of(*self.mpirun, "ppr:2:node", DDPRUN, "--rdzv-endpoint=n1:29412", MEETING_WORKER, status=2)
        self.assertIn("type: mpirun --map-by ppr:1:node ddprun", out)


class Mpich(SlurmTest):
    """Its launcher is Hydra, that of Intel's MPI, too."""

    needed = ["mpiexec.hydra"]
    by_slurm = ["salloc", "-N3", *needed, "-ppn"]
    # Hosts by name, each with a helper of its own, which ssh would start elsewhere.
    by_hand = [*needed, "-launcher", "fork", "-hosts", "n1,n2,n3", "-ppn"]

    def test_mpiexec_gives_each_node_its_rank(self):
        for mpiexec in (self.by_slurm, self.by_hand):
            with self.subTest(mpiexec=mpiexec):
                out = self.output_of(*mpiexec, "1", DDPRUN, "--rdzv-endpoint=n1:29413", "--nproc-per-node=2",
                                     MEETING_WORKER)
                self.assertEqual(met(out), all_of(3, 2), out)

    def test_the_dry_run_shows_what_it_has_given(self):
        out = self.output_of(*self.by_hand, "1", "-prepend-rank", DDPRUN, "--rdzv-endpoint=n1", "--dry-run",
                             MEETING_WORKER)
        for node in range(3):
            self.assertRegex(out, rf"(?m)^\[{node}\] cluster +\S.*: --nnodes=3 \(PMI_SIZE\), "
                                  rf"--node-rank={node} \(PMI_RANK\)")

    def test_without_an_endpoint_it_is_told_what_to_add(self):
        out = self.output_of(*self.by_hand, "1", DDPRUN, MEETING_WORKER, status=2)
        self.assertIn("PMI_SIZE=3: the nodes need an address where they meet, which mpiexec does not give; add "
                      "--rdzv-endpoint=HOST, where HOST is one of the nodes", out)

    def test_several_processes_on_a_node_are_told_what_to_type(self):
        out = self.output_of(*self.by_slurm, "2", DDPRUN, "--rdzv-endpoint=n1:29414", MEETING_WORKER, status=2)
        self.assertIn("type: mpiexec -ppn 1 ddprun", out)

    def test_the_end_of_its_helper_on_a_node_is_a_sigterm_there(self):
        script = f"exec {DDPRUN} --rdzv-endpoint=n1:29415 --report={self.folder}/report.$PMI_RANK --no-python sleep 600"
        job = self.begin(*self.by_hand, "1", "sh", "-c", script)
        until(lambda: len(running("sleep")) == 3 or job.poll() is not None, 60, "three workers")
        os.kill(running("hydra_pmi_proxy")[0], signal.SIGKILL)
        out, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0, out)
        self.assert_nothing_runs()
        # By then mpiexec may read nothing any more, so what ddprun says can be lost.
        self.assertRegex((self.folder / "report.0").read_text(), '"reason": "stopped by SIGTERM', out)


if __name__ == "__main__":
    unittest.main()
