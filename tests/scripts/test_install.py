"""What cmake --install leaves: programs that run from wherever the folder is moved to, under any LD_LIBRARY_PATH."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", "."))
# Libraries that a user's environment (conda's, for one) has other versions of.
POISONED = ["libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1", "libfmt.so.9", "libspdlog.so.1.10", "libdnnl.so.2",
            "libz.so.1", "libboost_system.so.1.81.0", "libssl.so.3"]
PARTS_OF_LIBC = re.compile(r"^(libc|libm|libdl|librt|libpthread|ld-linux-[\w-]+)\.so\.\d+$")


class Installed(unittest.TestCase):
    """One installation for all cases, moved once."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        first = pathlib.Path(cls.folder.name) / "first"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", first], check=True, capture_output=True)
        cls.prefix = pathlib.Path(cls.folder.name) / "moved to here"
        shutil.move(first, cls.prefix)
        poison = pathlib.Path(cls.folder.name) / "poison"
        poison.mkdir()
        for name in POISONED:
            (poison / name).write_bytes(b"this is no library")
        cls.environment = os.environ | {"LD_LIBRARY_PATH": str(poison)}

    def run_program(self, *command, **more):
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, env=self.environment, cwd=self.folder.name, **more)

    def needed(self, program):
        text = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
        return re.findall(r"\(NEEDED\).*\[(.*)\]", text)

    def test_ddprun_says_its_version_from_the_moved_folder_under_poisoned_libraries(self):
        done = self.run_program(self.prefix / "bin" / "ddprun", "--version")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ddprun", done.stdout)

    def test_ddprun_finds_train_in_the_moved_folder(self):
        train = self.prefix / "libexec" / "ddprun" / "train"
        self.assertTrue(os.access(train, os.X_OK))
        done = self.run_program(self.prefix / "bin" / "ddprun", "--dry-run", "train")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(str(train), done.stdout)

    def test_train_runs_under_poisoned_libraries(self):
        done = self.run_program(self.prefix / "libexec" / "ddprun" / "train", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_ddprun_shares_nothing_but_libc(self):
        shared = self.needed(self.prefix / "bin" / "ddprun")
        self.assertEqual([name for name in shared if not PARTS_OF_LIBC.match(name)], [])

    def test_the_manual_page_and_the_completions_are_installed(self):
        for pattern in ("share/man/man1/ddprun.1*", "share/bash-completion/completions/ddprun"):
            self.assertTrue(list(self.prefix.glob(pattern)), pattern)

    def test_nothing_installed_names_the_build_folder_as_a_place_to_load_from(self):
        for program in [self.prefix / "bin" / "ddprun", self.prefix / "libexec" / "ddprun" / "train"]:
            text = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
            self.assertNotIn(str(BUILD), text)


if __name__ == "__main__":
    unittest.main()
