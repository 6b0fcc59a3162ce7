"""Writes all that a worker can see of how it was started into RANK.json in the folder that DUMP_FOLDER names."""

import ctypes
import json
import os
import resource
import sys

PR_GET_PDEATHSIG = 2
STATUS_LINES = ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd",
                "CapAmb", "NoNewPrivs", "Seccomp", "Cpus_allowed_list", "Mems_allowed_list", "TracerPid")


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def descriptors():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}").split(":[")[0]  # pipes without their numbers
        except FileNotFoundError:
            pass  # the listing itself
    return found


def parent_death_signal():
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    return number.value


def describe_error_file(path):
    """Whether a worker can write the file that it is told to write its exception to."""
    return {"absolute": os.path.isabs(path), "there already": os.path.exists(path),
            "can be made": os.access(os.path.dirname(path), os.W_OK | os.X_OK),
            "folder's mode": oct(os.stat(os.path.dirname(path)).st_mode)}


status = dict(line.split(":", 1) for line in text_of("/proc/self/status").splitlines())
told = {
    "environment": dict(os.environ),
    "argv": sys.argv,
    "command line": text_of("/proc/self/cmdline").split("\0")[:-1],
    "executable": os.path.realpath("/proc/self/exe"),
    "path": sys.path,
    "flags": str(sys.flags),
    "stdout": [sys.stdout.line_buffering, sys.stdout.write_through, sys.stdout.encoding, sys.stdout.isatty()],
    "folder": os.getcwd(),
    "root": os.readlink("/proc/self/root"),
    "descriptors": descriptors(),
    "descriptor flags": {str(fd): os.get_blocking(fd) for fd in (0, 1, 2)},
    "status": {name: status[name].strip() for name in STATUS_LINES if name in status},
    "is a leader of a session": os.getsid(0) == os.getpid(),
    "is a leader of a group": os.getpgrp() == os.getpid(),
    "niceness": os.nice(0),
    "scheduler": [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority],
    "affinity": sorted(os.sched_getaffinity(0)),
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")},
    "memory killer's adjustment": int(text_of("/proc/self/oom_score_adj")),
    "parent death signal": parent_death_signal(),
    "timer slack": int(text_of("/proc/self/timerslack_ns")),
    "core dump filter": text_of("/proc/self/coredump_filter").strip(),
    "control group": text_of("/proc/self/cgroup"),
    "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))},
    "personality": text_of("/proc/self/personality").strip(),
    "error file": describe_error_file(os.environ["TORCHELASTIC_ERROR_FILE"]),
}
with open(os.path.join(os.environ["DUMP_FOLDER"], os.environ["RANK"] + ".json"), "w", encoding="utf-8") as out:
    json.dump(told, out)
