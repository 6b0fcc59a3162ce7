"""A test program that starts again in namespaces of its own, so that nothing outlives it; and waits that have a deadline."""

import os
import shutil
import subprocess
import sys
import time

# Of users who are not root, PATH often lacks it.
os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing(tools, remedy):
    """Why the tests can't run: tools that are not installed. Empty: all are there."""
    absent = [tool for tool in tools if not shutil.which(tool)]
    return f"no {', '.join(absent)}: {remedy}" if absent else ""


def enter(command, variable, rehearsal):
    """Does not return where it starts the test program again, by `command`; there, `variable` is in its environment.

    rehearsal: what the tests need of the namespaces, tried once before. Returns why they can't run; empty: it is inside.
    """
    if variable in os.environ:
        return ""
    tried = subprocess.run([*command, *rehearsal], capture_output=True, text=True, check=False, timeout=60)
    if tried.returncode != 0:
        return f"this machine does not allow namespaces: {tried.stderr.strip() or tried.returncode}"
    program = ["-m", "unittest"] if sys.argv[0].endswith("-m unittest") else [sys.argv[0]]
    os.execvpe(command[0], [*command, sys.executable, "-B", *program, *sys.argv[1:]], os.environ | {variable: "1"})


def until(condition, limit, what):
    """The first true value of condition(); fails after `limit` seconds. `what` may be a function."""
    deadline = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit} s: {what() if callable(what) else what}")
        time.sleep(0.01)
    return value
