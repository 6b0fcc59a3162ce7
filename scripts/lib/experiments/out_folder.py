"""The folder of --out: it is made, and locked, because two scripts that write there would remove each other's rows."""

import fcntl
import os
import pathlib
import re
import tempfile

from experiments.refused import Refused


def claim(folder):
    """Makes the folder and locks it (flock, so no file is left) until this process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # stays open: it holds the lock
    except OSError as why:
        raise Refused(f"can't write to the folder {folder}: {why.strerror}: name another one with --out=DIR") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = holder(pathlib.Path("/proc/locks").read_text(), os.fstat(descriptor))
        raise Refused(f"{folder}: {f'scripts/experiment with process id {pid}' if pid else 'another scripts/experiment'} writes "
                      "there: wait until it has ended, or name another folder with --out=DIR") from None
    except OSError:
        pass  # a file system without such locks


def holder(locks, status):
    """The process that has the lock, by the lines of /proc/locks; None: the kernel shows it otherwise, or it is on another
    machine. Pure."""
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    found = re.search(rf"^\d+: FLOCK +\w+ +WRITE (\d+) {place} ", locks, re.MULTILINE)
    return int(found.group(1)) if found else None
