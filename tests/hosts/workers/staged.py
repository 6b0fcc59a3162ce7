"""Does its part of a staged failure: $STAGED holds, as JSON, the `folder` that all ranks share, the `part` of each rank and
the `ranks` that begin. A victim begins to fail `delay` seconds after the culprit.
"""

import json
import os
import pathlib
import resource
import signal
import sys
import time
import traceback

stage = json.loads(os.environ["STAGED"])
folder = pathlib.Path(stage["folder"])
rank = int(os.environ["RANK"])
part, *words = stage["part"][rank]


def tell(name):
    (folder / name).touch()


def wait_for(name):
    while not (folder / name).exists():
        time.sleep(0.005)


def print_traceback():
    try:
        raise ValueError("bad lr")
    except ValueError:
        traceback.print_exc()


def write_error_file():
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w", encoding="utf-8") as file:
        json.dump({"message": {"message": "ValueError: bad lr", "extraInfo": {"py_callstack": "in train"}}}, file)


def end_after_another():
    """As Python that shuts down slowly: after the stop, and so after another worker."""
    tell("failed")
    signal.sigwait([signal.SIGTERM])
    time.sleep(0.2)
    os._exit(3)


if part.endswith("end late"):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
(folder / f"clock{rank}").write_text(str(time.time() - time.monotonic()), encoding="utf-8")
tell(f"up{rank}")
for other in stage["ranks"]:
    wait_for(f"up{other}")

if part == "exit":
    tell("failed")
    os._exit(3)
elif part == "raise":
    tell("failed")
    raise ValueError("bad lr")
elif part == "write an error file":
    write_error_file()
    tell("failed")
    os._exit(1)
elif part == "get":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tell("failed")
    os.kill(os.getpid(), words[0])
elif part == "raise and end late":
    print_traceback()
    end_after_another()
elif part == "write an error file and end late":
    write_error_file()
    end_after_another()
elif part == "progress":
    os.execv(words[0], words)
elif part == "lose the connection":
    delay, at_stop, error, message = words
    if at_stop == "goes on":  # as within a library
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wait_for("failed")
    time.sleep(delay)
    raise {"ConnectionResetError": ConnectionResetError, "BrokenPipeError": BrokenPipeError}.get(error, RuntimeError)(message)
elif part == "fail by itself":
    wait_for("failed")
    time.sleep(words[0])
    raise OSError("no data")
elif part != "wait":
    sys.exit(f"no such part: {part}")
time.sleep(600)
