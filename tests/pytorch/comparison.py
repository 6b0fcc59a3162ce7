"""The same programs under torchrun and under ddprun: the list of programs, how they are run, and how runs are compared.

A program prints its results to stdout, in lines that begin with RESULT. Both launchers must give the same result lines,
digit by digit, and the same class of exit code (0 or not), which must also be the expected one.
Used by scripts/compare-with-torchrun and by test_pytorch_comparison.py.
"""

import dataclasses
import pathlib
import re
import socket
import subprocess
import tempfile
import time

from harness import run

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
WORKERS = 2

# PyTorch 2.15 with gloo sometimes aborts when the interpreter exits, under either launcher.
EXIT_ABORT = "terminate called without an active exception"
# After a restart torchrun's workers sometimes connect to addresses of the round before, which are still in its store.
OLD_ADDRESSES = "Connection refused"
ATTEMPTS = 4


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of the comparison."""

    name: str
    about: str
    words: tuple  # the command line after the launcher's options
    options: tuple = ()
    packages: tuple = ()  # what it imports beyond torch
    torch_min: tuple = (1, 13)
    fails: bool = False
    error: str = ""  # must appear in the output under both launchers
    torchrun_trouble: str = ""  # a known trouble of torchrun, beside EXIT_ABORT: such a run is repeated
    limit_s: int = 200


PROBE = "import importlib.util, sys; print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n) is None])"


def file(name):
    return str(PROGRAMS / name)


ALL = (
    Program("ddp", "DistributedDataParallel", (file("ddp.py"),)),
    Program("gpt", "small GPT, DDP, accumulation", (file("gpt.py"), "--steps=8", "--out=checkpoints"), ("--standalone",),
            torch_min=(2, 0)),
    Program("restart", "kill -9 of rank 1, checkpoint", (file("restart.py"),), ("--max_restarts=3",),
            torchrun_trouble=OLD_ADDRESSES),
    Program("fsdp2", "FSDP2, fully_shard", (file("fsdp2.py"),), torch_min=(2, 6)),
    Program("checkpoint", "torch.distributed.checkpoint", (file("checkpoint.py"),), torch_min=(2, 6)),
    Program("rpc", "torch.distributed.rpc", (file("rpc.py"),)),
    Program("loader", "DataLoader processes, objects", (file("loader.py"),)),
    Program("record", "@record, rank 1 raises", (file("record.py"),), fails=True, error="the learning rate is nan"),
    Program("raises", "rank 1 raises in training", (file("raises.py"),), fails=True, error="nan in the loss"),
    Program("exit3", "sys.exit(3) on rank 1", (file("exits.py"), "3"), fails=True),
    Program("segv", "SIGSEGV on rank 1", (file("exits.py"), "SIGSEGV"), fails=True),
    Program("arguments", "arguments and variables", (file("arguments.py"), "--lr", "0.1", "a b", "--nproc-per-node=9"),
            ("--max_restarts=2", "--role=trainer")),
    Program("module", "-m package.train", ("package.train", "--epochs=3"), ("-m",)),
    Program("run-path", "--run-path", (file("arguments.py"), "one", "two"), ("--run_path",)),
    Program("tqdm", "tqdm bars on all ranks", (file("bars.py"),), packages=("tqdm",)),
    Program("trainer", "transformers.Trainer, GPT-2", (file("hf_trainer.py"),), packages=("transformers", "accelerate")),
    Program("accelerate", "accelerate.Accelerator", (file("hf_accelerate.py"),), packages=("accelerate",)),
    Program("lightning", 'Lightning, strategy="ddp"', (file("lightning_fit.py"),), packages=("lightning",)),
    Program("deepspeed", "DeepSpeed, ZeRO-1", (file("deepspeed_zero.py"),), packages=("deepspeed",), limit_s=500),
)


@dataclasses.dataclass
class Ended:
    """How a program ended under one launcher."""

    status: int
    seconds: float
    results: list
    output: str
    repeated: int  # number of earlier runs that failed by a known trouble of PyTorch

    def is_expected(self, program):
        return (self.status != 0) == program.fails and bool(self.results) and program.error in self.output


def result_lines(output):
    """The result lines without ddprun's prefix, sorted, because the order of the ranks is not fixed."""
    lines = (re.sub(r"^\[rank\d+\] ", "", line.rpartition("\r")[2]) for line in output.split("\n"))
    return sorted(line for line in lines if line.startswith("RESULT "))


def not_runnable(program, torch):
    """The reason why `torch` cannot run the program; empty where it can."""
    if torch.release < program.torch_min:
        return f"needs PyTorch {'.'.join(map(str, program.torch_min))}"
    asked = subprocess.run([torch.python, "-c", PROBE, *program.packages], capture_output=True, text=True, timeout=60,
                           check=True)
    return f"not installed: {', '.join(asked.stdout.split())}" if asked.stdout.strip() else ""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_under(launcher, program, torch, limit_s=None):
    """Runs `program` by `launcher`: torch.ddprun or torch.torchrun."""
    troubles = [EXIT_ABORT]
    if program.torchrun_trouble and launcher == torch.torchrun:
        troubles.append(program.torchrun_trouble)
    environment = torch.environment(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", PYTHONPATH=str(PROGRAMS))
    environment["PATH"] = f"{pathlib.Path(torch.python).parent}:{environment['PATH']}"
    options = [f"--nproc_per_node={WORKERS}", *program.options]
    if launcher == torch.torchrun and torch.release < (2, 12):
        options.insert(0, f"--master_port={free_port()}")  # such a torchrun always takes 29500, and tests run side by side
    command = launcher(*options, *program.words)
    for attempt in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="ddprun_compare_") as folder:
            begin = time.monotonic()
            result = run(command, environment, folder, limit_s or program.limit_s)
            seconds = time.monotonic() - begin
        output = result.out + result.err
        ended = Ended(result.status, seconds, result_lines(result.out), output, attempt)
        if ended.is_expected(program) or not any(trouble in output for trouble in troubles):
            break
    return ended


def difference(program, torchruns, ddpruns):
    """Describes the first difference between the runs, or from the expected end; empty where there is none."""
    for launcher, ended in (("torchrun", torchruns), ("ddprun", ddpruns)):
        if (ended.status != 0) != program.fails:
            return f"the exit code of {launcher} is {ended.status}, expected {'a failure' if program.fails else '0'}"
        if not ended.results:
            return f"no result line under {launcher}"
        if program.error not in ended.output:
            return f"{launcher} does not show the error: {program.error}"
    if torchruns.results != ddpruns.results:
        only = [f"{launcher} only: {line}" for launcher, lines, others in
                (("torchrun", torchruns.results, ddpruns.results), ("ddprun", ddpruns.results, torchruns.results))
                for line in lines if lines.count(line) != others.count(line)]
        return f"result lines differ: {only[0]}" + (f" (and {len(only) - 1} more)" if len(only) > 1 else "")
    return ""
