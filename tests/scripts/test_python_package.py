"""The Python package ddprun, installed by pip from a wheel of this build's programs."""

import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import wheel_environment
from wheel_environment import BIN

PAGE = struct.Struct("=6sHQQ24sIIQII6Q8x")


@unittest.skipUnless(wheel_environment.has_pip(), "this Python cannot make environments with pip (python3-venv)")
class Installed(unittest.TestCase):
    """One environment for all cases; it is not activated."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        cls.venv = wheel_environment.make(cls.folder)
        cls.python = cls.venv / "bin" / "python"
        cls.ddprun = cls.venv / "bin" / "ddprun"
        cls.environment = wheel_environment.variables()

    def run_program(self, *command, **environment):
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, env=self.environment | environment, cwd=self.folder)

    def test_two_workers_run_by_the_absolute_path_of_the_installed_program(self):
        done = self.run_program(self.ddprun, "--nproc_per_node=2", "/bin/true")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_installed_program_is_the_one_that_was_built_with_no_wrapper(self):
        self.assertEqual(self.ddprun.read_bytes(), (BIN / "ddprun").read_bytes())
        self.assertTrue((self.venv / "include/ddprun/ddprun_progress.h").is_file())

    def test_scripts_run_under_the_python_of_the_environment_that_is_not_activated(self):
        script = self.folder / "which.py"
        script.write_text("import sys; print(sys.prefix)\n")
        done = self.run_program(self.ddprun, "--nproc_per_node=1", script)
        self.assertEqual(done.stdout.strip(), str(self.venv), done.stderr)
        dry = self.run_program(self.ddprun, "--dry-run", script)
        self.assertIn(f"by the Python of ddprun's own environment, {self.venv}\n", dry.stdout)

    def test_the_module_starts_the_program_with_the_python_that_runs_it(self):
        script = self.folder / "who.py"
        script.write_text("import sys; print(sys.executable)\n")
        done = self.run_program(self.python, "-m", "ddprun", "--nproc_per_node=1", script)
        self.assertEqual(done.stdout.strip(), str(self.python), done.stderr)
        self.assertEqual(self.run_program(self.python, "-m", "ddprun", "--no-such-option").returncode, 2)
        done = self.run_program(self.python, "-m", "ddprun", "--nproc_per_node=1", script, PYTHON_EXEC="")
        self.assertEqual(done.stdout.strip(), str(self.python), done.stderr)
        done = self.run_program(self.python, "-m", "ddprun", "--nproc_per_node=1", script, PYTHON_EXEC=sys.executable)
        self.assertEqual(done.stdout.strip(), sys.executable, done.stderr)

    def test_the_module_tells_in_one_line_what_helps_where_the_program_does_not_start(self):
        def error():
            done = self.run_program(self.python, "-m", "ddprun", "/bin/true")
            self.assertEqual((done.returncode, done.stdout), (126, ""))
            return done.stderr

        mode = self.ddprun.stat().st_mode
        try:
            self.ddprun.chmod(0o644)
            self.assertEqual(error(), f"ddprun: can't start {self.ddprun}: it is not executable: type pip install --force-reinstall ./ddprun-*.whl\n")
        finally:
            self.ddprun.chmod(mode)
        moved = self.ddprun.with_name("moved")
        self.ddprun.rename(moved)
        try:
            self.ddprun.write_bytes(b"\x7fELF of another machine")
            self.ddprun.chmod(mode)
            self.assertRegex(error(), f"^ddprun: can't start .*: this package is for Linux on {wheel_environment.ARCH} with glibc 2\\.28 or newer: build .*\n\\Z")
        finally:
            moved.rename(self.ddprun)
        # As on a file system that is mounted noexec.
        done = self.run_program(self.python, "-c", "import os, ddprun._programs as programs\n"
                                "def refuse(*_): raise PermissionError(13, 'Permission denied')\n"
                                "os.execv = refuse\nprint(programs.become_ddprun([]))")
        self.assertEqual(done.stdout, "126\n")
        self.assertRegex(done.stderr, r"^ddprun: can't start .*: permission denied: if its file system is mounted noexec, install .*\n\Z")

    def test_the_version_is_the_one_that_pip_shows(self):
        done = self.run_program(self.python, "-c", "import ddprun, importlib.metadata as m; print(ddprun.__version__, m.version('ddprun'))")
        self.assertEqual(done.stdout, "1.2.3 1.2.3\n", done.stderr)

    def test_pip_refuses_the_wheel_for_another_libc_an_older_glibc_another_processor_and_an_older_python(self):
        arch, other = wheel_environment.ARCH, "x86_64" if wheel_environment.ARCH == "aarch64" else "aarch64"
        lost = "No matching distribution found for ddprun"
        for platform, version, error in ((f"manylinux_2_28_{arch}", "3.8", ""), (f"manylinux_2_28_{arch}", "3.13", ""),
                                         (f"manylinux_2_28_{arch}", "3.7", "Package 'ddprun' requires a different Python: 3.7.0 not in '>=3.8'"),
                                         (f"manylinux_2_27_{arch}", "3.13", lost), (f"musllinux_1_2_{arch}", "3.13", lost),
                                         (f"manylinux_2_28_{other}", "3.13", lost)):
            folder = self.folder / "downloads" / f"{platform} {version}"
            done = self.run_program(self.python, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--no-index", "--find-links", self.folder,
                                    "--only-binary=:all:", f"--platform={platform}", f"--python-version={version}", "--dest", folder, "ddprun")
            self.assertEqual(re.findall("(?m)^ERROR: (No matching .*|Package .*)$", done.stderr), [error] if error else [], f"{folder.name}: {done.stderr}")
            self.assertEqual(done.returncode, 1 if error else 0, folder.name)
            self.assertEqual([path.name for path in folder.glob("*")], [] if error else [f"ddprun-1.2.3-py3-none-manylinux_2_28_{arch}.whl"])

    def test_progress_writes_the_page_that_the_documents_describe(self):
        page = self.folder / "page"
        before = time.monotonic_ns()
        done = self.run_program(self.python, "-c", "from ddprun import progress as p\np(7)\np(7, 'forward')\np(8, 'x' * 30)\np(8, 'all-reduce')",
                                DDPRUN_PROGRESS_FILE=str(page))
        self.assertEqual(done.returncode, 0, done.stderr)
        name, version, step, now, phase, place, flags, stop, *_ = PAGE.unpack(page.read_bytes())
        self.assertEqual((name, version, step, phase.rstrip(b"\0"), place, flags, stop), (b"ddprun", 1, 8, b"all-reduce", 1, 0, 0))
        self.assertTrue(before < now < time.monotonic_ns())
        self.assertEqual(page.stat().st_mode & 0o777, 0o600)

    def test_a_closed_page_asks_not_to_be_watched_until_the_next_update(self):
        page = self.folder / "closed"
        for code, flags in (("ddprun.progress_close()", 1), ("ddprun.progress_close(); ddprun.progress(4)", 0)):
            self.run_program(self.python, "-c", f"import ddprun; ddprun.progress(3); {code}", DDPRUN_PROGRESS_FILE=str(page))
            self.assertEqual(PAGE.unpack(page.read_bytes())[6], flags)

    def test_progress_without_ddprun_or_with_a_round_that_is_over_does_nothing(self):
        code = "import ddprun; ddprun.progress(1, 'a'); ddprun.progress_close(); print(repr(ddprun.stop_reason()))"
        for environment in ({}, {"DDPRUN_PROGRESS_FILE": "/nowhere/at/all"}):
            done = self.run_program(self.python, "-c", code, **environment)
            self.assertEqual((done.stdout, done.stderr), ("<Stop.UNKNOWN: 0>\n", ""))

    def test_a_wrong_step_is_refused_under_ddprun_and_without(self):
        code = ("import ddprun\nfor step in (3.0, 'x', -1, 1 << 64):\n"
                "    try: ddprun.progress(step)\n    except (TypeError, ValueError) as error: print(type(error).__name__, error)\nddprun.progress(7)")
        for environment in ({}, {"DDPRUN_PROGRESS_FILE": str(self.folder / "wrong")}):
            done = self.run_program(self.python, "-c", code, **environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], ["TypeError", "TypeError", "ValueError", "ValueError"])
            self.assertIn("the step must be from 0 to 2**64 - 1, not -1\n", done.stdout)
        self.assertEqual(PAGE.unpack((self.folder / "wrong").read_bytes())[2], 7)

    def test_a_worker_learns_why_it_is_stopped(self):
        script = self.folder / "stopped.py"
        script.write_text("""import os, signal, sys, time
