"""Tools that call PyTorch's launcher, started by python -m ddprun.torch_run: their workers run under ddprun, with the same results."""

import functools
import pathlib
import re
import sys
import unittest

from harness import BIN, TorchTest, run, with_each_torch, with_each_torchrun

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "scripts"))

import python_package  # noqa: E402

# A value for each option of PyTorch that takes one.
VALUES = {"nnodes": "1:2", "nproc_per_node": "3", "rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "rdzv_id": "job", "rdzv_conf": "timeout=9",
          "max_restarts": 2, "monitor_interval": 0.5, "start_method": "fork", "event_log_handler": "console", "role": "trainer", "log_dir": "logs",
          "redirects": "3", "tee": "1", "log_line_prefix_template": "[${rank}] ", "local_ranks_filter": "0", "node_rank": 1, "master_addr": "127.0.0.2",
          "master_port": 29512, "local_addr": "127.0.0.1", "logs_specs": "default", "numa_binding": "node", "signals_to_handle": "SIGTERM",
          "shutdown_timeout": 7, "duplicate_stdout_filters": "a", "duplicate_stderr_filters": "b"}
# Of all options of the real parser: gives run() a value for each, and prints the words that ddprun gets.
ALL_OPTIONS = f"""
import ddprun.torch_run as stand_in
from torch.distributed.run import get_args_parser
parser = get_args_parser()
values = {VALUES!r}
for action in parser._actions:
    if not action.option_strings or action.dest in ("help", "print_completion") or action.nargs == 0:
        continue
    args = parser.parse_args(["./train.py", "-x"])
    setattr(args, action.dest, values[action.dest])
    print(*stand_in.words_of(args, parser), sep="|")
for action in parser._actions:
    if action.nargs == 0 and action.dest in ("standalone", "module", "no_python", "run_path", "virtual_local_rank"):
        print(*stand_in.words_of(parser.parse_args([action.option_strings[-1], "./train.py", "-x"]), parser), sep="|")
"""
SCRIPT = "import os, sys\nprint('RESULT', os.environ['RANK'], os.environ['WORLD_SIZE'], 'DDPRUN_ROUND' in os.environ, sys.argv[1:], flush=True)\n"


def results(result):
    """The workers' lines, without the prefix that names the rank."""
    return sorted(re.sub(r"^\[rank\d+\] ", "", line) for line in result.out.splitlines() if "RESULT" in line)


def with_each_torch_and(module):
    return functools.partial(with_each_torch, needs_torchrun=True, module=module)


class Tools(TorchTest):
    def environment(self, torch):
        if not (self.folder / "lib").exists():
            self.packages = python_package.lay_out(self.folder, (BIN / "ddprun").resolve())
        return torch.environment(PYTHONPATH=str(self.packages))

    def tool(self, torch, *words):
        result = run([torch.python, "-m", "ddprun.torch_run", *words], self.environment(torch), self.folder)
        self.assertEqual(result.status, 0, result)
        return result

    @with_each_torchrun
    def test_ddprun_accepts_every_option_that_pytorchs_parser_has_read(self, torch):
        environment = self.environment(torch)
        done = run([torch.python, "-c", ALL_OPTIONS], environment, self.folder)
        self.assertEqual(done.status, 0, done)
        (self.folder / "train.py").write_text("#!/bin/sh\n")
        (self.folder / "train.py").chmod(0o755)  # for --no-python
        self.assertGreater(len(done.out.splitlines()), 18)
        for line in done.out.splitlines():
            words = line.split("|")
            self.assertEqual(words[-1], "-x")
            self.assertTrue(words[0].startswith("--"), line)
            # A node of a static job names its master.
            more = ["--nnodes=2", "--master-addr=127.0.0.1"] if words[0].startswith("--node") and "rank" in words[0] else []
            more += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost"] if words[0] == "--nnodes=1:2" else []
            result = run([BIN / "ddprun", "--dry-run", *more, *words], environment, self.folder)
            self.assertEqual(result.status, 0, result)

    @with_each_torch_and("accelerate")
    def test_accelerate_launch_has_the_results_of_pytorchs_launcher(self, torch):
        words = ["accelerate", "launch", "--multi_gpu", "--num_processes=2", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no",
                 ROOT / "tests" / "pytorch" / "programs" / "hf_accelerate.py"]
        ours = self.tool(torch, *words)
        theirs = run([torch.python, "-m", "accelerate.commands.launch", *words[2:]], self.environment(torch), self.folder)
        self.assertEqual(theirs.status, 0, theirs)
        self.assertEqual(results(ours), results(theirs))
        self.assertGreater(len(results(ours)), 4)

    @with_each_torch_and("accelerate")
    def test_accelerate_launch_starts_its_workers_by_ddprun_with_their_environment_and_exit_code(self, torch):
        script = self.folder / "script.py"
        script.write_text(f"{SCRIPT}print('RESULT', os.environ['ACCELERATE_MIXED_PRECISION'])\nsys.exit(7 * (sys.argv[1] == '--fail'))\n")
        words = ["accelerate", "launch", "--multi_gpu", "--num_processes=2", "--mixed_precision=bf16", script]
        self.assertEqual(results(self.tool(torch, *words, "--r=16")),
                         ["RESULT 0 2 True ['--r=16']", "RESULT 1 2 True ['--r=16']", "RESULT bf16", "RESULT bf16"])
        failed = run([torch.python, "-m", "ddprun.torch_run", *words, "--fail"], self.environment(torch), self.folder)
        self.assertEqual(failed.status, 7, failed)
        self.assertNotIn("Traceback", failed.err)

    @with_each_torch_and("lightning_fabric.cli")
    def test_fabric_run_starts_its_workers_by_ddprun(self, torch):
        script = self.folder / "script.py"
        script.write_text(SCRIPT)
        result = self.tool(torch, "fabric", "run", "--accelerator=cpu", "--devices=2", script, "--r=16")
        self.assertEqual(results(result), ["RESULT 0 2 True ['--r=16']", "RESULT 1 2 True ['--r=16']"])

    @with_each_torch_and("torchtune._cli.tune")
    def test_tune_run_starts_its_workers_by_ddprun(self, torch):
        (self.folder / "recipe").mkdir()
        (self.folder / "recipe" / "mine.py").write_text(SCRIPT)
        (self.folder / "c.yaml").touch()
        result = self.tool(torch, "tune", "run", "--nproc_per_node", "2", "recipe/mine.py", "--config", "c.yaml")
        self.assertEqual(results(result), ["RESULT 0 2 True ['--config', 'c.yaml']", "RESULT 1 2 True ['--config', 'c.yaml']"])


if __name__ == "__main__":
    unittest.main()
