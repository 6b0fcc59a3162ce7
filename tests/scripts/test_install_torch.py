"""Tests of scripts/install-deps --tests and scripts/lib/install-torch: PyTorch, and what the tests of the terminal want, on a pretended machine."""

import unittest

from pretended_machine import InstallDepsTest


class InstallTorch(InstallDepsTest):
    def without_torch(self, **environment):
        """The script succeeds without having installed torch; gives the one line that says so."""
        (self.machine.folder / "torch").unlink(missing_ok=True)
        done = self.succeeds("--tests", **environment)
        self.assertFalse((self.machine.folder / "torch").exists())
        lines = [line for line in done.stderr.splitlines() if "will be skipped" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_pytorch_comes_from_pypi_where_the_distribution_has_none(self):
        (self.machine.folder / "torch").unlink()
        (self.machine.folder / "unknown" / "python3-torch").touch()
        (self.machine.folder / "pypi").touch()
        (self.machine.folder / "venv_module").unlink()
        self.succeeds("--tests")
        self.assertIn("python3-venv", self.machine.installs()[-1])
        self.assertTrue(any(call.startswith("pip install ") and " torch" in call for call in self.machine.calls()))
        self.assertTrue((self.machine.project / "build" / "pytorch-venv" / "bin" / "python").exists())
        (self.machine.folder / "calls").unlink()
        self.assertEqual(self.succeeds("--tests").stderr, "")
        self.assertEqual(self.machine.calls(), [])

    def test_pytorch_that_pypi_does_not_give_leaves_no_folder(self):
        (self.machine.folder / "unknown" / "python3-torch").touch()
        self.assertIn("pip install torch failed", self.without_torch())
        self.assertFalse((self.machine.project / "build" / "pytorch-venv").exists())

    def test_pytorch_is_installed_for_the_tests_only_and_once(self):
        (self.machine.folder / "torch").unlink()
        self.succeeds()
        self.assertEqual(self.machine.calls(), [])
        self.succeeds("--tests")
        install = self.machine.installs()[-1]
        for word in ("--no-remove", "--no-install-recommends", "python3-torch"):
            self.assertIn(word, install)
        (self.machine.folder / "calls").unlink()
        self.succeeds("--tests")
        self.assertEqual(self.machine.calls(), [])

    def test_pytorch_is_installed_after_what_the_build_needs(self):
        (self.machine.folder / "torch").unlink()
        self.machine.lacks("zlib1g-dev")
        self.succeeds("--tests")
        self.assertIn("zlib1g-dev", self.machine.installs()[0])
        self.assertIn("python3-torch", self.machine.installs()[-1])
        self.assertEqual(sum(call.startswith("apt-get update") for call in self.machine.calls()), 1)

    def test_a_distribution_without_pytorch_gets_a_line_and_no_failure(self):
        (self.machine.folder / "unknown" / "python3-torch").touch()
        self.assertIn("Unable to locate package python3-torch", self.without_torch())

    def test_pytorch_that_would_remove_something_is_left_out_with_a_line(self):
        self.machine.plan("python3-torch", "Remv libprotobuf23 [3.12.4-1]", "Inst python3-torch (1.13.1)")
        self.assertIn("Remv libprotobuf23", self.without_torch())
        self.assertEqual(self.machine.installs(), [])

    def test_pytorch_without_room_for_it_is_left_out_with_a_line(self):
        self.machine.room(900_000)
        self.assertIn("900 MB free at /", self.without_torch())
        self.assertEqual(self.machine.installs(), [])
        self.assertFalse(any(call.startswith("pip") for call in self.machine.calls()))

    def test_pytorch_that_cannot_be_downloaded_is_left_out_with_a_line(self):
        (self.machine.folder / "broken_mirror").touch()
        self.assertIn("not downloaded", self.without_torch())

    def test_a_user_who_may_not_install_pytorch_is_told_the_command(self):
        self.machine.user(1000)
        self.assertIn("apt-get update && apt-get install --no-remove --no-install-recommends python3-torch", self.without_torch())
        self.assertEqual(self.machine.installs(), [])

    def test_pytorch_needs_apt_and_a_network_but_the_build_does_not(self):
        (self.machine.folder / "offline").touch()
        self.assertIn("apt-get update failed", self.without_torch())
        self.machine.lacks_program("apt-get")
        self.assertIn("no apt-get", self.without_torch())

    def test_a_user_who_brings_or_does_not_want_pytorch_gets_none(self):
        (self.machine.folder / "torch").unlink()
        for environment in ({"DDPRUN_TEST_PYTHON": "/opt/python"}, {"DDPRUN_TEST_TORCH": "no"}):
            self.assertEqual(self.succeeds("--tests", **environment).stderr, "")
        self.assertEqual(self.machine.calls(), [])

    def test_what_other_tests_want_is_installed_where_that_only_adds(self):
        self.machine.lacks_program("tmux")
        self.machine.lacks_program("fish")
        (self.machine.folder / "rich").unlink()
        (self.machine.folder / "venv_module").unlink()
        self.assertIn("installing: python3-venv tmux fish python3-rich", self.succeeds("--tests").stderr)
        self.assertEqual(len(self.machine.installs()), 1)
        self.assertEqual(self.succeeds().stderr, "")

    def test_what_other_tests_want_is_left_out_with_a_line_where_it_would_remove_something(self):
        self.machine.lacks_program("tmux")
        self.machine.plan("tmux", "Remv libutempter0 [1.2]", "Inst tmux (3.3)")
        self.assertIn("without tmux some tests are skipped", self.succeeds("--tests").stderr)
        self.assertEqual(self.machine.installs(), [])


if __name__ == "__main__":
    unittest.main()
