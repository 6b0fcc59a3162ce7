"""A real Slurm gives jobs GPUs (GRES), and ddprun starts one worker for each.

The GPUs are files: nobody computes on them.
"""

import re
import unittest

import bench
from bench import BIN, DDPRUN, NODES, ONE_EACH, SlurmTest, until

bench.enter_namespaces()

# Of each worker: its rank, that within its node, and the GPUs that it sees.
WORKER = ["--no-python", "sh", "-c",
          "echo worker $RANK/$WORLD_SIZE of $SLURMD_NODENAME, $LOCAL_RANK: $CUDA_VISIBLE_DEVICES"]


def workers(out):
    return sorted(re.findall(r"worker (\d+/\d+) of (\S+), (\d): (\S*)", out))


def one_for_each(gpus):
    """On each node one worker for each of the GPUs, and each sees all of them."""
    size = len(NODES) * len(gpus)
    return sorted((f"{node * len(gpus) + local}/{size}", name, str(local), ",".join(gpus))
                  for node, name in enumerate(NODES) for local in range(len(gpus)))


class SlurmGpus(SlurmTest):
    select = "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU"
    of_each_node = "CPUs=2 Gres=gpu:2"
    partitions = "PartitionName=all Nodes=ALL Default=YES State=UP"
    settings = "GresTypes=gpu"
    gres = f"NodeName={','.join(NODES)} Name=gpu File=/dev/null\nNodeName={','.join(NODES)} Name=gpu File=/dev/zero\n"

    def test_a_step_has_a_worker_for_each_gpu_and_its_workers_see_what_slurm_gave(self):
        out = self.output_of("srun", "-N3", ONE_EACH, "--gres=gpu:2", DDPRUN, *WORKER)
        self.assertEqual(workers(out), one_for_each(["0", "1"]), out)

    def test_two_jobs_on_the_same_nodes_have_a_gpu_each(self):
        release = self.folder / "release"
        waiting = [*WORKER[:-1], f"{WORKER[-1]}; until [ -e {release} ]; do sleep 0.1; done"]
        jobs, outs = [], [self.folder / "first", self.folder / "second"]
        for out in outs:
            jobs.append(self.begin("srun", "-N3", ONE_EACH, "--gres=gpu:1", f"--output={out}", DDPRUN, *waiting))
            until(lambda: out.exists() and len(workers(out.read_text())) == 3 or jobs[-1].poll() is not None, 60,
                  "three workers")
        release.touch()
        for job, out, gpu in zip(jobs, outs, "01"):
            said, _ = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 0, said)
            self.assertEqual(workers(out.read_text()), one_for_each([gpu]), out.read_text())

    def test_the_dry_run_names_the_variable(self):
        out = self.output_of("srun", "-N1", ONE_EACH, "--gres=gpu:2", DDPRUN, "--dry-run", "sh")
        self.assertIn("--nproc-per-node=2 (SLURM_GPUS_ON_NODE)", out)

    def test_an_option_wins_over_the_gpus(self):
        out = self.output_of("srun", "-N3", ONE_EACH, "--gres=gpu:2", DDPRUN, "--nproc-per-node=1", *WORKER)
        self.assertEqual([worker[0] for worker in workers(out)], ["0/3", "1/3", "2/3"], out)

    def test_the_batch_file_of_the_documentation_starts_a_worker_for_each_gpu(self):
        out = self.batch("-N3", "--gpus-per-node=2", "--cpus-per-task=1", self.BATCH_FILE,
                         *WORKER, PATH=f"{BIN}:/usr/bin:/bin")
        self.assertEqual(workers(out), one_for_each(["0", "1"]), out)


if __name__ == "__main__":
    unittest.main()
