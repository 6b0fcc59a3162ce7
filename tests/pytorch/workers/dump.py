"""Writes all that a worker can see of how it was started into RANK.json in the folder that DUMP_FOLDER names."""

import atexit
import ctypes
import faulthandler
import gc
import json
import locale
import multiprocessing
import os
import resource
import signal
import sys
import threading
import traceback
import warnings

MODULES = sorted(set(sys.modules))
PATH_CACHE = sorted(sys.path_importer_cache)

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


def stream(file):
    return {"name": file.name, "mode": file.mode, "encoding": file.encoding, "errors": file.errors, "newlines": file.newlines,
            "buffering": [file.line_buffering, file.write_through], "terminal": file.isatty(), "number": file.fileno(),
            "layers": [type(file).__name__, type(file.buffer).__name__, type(getattr(file.buffer, "raw", None)).__name__],
            "kept open": getattr(file.buffer, "raw", file.buffer).closefd}


def traceback_here():
    try:
        raise ValueError("here")
    except ValueError:
        return traceback.format_exc().splitlines()


def inside_python():
    """What the interpreter has beside the process."""
    main = sys.modules["__main__"]
    process = multiprocessing.current_process()
    return {
        "words": getattr(sys, "orig_argv", None),
        "prefixes": [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.executable],
        "options": [sys.warnoptions, sorted(sys._xoptions), sys.dont_write_bytecode],
        "main": {name: repr(value).split(" at 0x")[0] for name, value in vars(main).items() if name.startswith("__")},
        "modules": MODULES,
        "path cache": PATH_CACHE,
        "finders": [[repr(finder).split(" at 0x")[0] for finder in list_of] for list_of in (sys.meta_path, sys.path_hooks)],
        "streams": [stream(file) for file in (sys.stdin, sys.stdout, sys.stderr)],
        "streams are the first": [getattr(sys, name) is getattr(sys, f"__{name}__") for name in ("stdin", "stdout", "stderr")],
        "signals": {str(number): repr(signal.getsignal(number)).split(" at 0x")[0] for number in signal.valid_signals()},
        "wakeup descriptor": signal.set_wakeup_fd(-1),
        "timers": [signal.getitimer(number) for number in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)],
        "faulthandler": faulthandler.is_enabled(),
        "atexit": atexit._ncallbacks(),
        "warnings": [str(entry) for entry in warnings.filters],
        "collector": {"on": gc.isenabled(), "frozen": gc.get_freeze_count(), "debug": gc.get_debug(),
                      "threshold": gc.get_threshold()},
        "threads": [[thread.name, thread.daemon, thread.native_id == os.getpid()] for thread in threading.enumerate()],
        "tasks": len(os.listdir("/proc/self/task")),
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.gettrace(),
                  sys.getprofile(), threading.excepthook is threading.__excepthook__],
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval()],
        "multiprocessing": [process.name, process.daemon, str(multiprocessing.parent_process()), len(process.authkey),
                            multiprocessing.get_start_method(allow_none=True)],
        "locale": [locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding(), sys.getdefaultencoding()],
        "traceback": traceback_here(),
        "variables of the process": sorted(entry.split("=")[0] for entry in text_of("/proc/self/environ").split("\0") if entry),
    }


python = inside_python()  # before what follows adds to it
status = dict(line.split(":", 1) for line in text_of("/proc/self/status").splitlines())
told = {
    "python": python,
    "environment": dict(os.environ),
    "argv": sys.argv,
    "command line": text_of("/proc/self/cmdline").split("\0")[:-1],
    "executable": os.path.realpath("/proc/self/exe"),
    "path": sys.path,
    "flags": str(sys.flags),
    "stdout": [sys.stdout.line_buffering, sys.stdout.write_through, sys.stdout.encoding, sys.stdout.isatty()],
    "name of the process": text_of("/proc/self/comm"),
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
