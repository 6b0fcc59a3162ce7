"""The packages in fresh minimal installations of older and newer systems, made by debootstrap: two workers train to the final table."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import test_package

sys.path.insert(0, str(test_package.ROOT / "scripts" / "lib"))

import package_files  # noqa: E402

DIST = test_package.HOME / "dist"
TARBALL = f"ddprun-{package_files.version()}-linux-x86_64"
# The mirror and debootstrap's script for every release of Ubuntu: Debian 12's debootstrap has no name yet for that of 2024.
UBUNTU = ("http://archive.ubuntu.com/ubuntu", "gutsy")
TRAIN = ("train", "--shards=2", "--max-steps=20", "--checkpoint-every=off")
# In namespaces of its own, so that its mounts and processes end with it.
INSIDE = """set -e
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/tmp"
mkdir -p "$1/dev/shm"
mount -t tmpfs tmpfs "$1/dev/shm"
root=$1
shift
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C "$@"
"""


def trained_weights(done):
    """The hash of the weights in the text of a training that has ended well."""
    if done.returncode != 0 or not re.search(r"held-out accuracy +samples/s", done.stdout):
        raise AssertionError(done.stdout + done.stderr)
    return re.search(r"weights: ([0-9a-f]{16}) \(V=2, .*oneDNN", done.stdout).group(1)


@unittest.skipUnless(shutil.which("debootstrap"), "no debootstrap")
@unittest.skipUnless(os.geteuid() == 0, "debootstrap and chroot need root")
class Userlands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        if not (DIST / f"{TARBALL}.tar.zst").exists():
            test_package.packed()
        unpacked = test_package.unpack_tarball(DIST / f"{TARBALL}.tar.zst", cls.folder)
        done = subprocess.run([unpacked / "bin" / "ddprun", "--nproc_per_node=2", *TRAIN], capture_output=True, text=True, check=False, timeout=120,
                              stdin=subprocess.DEVNULL, cwd=cls.folder)
        cls.weights = trained_weights(done)

    def install(self, release, *options, source=()):
        """A minimal installation with the tarball unpacked in it; the test is skipped where its packages cannot be had."""
        root = self.folder / release
        self.addCleanup(shutil.rmtree, root)
        root.mkdir()
        done = subprocess.run(["debootstrap", "--variant=minbase", *options, release, root, *source], capture_output=True, text=True, check=False,
                              timeout=1200, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            errors = re.findall(r"(?m)^E: .*", done.stdout + done.stderr)
            self.skipTest(f"{release} cannot be installed here: {errors[0] if errors else done.stderr[-500:]}")
        shutil.copytree(self.folder / TARBALL, root / "opt" / TARBALL)
        return root

    def run_in(self, root, *command):
        return subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh", root, *command], capture_output=True,
                              text=True, check=False, timeout=300, stdin=subprocess.DEVNULL)

    def glibc(self, root):
        return self.run_in(root, "getconf", "GNU_LIBC_VERSION").stdout.strip()

    def check_tarball(self, root):
        done = self.run_in(root, f"/opt/{TARBALL}/check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(trained_weights(self.run_in(root, f"/opt/{TARBALL}/bin/ddprun", "--nproc_per_node=2", *TRAIN)), self.weights)

    def check_wheel(self, root):
        wheel, = DIST.glob("ddprun-*_x86_64.whl")
        shutil.copy(wheel, root / "opt")
        for command in (["python3", "-m", "venv", "/opt/venv"], ["/opt/venv/bin/pip", "install", "--no-index", "--no-deps", f"/opt/{wheel.name}"]):
            done = self.run_in(root, *command)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(trained_weights(self.run_in(root, "/opt/venv/bin/ddprun", "--nproc_per_node=2", *TRAIN)), self.weights)

    def test_the_programs_run_on_a_glibc_that_is_older_than_what_the_packages_ask_for(self):
        # No mirror in use has a system with 2.28 itself; the one before it shows more.
        root = self.install("bionic", source=UBUNTU)
        self.assertEqual(self.glibc(root), "glibc 2.27")
        self.check_tarball(root)

    def test_debian_11_trains_by_the_wheel_and_the_tarball(self):
        root = self.install("bullseye", "--include=python3-venv")
        self.assertEqual(self.glibc(root), "glibc 2.31")
        self.check_tarball(root)
        self.check_wheel(root)

    def test_ubuntu_20_04_trains_by_the_tarball(self):
        root = self.install("focal", source=UBUNTU)  # its Python is older than the wheel's oldest
        self.assertEqual(self.glibc(root), "glibc 2.31")
        self.check_tarball(root)

    def test_ubuntu_22_04_trains_by_the_wheel_and_the_tarball(self):
        root = self.install("jammy", "--components=main,universe", "--include=python3-venv", source=UBUNTU)
        self.assertEqual(self.glibc(root), "glibc 2.35")
        self.check_tarball(root)
        self.check_wheel(root)

    def test_ubuntu_24_04_trains_by_the_wheel_and_the_tarball(self):
        root = self.install("noble", "--components=main,universe", "--include=python3-venv", source=UBUNTU)
        self.assertEqual(self.glibc(root), "glibc 2.39")
        self.check_tarball(root)
        self.check_wheel(root)


if __name__ == "__main__":
    unittest.main()
