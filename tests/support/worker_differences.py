"""What tests share that compare workers which were started in two ways, by what tests/pytorch/workers/dump.py tells of them."""

import os
import resource
import signal


def differences(ones, others, path=""):
    """Yields (path, the one value, the other value). A path has the names of the entries with / between."""
    if isinstance(ones, dict) and isinstance(others, dict):
        for key in sorted(ones.keys() | others.keys()):
            yield from differences(ones.get(key), others.get(key), f"{path}/{key}".lstrip("/"))
    elif ones != others:
        yield path, ones, others


def make_unusual():
    """Limits, masks and priorities of this process, which workers are to have as well; and a descriptor that they are not."""
    os.umask(0o027)
    os.nice(3)
    resource.setrlimit(resource.RLIMIT_NOFILE, (700, 900))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.dup2(1, 77, inheritable=True)
    for number in (signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
