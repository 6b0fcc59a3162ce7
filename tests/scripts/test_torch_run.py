"""What stands in for torch.distributed.run, with a pretended PyTorch and a ddprun that prints its arguments."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import python_package

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The actions of PyTorch's parser: options with a default from PET_NAME, flags, and the rest of the line.
TORCH = """import argparse, os
def env(parser, *names, dest, default):
    parser.add_argument(*names, dest=dest, default=os.environ.get("PET_" + dest.upper(), default))
def get_args_parser():
    parser = argparse.ArgumentParser()
    env(parser, "--nnodes", dest="nnodes", default="1:1")
    env(parser, "--nproc-per-node", "--nproc_per_node", dest="nproc_per_node", default="1")
    parser.add_argument("--max-restarts", "--max_restarts", dest="max_restarts", type=int, default=0)
    parser.add_argument("--master-port", "--master_port", dest="master_port", type=int, default=None)
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument("--standalone", action="store_const", const=True, default=bool(int(os.environ.get("PET_STANDALONE", "0"))))
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser
def run(args):
    raise SystemExit("PyTorch's own")
main = run
"""
TOOL = """import sys
from torch.distributed.run import get_args_parser, main, run
def start():
    print("the tool", sys.argv, flush=False)
    args = get_args_parser().parse_args(sys.argv[1:])
    args.nproc_per_node = 4  # a number, as accelerate has it
    run(args)
def start_main():
    main(["--tee=3", "s.py", "-x"])
