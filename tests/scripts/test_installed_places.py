"""ddprun in an installation that meets trouble: a home that cannot be written, /tmp without programs, an uninstallation during a job."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from dry_run import BIN  # noqa: E402

NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-e", "-c"]
# Succeeds in its second life. In the first it leaves its process id, and waits to be killed.
WORKER = """#!/bin/sh
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
echo $$ >"$PIDS/part$RANK"
mv "$PIDS/part$RANK" "$PIDS/$RANK"
exec sleep 60
"""


def may_mount(folder):
    try:
        return subprocess.run([*NAMESPACE, 'mount -t tmpfs tmpfs "$1"', "sh", folder], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class Places(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=BIN)  # not below /tmp, which a case covers
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.prefix = self.folder / "prefix"
        (self.prefix / "bin").mkdir(parents=True)
        shutil.copy(BIN / "ddprun", self.prefix / "bin")
        self.ddprun = self.prefix / "bin" / "ddprun"

    def run_with_mounts(self, mounts, *command, **environment):
        """Runs a command in a namespace in which a text for sh has mounted something on $1."""
        place = self.folder / "mounted"
        place.mkdir(exist_ok=True)
        if not may_mount(place):
            self.skipTest("no namespaces of mounts here (unshare)")
        return subprocess.run([*NAMESPACE, f'{mounts}; shift; exec "$@"', "sh", place, *command], capture_output=True, text=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, cwd=self.folder, env=os.environ | environment)

    def test_a_job_runs_with_a_home_that_cannot_be_written(self):
        home = str(self.folder / "mounted")
        script = "! touch $HOME/file 2>/dev/null && echo rank $RANK"
        done = self.run_with_mounts('mount -t tmpfs -o ro tmpfs "$1"', self.ddprun, "--nproc-per-node=2", "--no-python", "sh", "-c", script, HOME=home)
        self.assertEqual((done.returncode, sorted(done.stdout.split("\n"))), (0, ["", "[rank0] rank 0", "[rank1] rank 1"]), done.stderr)

        done = self.run_with_mounts('mount -t tmpfs -o ro tmpfs "$1"', self.ddprun, "--make-secret", HOME=home, XDG_CONFIG_HOME="")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr, f"ddprun: --make-secret: cannot write {home}/.config/ddprun/secret: Read-only file system; "
                                      "give another file with --rdzv-secret-file=FILE\n")

    def test_a_job_runs_where_no_file_of_tmp_can_be_executed(self):
        # A checkout may lie below /tmp itself: its folder, which is the current one, is mounted there again.
        mounts = ('for place in /tmp /dev/shm; do mount -t tmpfs -o noexec tmpfs $place; done; '
                  'mkdir -p "$PWD"; mount --no-canonicalize --bind . "$PWD"')
        script = "cp /bin/true $TMPDIR/program; ! $TMPDIR/program 2>/dev/null && echo rank $RANK"
        done = self.run_with_mounts(mounts, self.ddprun, "--nproc-per-node=2", "--no-python", "sh", "-c",
                                    f"[ $RANK = 0 ] || TMPDIR=/dev/shm; {script}", TMPDIR="/tmp")
        self.assertEqual((done.returncode, sorted(done.stdout.split("\n"))), (0, ["", "[rank0] rank 0", "[rank1] rank 1"]), done.stderr)

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)

    def uninstall_during(self, program):
        """Starts a job, removes the installation, and kills a worker. Returns how the job ended, and its report."""
        job = subprocess.Popen([self.ddprun, "--nproc-per-node=2", "--max-restarts=1", program], text=True, cwd=self.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PIDS": str(self.folder)})
        self.addCleanup(job.kill)
        self.wait_for(lambda: (self.folder / "0").exists() and (self.folder / "1").exists(), "the workers did not start")
        shutil.rmtree(self.prefix)
        os.kill(int((self.folder / "1").read_text()), signal.SIGKILL)
        _, report = job.communicate(timeout=60)
        return job.returncode, report

    def write_worker(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(WORKER)
        path.chmod(0o755)

    def test_a_job_goes_on_and_restarts_its_workers_after_ddprun_was_uninstalled(self):
        self.write_worker(self.folder / "worker")
        code, report = self.uninstall_during(self.folder / "worker")
        self.assertEqual(code, 0, report)
        self.assertIn("restarting the workers", report)

    def test_a_job_of_the_bundled_trainer_goes_on_after_it_was_uninstalled_but_cannot_restart(self):
        trainer = self.prefix / "libexec" / "ddprun" / "train"
        self.write_worker(trainer)
        code, report = self.uninstall_during("train")
        self.assertEqual(code, 126, report)
        self.assertIn("rank 1 killed by SIGKILL", report)
        self.assertIn(f"cannot execute {trainer}: No such file or directory", report)


if __name__ == "__main__":
    unittest.main()
