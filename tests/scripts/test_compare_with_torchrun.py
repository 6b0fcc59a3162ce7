"""Tests of scripts/compare-with-torchrun with a pretended PyTorch and ddprun. Both start the workers one after the
other; ddprun also has the fault that FAKE_FAULT names."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "compare-with-torchrun"

# How long the pretended launcher's processes sleep: by it they are told from those of other tests.
SLEEP = f"1000.{os.getpid()}"

FAKE_LAUNCHER = """
import os, subprocess, sys
words = sys.argv[1:]
module = "-m" in words
while words[0].startswith("-"): words.pop(0)
fault = os.environ.get("FAKE_FAULT", "") if FAULTY else ""
if fault == "silence" or os.environ.get("FAKE_FAULT") == "silence of both": sys.exit(0)
if fault == "hang": subprocess.run(["sleep", "SLEEP"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
if fault == "leftover": subprocess.Popen(["setsid", "sleep", "SLEEP"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
status = 0
for rank in range(2):
    done = subprocess.run([sys.executable, *(["-m"] if module else []), *words], env=os.environ | {"RANK": str(rank)},
                          stdout=subprocess.PIPE, text=True)
    sys.stdout.write(done.stdout.replace("rank 1", "rank 7") if fault == "digit" else done.stdout)
    status = status or done.returncode
sys.exit(5 if fault == "exit code" else status)
"""


class CompareWithTorchrun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder / "venv"], check=True, timeout=60)
        launcher = FAKE_LAUNCHER.replace("SLEEP", SLEEP)
        site = next((self.folder / "venv" / "lib").glob("python*/site-packages"))
        self.write(site / "torch" / "__init__.py", "")
        self.write(site / "torch" / "version.py", "__version__ = '2.15.0'\n")
        self.write(site / "torch" / "distributed" / "__init__.py", "")
        self.write(site / "torch" / "distributed" / "run.py", "FAULTY = False\n" + launcher)
        self.write(self.folder / "bin" / "ddprun", "#!/usr/bin/env python3\nFAULTY = True\n" + launcher, 0o755)

    def write(self, path, text, mode=0o644):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def compare(self, *arguments, fault="", programs="module"):
        words = [f"--venv={self.folder / 'venv'}", f"--bin={self.folder / 'bin'}", f"--programs={programs}", *arguments]
        return subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False, timeout=100,
                              stdin=subprocess.DEVNULL, env=os.environ | {"FAKE_FAULT": fault})

    def sleepers(self):
        """Processes of the fake launcher that are still there."""
        found = []
        for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if SLEEP.encode() in command.read_bytes():
                    found.append(command)
            except OSError:
                pass  # it ended meanwhile
        return found

    def test_programs_that_print_the_same_are_no_difference(self):
        done = self.compare()
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("same 2 lines", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "1 same, 0 different, 0 skipped")
        self.assertIn("module under ddprun", done.stderr)

    def test_another_digit_is_a_difference_that_is_shown(self):
        done = self.compare(fault="digit")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("DIFFERENT: result lines differ: torchrun only: RESULT rank 1", done.stdout)
        self.assertIn("    RESULT rank 7", done.stderr)

    def test_another_class_of_exit_code_is_a_difference(self):
        done = self.compare(fault="exit code")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("DIFFERENT: the exit code of ddprun is 5, expected 0", done.stdout)

    def test_no_result_lines_are_a_difference_even_where_both_print_none(self):
        self.assertIn("DIFFERENT: no result line under ddprun", self.compare(fault="silence").stdout)
        self.assertIn("DIFFERENT: no result line under torchrun", self.compare(fault="silence of both").stdout)

    def test_a_program_that_hangs_is_ended_at_the_limit_and_leaves_no_process(self):
        done = self.compare("--limit=3", fault="hang")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("DIFFERENT: ddprun: not done after 3 s", done.stdout)
        self.assertEqual(self.sleepers(), [])

    def test_a_process_in_the_background_is_noted_and_ended(self):
        done = self.compare(fault="leftover")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("ddprun left 1 process behind", done.stdout)
        self.assertEqual(self.sleepers(), [])

    def test_sigterm_ends_it_and_what_it_runs(self):
        words = [SCRIPT, f"--venv={self.folder / 'venv'}", f"--bin={self.folder / 'bin'}", "--programs=module"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=os.environ | {"FAKE_FAULT": "hang"}) as running:
            end = time.monotonic() + 60
            while not self.sleepers() and time.monotonic() < end:
                time.sleep(0.05)
            running.terminate()
            self.assertEqual(running.wait(60), 143)
        self.assertEqual(self.sleepers(), [])

    def test_a_program_without_its_package_is_skipped_and_alone_it_is_a_failure(self):
        done = self.compare(programs="module,lightning")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("skipped: not installed: lightning", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "1 same, 0 different, 1 skipped")
        self.assertEqual(self.compare(programs="lightning").returncode, 1)

    def test_an_unknown_program_is_refused_with_the_known_ones(self):
        done = self.compare(programs="module,nonsense")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("unknown program nonsense; known: ddp, gpt", done.stderr)

    def test_without_ddprun_or_pytorch_one_line_tells_the_remedy(self):
        done = self.compare(f"--bin={self.folder}")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done)
        self.assertIn("run scripts/quickstart first", done.stderr)
        done = self.compare(f"--venv={self.folder}")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done)
        self.assertIn("has no PyTorch", done.stderr)

    def test_the_list_of_programs_starts_nothing(self):
        done = self.compare("--list", programs="module,restart")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], ["module", "restart"])

    def test_help_tells_every_option_and_another_one_is_refused(self):
        done = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for option in ("--programs", "--venv", "--bin", "--limit", "--list"):
            self.assertRegex(done.stdout, rf"\n  {option} ")
        done = self.compare("--nonsense")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("usage: scripts/compare-with-torchrun", done.stderr)


if __name__ == "__main__":
    unittest.main()
