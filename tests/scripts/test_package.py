"""What scripts/package makes: programs that need nothing but an old glibc, packed reproducibly, and installed by pip."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import package_files  # noqa: E402
from program_checks import ProgramChecks  # noqa: E402

HOME = ROOT / "build" / "package"


def packed(*options, home=HOME):
    """The packages, made anew of the checkout; their bytes by name."""
    done = subprocess.run([ROOT / "scripts" / "package", *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stdout[-4000:] + done.stderr[-4000:])
    return {path.name: path.read_bytes() for path in (home / "dist").iterdir()}


def unpack_tarball(tarball, folder):
    """Unpacks it below the folder; returns the folder that it is."""
    done = subprocess.run([HOME / "venv" / "bin" / "python", "-c",
                           "import sys, tarfile, zstandard\n"
                           "tarfile.open(fileobj=zstandard.open(sys.argv[1]), mode='r|').extractall(sys.argv[2], filter='data')",
                           tarball, folder], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return folder / tarball.name.removesuffix(".tar.zst")


class Packages(ProgramChecks, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        shutil.rmtree(HOME / "dist", ignore_errors=True)
        cls.dist = packed()
        cls.programs = [HOME / "stage" / name for name in package_files.PROGRAMS]

    def run_program(self, *command, **more):
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120,
                              stdin=subprocess.DEVNULL, cwd=self.folder, **more)

    def check_training(self, ddprun):
        """Two workers train to the final table, with the weights of one worker."""
        weights = set()
        for workers in (1, 2):
            done = self.run_program(ddprun, f"--nproc_per_node={workers}", "train", "--shards=2", "--max-steps=20", "--checkpoint-every=off")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"held-out accuracy +samples/s")
            weights.add(re.search(r"weights: ([0-9a-f]{16}) \(V=2, .*oneDNN", done.stdout).group(1))
        self.assertEqual(len(weights), 1)

    def test_the_wheel_and_the_programs_are_small(self):
        self.assertLessEqual(self.package("x86_64.whl").stat().st_size, 25_000_000)
        self.assertLess(sum(program.stat().st_size for program in self.programs), 40_000_000)  # what they add to an image

    def package(self, ending):
        return next(HOME / "dist" / name for name in self.dist if name.endswith(ending))

    def test_two_builds_give_the_same_bytes(self):
        for name in ("build", "zig-cache", "dist"):  # the compiler keeps what it has compiled, too
            shutil.rmtree(HOME / name)
        again = packed()
        self.assertEqual(sorted(again), sorted(self.dist))
        for name, content in again.items():
            self.assertTrue(content == self.dist[name], name)

    def test_the_wheel_installs_without_the_network_and_starts_two_workers(self):
        venv = self.folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True)
        done = self.run_program(venv / "bin" / "python", "-m", "pip", "install", "--no-deps", "--no-index", self.package("x86_64.whl"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.run_program(venv / "bin" / "ddprun", "--nproc_per_node=2", "/bin/true")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        for name in ("man/man1/ddprun.1", "man/man8/rdzvd.8", "bash-completion/completions/ddprun"):
            self.assertTrue((venv / "share" / name).is_file(), name)
        self.assertTrue((venv / "include" / "ddprun" / "ddprun_progress.h").is_file())
        self.check_training(venv / "bin" / "ddprun")
        done = self.run_program(venv / "bin" / "python", "-m", "pip", "uninstall", "-y", "ddprun")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        left = [path for path in venv.rglob("*") if "ddprun" in path.name or path.name in ("rdzvd", "train")]
        self.assertEqual([path for path in left if not path.is_dir()], [])

    @unittest.skipUnless(shutil.which("lintian"), "no lintian")
    def test_lintian_finds_no_error_in_the_debian_packages(self):
        debs = [HOME / "dist" / name for name in self.dist if name.endswith(".deb")]
        self.assertEqual(len(debs), 3)
        done = self.run_program("lintian", "--fail-on=error", *debs)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_program_of_the_debian_package_starts_two_workers(self):
        unpacked = self.folder / "deb"
        subprocess.run(["dpkg-deb", "-x", next(HOME / "dist" / name for name in self.dist if name.startswith("ddprun_")), unpacked], check=True)
        done = self.run_program(unpacked / "usr" / "bin" / "ddprun", "--nproc_per_node=2", "/bin/true")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_the_tarball_runs_where_it_is_unpacked_and_trains(self):
        unpacked = self.folder / "a shared folder"
        unpacked.mkdir()
        top = unpack_tarball(self.package(".tar.zst"), unpacked)
        self.assertEqual(list(unpacked.iterdir()), [top])
        done = self.run_program(top / "check")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, "^ddprun [0-9.]+ ")
        done = self.run_program(top / "bin" / "ddprun", "--nproc_per_node=2", "/bin/true")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.check_training(top / "bin" / "ddprun")

    def test_the_program_finds_gpus_by_a_library_that_it_opens_at_run_time(self):
        # A static program could not open NVML.
        library = self.folder / "libnvidia-ml.so.1"
        subprocess.run([HOME / "tools" / "zig-c++", "-shared", "-fPIC", "-o", library, ROOT / "tests/unit/machine/devices/stub_nvml.cpp"],
                       check=True, capture_output=True)
        done = self.run_program(self.programs[0], "--dry-run", "--nproc-per-node=gpu", "/bin/true",
                                env=os.environ | {"LD_LIBRARY_PATH": str(self.folder), "STUB_NVML_GPUS": "3"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^workers +3$")
        self.assertRegex(done.stdout, r"(?m)^GPUs .*NVML")


if __name__ == "__main__":
    unittest.main()
