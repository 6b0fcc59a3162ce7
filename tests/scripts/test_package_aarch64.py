"""The packages for 64-bit Arm: their programs and unit tests run here under qemu-user, an emulator of the processor.

What it shows is that the code is right for that processor and its glibc. It is no kernel of that machine: system calls go to the
one that runs here, and qemu-user does not know all of them.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import test_package
from program_checks import ProgramChecks

sys.path.insert(0, str(test_package.ROOT / "scripts" / "lib"))

import package_files  # noqa: E402

OWN = test_package.HOME / "aarch64"
# Programs that the programs start run under the emulator, too: a namespace of our own has it as their interpreter.
EMULATED = """set -e
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
cat /usr/lib/binfmt.d/qemu-aarch64.conf >/proc/sys/fs/binfmt_misc/register
exec "$@"
"""

# The memory of emulated programs grows for reasons of the emulator's own. Python is this machine's.
NOT_EMULATED = "^trainer_data:texts of a PNG are not unpacked|^sentencepiece:"


def emulated(*command, timeout=600, **more):
    """Runs a program of 64-bit Arm, and what it starts."""
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", EMULATED, "sh", *map(str, command)], capture_output=True,
                          text=True, check=False, timeout=timeout, stdin=subprocess.DEVNULL,
                          env=os.environ | {"QEMU_LD_PREFIX": str(OWN / "sysroot")}, **more)


class ArmPackages(ProgramChecks, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        cls.dist = test_package.packed("--arch=aarch64", "wheel", "tarball", "deb", "tests", home=OWN)
        cls.programs = [OWN / "stage" / name for name in package_files.PROGRAMS]
        cls.emulator = emulated(cls.programs[0], "--version")

    def run_emulated(self, *command, **more):
        if not self.emulator.stdout.startswith("ddprun "):
            self.skipTest(f"no emulator for programs that others start (qemu-user-binfmt, binfmt_misc in namespaces): {self.emulator.stderr}")
        return emulated(*command, cwd=self.folder, **more)

    def test_the_programs_are_of_64_bit_arm(self):
        for program in self.programs:
            self.assertIn("AArch64", subprocess.run(["readelf", "-h", program], check=True, capture_output=True, text=True).stdout, program.name)

    def test_the_packages_name_their_architecture(self):
        version = package_files.version()
        self.assertLessEqual({f"ddprun-{version}-py3-none-manylinux_2_28_aarch64.whl", f"ddprun-{version}-linux-aarch64.tar.gz",
                              f"ddprun_{version}-1_arm64.deb", f"ddprun-rdzvd_{version}-1_arm64.deb"}, set(self.dist))

    def test_the_unit_tests_pass_under_the_emulator(self):
        done = self.run_emulated("ctest", "--test-dir", OWN / "tests", "-L", "unit", "-LE", "scripts", "-E", NOT_EMULATED, "-j2",
                                 "--output-on-failure", timeout=7200)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:])

    def test_two_workers_are_started_and_the_first_that_fails_is_named(self):
        done = self.run_emulated(self.programs[0], "--nproc_per_node=2", "/bin/true")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        done = self.run_emulated(self.programs[0], "--nproc_per_node=2", "/bin/sh", "-c", "[ $RANK = 0 ] || exit 3; sleep 60")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("rank 1", done.stderr)

    def test_training_has_the_same_weights_with_one_worker_and_with_two(self):
        weights = set()
        for workers in (1, 2):
            done = self.run_emulated(self.programs[0], f"--nproc_per_node={workers}", "train", "--shards=2", "--max-steps=3",
                                     "--checkpoint-every=off")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"held-out accuracy +samples/s")
            weights.add(re.search(r"weights: ([0-9a-f]{16}) \(V=2, .*oneDNN", done.stdout).group(1))
        self.assertEqual(len(weights), 1)

    @unittest.skipUnless(shutil.which("lintian"), "no lintian")
    def test_lintian_finds_no_error_in_the_debian_packages(self):
        debs = [OWN / "dist" / name for name in self.dist if name.endswith(".deb")]
        self.assertEqual(len(debs), 3)
        done = subprocess.run(["lintian", "--fail-on=error", *debs], capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
