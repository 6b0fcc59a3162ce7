"""python -m ddprun ...: becomes the program ddprun, with this Python for its scripts."""

import os
import sys

from ddprun._programs import program


def main() -> int:
    found = program("ddprun")
    if found is None:
        print("ddprun: the program is missing from this installation: pip install --force-reinstall ddprun", file=sys.stderr)
        return 127
    if sys.executable:
        os.environ.setdefault("PYTHON_EXEC", sys.executable)
    try:
        os.execv(found, ["ddprun", *sys.argv[1:]])
    except OSError as error:
        print(f"ddprun: {found}: {error.strerror} (a file system mounted noexec? an older glibc?)", file=sys.stderr)
        return 126


if __name__ == "__main__":
    sys.exit(main())
