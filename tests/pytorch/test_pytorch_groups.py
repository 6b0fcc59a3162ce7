"""Process groups of unmodified PyTorch scripts under ddprun, met in ddprun's store or in rank 0's own."""

import unittest

from harness import WORKERS, TorchTest, run, with_each_torch


class GroupTest(TorchTest):
    def check_ddp(self, torch, method, *options, sizes=(2, 4), **variables):
        for size in sizes:
            result = self.ddprun(torch, [f"--nproc-per-node={size}", *options], "ddp.py", method, **variables)
            expected = [f"rank {rank} of {size}: equal parameters, averaged gradients" for rank in range(size)]
            self.assertEqual(self.lines(result), sorted(expected), result)


class Groups(GroupTest):
    @with_each_torch
    def test_ddp_over_gloo_by_env_has_equal_parameters_and_averaged_gradients(self, torch):
        self.check_ddp(torch, "env")

    @with_each_torch
    def test_ddp_over_gloo_by_tcp_has_equal_parameters_and_averaged_gradients(self, torch):
        self.check_ddp(torch, "tcp")

    @with_each_torch
    def test_barriers_objects_new_groups_and_the_distributed_sampler_work(self, torch):
        result = self.ddprun(torch, ["--nproc-per-node=3"], "collectives.py")
        self.assertEqual(self.lines(result), [f"rank {rank} of 3: collectives" for rank in range(3)], result)

    @with_each_torch
    def test_rank_0_hosts_the_store_where_the_user_or_a_build_without_libuv_wants_that(self, torch):
        self.check_ddp(torch, "env", "--worker-store=rank0", sizes=(2,), USE_LIBUV="0")

    @with_each_torch
    def test_a_script_that_wants_its_local_rank_as_an_argument_gets_it(self, torch):
        result = self.ddprun(torch, ["--nproc_per_node=2"], "old_script.py", "--lr", "0.1")
        self.assertEqual(self.lines(result), [f"local rank {rank} of 2: lr 0.1, sum 1" for rank in range(2)], result)
        refused = run(torch.ddprun("--nproc_per_node=2", "--use_env", WORKERS / "old_script.py", "--lr", "0.1"),
                      torch.environment(), self.folder)
        self.assertNotEqual(refused.status, 0, refused)  # -1 is not its LOCAL_RANK


if __name__ == "__main__":
    unittest.main()