import ddprun
def stop(number, frame):
    print(ddprun.stop_reason().name, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
ddprun.progress(1)
ready = os.environ["READY"]
if os.environ["RANK"] == "1":
    open(ready, "w").close()
    time.sleep(60)
deadline = time.monotonic() + 30
while not os.path.exists(ready) and time.monotonic() < deadline:
    time.sleep(0.01)
sys.exit(3 if os.path.exists(ready) else 4)
""")
        done = self.run_program(self.ddprun, "--nproc_per_node=2", "--output=raw", script, READY=str(self.folder / "ready"))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stdout, "NOW\n")

    def test_a_worker_saves_when_it_is_asked_to_and_goes_on(self):
        page = self.folder / "saves"
        script = """import ddprun, struct
assert not ddprun.save_requested()
ddprun.progress(7)
def ask(number):
    with open(PATH, "r+b") as file:
        file.seek(64)
        file.write(struct.pack("=I", number))
ask(3)
assert ddprun.save_requested()
ask(4)
ddprun.save_done()
assert not ddprun.save_requested()
ddprun.progress_close()
"""
        done = self.run_program(self.python, "-c", script.replace("PATH", repr(str(page))), DDPRUN_PROGRESS_FILE=str(page))
        self.assertEqual(done.returncode, 0, done.stderr)
        fields = PAGE.unpack(page.read_bytes())
        self.assertEqual((fields[2], fields[6], fields[8:10]), (7, 1, (4, 4)))
        done = self.run_program(self.python, "-c", "import ddprun; ddprun.save_done(); print(ddprun.save_requested())")
        self.assertEqual((done.stdout, done.stderr), ("False\n", ""))

    def test_a_page_tells_what_the_time_of_a_round_went_into(self):
        page = self.folder / "times"
        script = """import ddprun, time
for step, phase in (20, ""), (29, ""), (30, ""), (31, "save"), (31, "last checkpoint"), (32, "all-reduce"), (33, "wait"), (34, ""):
    ddprun.progress(step, phase)
    time.sleep(0.002)
"""
        done = self.run_program(self.python, "-c", script, DDPRUN_PROGRESS_FILE=str(page), DDPRUN_REACHED_STEP="30")
        self.assertEqual(done.returncode, 0, done.stderr)
        fields = PAGE.unpack(page.read_bytes())
        now, (reached_step, first_step, first, reached, saving, waiting) = fields[3], fields[10:]
        self.assertEqual((reached_step, first_step), (30, 20))
        self.assertTrue(first + 4_000_000 <= reached <= now - 10_000_000, fields)
        self.assertTrue(4_000_000 <= saving <= now - reached, fields)
        self.assertTrue(4_000_000 <= waiting <= now - reached - saving, fields)

    def test_the_doctor_names_the_program_its_level_and_the_ports(self):
        done = self.run_program(self.python, "-m", "ddprun.doctor")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        for words in (f"{self.ddprun}: ddprun ", r"level +(tree|cgroup|pidns)\n", r"kernel +\d", r"libc +glibc 2\.\d",
                      r"port 29500 +(free\n|Address already in use\n +-> jobs of several nodes take it by default; give another port\n)",
                      r"open files +\w", r"OpenSSL +\w", r"MUNGE +\w", r"ddprun finds +\w", r"Python +3\."):
            self.assertRegex(done.stdout, words if "\\" in words else re.escape(words))

    def test_the_doctor_tells_whether_the_bundled_trainer_runs(self):
        done = self.run_program(self.python, "-m", "ddprun.doctor")
        self.assertRegex(done.stdout, r"train +missing from this installation\n +-> only the bundled trainer")
        train = self.venv / "libexec" / "ddprun" / "train"
        train.parent.mkdir(parents=True)
        self.addCleanup(shutil.rmtree, train.parent)
        for text, found in (("echo train 1.2.3", rf"{re.escape(str(train))}: train 1.2.3\n"),
                            ("exit 127", rf"{re.escape(str(train))}: does not run\n +-> only the bundled trainer")):
            train.write_text(f"#!/bin/sh\n{text}\n")
            train.chmod(0o755)
            done = self.run_program(self.python, "-m", "ddprun.doctor")
            self.assertRegex(done.stdout, found)
            self.assertEqual(done.returncode, 0)

    def test_the_doctor_tells_which_ddprun_comes_first_on_path(self):
        other = self.folder / "other" / "ddprun"
        other.parent.mkdir()
        other.write_text("#!/bin/sh\necho ddprun 0.0.1\n")
        other.chmod(0o755)
        done = self.run_program(self.python, "-m", "ddprun.doctor", PATH=f"{other.parent}:{self.venv}/bin:/usr/bin:/bin")
        self.assertIn(f"{other} comes first: ddprun 0.0.1\n", done.stdout)
        self.assertIn(f"the command ddprun is that one, not {self.ddprun}", done.stdout)
        done = self.run_program(self.python, "-m", "ddprun.doctor", PATH=f"{self.venv}/bin:/usr/bin:/bin")
        self.assertNotIn("comes first", done.stdout)

    def test_the_doctor_passes_over_folders_that_it_may_not_read(self):
        locked = self.folder / "locked"
        locked.mkdir()
        locked.chmod(0)
        self.addCleanup(locked.chmod, 0o700)
        # root may read everything but for this.
        bound = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
        done = self.run_program(*bound, self.python, "-m", "ddprun.doctor", TMPDIR=str(locked / "sub"),
                                PATH=f"{locked}:{locked}/sub:{self.venv}/bin:/usr/bin:/bin")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"on PATH            {self.ddprun}\n", done.stdout)
        self.assertIn("Network\n", done.stdout)
        self.assertRegex(done.stdout, r"TMPDIR +/.*/locked/sub\n +-> no folder that you can write to")

    def test_the_doctor_prints_names_that_the_terminal_cannot_show(self):
        other = self.folder / "\u00fcber" / "ddprun"
        other.parent.mkdir()
        other.write_text("#!/bin/sh\necho ddprun 0.0.1\n")
        other.chmod(0o755)
        done = self.run_program(self.python, "-m", "ddprun.doctor", PATH=f"{other.parent}:/usr/bin:/bin", PYTHONIOENCODING="ascii")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("/\u00fcber/ddprun comes first: ddprun 0.0.1\n", done.stdout)

    def test_the_doctor_ends_quietly_if_the_reader_of_its_output_ends(self):
        done = self.run_program("/bin/sh", "-c", f"'{self.python}' -m ddprun.doctor | true")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_doctor_is_also_a_command_of_the_module_and_of_the_program(self):
        for command in ((self.python, "-m", "ddprun", "doctor"), (self.ddprun, "doctor")):
            done = self.run_program(*command)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"{self.ddprun}: ddprun ", done.stdout)
            self.assertEqual("Wheel\n" in done.stdout, command[0] == self.python)

    def test_the_doctor_tells_where_the_program_is_missing(self):
        moved = self.ddprun.with_name("moved")
        self.ddprun.rename(moved)
        try:
            done = self.run_program(self.python, "-m", "ddprun.doctor")
            module = self.run_program(self.python, "-m", "ddprun", "/bin/true")
        finally:
            moved.rename(self.ddprun)
        self.assertEqual(done.returncode, 127, done.stdout + done.stderr)
        self.assertIn("missing from this installation", done.stderr)
        self.assertEqual(module.returncode, 127)
        self.assertEqual(len(module.stderr.splitlines()), 1)


@unittest.skipUnless(wheel_environment.has_pip(), "this Python cannot make environments with pip (python3-venv)")
class Elsewhere(unittest.TestCase):
    """The wheel in a folder of its own (--target) or below the home (--user): its programs are on no PATH."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        cls.wheel = wheel_environment.wheel(cls.folder)
        cls.venv = cls.folder / "venv"
        # pip refuses --user where Python does not look there.
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", cls.venv], check=True, capture_output=True)
        cls.environment = wheel_environment.variables() | {"PATH": "/usr/bin:/bin", "PYTHONUSERBASE": str(cls.folder / "no home")}

    def run_module(self, *words, **environment):
        return subprocess.run([self.venv / "bin" / "python", "-m", *words], capture_output=True, text=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, env=self.environment | environment, cwd=self.folder)

    def check(self, program, **environment):
        """The module and the doctor find the program; the doctor prints what to type."""
        script = self.folder / "which.py"
        script.write_text("import os, sys; print(os.readlink(f'/proc/{os.getppid()}/exe'), sys.executable)\n")
        done = self.run_module("ddprun", "--nproc_per_node=1", "--contain=tree", script, **environment)
        self.assertEqual(done.stdout, f"{program} {self.venv / 'bin' / 'python'}\n", done.stderr)
        done = self.run_module("ddprun.doctor", **environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"ddprun +{re.escape(str(program))}: ddprun ")
        self.assertRegex(done.stdout, rf"on PATH +no ddprun\n +-> type {re.escape(shlex.quote(str(program)))}, or export PATH={re.escape(shlex.quote(str(program.parent)))}:\$PATH\n")

    def test_the_module_starts_the_program_that_pip_has_put_into_a_target_folder(self):
        target = self.folder / "above" / "some" / "target"
        # The places that are in RECORD, which pip does not rewrite.
        for other in (self.folder / "above" / "bin", self.folder / "above" / "some" / "bin"):
            other.mkdir(parents=True)
            (other / "ddprun").write_text("#!/bin/sh\necho another ddprun\n")
            (other / "ddprun").chmod(0o755)
        wheel_environment.pip(self.venv / "bin" / "python", "install", "--no-deps", "--no-index", "--target", target, self.wheel)
        self.check(target / "bin" / "ddprun", PYTHONPATH=str(target))

    def test_the_module_starts_the_program_that_pip_has_put_below_the_home(self):
        home = self.folder / "a home"
        words = ("install", "--user", "--no-deps", "--no-index", self.wheel)
        wheel_environment.pip(self.venv / "bin" / "python", *words, environment=self.environment | {"PYTHONUSERBASE": str(home)})
        self.check(home / "bin" / "ddprun", PYTHONUSERBASE=str(home))


if __name__ == "__main__":
    unittest.main()
