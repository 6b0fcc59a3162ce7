"""What the tests of scripts/gpu-check and scripts/gpu-race share: a folder for each, and pretended programs in it."""

import os
import math
import pathlib
import struct
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", "."))


def idx(count, *sides):
    """An IDX file; all bytes of an item are its number."""
    header = struct.pack(f">4B{1 + len(sides)}I", 0, 0, 8, 1 + len(sides), count, *sides)
    return header + b"".join(bytes([i]) * math.prod(sides) for i in range(count))


class Folder(unittest.TestCase):
    # Writes a run's metrics.jsonl into --out.
    METRICS = """for word in "$@"; do case $word in --out=*) out=${word#--out=}; mkdir -p "$out"; esac; done
        metrics() { printf '%s\\n' "$@" >>"$out/metrics.jsonl"; }
        """

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, *command, cwd=None, **environment):
        """`environment`: None removes a variable."""
        settings = {name: value for name, value in (os.environ | environment).items() if value is not None}
        return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=500,
                              cwd=cwd, env=settings)

    def check(self, *arguments, script=ROOT / "scripts" / "gpu-check", **environment):
        self.done = self.run_script(script, f"--out={self.folder / 'out'}", *arguments, **environment)
        summary = self.folder / "out" / "summary.txt"
        return summary.read_text().splitlines() if summary.exists() else []

    def log(self):
        """The output of all parts."""
        return (self.folder / "out" / "log.txt").read_text()

    def pretend(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def path(self):
        """PATH, with the pretended tools first."""
        return f"{self.folder / 'tools'}:{os.environ['PATH']}"

    def end_during(self, number, *arguments, **environment):
        """The exit code of a gpu-check that gets this signal once a pretended program has written the file pid."""
        script = subprocess.Popen([ROOT / "scripts" / "gpu-check", f"--out={self.folder / 'out'}", f"--build={self.folder}",
                                   *arguments], stdout=subprocess.DEVNULL,
                                  env=os.environ | {"TMPDIR": str(self.folder)} | environment)  # a killed one leaves its data
        self.addCleanup(script.kill)
        pid = self.folder / "pid"
        end = time.monotonic() + 60
        while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < end:
            time.sleep(0.01)
        script.send_signal(number)
        return script.wait(timeout=60)

    def is_gone(self):
        """Whether the process whose number is in the file pid has ended."""
        try:
            status = pathlib.Path(f"/proc/{int((self.folder / 'pid').read_text())}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True
        return status.rsplit(")", 1)[1].split()[0] == "Z"

    def assert_gone(self):
        self.assertTrue(self.is_gone())
