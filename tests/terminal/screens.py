"""A terminal that a test looks at as a person would: tmux, with all that has scrolled away."""

import contextlib
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ.get("DDPRUN_TEST_BIN", ".")).resolve()
WORKERS = pathlib.Path(__file__).resolve().parent / "workers"
FOREIGN = re.compile(r"^(PET_|SLURM|OMPI_|PMI|FLUX_|JOB_COMPLETION_INDEX$|"
                     r"TORCH|DDPRUN_|MASTER_|GLOO_|OMP_|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$|ROLE_NAME$|PYTHON|"
                     r"COLUMNS$|LINES$|NO_COLOR$|TMUX)")
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PYTHONS = ["python3", "/usr/bin/python3", str(SOURCE / "build/pytorch-venv/bin/python"), *filter(None, os.environ.get("DDPRUN_TEST_PYTHON", "").split(":"))]


@functools.cache
def python_with(*modules):
    """The first interpreter that has the modules; skips where none has."""
    code = "import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))"
    for python in PYTHONS:
        with contextlib.suppress(OSError):
            if subprocess.run([python, "-c", code, *modules], timeout=60, check=False).returncode == 0:
                return python
    raise unittest.SkipTest(f"no Python with {' and '.join(modules)}: scripts/install-deps --tests, or name one by DDPRUN_TEST_PYTHON")


class Terminal:
    """tmux with an interactive bash."""

    def __init__(self, columns, rows=24):
        if shutil.which("tmux") is None:
            raise unittest.SkipTest("no tmux: scripts/install-deps --tests")
        self.columns = columns
        self.folder = tempfile.TemporaryDirectory(prefix="ddprun_test_")
        self.socket = str(pathlib.Path(self.folder.name) / "tmux")
        kept = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        kept |= {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TERM": "xterm", "PYTHONDONTWRITEBYTECODE": "1",
                 "OMP_NUM_THREADS": "1"}
        subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                        "exec bash --norc --noprofile -i"], env=kept, check=True, timeout=30, cwd=self.folder.name)
        self.tmux("set-option", "-g", "window-size", "manual")
        self.type("PS1='prompt> '; clear; tmux -S $TMUX clear-history 2>/dev/null")
        self.wait_for(lambda lines: lines and lines[-1].startswith("prompt>"))
        self.tmux("clear-history")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, timeout=30, capture_output=True)
        self.folder.cleanup()

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], check=True, timeout=30, capture_output=True, text=True).stdout

    def type(self, text, enter=True):
        self.tmux("send-keys", "-l", text)
        if enter:
            self.tmux("send-keys", "Enter")

    def key(self, name):
        self.tmux("send-keys", name)

    def resize(self, columns, rows=24):
        self.columns = columns
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def lines(self):
        """All lines so far; what the terminal has wrapped is one line."""
        text = self.tmux("capture-pane", "-p", "-J", "-S", "-")
        return [line.rstrip() for line in text.rstrip("\n").split("\n")]

    def visible(self):
        return [line.rstrip() for line in self.tmux("capture-pane", "-p").rstrip("\n").split("\n")]

    def pid(self):
        """Of the command that runs in the foreground."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        return int(pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def cursor_shown(self):
        return self.tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def wait_for(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            lines = self.lines()
            if condition(lines):
                return lines
            time.sleep(0.05)
        raise AssertionError("not on the screen in time:\n" + "\n".join(self.lines()))

    def start(self, *command, environment=()):
        """Runs a command; its screen lies between the line `begin` and the line `end CODE`."""
        words = " ".join([*environment, *(shlex.quote(str(word)) for word in command)])
        script = pathlib.Path(self.folder.name) / "run.sh"
        script.write_text(f"echo begin\n{words}\necho end $?\n")
        self.type(f". {script}")

    def result(self, seconds=60):
        """The lines that the command has left, and its exit code."""
        lines = self.wait_for(lambda now: any(re.fullmatch(r"end \d+", line) for line in now), seconds)
        begin = lines.index("begin")
        end = next(i for i, line in enumerate(lines) if re.fullmatch(r"end \d+", line))
        return lines[begin + 1:end], int(lines[end].split()[1])


def agent_of(warden):
    """The process that the first one of ddprun has started."""
    return int(pathlib.Path(f"/proc/{warden}/task/{warden}/children").read_text().split()[0])


def ddprun(workers, *words):
    return [BIN / "ddprun", f"--nproc_per_node={workers}", "--fold=off", *words]


def with_python(python):
    return [f"PYTHON_EXEC={python}"]
