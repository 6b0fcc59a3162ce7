"""The same, 1,000 times."""

from preload_kills import KilledJobs


class ManyKills(KilledJobs):
    def test_of_ddprun_at_250_random_moments(self):
        self.kill_many("ddprun", 250)

    def test_of_the_agent_at_250_random_moments(self):
        self.kill_many("agent", 250)

    def test_of_the_importing_process_at_250_random_moments(self):
        self.kill_many("importer", 250)

    def test_of_a_worker_at_250_random_moments(self):
        self.kill_many("worker", 250)
