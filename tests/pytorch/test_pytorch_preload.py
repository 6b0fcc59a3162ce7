"""Unmodified PyTorch in workers that were forked from one process that had imported it."""

import unittest

from harness import run, with_each_torch
from test_pytorch_groups import GroupTest
from test_pytorch_restarts import KilledGroup


class Preload(GroupTest):
    @with_each_torch
    def test_ddp_over_gloo_has_equal_parameters_and_averaged_gradients(self, torch):
        self.check_ddp(torch, "env", "--preload=torch,torch.distributed,torch.nn.parallel")

    @with_each_torch
    def test_barriers_objects_new_groups_and_the_distributed_sampler_work(self, torch):
        result = self.ddprun(torch, ["--nproc-per-node=3", "--preload=auto"], "collectives.py")
        self.assertEqual(self.lines(result), [f"rank {rank} of 3: collectives" for rank in range(3)], result)
        self.assertNotIn("imports for itself", result.err)

    @with_each_torch
    def test_threads_of_openmp_and_blas_work_in_preloaded_workers(self, torch):
        script = self.folder / "multiplies.py"
        script.write_text("""import torch, numpy
a = torch.ones(300, 300)
print(torch.get_num_threads(), float((a @ a).sum()), float((a.numpy() @ a.numpy()).sum()), torch.nn.functional.relu(a).sum().item())
""")
        for threads in ("1", "2"):
            result = run(torch.ddprun("--nproc-per-node=2", "--preload=numpy,torch", script),
                         torch.environment(OMP_NUM_THREADS=threads), self.folder)
            self.assertEqual(self.lines(result), [f"{threads} 27000000.0 27000000.0 90000.0"] * 2, result)
            self.assertNotIn("imports for itself", result.err)

    @with_each_torch
    def test_random_numbers_are_the_workers_own(self, torch):
        script = self.folder / "draws.py"
        script.write_text("import torch, random\nprint('torch', torch.rand(1).item())\nprint('random', random.random())\n"
                          "print('permutation', torch.randperm(1000).tolist())\ntorch.manual_seed(5)\n"
                          "print('seeded', torch.rand(1).item())\n")
        lines = self.lines(run(torch.ddprun("--nproc-per-node=2", "--preload=torch", script), torch.environment(), self.folder))
        self.assertEqual(len(lines), 8)
        self.assertEqual(len(set(lines)), 7, "the seeded one is equal")


class Restarts(KilledGroup):
    @with_each_torch
    def test_a_script_with_checkpoints_survives_kills_and_ends_as_without_them(self, torch):
        self.check_kills(torch, "--preload=torch,torch.distributed.elastic.multiprocessing.errors")


if __name__ == "__main__":
    unittest.main()
