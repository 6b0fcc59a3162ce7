"""The wheel ddprun-torchrun in an environment with a pretended PyTorch: its command torchrun starts ddprun."""

import pathlib
import re
import subprocess
import tempfile
import unittest

import wheel_environment
from wheel_environment import package_torchrun

# As pip writes it for the entry point of PyTorch's wheel, if the path of the environment has a space.
SCRIPT = "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n# -*- coding: utf-8 -*-\nimport sys\nfrom torch.distributed.run import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
LAUNCHER = "import sys\ndef main():\n    print('PyTorch', sys.argv[1:])\nif __name__ == '__main__':\n    main()\n"


@unittest.skipUnless(wheel_environment.has_pip(), "this Python cannot make environments with pip (python3-venv)")
class TorchrunExtra(unittest.TestCase):
    """One environment for all cases; in most of them the extra is installed."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        cls.venv = wheel_environment.make(cls.folder)
        cls.python = cls.venv / "bin" / "python"
        cls.torchrun = cls.venv / "bin" / "torchrun"
        cls.torchrun.write_text(SCRIPT.format(python=cls.python))
        cls.torchrun.chmod(0o755)
        site, = cls.venv.glob("lib/python3*/site-packages")
        distributed = site / "torch" / "distributed"
        distributed.mkdir(parents=True)
        for name in ("torch/__init__.py", "torch/distributed/__init__.py"):
            (site / name).touch()
        for name in ("run", "launch"):
            (distributed / f"{name}.py").write_text(LAUNCHER)
        cls.wheel = wheel_environment.torchrun_wheel(cls.folder)
        cls.before = cls.files()
        wheel_environment.pip(cls.python, "install", "--no-deps", "--no-index", cls.wheel)

    @classmethod
    def files(cls):
        """Without what Python compiles when it likes."""
        return {path: path.read_bytes() for path in cls.venv.rglob("*") if path.is_file() and path.suffix != ".pyc"}

    def run_command(self, *words, **environment):
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
                              env=wheel_environment.variables() | environment, cwd=self.folder)

    def start_without(self, path):
        """The command torchrun in an environment that lacks a part."""
        moved = path.with_name("moved")
        path.rename(moved)
        try:
            return self.run_command(self.torchrun, "s.py")
        finally:
            moved.rename(path)

    def test_torchrun_and_its_modules_start_workers_by_ddprun_under_the_python_of_the_environment(self):
        script = self.folder / "which.py"
        script.write_text("import os, sys; print(os.environ['DDPRUN_ROUND'], sys.prefix, sys.argv[1:])\n")
        for launcher in ([self.torchrun], [self.python, "-um", "torch.distributed.run"], [self.python, "-m", "torch.distributed.launch"]):
            done = self.run_command(*launcher, "--nproc_per_node=2", script, "-x")
            self.assertEqual(done.returncode, 0, done)
            lines = [re.sub(r"^\[rank\d\] ", "", line) for line in done.stdout.splitlines()]
            self.assertEqual(lines, [f"0 {self.venv} ['-x']"] * 2, done)

    def test_the_exit_code_is_that_of_ddprun(self):
        self.assertEqual(self.run_command(self.torchrun, "--no-such-option").returncode, 2)
        self.assertEqual(self.run_command(self.torchrun, "--no-python", "sh", "-c", "exit 7").returncode, 7)

    def test_the_variable_gives_pytorchs_launcher(self):
        self.assertEqual(self.run_command(self.torchrun, "s.py", DDPRUN_TORCHRUN="0").stdout, "PyTorch ['s.py']\n")

    def doctor(self, path, **variables):
        """What the doctor prints of the command torchrun: one line, and what it costs."""
        done = self.run_command(self.python, "-m", "ddprun.doctor", PATH=f"{path}:/usr/bin:/bin", **variables)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = re.search(r"(?m)^  torchrun +(.*\n)(?: +-> (.*)\n)?", done.stdout)
        self.assertIsNotNone(found, done.stdout)
        self.assertNotIn("ddprun[torchrun]", done.stdout)  # nothing is on PyPI
        return found.groups()

    def test_the_doctor_tells_which_launcher_the_command_starts(self):
        self.assertEqual(self.doctor(self.venv / "bin"), (f"{self.torchrun}: starts ddprun\n", None))
        self.assertEqual(self.doctor(self.venv / "bin", DDPRUN_TORCHRUN="0"),
                         (f"{self.torchrun}: PyTorch's\n", "DDPRUN_TORCHRUN=0 is set: without it this command starts ddprun"))
        hook, = self.venv.glob("lib/python3*/site-packages/ddprun_torchrun.pth")
        moved = hook.with_name("moved")
        hook.rename(moved)
        try:
            found, cost = self.doctor(self.venv / "bin")
        finally:
            moved.rename(hook)
        self.assertEqual(found, f"{self.torchrun}: PyTorch's\n")
        self.assertIn("install the wheel ddprun_torchrun-1.2.3-py3-none-any.whl here", cost)

    def test_the_doctor_tells_what_starts_ddprun_where_the_command_is_of_another_environment(self):
        other = self.folder / "other" / "torchrun"
        other.parent.mkdir(exist_ok=True)
        other.write_text(SCRIPT.format(python="/usr/bin/python3"))
        other.chmod(0o755)
        found, cost = self.doctor(other.parent)
        self.assertEqual(found, f"{other}: PyTorch's, of another environment\n")
        self.assertEqual(cost, f"to start ddprun type {self.python} -m ddprun, {self.torchrun}, or {self.python} -m torch.distributed.run")
        # As with --system-site-packages, where PyTorch is in /usr: then this environment has no command torchrun.
        moved = self.torchrun.with_name("moved")
        self.torchrun.rename(moved)
        try:
            found, cost = self.doctor(other.parent)
        finally:
            moved.rename(self.torchrun)
        self.assertEqual(cost, f"to start ddprun type {self.python} -m ddprun, or {self.python} -m torch.distributed.run")
        self.assertTrue(self.doctor(other.parent, DDPRUN_TORCHRUN="0")[1].endswith(f"type {self.python} -m ddprun"))
        self.assertTrue(self.doctor(f"{other.parent}:{self.venv / 'bin'}")[1].startswith("to start ddprun type ddprun, "))
        other.write_text("#!/bin/sh\n")
        self.assertEqual(self.doctor(other.parent)[0], f"{other}: neither ddprun nor PyTorch's\n")

    def test_other_commands_of_python_are_left_alone(self):
        for word, loaded in (("x", False), ("torchrun", True)):
            done = self.run_command(self.python, "-c", "import sys; print('ddprun' in sys.modules, sys.argv)", word)
            self.assertEqual((done.stdout, done.stderr), (f"{loaded} ['-c', '{word}']\n", ""))

    def test_an_environment_without_the_program_tells_it_in_one_line(self):
        done = self.start_without(self.venv / "bin" / "ddprun")
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (127, "", 1), done)

    def test_without_ddprun_itself_pytorchs_launcher_starts_in_silence(self):
        package, = self.venv.glob("lib/python*/site-packages/ddprun")
        done = self.start_without(package)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "PyTorch ['s.py']\n", ""))

    def test_removing_the_package_leaves_every_file_of_pytorch_as_it_was(self):
        wheel_environment.pip(self.python, "uninstall", "-y", "ddprun-torchrun")
        try:
            self.assertEqual(self.files(), self.before)
            self.assertEqual(self.run_command(self.torchrun, "s.py").stdout, "PyTorch ['s.py']\n")
        finally:
            wheel_environment.pip(self.python, "install", "--no-deps", "--no-index", self.wheel)

    def test_the_extra_of_ddprun_requires_the_package_in_its_own_version(self):
        done = self.run_command(self.python, "-c", "import importlib.metadata as m; print(m.requires('ddprun'), m.requires('ddprun-torchrun'))")
        self.assertEqual(done.stdout, "['ddprun-torchrun==1.2.3; extra == \"torchrun\"'] ['ddprun==1.2.3']\n")

    def test_the_wheel_has_the_same_bytes_twice(self):
        again = self.folder / "again"
        again.mkdir()
        self.assertEqual(wheel_environment.torchrun_wheel(again).read_bytes(), self.wheel.read_bytes())
        self.assertIn(package_torchrun.HOOK, [file.name for file in package_torchrun.wheel_files("1.2.3")])


if __name__ == "__main__":
    unittest.main()
