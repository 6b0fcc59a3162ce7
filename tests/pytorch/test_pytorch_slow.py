"""Longer runs and rarer settings of what the other test_pytorch_*.py do."""

import unittest

from harness import WORKERS, TorchTest, run, with_each_torch
from test_pytorch_groups import GroupTest
from test_pytorch_restarts import FailingGroup


class ManyRestarts(FailingGroup):
    @with_each_torch
    def test_a_hundred_restarts_of_a_gloo_group_meet_no_stale_keys(self, torch):
        for _ in range(10):
            self.check_failing_group(torch, 10)

    @with_each_torch
    def test_restarts_with_a_store_hosted_by_rank_0_meet_no_stale_keys(self, torch):
        self.check_failing_group(torch, 5, "--worker-store=rank0")


class Verdicts(TorchTest):
    @with_each_torch
    def test_the_rank_that_broke_is_named_also_when_it_ends_last(self, torch):
        cases = {"exception": 1, "exception and slow end": 1, "exit code": 7, "segmentation fault": 139, "kill": 137}
        for number, (how, code) in enumerate(cases.items()):
            with self.subTest(how):
                rank = number % 3
                result = run(torch.ddprun("--nproc-per-node=3", WORKERS / "breaks.py", how, rank), torch.environment(),
                             self.folder)
                self.assertEqual(result.status, code, result)
                self.assertIn(f"ddprun: culprit: rank {rank} ", result.err)


class Settings(GroupTest):
    @with_each_torch
    def test_settings_that_change_what_is_asked_of_the_store_work(self, torch):
        for settings in ({"TORCH_DISTRIBUTED_DEBUG": "INFO"}, {"TORCH_DIST_INIT_BARRIER": "1"},
                         {"GLOO_ENABLE_STORE_V2_API": "1"}, {"USE_LIBUV": "0"}):
            with self.subTest(**settings):
                self.check_ddp(torch, "env", sizes=(3,), **settings)

    @with_each_torch
    def test_groups_of_sixteen_workers_form(self, torch):
        self.check_ddp(torch, "env", sizes=(16,))

    @with_each_torch
    def test_remote_procedure_calls_work(self, torch):
        result = self.ddprun(torch, ["--nproc-per-node=3"], "remote_calls.py", TP_SOCKET_IFNAME="lo")
        self.assertEqual(self.lines(result), [f"rank {rank} of 3: [{rank + 1}.0, {rank + 1}.0]" for rank in range(3)])


if __name__ == "__main__":
    unittest.main()
