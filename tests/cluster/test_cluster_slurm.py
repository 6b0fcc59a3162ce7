"""ddprun in steps of a real Slurm, without an option of a rendezvous."""

import json
import os
import re
import shutil
import signal
import socket
import time

import bench
from bench import BIN, DDPRUN, MEETING_WORKER, ROOT, SlurmTest, parent_of, running, until

bench.enter_namespaces()

ONE_EACH = "--ntasks-per-node=1"


def met(out):
    return sorted(re.findall(r"met rank=(\S+) node=(\S+) ", out))


def all_of(nodes, workers):
    size = nodes * workers
    return sorted((f"{rank}/{size}", f"{rank // workers}/{nodes}") for rank in range(size))


class Slurm(SlurmTest):
    def test_srun_alone_forms_one_job_of_all_nodes_of_its_step(self):
        out = self.output_of("srun", "-N3", ONE_EACH, DDPRUN, "--nproc-per-node=2", MEETING_WORKER)
        self.assertEqual(met(out), all_of(3, 2), out)

    def test_a_step_on_two_nodes_of_a_job_of_three_has_two(self):
        out = self.output_of("salloc", "-N3", "srun", "-N2", "--nodelist=n2,n3", ONE_EACH, DDPRUN, MEETING_WORKER)
        self.assertEqual(met(out), all_of(2, 1), out)

    def test_the_dry_run_shows_what_slurm_has_said(self):
        out = self.output_of("srun", "-N2", ONE_EACH, "--label", DDPRUN, "--dry-run", MEETING_WORKER)
        for node in (0, 1):
            self.assertRegex(out, rf"(?m)^{node}: cluster +Slurm: --nnodes=2 \(SLURM_STEP_NUM_NODES\), --node-rank={node} "
                                  rf"\(SLURM_NODEID\), --rdzv-id=\d+\.0\.0 \(SLURM_JOB_ID, .*--rdzv-endpoint=n1:2\d+ ")

    def test_two_jobs_at_once_on_the_same_nodes_and_two_steps_of_one_job(self):
        commands = [self.begin("srun", "-N3", ONE_EACH, DDPRUN, MEETING_WORKER) for _ in range(2)]
        steps = "for i in 1 2; do srun --overlap -N3 %s %s %s & done; wait" % (ONE_EACH, DDPRUN, MEETING_WORKER)
        commands.append(self.begin("salloc", "-N3", "sh", "-c", steps))
        outs = [command.communicate(timeout=120)[0] for command in commands]
        for command, out in zip(commands, outs):
            self.assertEqual(command.returncode, 0, out)
        self.assertEqual(met(outs[0]), all_of(3, 1), outs[0])
        self.assertEqual(met(outs[1]), all_of(3, 1), outs[1])
        self.assertEqual(met(outs[2]), sorted(2 * all_of(3, 1)), outs[2])

    def test_ports_that_others_have_are_passed_by_on_all_nodes(self):
        srun = ["srun", "-N3", ONE_EACH]
        ddprun = [DDPRUN, "--rdzv-id=fixed"]
        self.output_of(*srun, f"--output={self.folder}/plan-%t", *ddprun, "--dry-run=json", MEETING_WORKER)
        plan = json.loads((self.folder / "plan-2").read_text())["rendezvous"]
        first = int(plan["endpoint"].rpartition(":")[2])
        self.assertEqual(plan["more_ports"], list(range(first + 1, first + 8)))
        # One of a program that never answers, and one of a program that ends each connection.
        with socket.create_server(("", first)), socket.create_server(("", first + 1)) as ending:
            ending.settimeout(0.2)
            job = self.begin(*srun, *ddprun, MEETING_WORKER)
            while job.poll() is None:
                try:
                    ending.accept()[0].close()
                except TimeoutError:
                    pass
            out = job.stdout.read()
        self.assertEqual(met(out), all_of(3, 1), out)
        self.assertEqual(job.returncode, 0, out)

    def test_several_tasks_on_a_node_are_told_what_to_type(self):
        out = self.output_of("srun", "-N2", "-n4", DDPRUN, MEETING_WORKER, status=2)
        self.assertEqual(out.count("ddprun: Slurm has started 4 tasks on 2 nodes (SLURM_STEP_NUM_TASKS), but each ddprun "
                                   "starts all workers of its node; type: srun --ntasks-per-node=1 ddprun"), 4, out)

    def test_a_batch_script_without_srun_is_told_what_to_type(self):
        out = self.batch("-N3", "--wrap", f"{DDPRUN} {MEETING_WORKER}")
        self.assertIn("ddprun: this Slurm job has 3 nodes, and ddprun starts workers on this one only; for all of them "
                      "type: srun --ntasks-per-node=1 ddprun ...", out)
        self.assertEqual(met(out), all_of(1, 1), out)

    def test_a_job_that_was_submitted_from_a_step_is_not_taken_for_that_step(self):
        inner = f"sbatch --wait -N1 --nodelist=n3 --output={self.folder}/inner --wrap '{DDPRUN} {MEETING_WORKER}'"
        self.output_of("srun", "-N1", "--nodelist=n1", "sh", "-c", inner)
        out = (self.folder / "inner").read_text()
        self.assertEqual(met(out), all_of(1, 1), out)

    def test_the_batch_file_of_the_documentation_starts_a_job_on_all_nodes(self):
        out = self.batch("-N3", "--cpus-per-task=1", self.batch_file(), "--nproc-per-node=2", MEETING_WORKER,
                         PATH=f"{BIN}:/usr/bin:/bin")
        self.assertEqual(met(out), all_of(3, 2), out)

    def batch_file(self):
        """That of the documentation. Of what it asks for, these nodes have no GPU and two CPUs."""
        text = (ROOT / "docs" / "examples" / "ddprun.sbatch").read_text().replace("#SBATCH --gpus-per-node=8\n", "")
        file = self.folder / "ddprun.sbatch"
        file.write_text(text)
        return file

    def batch(self, *words, **environment):
        file = self.folder / "batch"
        exports = "".join(f",{name}={value}" for name, value in environment.items())
        self.output_of("sbatch", "--wait", f"--output={file}", f"--export=ALL{exports}", *words)
        return file.read_text()

    def start_sleepers(self, *options):
        job = self.begin("srun", "-N3", ONE_EACH, *options, "--job-name=sleepers", DDPRUN, "--nproc-per-node=2",
                         "--no-python", "sleep", "600")
        until(lambda: len(running("sleep")) == 6 or job.poll() is not None, 60, "six workers")
        self.assertIsNone(job.poll())
        return job

    def test_scancel_ends_everything_on_all_nodes(self):
        job = self.start_sleepers()
        began = time.monotonic()
        self.output_of("scancel", "--name=sleepers")
        out, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0, out)
        self.assert_nothing_runs(limit=20)
        self.assertLess(time.monotonic() - began, 30, out)  # KillWait: Slurm did not have to kill it

    def test_an_interrupted_srun_ends_everything_on_all_nodes(self):
        job = self.start_sleepers()
        job.send_signal(signal.SIGINT)
        time.sleep(0.2)
        job.send_signal(signal.SIGINT)  # srun asks for a second one within a second
        job.communicate(timeout=60)
        self.assert_nothing_runs()

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
                       f"--output={file}", f"--export=ALL,PATH={BIN}:/usr/bin:/bin", self.batch_file(),
                       "--no-python", "sh", "-c", worker)
        until(lambda: len(running("sleep")) == 3, 60, lambda: file.exists() and file.read_text())
        self.output_of("scancel", "--signal=TERM", "--name=requeued")
        until(lambda: file.read_text().count(".1\n") == 3, 60, file.read_text)
        until(lambda: not self.output_of("squeue", "--noheader"), 60, file.read_text)
        runs = re.findall(r"worker of \d+\.0\.(\d)", file.read_text())
        self.assertEqual(sorted(runs), ["0"] * 3 + ["1"] * 3, file.read_text())

    def test_a_killed_slurmstepd_leaves_nothing_of_its_node(self):
        job = self.start_sleepers()
        ddprun = running("ddprun")
        os.kill(parent_of(ddprun[0]), signal.SIGKILL)
        # All workers end, and the other two wait for a third node.
        until(lambda: running("ddprun") == ddprun[1:] and not running("sleep"), 30, lambda: running("ddprun", "sleep"))
        self.output_of("scancel", "--name=sleepers")
        self.assert_nothing_runs()
        job.kill()  # Slurm lets it wait for the node
        job.communicate()

    def test_a_failed_worker_is_restarted_on_all_nodes(self):
        out = self.output_of("srun", "-N3", ONE_EACH, DDPRUN, "--max-restarts=1", "--restart-delay=0", MEETING_WORKER,
                             "fail", "1", "0", "3")
        self.assertEqual(len(re.findall(r"met rank=\d/3 .* restarts=1 ", out)), 3, out)

    def test_mpirun_gives_each_node_its_rank(self):
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun: scripts/install-deps --cluster")
        # It starts its helpers by srun. Here all nodes are at loopback, which it does not use by itself.
        mpirun = ["salloc", "-N3", "mpirun", "--allow-run-as-root", "--mca", "oob_tcp_if_include", "lo", "--map-by",
                  "ppr:1:node"]
        out = self.output_of(*mpirun, DDPRUN, "--rdzv-endpoint=n1:29411", "--nproc-per-node=2", MEETING_WORKER)
        self.assertEqual(met(out), all_of(3, 2), out)
        # mpirun ends the others when the first one fails.
        out = self.output_of(*mpirun, DDPRUN, MEETING_WORKER, status=2)
        self.assertIn("OMPI_COMM_WORLD_SIZE=3: the nodes need an address where they meet, which mpirun does not give; add "
                      "--rdzv-endpoint=HOST, where HOST is one of the nodes", out)
        out = self.output_of(*mpirun[:-1], "ppr:2:node", DDPRUN, "--rdzv-endpoint=n1:29412", MEETING_WORKER, status=2)
        self.assertIn("type: mpirun --map-by ppr:1:node ddprun", out)

    def test_the_bundled_trainer_trains_on_all_nodes(self):
        if not (BIN / "train").exists():
            self.skipTest("train was not built")
        out = self.output_of("srun", "-N3", ONE_EACH, DDPRUN, "--nproc-per-node=2", "--rdzv-conf=timeout=60", "train",
                             "--max-steps=3")
        self.assertNotIn("error", out.lower())
