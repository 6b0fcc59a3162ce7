"""The packages in fresh minimal installations of older and newer systems, made by debootstrap: two workers train to the final table."""

import ensurepip
import os
import pathlib
import re
import shutil
import socket
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
# Where Debian's Python and Python's own have the wheel of pip for new environments.
PIPS = (pathlib.Path("/usr/share/python-wheels"), pathlib.Path(ensurepip.__file__).parent / "_bundled")
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
        if not (DIST / f"{TARBALL}.tar.gz").exists():
            test_package.packed()
        unpacked = test_package.unpack_tarball(DIST / f"{TARBALL}.tar.gz", cls.folder)
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

    def check_encryption(self, root):
        """Two nodes with TLS, by the OpenSSL of that system."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        node = (f"/opt/{TARBALL}/bin/ddprun --nnodes=2 --master-addr=127.0.0.1 --master-port={port} --rdzv-secret-file=/tmp/secret --rdzv-tls "
                "--rdzv-conf=join_timeout=60")
        done = self.run_in(root, "sh", "-c", "umask 077; head -c 24 /dev/urandom | base64 >/tmp/secret\n"
                           f"{node} --node-rank=1 /bin/true & other=$!\n{node} --node-rank=0 /bin/true && wait $other")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check_wheel(self, root, newer_pip=None):
        wheel, = DIST.glob("ddprun-*_x86_64.whl")
        wheels = [newer_pip, wheel] if newer_pip else [wheel]
        commands = [["python3", "-m", "venv", "/opt/venv"]]
        for path in wheels:
            shutil.copy(path, root / "opt")
            commands.append(["/opt/venv/bin/pip", "install", "--no-index", "--no-deps", f"/opt/{path.name}"])
        commands.append(["/opt/venv/bin/python", "-m", "ddprun.doctor"])
        for command in commands:
            done = self.run_in(root, *command)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(trained_weights(self.run_in(root, "/opt/venv/bin/ddprun", "--nproc_per_node=2", *TRAIN)), self.weights)

    def files_of(self, root):
        """All that an installation consists of, but for what apt and dpkg note about it, and copies of the list of users from before a change."""
        notes = re.compile(r"/(proc|sys|dev|tmp|opt|run|var/lib/dpkg|var/log|var/cache)/|/etc/(passwd|group|g?shadow|subuid|subgid)-|/etc/\.pwd\.lock")
        names = {f"/{path.relative_to(root)}" for path in root.rglob("*")}
        return {name for name in names if not notes.match(name)} | set(self.run_in(root, "getent", "passwd").stdout.splitlines())

    def check_upgrade(self, root, deb):
        """Changed options survive a newer package, which has other ones."""
        with tempfile.TemporaryDirectory() as tree:
            subprocess.run(["dpkg-deb", "-R", deb, tree], check=True, capture_output=True)
            for name, old, new in (("DEBIAN/control", r"(?m)^(Version: .*-)1$", r"\g<1>2"), ("etc/default/rdzvd", r"\Z", "# A new comment.\n")):
                path = pathlib.Path(tree, name)
                text, count = re.subn(old, new, path.read_text())
                self.assertEqual(count, 1, name)
                path.write_text(text)
            subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, root / "opt" / "newer.deb"], check=True, capture_output=True)
        options = root / "etc/default/rdzvd"
        changed = options.read_text() + 'RDZVD_OPTIONS="--listen=127.0.0.1:29401"\n'
        options.write_text(changed)
        # As dpkg does after the answer N; it asks because both texts have changed.
        done = self.run_in(root, "dpkg", "--force-confold", "-i", "/opt/newer.deb")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(self.run_in(root, "dpkg-query", "-W", "ddprun-rdzvd").stdout, r"-2\n\Z")
        self.assertEqual(options.read_text(), changed)
        self.assertIn("# A new comment.\n", options.with_name("rdzvd.dpkg-dist").read_text())

    def check_debs(self, root):
        debs = sorted(DIST.glob("ddprun*_amd64.deb")) + sorted(DIST.glob("ddprun-dev_*_all.deb"))
        self.assertEqual(len(debs), 3)
        before = self.files_of(root)
        for deb in debs:
            shutil.copy(deb, root / "opt")
        done = self.run_in(root, "dpkg", "-i", *[f"/opt/{deb.name}" for deb in debs])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertLessEqual({"/usr/bin/rdzvd", "/usr/lib/systemd/system/rdzvd.service", "/etc/default/rdzvd", "/usr/include/ddprun/ddprun_progress.h"},
                             self.files_of(root))
        self.assertRegex(self.run_in(root, "rdzvd", "--version").stdout, "^rdzvd ")
        self.assertEqual(trained_weights(self.run_in(root, "ddprun", "--nproc_per_node=2", *TRAIN)), self.weights)
        # The command of /etc/default/rdzvd, and the service as systemd would start it.
        command = re.search(r"(?m)^# +(head .*)$", (root / "etc/default/rdzvd").read_text()).group(1)
        done = self.run_in(root, "sh", "-ec", f"{command}; setpriv --reuid=rdzvd --regid=rdzvd --clear-groups timeout 3 rdzvd --listen=127.0.0.1:0 "
                           "--secret-file=/etc/ddprun/secret || true; rm -r /etc/ddprun")
        self.assertRegex(done.stdout, r"^127\.0\.0\.1:\d+\n$", done.stderr)
        self.check_upgrade(root, next(deb for deb in debs if deb.name.startswith("ddprun-rdzvd_")))
        done = self.run_in(root, "dpkg", "--purge", "ddprun", "ddprun-rdzvd", "ddprun-dev")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.files_of(root), before)

    def test_the_programs_run_on_a_glibc_that_is_older_than_what_the_packages_ask_for(self):
        # No mirror in use has a system with 2.28 itself; the one before it shows more.
        root = self.install("bionic", source=UBUNTU)
        self.assertEqual(self.glibc(root), "glibc 2.27")
        self.check_tarball(root)

    def test_debian_11_trains_by_the_wheel_and_the_tarball(self):
        root = self.install("bullseye", "--include=python3-venv,libssl1.1")
        self.assertEqual(self.glibc(root), "glibc 2.31")
        self.check_tarball(root)
        self.check_encryption(root)  # OpenSSL 1.1.1
        self.check_wheel(root)

    def test_debian_12_trains_by_all_packages(self):
        root = self.install("bookworm", "--include=python3-venv,adduser")
        self.assertEqual(self.glibc(root), "glibc 2.36")
        self.check_tarball(root)
        self.check_wheel(root)
        self.check_debs(root)

    def test_debian_13_trains_by_all_packages(self):
        root = self.install("trixie", "--include=python3-venv,adduser")
        self.assertEqual(self.glibc(root), "glibc 2.41")
        self.check_tarball(root)
        self.check_wheel(root)
        self.check_debs(root)

    def test_ubuntu_20_04_trains_by_the_wheel_and_the_tarball(self):
        root = self.install("focal", "--components=main,universe", "--include=python3-venv", source=UBUNTU)
        self.assertEqual(self.glibc(root), "glibc 2.31")
        self.check_tarball(root)
        # Its pip is too old for the tag of the wheel, and there is no network to get a newer one: that of this machine.
        newer = [wheel for folder in PIPS for wheel in folder.glob("pip-*.whl")]
        if not newer:
            self.skipTest("no wheel of pip on this machine (python3-venv)")
        self.check_wheel(root, newer[0])

    def test_ubuntu_22_04_trains_by_the_wheel_and_the_tarball(self):
        root = self.install("jammy", "--components=main,universe", "--include=python3-venv", source=UBUNTU)
        self.assertEqual(self.glibc(root), "glibc 2.35")
        self.check_tarball(root)
        self.check_wheel(root)

    def test_ubuntu_24_04_trains_by_all_packages(self):
        root = self.install("noble", "--components=main,universe", "--include=python3-venv,adduser", source=UBUNTU)
        self.assertEqual(self.glibc(root), "glibc 2.39")
        self.check_tarball(root)
        self.check_wheel(root)
        self.check_debs(root)


if __name__ == "__main__":
    unittest.main()
