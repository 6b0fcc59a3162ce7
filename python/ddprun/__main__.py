"""python -m ddprun ...: becomes the program ddprun, with this Python for its scripts."""

import errno
import os
import pathlib
import sys

from ddprun._programs import program


def reason(error: OSError, program: pathlib.Path) -> str:
    """Why the program did not start, and what to do, in one line."""
    if error.errno == errno.EACCES:
        if not program.stat().st_mode & 0o111:
            return "it is not executable: type pip install --force-reinstall ddprun"
        return "permission denied: if its file system is mounted noexec, install ddprun in an environment on another one"
    if error.errno in (errno.ENOENT, errno.ENOEXEC):  # the loader is missing, or another machine
        return "this package is for Linux on x86-64 with glibc 2.28 or newer: build ddprun from a checkout (see Install in its README.md)"
    return error.strerror or str(error)


def main() -> int:
    found = program("ddprun")
    if found is None:
        print("ddprun: the program is missing from this installation: type pip install --force-reinstall ddprun", file=sys.stderr)
        return 127
    # ddprun takes an empty PYTHON_EXEC as unset. The workers inherit the variable.
    if sys.executable and not os.environ.get("PYTHON_EXEC"):
        os.environ["PYTHON_EXEC"] = sys.executable
    try:
        os.execv(found, ["ddprun", *sys.argv[1:]])
    except OSError as error:
        print(f"ddprun: can't start {found}: {reason(error, found)}", file=sys.stderr)
        return 126


if __name__ == "__main__":
    sys.exit(main())
