"""The screens of the documents: commands with the output that they really have, and the pages that the programs print.

A screen is a block of the language console between two comments. Lines that begin with "$ " are commands, the others are
their output:

    <!-- screen -->
    ```console
    $ ddprun --nproc-per-node=2 hello.py
    [rank0] hello
    ```
    <!-- end of screen -->

The commands of a screen run one after another in a fresh copy of docs/cookbook/examples/, on a terminal of 100 columns
without colours. That folder is shown as /tmp/job. A screen that begins with <!-- screen, by hand --> depends on the machine, or
takes long: tests leave it out.

usage: screens.py --bin FOLDER     runs all screens and writes them back, where more than times, pids and ports has changed
"""

import argparse
import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "cookbook" / "examples"
PROGRAMS = ("ddprun", "ddpctl", "rdzvd", "train")
SHOWN_FOLDER = "/tmp/job"
SECONDS_MAX = 120
BETWEEN = "\x1e"  # printed before each command and after the last one

SCREEN = re.compile(r"<!-- screen(?P<by_hand>, by hand)? -->\n```console\n(?P<text>.*?)```\n<!-- end of screen -->", re.DOTALL)

# What differs from run to run, and the word that stands for it in a comparison.
CHANGING = [
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min|h)\b(?: \d+ s)?"), "TIME"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?"), "TIME"),
    (re.compile(r"(127\.0\.0\.1|localhost|port)([: ])\d{2,5}\b"), r"\1\2PORT"),
    (re.compile(r"\b\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d(?:_[0-9a-f]{8})?\b"), "RUN"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"/[\w./-]*/python3[\w.]*"), "PYTHON"),
]
# Newer Pythons underline the place of an error.
UNDERLINE = re.compile(r"^(?:\[rank\d+\])?[\s~^]*$")


@dataclass
class Screen:
    text: str
    by_hand: bool

    @property
    def commands(self):
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]


def screens_in(document):
    return [Screen(match["text"], match["by_hand"] is not None) for match in SCREEN.finditer(document)]


def outputs_in(text):
    """The lines below each command."""
    outputs = []
    for line in text.splitlines():
        if line.startswith("$ "):
            outputs.append([])
        elif outputs:
            outputs[-1].append(line)
    return outputs


def comparable(text):
    """The outputs without what changes from run to run. Lines of several workers come in any order."""
    result = []
    for lines in outputs_in(text):
        for pattern, word in CHANGING:
            lines = [pattern.sub(word, line) for line in lines]
        result.append(sorted(line for line in lines if not UNDERLINE.match(line)))
    return result


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def environment(programs, home):
    kept = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
    return kept | {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "C.UTF-8",
                   "PYTHONPATH": str(home / "python"), "PYTHONDONTWRITEBYTECODE": "1"}


def read_terminal(master, process):
    """All that is printed until the last writer has closed the terminal."""
    deadline = time.monotonic() + SECONDS_MAX
    data = b""
    while True:
        readable, _, _ = select.select([master], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            os.killpg(process.pid, signal.SIGKILL)
            raise TimeoutError(f"no end after {SECONDS_MAX} s; so far: {data.decode(errors='replace')}")
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            return data.decode(errors="replace").replace("\r\n", "\n")
        data += part


def run_commands(commands, programs):
    """Runs the commands in one shell; returns the text of a screen."""
    with tempfile.TemporaryDirectory(prefix="ddprun-screens-") as home:
        home = pathlib.Path(home).resolve()
        job = home / "job"
        shutil.copytree(EXAMPLES, job)
        shutil.copytree(ROOT / "python", home / "python")  # as pip would install it
        lines = ["status=0"]
        for command in commands:
            lines += [f"printf '{BETWEEN}'", "(exit $status)", f"eval {quoted(command)}", "status=$?"]
        lines.append(f"printf '{BETWEEN}'")
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))

        def prepare_child():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            # The line about OMP_NUM_THREADS depends on the number of CPUs.
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

        process = subprocess.Popen(["bash", "-c", "\n".join(lines)], stdin=slave, stdout=slave, stderr=slave, cwd=job,
                                   env=environment(programs, home), start_new_session=True, preexec_fn=prepare_child)
        os.close(slave)
        try:
            printed = read_terminal(master, process)
        finally:
            process.wait()
            os.close(master)
        parts = printed.replace(str(job), SHOWN_FOLDER).replace(str(home), "/home/you").split(BETWEEN)[1:-1]
        assert len(parts) == len(commands), printed
        shown = ""
        for command, part in zip(commands, parts):
            shown += f"$ {command}\n" + "".join(line.rstrip() + "\n" for line in part.splitlines())
        return shown


def page(program, programs):
    done = subprocess.run([programs / program, "--man=markdown"], check=True, capture_output=True, text=True)
    return done.stdout


def page_file(program):
    return ROOT / "docs" / "reference" / f"{program}.md"


def documents():
    return sorted((ROOT / "docs").rglob("*.md"))


def write(file, text):
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
        print(f"screens: written: {file.relative_to(ROOT)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    programs = parser.parse_args().bin.resolve()
    missing = [name for name in PROGRAMS if not (programs / name).exists()]
    if missing:
        sys.exit(f"screens: not found in {programs}: {', '.join(missing)}; build them (scripts/build release), or name another folder in DDPRUN_BIN")
    for program in PROGRAMS:
        write(page_file(program), page(program, programs))

    def rerun(match):
        old = match["text"]
        new = run_commands(Screen(old, False).commands, programs)
        return match.group() if comparable(new) == comparable(old) else match.group().replace(old, new)

    for document in documents():
        write(document, SCREEN.sub(rerun, document.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
