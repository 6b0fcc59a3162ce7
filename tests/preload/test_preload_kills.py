"""SIGKILL of a process of a job with --preload, at a random moment (preload_kills.py)."""

from preload_kills import KilledJobs


class Kills(KilledJobs):
    def test_of_ddprun_at_a_random_moment(self):
        self.kill_many("ddprun", 12)

    def test_of_the_agent_at_a_random_moment(self):
        self.kill_many("agent", 12)

    def test_of_the_importing_process_at_a_random_moment(self):
        self.kill_many("importer", 12)

    def test_of_a_worker_at_a_random_moment(self):
        self.kill_many("worker", 12)
