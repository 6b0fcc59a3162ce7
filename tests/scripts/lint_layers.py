"""Checks which folder includes which (docs/folders.md) and how long files are.

usage: lint_layers.py ROOT      prints one line for each finding; exit 1 where there are any
"""

import pathlib
import re
import sys

from source_tree import source_files

# Folder -> what its files may include, as path prefixes. A folder always may include itself. Every folder with sources
# has a row of its own; tests/ and bench/ may include anything.
MAY_INCLUDE = {
    "base": [],
    "texts": ["base"],
    "texts/cli": ["texts", "base"],
    "proto": ["base"],
    "machine/cgroups": ["base"],
    "machine/cpus": ["machine/cgroups", "base"],
    "machine/devices": ["base"],
    "machine/processes": ["machine/cpus", "base"],
    "machine/programs": ["machine/processes", "base"],
    "rendezvous": [],
    "rendezvous/client": ["proto", "base"],
    "rendezvous/daemon": ["rendezvous/client", "rendezvous/etcd", "rendezvous/munge", "rendezvous/service", "rendezvous/shared", "rendezvous/store", "rendezvous/tls", "proto", "texts/cli", "texts", "base"],
    "rendezvous/etcd": ["rendezvous/client", "rendezvous/service", "proto", "base"],
    "rendezvous/membership": ["proto", "base"],
    "rendezvous/munge": ["proto"],
    "rendezvous/service": ["rendezvous/membership", "rendezvous/store", "proto", "base"],
    "rendezvous/shared": ["rendezvous/client", "rendezvous/etcd", "rendezvous/service", "rendezvous/store", "proto", "base"],
    "rendezvous/store": ["proto", "base"],
    "rendezvous/tls": ["proto", "base"],
    "warden": ["machine", "base"],
    "agent": ["warden/warden_link", "rendezvous/etcd/etcd_access", "rendezvous/etcd/etcd_url", "rendezvous/membership", "rendezvous/service/hosting", "machine", "proto", "base"],
    "agent/chaos": [],
    "agent/evidence": ["proto", "base"],
    "agent/terminal": ["base"],
    "agent/streams": ["agent/evidence", "agent/terminal", "proto", "base"],
    "agent/workers": ["agent/config", "agent/job_settings", "agent/streams", "agent/terminal", "machine", "proto", "base"],
    "agent/preload": ["machine/processes", "base"],
    "agent/progress": ["agent/config", "agent/job_settings", "agent/workers", "agent/streams", "agent/terminal", "machine", "proto", "base"],
    "agent/node": ["agent/config", "agent/progress/found_hang", "agent/workers", "machine", "proto", "base"],
    "agent/events": ["agent/config", "agent/node", "agent/progress/found_hang", "agent/workers", "machine", "proto", "base"],
    "agent/link": ["agent/config", "agent/workers", "warden/warden_link", "rendezvous", "machine/processes/boot_timer", "proto", "base"],
    "agent/control": ["agent", "warden/warden_link", "rendezvous", "machine", "proto", "base"],
    "launcher": ["warden", "agent", "rendezvous", "machine", "proto", "base"],
    "launcher/options": ["agent/chaos", "agent/job_settings", "agent/streams", "machine/cpus", "machine/processes", "rendezvous/membership",
                         "texts", "base"],
    "launcher/texts": ["launcher/options", "texts", "base"],
    "launcher/cluster": ["launcher/options", "proto", "base"],
    "launcher/program": ["launcher/options", "texts", "base"],
    "launcher/plan": ["launcher/options", "launcher/cluster", "launcher/program", "agent/chaos", "agent/config", "agent/job_settings", "agent/streams", "warden/warden",
                      "rendezvous/etcd/etcd_url", "rendezvous/membership", "rendezvous/munge", "rendezvous/service/hosting", "rendezvous/tls", "machine", "proto", "base"],
    "launcher/doctor": ["launcher/options", "launcher/program", "launcher/plan", "agent/progress", "machine/processes", "machine/programs", "base"],
    "launcher/report": ["launcher/options", "agent/agent", "agent/chaos", "agent/events", "agent/progress/stack_methods", "agent/streams", "agent/terminal", "rendezvous/membership", "proto", "base"],
    "launcher/ctl": ["agent/streams/stream_text", "agent/terminal/terminal_text", "machine/devices", "proto", "texts/cli", "texts", "base"],
    "launcher/ssh": ["launcher/options", "launcher/cluster", "launcher/report", "rendezvous/service", "rendezvous/store", "warden/agent_deadline",
                     "warden/supervised_child", "warden/warden_signals", "machine/processes", "machine/programs", "proto", "base"],
    "trainer": [],
    "trainer/model": ["trainer/error", "base"],
    "trainer/compute": ["trainer/error", "trainer/model", "base"],
    "trainer/host": ["trainer/error", "trainer/compute", "trainer/model", "base"],
    "trainer/cuda": ["trainer/error", "trainer/compute", "trainer/model", "base"],
    "trainer/cuda/plugin": ["trainer/error", "trainer/cuda", "trainer/compute", "trainer/model", "base"],
    "trainer/cuda/kernels": ["trainer/cuda/kernel", "trainer/compute", "base"],
    "trainer/optim": ["trainer/compute", "trainer/model", "base"],
    "trainer/data": ["trainer/error", "trainer/model", "base"],
    "trainer/data/plugin": ["trainer/data"],
    "trainer/comm": ["trainer/error", "trainer/host", "trainer/compute", "rendezvous/client/store_client", "proto", "base"],
    "trainer/nccl": ["trainer/error", "trainer/cuda", "trainer/comm", "trainer/compute", "proto", "base"],
    "trainer/checkpoint": ["trainer/error", "trainer/host/host_loops", "trainer/optim", "trainer/compute", "trainer/model", "base"],
    "trainer/run/cli": ["trainer/run/exit_codes", "trainer/run/report/score", "trainer/error", "trainer/host/host_device", "trainer/checkpoint", "trainer/data",
                        "trainer/optim", "trainer/compute", "trainer/model", "proto", "texts/cli", "texts", "base"],
    "trainer/run/report": ["trainer/run/exit_codes", "trainer/error", "trainer/checkpoint", "trainer/compute", "trainer/model", "base"],
    "trainer/run/plan": ["trainer/run/exit_codes", "trainer/run/cli", "trainer/run/report", "trainer/error", "trainer/checkpoint", "trainer/data", "trainer/nccl", "trainer/comm",
                         "trainer/cuda", "trainer/host", "trainer/optim", "trainer/compute", "trainer/model", "rendezvous/client/store_client", "rendezvous/store", "proto", "base"],
    "trainer/run/loop": ["trainer/run/exit_codes", "trainer/run/cli", "trainer/run/plan", "trainer/run/report", "trainer/error", "trainer/checkpoint", "trainer/data", "trainer/comm",
                         "trainer/host", "trainer/optim", "trainer/compute", "trainer/model", "worker", "base"],
    "trainer/run": ["trainer", "rendezvous/client/store_client", "rendezvous/store", "worker", "proto", "texts/cli", "texts", "base"],
    "worker": ["rendezvous/client", "proto", "base"],
}
# Included only by a folder that names them in its row: "texts" in a row is texts/ without its sub-folder.
NAMED_ONLY = ["texts/cli"]
UNCHECKED = {"tests", "bench", "cmake"}
# The two houses, whose wall no row can open: neither is there when the other one is built alone. Tests and benchmarks of both
# stand in tests/both/ and bench/.
HOUSES = {
    "launcher": ["machine", "warden", "agent", "launcher", "tests/sim",
                 *(f"tests/{height}/{folder}" for height in ("unit", "integration") for folder in ("machine", "warden", "agent", "launcher"))],
    "trainer": ["trainer", "tests/unit/trainer", "tests/integration/trainer", "tests/emulated_gpu", "tests/fake_cuda", "tests/gpu"],
}
OUR_FOLDERS = {folder.split("/")[0] for folder in MAY_INCLUDE} | {"tests", "bench"}

