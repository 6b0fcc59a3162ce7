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
    subprocess.run(["tar", "-xzf", tarball, "-C", folder], check=True)
    return folder / tarball.name.removesuffix(".tar.gz")


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
        top = unpack_tarball(self.package(".tar.gz"), unpacked)
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


def made_before(ending):
    """The packages of an earlier run of scripts/package with this ending, or of a run for them."""
    def found():
        return sorted((HOME / "dist").glob(f"*{ending}"))
    if not found():
        packed({".whl": "wheel", ".tar.gz": "tarball"}[ending])
    return found()


class Tarballs(unittest.TestCase):
    """The tarballs of two versions, unpacked beside each other."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        tarball, = made_before(".tar.gz")
        version, other = package_files.version(), re.sub(r"\d", "9", package_files.version())
        first = unpack_tarball(tarball, cls.folder)
        second = first.with_name(first.name.replace(version, other))
        shutil.copytree(first, second)
        for name in package_files.PROGRAMS:
            content = (second / name).read_bytes()
            assert version.encode() in content, name
            (second / name).write_bytes(content.replace(version.encode(), other.encode()))
        cls.tops = {version: first, other: second}

    def run_program(self, *command, path="/usr/bin:/bin"):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
                              cwd=self.folder, env=os.environ | {"PATH": path})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def check(self, version, top, ddprun, path):
        """This command is the ddprun of that folder, with the agent and the trainer of that folder."""
        self.assertRegex(self.run_program(ddprun, "--version", path=path), rf"^ddprun {version} ")
        self.assertIn(f"\nexecutes     {top}/libexec/ddprun/train\n", self.run_program(ddprun, "--dry-run", "train", path=path))
        self.assertRegex(self.run_program(ddprun, "--nproc_per_node=1", "train", "--version", path=path), rf"^train {version} ")
        self.assertEqual(self.run_program(ddprun, "--nproc_per_node=1", "--contain=tree", "sh", "-c", "readlink /proc/$PPID/exe", path=path),
                         f"{top}/bin/ddprun\n")

    def test_two_versions_beside_each_other_run_each_their_own_programs(self):
        link = self.folder / "current"
        for version, top in self.tops.items():
            other, = self.tops.keys() - {version}
            self.assertRegex(self.run_program(top / "check"), rf"^ddprun {version} ")
            paths = [f"{self.tops[other]}/bin:/usr/bin:/bin", f"{top}/bin:{self.tops[other]}/bin:/usr/bin:/bin"]
            self.check(version, top, top / "bin" / "ddprun", paths[0])
            self.check(version, top, "ddprun", paths[1])
            link.unlink(missing_ok=True)
            link.symlink_to(top.name)
            self.check(version, top, link / "bin" / "ddprun", paths[0])


class Wheels(unittest.TestCase):
    """The wheels as PyPI's own tools judge them."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tools = pathlib.Path(folder.name) / "tools"
        subprocess.run([sys.executable, "-m", "venv", cls.tools], check=True, capture_output=True)
        done = subprocess.run([cls.tools / "bin" / "pip", "--disable-pip-version-check", "--retries=1", "install", "twine", "auditwheel"],
                              capture_output=True, text=True, check=False, timeout=600, stdin=subprocess.DEVNULL)
        if "(from versions: none)" in done.stderr:
            raise unittest.SkipTest("twine and auditwheel cannot be downloaded here")
        assert done.returncode == 0, done.stderr
        cls.wheels = made_before(".whl")

    def run_tool(self, name, *words):
        return subprocess.run([self.tools / "bin" / name, *words], capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)

    def test_twine_finds_nothing_that_pypi_would_refuse_or_show_wrongly(self):
        self.assertEqual([wheel.name.split("-")[0] for wheel in self.wheels], ["ddprun", "ddprun_torchrun"])
        done = self.run_tool("twine", "--no-color", "check", "--strict", *self.wheels)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count(": PASSED"), 2, done.stdout)

    def test_auditwheel_finds_that_the_programs_need_no_more_than_the_tag_of_the_wheel_promises(self):
        promised = tuple(map(int, re.search(r"-manylinux_(\d+)_(\d+)_x86_64\.whl$", self.wheels[0].name).groups()))
        done = self.run_tool("auditwheel", "show", self.wheels[0])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        text = " ".join(done.stdout.split())
        found = re.search(r'is consistent with the following platform tag: "manylinux_(\d+)_(\d+)_x86_64"', text)
        self.assertTrue(found, text)
        self.assertLessEqual(tuple(map(int, found.groups())), promised)


if __name__ == "__main__":
    unittest.main()
