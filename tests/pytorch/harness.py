"""What the tests with real PyTorch share: the interpreters that have it, and programs run with a deadline.

Tried are python3 (the first on PATH, and /usr/bin/python3, where distributions put their torch), build/pytorch-venv, and
those that DDPRUN_TEST_PYTHON names, separated by ':'. Without any torch a test is skipped, which ctest shows.
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

BIN = pathlib.Path(os.environ.get("DDPRUN_TEST_BIN", "."))
# Where scripts/install-deps --tests puts PyPI's torch when the distribution has none.
VENV_PYTHON = pathlib.Path(__file__).resolve().parents[2] / "build" / "pytorch-venv" / "bin" / "python"
WORKERS = pathlib.Path(__file__).resolve().parent / "workers"

# Says which torch an interpreter has without importing it, which takes seconds.
PROBE = """
import importlib.util, json, pathlib, runpy, sys
found = importlib.util.find_spec("torch")
if found is None or found.origin is None: sys.exit(3)
version = runpy.run_path(str(pathlib.Path(found.origin).parent / "version.py"))["__version__"]
print(json.dumps([sys.executable, found.origin, str(version)]))
"""

# What a surrounding job (or a user's shell) may have set, and what would change a worker's view of the world.
FOREIGN = re.compile(r"^(PET_|SLURM|OMPI_|PMI|FLUX_|JOB_COMPLETION_INDEX$|"
                     r"TORCH|DDPRUN_|MASTER_|GLOO_|OMP_|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$|ROLE_NAME$|PYTHON)")


class Torch:
    """An interpreter that has torch."""

    def __init__(self, python, origin, version):
        self.python = python
        self.origin = origin
        self.version = version
        self.release = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", version).groups())

        # Distributions build torch without libuv; such a client refuses stores that others run unless it is told
        # USE_LIBUV=0, and does not listen to that where the store is an agent's.
        self.has_libuv = self.release < (2, 4) or "dist-packages" not in origin or self.run_code(
            "import torch.distributed as d; d.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)")

    def run_code(self, code):
        return subprocess.run([self.python, "-c", code], capture_output=True, timeout=100, check=False).returncode == 0

    def __str__(self):
        return f"torch {self.version} of {self.python}"

    def environment(self, **more):
        """This process's environment without what would steer torch, for ddprun or torchrun with this interpreter."""
        kept = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        # gloo looks up this machine's name to choose an address, and not every machine can.
        ours = {"PYTHON_EXEC": self.python, "GLOO_SOCKET_IFNAME": "lo", "PYTHONDONTWRITEBYTECODE": "1"}
        # A ddprun built with AddressSanitizer would set its own limit of core files, and so the workers', to 0.
        ours["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":disable_coredump=0"
        return kept | ours | ({} if self.has_libuv else {"USE_LIBUV": "0"}) | more

    def ddprun(self, *arguments):
        return [BIN / "ddprun", *([] if self.has_libuv else ["--worker-store=rank0"]), *arguments]

    def torchrun(self, *arguments):
        # 1.13's torchrun fails on Python 3.11 (Debian 12 has this pair) over the plain digit in its own default of
        # these options. This says the same: no redirection for any rank that there is.
        nothing = ["-r", "9:1", "-t", "9:1"] if self.release < (2, 0) else []
        return [self.python, "-m", "torch.distributed.run", *nothing, *arguments]


def probe(python):
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    return Torch(*json.loads(done.stdout)) if done.returncode == 0 else None


@functools.lru_cache(maxsize=None)
def torches():
    found = {}
    named = [name for name in os.environ.get("DDPRUN_TEST_PYTHON", "").split(":") if name]
    for name in [*named, "python3", "/usr/bin/python3", str(VENV_PYTHON)]:
        torch = probe(name) if shutil.which(name) else None
        if torch is not None:
            found.setdefault((torch.python, torch.origin), torch)
        elif name in named:
            raise AssertionError(f"DDPRUN_TEST_PYTHON names {name}, which has no torch")
    return list(found.values())


class Result:
    """How a command ended."""

    def __init__(self, command, status, out, err):
        self.command = command
        self.status = status
        self.out = out
        self.err = err

    def __str__(self):
        return f"$ {' '.join(map(str, self.command))}\nstatus {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Started:
    """A command that runs in a session of its own; ended at the latest when the `with` ends."""

    def __init__(self, command, environment, folder=None, **more):
        self.command = command
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        self.process = subprocess.Popen([str(word) for word in command], env=environment, cwd=folder, text=True,
                                        errors="replace", start_new_session=True, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            # SIGTERM first: torchrun does not take its workers with it when it is killed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def wait(self, limit):
        """The result; fails when it takes longer than `limit` seconds."""
        try:
            out, err = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            try:
                told = "\n".join(part or "" for part in self.process.communicate(timeout=20))
            except subprocess.TimeoutExpired:
                told = "(it does not end at SIGTERM either)"
            raise AssertionError(f"not done after {limit} s: {' '.join(map(str, self.command))}\n{told}") from None
        return Result(self.command, self.process.returncode, out, err)


def run(command, environment, folder=None, limit=100, **more):
    with Started(command, environment, folder, **more) as started:
        return started.wait(limit)


@contextlib.contextmanager
def store_daemon(*options):
    """`rdzvd` on a free port of loopback. Gives its host and port; it has to end with 0 and without complaints."""
    with Started([BIN / "rdzvd", "--listen=127.0.0.1:0", *options], dict(os.environ)) as daemon:
        first = [""]
        reader = threading.Thread(target=lambda: first.__setitem__(0, daemon.process.stdout.readline()), daemon=True)
        reader.start()
        reader.join(30)
        if not re.fullmatch(r"127\.0\.0\.1:\d+\n", first[0]):
            raise AssertionError(f"the first line of rdzvd is {first[0]!r}")
        host, port = first[0].strip().rsplit(":", 1)
        yield host, int(port)
        daemon.process.send_signal(signal.SIGTERM)
        result = daemon.wait(30)
        if result.status != 0 or result.err:
            raise AssertionError(f"the store complained:\n{result}")


def with_each_torch(test, needs_torchrun=False, module=None):
    """Runs the test method once for each interpreter that has torch (and the module), each time with a new self.folder."""

    @functools.wraps(test)
    def run_all(self):
        usable = [torch for torch in torches() if torch.has_libuv or not needs_torchrun]
        if usable and module:
            usable = [torch for torch in usable if torch.run_code(f"import {module}")]
            if not usable:
                self.skipTest(f"{module} is not installed beside any PyTorch (DDPRUN_TEST_PYTHON names a Python that has both)")
        if not usable and torches():
            self.skipTest("no torchrun that works: torch was built without libuv")
        if not usable:
            self.skipTest("no PyTorch: scripts/install-deps --tests, or name a Python that has it by DDPRUN_TEST_PYTHON")
        for torch in usable:
            with self.subTest(str(torch)), tempfile.TemporaryDirectory() as folder:
                self.folder = pathlib.Path(folder)
                test(self, torch)
                print(f"passed with {torch}", file=sys.stderr)

    return run_all


def with_each_torchrun(test):
    """The same for tests that run torchrun, which does not work where torch was built without libuv."""
    return with_each_torch(test, needs_torchrun=True)


class TorchTest(unittest.TestCase):
    maxDiff = None

    def ddprun(self, torch, options, script, *arguments, limit=100, **variables):
        """Runs `ddprun OPTIONS workers/SCRIPT ARGUMENTS`, expects success, and returns the result."""
        result = run(torch.ddprun(*options, WORKERS / script, *arguments), torch.environment(**variables), self.folder, limit)
        self.assertEqual(result.status, 0, result)
        return result

    def lines(self, result):
        """The workers' lines of stdout, sorted, without the prefix that names the rank."""
        return sorted(re.sub(r"^\[rank\d+\] ", "", line) for line in result.out.splitlines())