CONTROL_PLANE = {"base", "texts", "machine", "warden", "proto", "rendezvous", "agent", "launcher", "worker"}
CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|nccl|curand|cub/|thrust/|nvml)")
ASIO_HEADER = re.compile(r"^(boost/asio|asio)")
SOCKET_HEADER = re.compile(r"^(sys/socket\.h|netinet/|arpa/inet\.h|netdb\.h|sys/epoll\.h|poll\.h)")
HEAVY_IN_HEADERS = {"boost/asio.hpp", "nlohmann/json.hpp"}
NO_ASIO = {"base", "texts", "machine", "proto", "warden"}
ASIO_ROOMS = {"machine/programs"}  # in a folder of NO_ASIO
LINES_MAX = 400

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


def findings_in(path, text):
    """Yields (line, what is wrong) for one file; path is relative to the root."""
    folder = path.parts[0]
    room = room_of(path)
    if room and room not in MAY_INCLUDE:
        yield 1, f"{room}/ has no row in MAY_INCLUDE (tests/scripts/lint_layers.py): write down what it may include"
    count = text.count("\n")
    if count > LINES_MAX:
        yield count, f"{count} lines: over {LINES_MAX}; look for a second idea to move out"
    for match in INCLUDE.finditer(text):
        header = match.group(1)
        line = text.count("\n", 0, match.start()) + 1
        for wrong in include_findings(path, folder, header):
            yield line, wrong


