"""Programs under torchrun and under ddprun: equal result lines, the same class of exit code. scripts/compare-with-torchrun
runs all programs of comparison.py; these are the quick ones."""

import os
import unittest

import comparison
from harness import BIN, TorchTest, run, with_each_torchrun


class Comparison(TorchTest):
    def check(self, torch, name):
        program = next(program for program in comparison.ALL if program.name == name)
        reason = comparison.not_runnable(program, torch)
        if reason:
            self.skipTest(f"{name} {reason}")
        ends = [comparison.run_under(launcher, program, torch) for launcher in (torch.torchrun, torch.ddprun)]
        difference = comparison.difference(program, *ends)
        self.assertEqual(difference, "", f"{difference}\n--- torchrun\n{ends[0].output}\n--- ddprun\n{ends[1].output}")

    @with_each_torchrun
    def test_ddp_trains_to_the_same_digits(self, torch):
        self.check(torch, "ddp")

    @with_each_torchrun
    def test_a_script_for_a_language_model_trains_to_the_same_digits(self, torch):
        self.check(torch, "gpt")

    @with_each_torchrun
    def test_a_job_with_a_killed_worker_goes_on_from_its_checkpoint_to_the_same_digits(self, torch):
        self.check(torch, "restart")

    @with_each_torchrun
    def test_an_exception_under_record_fails_both_and_both_show_it(self, torch):
        self.check(torch, "record")

    @with_each_torchrun
    def test_an_exit_code_fails_both(self, torch):
        self.check(torch, "exit3")

    @with_each_torchrun
    def test_a_segmentation_fault_fails_both(self, torch):
        self.check(torch, "segv")

    @with_each_torchrun
    def test_a_module_is_started_alike(self, torch):
        self.check(torch, "module")

    @with_each_torchrun
    def test_a_script_under_run_path_finds_the_same_arguments_and_variables(self, torch):
        self.check(torch, "run-path")

    @with_each_torchrun
    def test_a_shell_script_that_calls_torchrun_runs_through_a_link_of_that_name(self, torch):
        links = self.folder / "links"
        links.mkdir()
        (links / "torchrun").symlink_to((BIN / "ddprun").resolve())
        script = self.folder / "run_train.sh"
        script.write_text("#!/bin/sh\nexec torchrun --standalone --nproc_per_node=${NGPU:-2} \"$@\"\n")
        script.chmod(0o755)
        environment = torch.environment()
        environment["PATH"] = f"{links}{os.pathsep}{environment['PATH']}"
        result = run([script, *torch.ddprun()[1:], comparison.file("ddp.py")], environment, self.folder)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(len(comparison.result_lines(result.out)), 12, result)


if __name__ == "__main__":
    unittest.main()
