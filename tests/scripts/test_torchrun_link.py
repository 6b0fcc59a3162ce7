"""ddprun called by the link torchrun, which cmake --install makes where it is asked for."""

import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", "."))
BIN = pathlib.Path(os.environ.get("DDPRUN_TEST_BIN", "."))


class TorchrunLink(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.folder, "--component", "torchrun"], check=True,
                       capture_output=True, timeout=60)

    def torchrun(self, *words, **more):
        """Runs `torchrun WORDS` as a shell script would, with the link first on PATH and ddprun beside it."""
        (self.folder / "bin" / "ddprun").symlink_to((BIN / "ddprun").resolve())
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PET_", "TORCH"))}
        environment["PATH"] = f"{self.folder / 'bin'}:{environment['PATH']}"
        return subprocess.run(["torchrun", *words], capture_output=True, text=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, cwd=self.folder, env=environment | more)

    def test_the_component_installs_a_relative_link_and_nothing_else(self):
        self.assertEqual([path.name for path in self.folder.rglob("*")], ["bin", "torchrun"])
        self.assertEqual(os.readlink(self.folder / "bin" / "torchrun"), "ddprun")

    def test_workers_start_through_the_link(self):
        done = self.torchrun("--standalone", "--nproc_per_node=2", "--no-python", "sh", "-c", "echo $RANK of $WORLD_SIZE")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[rank0] 0 of 2", "[rank1] 1 of 2"])

    def test_programs_that_come_with_ddprun_are_found_through_the_link(self):
        done = self.torchrun("--dry-run", "train")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(str(BIN.resolve() / "train"), done.stdout)

    def test_messages_name_ddprun_so_that_the_launcher_that_ran_is_clear(self):
        done = self.torchrun("--nproc_per_node=two", "train")
        self.assertEqual(done.returncode, 2, done)
        self.assertTrue(done.stderr.startswith("ddprun: "), done)


if __name__ == "__main__":
    unittest.main()
