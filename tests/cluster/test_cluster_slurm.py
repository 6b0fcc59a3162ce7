"""ddprun in steps of a real Slurm, without an option of a rendezvous. What takes a minute is in
test_cluster_slurm_slow.py."""

import json
import os
import re
import signal
import socket
import time
import unittest

import bench
from bench import BIN, DDPRUN, MEETING_WORKER, ONE_EACH, SlurmTest, all_of, met, parent_of, running, until, variables_of

bench.enter_namespaces()


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
        out = self.batch("-N3", "--cpus-per-task=1", self.BATCH_FILE, "--nproc-per-node=2", MEETING_WORKER,
                         PATH=f"{BIN}:/usr/bin:/bin")
        self.assertEqual(met(out), all_of(3, 2), out)

    def test_the_batch_file_of_the_documentation_runs_unedited_where_there_are_no_gpus(self):
        out = self.batch(self.BATCH_FILE, "--nproc-per-node=2", MEETING_WORKER, PATH=f"{BIN}:/usr/bin:/bin")
        self.assertEqual(met(out), all_of(1, 2), out)

    def test_scancel_ends_everything_on_all_nodes(self):
        job = self.start_sleepers()
        began = time.monotonic()
        self.output_of("scancel", "--name=sleepers")
        out, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0, out)
        self.assert_nothing_runs(limit=20)
        self.assertLess(time.monotonic() - began, 30, out)  # KillWait: Slurm did not have to kill it

    def test_a_sigterm_also_ends_a_node_whose_workers_have_just_succeeded(self):
        # It waits for what they have left. Slurm's SIGTERM reaches workers, too, and some end well by it.
        worker = '[ $RANK != 0 ] || { (trap "" TERM; exec sleep 600) & exit 0; }; exec sleep 600'
        said = self.folder / "said"
        job = self.begin("srun", "-N3", ONE_EACH, "--job-name=sleepers", f"--output={said}", DDPRUN, "--grace-period=30",
                         "--no-python", "sh", "-c", worker)
        until(lambda: len(running("sleep")) == 3 and said.exists() and "left processes running" in said.read_text(), 60,
              "three sleepers, one of them left by its worker")
        began = time.monotonic()
        self.output_of("scancel", "--signal=TERM", "--name=sleepers")
        out, _ = job.communicate(timeout=60)
        self.assertEqual(out.count("Exited with exit code 143"), 3, out + said.read_text())
        self.assertLess(time.monotonic() - began, 15, out + said.read_text())

    def test_an_interrupted_srun_ends_everything_on_all_nodes(self):
        job = self.start_sleepers()
        job.send_signal(signal.SIGINT)
        time.sleep(0.2)
        job.send_signal(signal.SIGINT)  # srun asks for a second one within a second
        job.communicate(timeout=60)
        self.assert_nothing_runs()

    def test_a_killed_slurmstepd_leaves_nothing_of_its_node(self):
        job = self.start_sleepers()
        ddprun = {variables_of(pid)["SLURM_NODEID"]: pid for pid in running("ddprun")}
        os.kill(parent_of(ddprun.pop("2")), signal.SIGKILL)
        # All workers end, and the other two wait for a third node.
        until(lambda: set(running("ddprun")) == set(ddprun.values()) and not running("sleep"), 30,
              lambda: running("ddprun", "sleep"))
        self.output_of("scancel", "--name=sleepers")
        self.assert_nothing_runs()
        job.kill()  # Slurm lets it wait for the node
        job.communicate()

    def test_a_failed_worker_is_restarted_on_all_nodes(self):
        out = self.output_of("srun", "-N3", ONE_EACH, DDPRUN, "--max-restarts=1", "--restart-delay=0", MEETING_WORKER,
                             "fail", "1", "0", "3")
        self.assertEqual(len(re.findall(r"met rank=\d/3 .* restarts=1 ", out)), 3, out)

    def test_the_bundled_trainer_trains_on_all_nodes(self):
        if not (BIN / "train").exists():
            self.skipTest("train was not built")
        out = self.output_of("srun", "-N3", ONE_EACH, DDPRUN, "--nproc-per-node=2", "--rdzv-conf=timeout=60", "train",
                             "--max-steps=3")
        self.assertNotIn("error", out.lower())
        self.assertIn(" 6 workers ", out)
        self.assertIn("steps 3, ", out)


if __name__ == "__main__":
    unittest.main()
