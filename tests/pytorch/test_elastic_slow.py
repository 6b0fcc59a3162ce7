"""ddprun.elastic under many kills at random moments."""

import unittest

from elastic_training import STEPS, TrainingTest
from harness import with_each_torch


class ManyKills(TrainingTest):
    @with_each_torch
    def test_a_job_with_twenty_kills_has_the_losses_of_an_undisturbed_one(self, torch):
        self.check_kills(torch, 20, "with", 4 * STEPS)

    @with_each_torch
    def test_a_loop_that_catches_the_interruption_survives_twenty_kills(self, torch):
        self.check_kills(torch, 20, "except", 4 * STEPS)


if __name__ == "__main__":
    unittest.main()
