"""Jobs with --preload, whose processes are found by a mark in their environment."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

BIN = pathlib.Path(os.environ.get("DDPRUN_TEST_BIN", "."))
LINE = re.compile(r"every worker imports (?:\S+ )?for itself \(--preload\): (.*)")

# Without it an agent with AddressSanitizer sets the limit of core files, and so the workers', to 0.
SANITIZER = os.environ.get("ASAN_OPTIONS", "") + ":disable_coredump=0"
# In a pid namespace of its own LeakSanitizer does not work.
SANITIZER_IN_NAMESPACE = SANITIZER + ":detect_leaks=0"

# A module that says in the file that COUNT names by which process it was imported.
COUNTED = """import os
with open(os.environ["COUNT"], "a") as file:
    file.write(f"{os.getpid()}\\n")
"""


def text_of(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:  # a process that has ended
        return b""


def eventually(condition, limit=20):
    """What is true at last, or what it is then."""
    until = time.monotonic() + limit
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.01)
    return found


class Result:
    """How a job ended."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err
        self.lines = sorted(re.sub(r"^\[rank\d+\] ", "", line) for line in out.splitlines())
        self.problems = LINE.findall(err)

    def __str__(self):
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class PreloadTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.count = self.folder / "count"
        self.mark = uuid.uuid4().hex
        self.modules = self.folder / "modules"  # on the path of every worker
        self.runs = self.folder / "runs"
        for made in (self.modules, self.runs):
            made.mkdir()
        self.module("counted", COUNTED)
        self.addCleanup(self.end_all)

    def end_all(self):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def module(self, name, text):
        (self.modules / f"{name}.py").write_text(text)

    def script(self, text, name="script.py"):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def environment(self, **variables):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DDPRUN", "OMP_"))}
        ours = {"PYTHON_EXEC": sys.executable, "PYTHONPATH": str(self.modules), "PYTHONDONTWRITEBYTECODE": "1",
                "COUNT": str(self.count), "TMPDIR": str(self.runs), "PRELOAD_MARK": self.mark,
                "ASAN_OPTIONS": SANITIZER}
        return kept | ours | variables

    def start(self, *words, stdin=subprocess.DEVNULL, **variables):
        process = subprocess.Popen([BIN / "ddprun", *words], env=self.environment(**variables), cwd=self.folder,
                                   stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def wait(self, process, limit=120):
        out, err = process.communicate(timeout=limit)
        return Result(process.returncode, out, err)

    def ddprun(self, *words, status=0, **variables):
        """A whole job. It leaves no process and no file."""
        result = self.wait(self.start(*words, **variables))
        self.assertEqual(result.status, status, result)
        self.assertEqual(self.processes(), [], result)
        self.assertEqual(list(self.runs.iterdir()), [], result)
        return result

    def processes(self):
        """All that have our mark."""
        mark = f"PRELOAD_MARK={self.mark}".encode()
        return [int(name) for name in os.listdir("/proc") if name.isdigit()
                and mark in text_of(f"/proc/{name}/environ").split(b"\0")]

    def imports(self):
        """By which processes `counted` was imported."""
        return [int(line) for line in text_of(self.count).split()]