def room_of(path):
    """The folder of the file; None: its includes are not checked."""
    return None if path.parts[0] in UNCHECKED else str(path.parent)


def is_in(header, place):
    """place: a folder, or a header without its suffix."""
    return header.startswith((place + "/", place + "."))


def house_of(place):
    """The house of a file or a header; None: both have it."""
    return next((house for house, folders in HOUSES.items() if any(str(place).startswith(folder + "/") for folder in folders)), None)


def may_include(room, header):
    named = next((place for place in NAMED_ONLY if is_in(header, place)), None)
    if named:
        return room == named or named in MAY_INCLUDE[room]
    return is_in(header, room) or any(is_in(header, place) for place in MAY_INCLUDE[room])


def include_findings(path, folder, header):
    if header.startswith("../") or "/../" in header:
        yield f"{header}: include by the path from the root"
        return
    target = header.split("/")[0]
    room = room_of(path)
    ours, theirs = house_of(path), house_of(header)
    if ours and theirs and ours != theirs:
        yield f"{header} belongs to the {theirs}'s house, {path} to the {ours}'s: each is built without the other"
    elif room in MAY_INCLUDE and "/" in header and target in OUR_FOLDERS and not may_include(room, header):
        yield f"{room}/ may not include {header} (it may know: {', '.join(MAY_INCLUDE[room]) or 'nothing of ours'})"
    if room and header.startswith("CLI/") and room != "texts/cli":
        yield f"{header}: CLI11 is for texts/cli/ only"
    if folder in CONTROL_PLANE and CUDA_HEADER.match(header):
        yield f"{header}: no CUDA header in {folder}/ (what is needed is opened at run time)"
    if path.suffix in {".cu", ".cuh"} and ASIO_HEADER.match(header):
        yield f"{header}: no Asio header in CUDA code"
    if folder == "proto" and SOCKET_HEADER.match(header):
        yield f"{header}: proto/ does no I/O"
    if folder in NO_ASIO and room not in ASIO_ROOMS and ASIO_HEADER.match(header):
        yield f"{header}: no Asio in {folder}/"
    if path.suffix in {".hpp", ".h", ".cuh"} and header in HEAVY_IN_HEADERS:
        yield f"{header}: not in a header; include it in the .cpp, or a smaller header of it here"


def main(root):
    wrong = 0
    for path in source_files(root):
        for line, what in findings_in(path, (pathlib.Path(root) / path).read_text(encoding="utf-8")):
            print(f"{path}:{line}: {what}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