"""
PROGRAM = """#!/bin/sh
for word in "$@"; do echo "<$word>"; done
echo "PYTHON_EXEC=$PYTHON_EXEC"
grep SigIgn /proc/$$/status
exit 5
"""


class TorchRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        program = self.folder / "program"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.packages = python_package.lay_out(self.folder, program)
        distributed = self.packages / "torch" / "distributed"
        distributed.mkdir(parents=True)
        (self.packages / "torch" / "__init__.py").touch()
        (distributed / "__init__.py").touch()
        (distributed / "run.py").write_text(TORCH)
        (self.packages / "tool.py").write_text(TOOL)
        info = self.packages / "tool-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tool\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[console_scripts]\ntool = tool:start\ntool-main = tool:start_main\n")

    def python(self, *words, **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PET_", "PYTHON"))}
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
                              env=kept | {"PYTHONPATH": str(self.packages), "PYTHONDONTWRITEBYTECODE": "1"} | environment)

    def tool(self, *words, **environment):
        """Runs a command by the stand-in; the words that ddprun got."""
        done = self.python("-m", "ddprun.torch_run", *words, **environment)
        self.assertEqual((done.returncode, done.stderr), (5, ""), done)
        chosen = done.stdout.split("PYTHON_EXEC=")[1].splitlines()[0]
        self.assertEqual(os.path.realpath(chosen), os.path.realpath(sys.executable))
        return [line[1:-1] for line in done.stdout.splitlines() if line.startswith("<")]

    def test_a_command_that_calls_run_becomes_ddprun_with_the_options_that_differ_from_the_defaults(self):
        words = self.tool("tool", "--nnodes=2", "--max-restarts=0", "--master_port=29500", "-m", "package.module", "--lr=1", "a b")
        self.assertEqual(words, ["--nnodes=2", "--nproc_per_node=4", "--master_port=29500", "--module", "package.module", "--lr=1", "a b"])

    def test_defaults_of_the_environment_are_left_to_ddprun_which_reads_the_same_variables(self):
        self.assertEqual(self.tool("tool", "s.py", PET_NNODES="3", PET_STANDALONE="1"), ["--nproc_per_node=4", "s.py"])
        self.assertEqual(self.tool("tool", "--nnodes=1:1", "s.py", PET_NNODES="3"), ["--nnodes=1:1", "--nproc_per_node=4", "s.py"])

    def test_a_command_that_calls_main_gives_its_words_unchanged(self):
        self.assertEqual(self.tool("tool-main"), ["--tee=3", "s.py", "-x"])

    def test_the_command_sees_its_own_words_and_what_it_has_printed_is_not_lost(self):
        done = self.python("-m", "ddprun.torch_run", "tool", "s.py")
        self.assertTrue(done.stdout.startswith("the tool ['tool', 's.py']\n"), done)

    def test_install_replaces_the_launcher_for_a_program_of_ones_own(self):
        code = "import ddprun.torch_run; ddprun.torch_run.install(); from torch.distributed.run import main; main(['s.py']); print('after')"
        done = self.python("-c", code)
        self.assertEqual(done.returncode, 5, done)
        self.assertIn("<s.py>\n", done.stdout)
        self.assertNotIn("after", done.stdout)

    def test_no_signal_is_ignored_in_ddprun_that_python_ignores_for_itself(self):
        for words in (["-m", "ddprun", "s.py"], ["-m", "ddprun.torch_run", "tool-main"]):
            mask = int(self.python(*words).stdout.split("SigIgn:")[1].split()[0], 16)
            self.assertEqual(mask & (1 << 12 | 1 << 24), 0, hex(mask))  # SIGPIPE, SIGXFSZ

    def test_a_wrong_command_line_is_answered_in_one_line(self):
        for words, answer in (([], "usage: "), (["--help"], "usage: "), (["nothing"], "nothing is not a command of a Python package")):
            done = self.python("-m", "ddprun.torch_run", *words)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done)
            self.assertTrue(done.stderr.startswith(f"ddprun: {answer}"), done.stderr)

    def test_an_environment_without_pytorch_is_answered_in_one_line(self):
        (self.packages / "torch" / "distributed" / "run.py").unlink()
        done = self.python("-m", "ddprun.torch_run", "tool", "s.py")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done)
        self.assertIn("use ddprun itself", done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "this Python has no mypy")
    def test_the_whole_package_is_typed(self):
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", "-p", "ddprun"], capture_output=True, text=True,
                              check=False, timeout=60, cwd=self.folder, env=os.environ | {"MYPYPATH": str(self.packages)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class CommandLinesOfPython(unittest.TestCase):
    """Which of them are PyTorch's launcher, for ddprun-torchrun."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        cls.packages = python_package.lay_out(cls.folder, "/bin/false")
        cls.torchrun = cls.folder / "torchrun"
        cls.torchrun.write_text("#!/usr/bin/python3\nfrom torch.distributed.run import main\nmain()\n")
        sys.path.insert(0, str(cls.packages))
        cls.addClassCleanup(sys.path.remove, str(cls.packages))
        import ddprun._torchrun

        cls.of = staticmethod(ddprun._torchrun.launcher_arguments)

    def test_the_command_and_the_modules_are_recognized_whatever_options_python_has(self):
        script = str(self.torchrun)
        for words, expected in (([script, "-m", "x"], ["-m", "x"]), (["-u", "-Xdev", script], []), (["-W", "ignore", script, "s.py"], ["s.py"]),
                                (["-m", "torch.distributed.run", "--tee=3", "s.py"], ["--tee=3", "s.py"]),
                                (["-um", "torch.distributed.launch", "s.py"], ["s.py"]), (["-mtorch.distributed.run"], [])):
            self.assertEqual(self.of(["python3", *words]), expected, words)

    def test_everything_else_is_left_alone(self):
        other = self.folder / "other" / "torchrun"
        other.parent.mkdir()
        other.write_text("#!/usr/bin/python3\nprint('mine')\n")
        for words in ([], [str(other)], ["s.py", "torchrun"], ["-c", "pass", str(self.torchrun)], ["-cpass", str(self.torchrun)],
                      ["-m", "pip", "torchrun"], ["-m"], ["-W"], ["-", str(self.torchrun)], ["--version", str(self.torchrun)],
                      [str(self.folder / "missing" / "torchrun")], ["-X", str(self.torchrun), "s.py"]):
            self.assertIsNone(self.of(["python3", *words]), words)
        self.assertIsNone(self.of(()))


if __name__ == "__main__":
    unittest.main()
