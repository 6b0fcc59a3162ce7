"""Where the programs are that came with this package, and how a Python process becomes one of them."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import pathlib
import re
import signal
import sys
import sysconfig
from collections.abc import Sequence
from typing import Optional

MODULES = ("torch.distributed.run", "torch.distributed.launch")


def program(name: str) -> Optional[pathlib.Path]:
    """The program `name` of this installation; None: pip has not installed one."""
    # `pip install --target` puts programs beside the packages, and leaves a RECORD with the places that they had before. So this
    # comes first: what RECORD names may be a program of another installation.
    places = [pathlib.Path(__file__).resolve().parents[1] / "bin" / name]
    try:
        files = importlib.metadata.files("ddprun") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    places += [pathlib.Path(str(file.locate())) for file in files if file.name == name and file.parent.name == "bin"]
    places.append(pathlib.Path(sysconfig.get_path("scripts")) / name)
    for place in places:
        if os.path.isfile(place):  # place.is_file() raises in a folder that this user may not read
            return place.resolve()
    return None


def is_torchrun(script: pathlib.Path) -> bool:
    """Whether this is the command that PyTorch's wheel installs, and not another program of its name."""
    try:
        return script.name == "torchrun" and MODULES[0] in script.read_text(encoding="utf-8")[:4096]
    except (OSError, UnicodeDecodeError):
        return False


def _machine() -> str:
    """The processor that this package was made for, to follow "Linux"; empty: it is unknown."""
    try:
        text = importlib.metadata.distribution("ddprun").read_text("WHEEL") or ""
    except importlib.metadata.PackageNotFoundError:
        text = ""
    found = re.search(r"(?m)^Tag: .*-manylinux_\d+_\d+_(\w+)$", text)
    return f" on {found.group(1)}" if found else ""


def _reason(error: OSError, found: pathlib.Path) -> str:
    """Why the program did not start, and what to do, in one line."""
    if error.errno == errno.EACCES:
        if not found.stat().st_mode & 0o111:
            return "it is not executable: type pip install --force-reinstall ./ddprun-*.whl"
        return "permission denied: if its file system is mounted noexec, install ddprun in an environment on another one"
    if error.errno in (errno.ENOENT, errno.ENOEXEC):  # the loader is missing, or another machine
        return f"this package is for Linux{_machine()} with glibc 2.28 or newer: build ddprun from a checkout (see Install in its README.md)"
    return error.strerror or str(error)


def become_ddprun(arguments: Sequence[str], name: str = "ddprun") -> int:
    """This process becomes the program ddprun under that name, with this Python for its scripts. Returns an exit code only if that failed."""
    found = program("ddprun")
    if found is None:
        print("ddprun: the program is missing from this installation: type pip install --force-reinstall ./ddprun-*.whl", file=sys.stderr)
        return 127
    # ddprun takes an empty PYTHON_EXEC as unset. The workers inherit the variable.
    if sys.executable and not os.environ.get("PYTHON_EXEC"):
        os.environ["PYTHON_EXEC"] = sys.executable
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed before the start of Python
            stream.flush()
    # Python ignores these two, and an ignored signal stays ignored in the new program and its workers.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execv(found, [name, *arguments])
    except OSError as error:
        print(f"ddprun: can't start {found}: {_reason(error, found)}", file=sys.stderr)
        return 126
