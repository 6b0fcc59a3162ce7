"""python -m ddprun.doctor: what ddprun finds on this machine, and what each missing thing costs."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import glob
import importlib.util
import io
import os
import pathlib
import platform
import re
import resource
import shlex
import shutil
import site
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from typing import Optional

from ddprun._programs import MODULES, is_torchrun, program
from ddprun._version import __version__

OLDEST_GLIBC = (2, 28)
MUNGE_SOCKET = pathlib.Path("/run/munge/munge.socket.2")
PORTS = (29400, 29500)
FILES_OF_AGENT = 32
FILES_OF_WORKER = 5


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and what it costs; no cost: all is well."""

    name: str
    found: str
    cost: str = ""


def _first_line(command: list[str], timeout: float = 10) -> Optional[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def on_path(name: str, path: str) -> list[pathlib.Path]:
    """All programs of this name on PATH, the one that the shell finds first."""
    found = []
    for folder in path.split(os.pathsep):
        file = pathlib.Path(folder or ".") / name
        # Not file.is_file(): before Python 3.14 it raises in a folder that this user may not read.
        if os.path.isfile(file) and os.access(file, os.X_OK):
            found.append(file)
    return found


def _to_path(own: Optional[pathlib.Path]) -> str:
    """What to type, so that the shell finds this ddprun. One outside of an environment is that of pip install --user or --target."""
    if own is None or (sys.prefix != sys.base_prefix and own.parent == pathlib.Path(sys.prefix).resolve() / "bin"):
        return "activate the environment"
    return f"export PATH={shlex.quote(str(own.parent))}:$PATH"


def programs() -> Iterator[Finding]:
    own = program("ddprun")
    yield Finding("package", f"{__version__}, {pathlib.Path(__file__).parent}")
    if own is None:
        yield Finding("ddprun", "missing from this installation", "nothing can be started: pip install --force-reinstall ./ddprun-*.whl")
    else:
        text = _first_line([str(own), "--version"])
        yield Finding("ddprun", f"{own}: {text or 'does not run'}",
                      "" if text else "nothing can be started (noexec, an older glibc?): type that path to see the error")
        yield trainer(own)
    first = on_path("ddprun", os.environ.get("PATH", ""))
    if not first:
        yield Finding("on PATH", "no ddprun", f"type python -m ddprun, or {_to_path(own)}")
    elif own is not None and first[0].resolve() != own:
        text = _first_line([str(first[0]), "--version"])
        yield Finding("on PATH", f"{first[0]} comes first: {text or 'does not run'}",
                      f"the command ddprun is that one, not {own}: type python -m ddprun, or {_to_path(own)}")
    else:
        yield Finding("on PATH", str(first[0]))
    yield from torchrun()


def own_command() -> str:
    """What to type to start this ddprun."""
    first = on_path("ddprun", os.environ.get("PATH", ""))
    return "ddprun" if first and first[0].resolve() == program("ddprun") else f"{sys.executable} -m ddprun"


def _hook_is_installed() -> bool:
    """Whether the wheel ddprun-torchrun is in a folder of which this Python reads the files *.pth at its start, and has an effect."""
    if not hasattr(sys, "orig_argv"):  # before Python 3.10
        return False
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return any(folder in sys.path and os.path.isfile(os.path.join(folder, "ddprun_torchrun.pth")) for folder in folders)


def torchrun() -> Iterator[Finding]:
    """Which launcher the command torchrun starts, if there is one, and what starts ddprun in its place."""
    path = shutil.which("torchrun")
    if path is None:
        return
    scripts = pathlib.Path(sysconfig.get_path("scripts"))
    here = pathlib.Path(path).parent.resolve() == scripts.resolve()
    off = os.environ.get("DDPRUN_TORCHRUN") == "0"
    hook = _hook_is_installed()
    of_pytorch = is_torchrun(pathlib.Path(path))
    if pathlib.Path(path).resolve().name == "ddprun" or (here and of_pytorch and hook and not off):
        yield Finding("torchrun", f"{path}: starts ddprun")
    elif not of_pytorch:
        yield Finding("torchrun", f"{path}: neither ddprun nor PyTorch's", f"to start ddprun type {own_command()}")
    elif here and hook:
        yield Finding("torchrun", f"{path}: PyTorch's", "DDPRUN_TORCHRUN=0 is set: without it this command starts ddprun")
    elif here:
        yield Finding("torchrun", f"{path}: PyTorch's", "to let it start ddprun, install the wheel "
                      f"ddprun_torchrun-{__version__}-py3-none-any.whl here, from where ddprun's own came (docs/torchrun.md)")
    else:
        ways = [own_command()]
        if hook and not off:
            if is_torchrun(scripts / "torchrun"):
                ways.append(str(scripts / "torchrun"))
            if importlib.util.find_spec("torch") is not None:
                ways.append(f"{sys.executable} -m {MODULES[0]}")
        yield Finding("torchrun", f"{path}: PyTorch's, of another environment", f"to start ddprun type {', '.join(ways[:-1])}"
                      f"{', or ' if len(ways) > 1 else ''}{ways[-1]}")


def trainer(own: pathlib.Path) -> Finding:
    """The bundled trainer, where ddprun looks for it."""
    cost = "only the bundled trainer can't be started: "
    for file in (own.parent.parent / "libexec" / "ddprun" / "train", own.parent / "train"):
        if os.path.isfile(file):
            text = _first_line([str(file), "--version"])
            return Finding("train", f"{file}: {text or 'does not run'}", "" if text else cost + "type that path to see the error")
    return Finding("train", "missing from this installation", cost + "pip install --force-reinstall ./ddprun-*.whl")


def python() -> Iterator[Finding]:
    yield Finding("Python", f"{platform.python_version()}, {sys.executable}")
    own = program("ddprun")
    wanted = os.environ.get("PYTHON_EXEC")
    if wanted:
        yield Finding("PYTHON_EXEC", wanted, "scripts run under this Python, whichever environment is active")
    elif own is not None and sys.prefix != sys.base_prefix and own.parent != pathlib.Path(sys.prefix).resolve() / "bin":
        yield Finding("environment", f"{own} lies outside of {sys.prefix}", "scripts may run under another Python: see ddprun --dry-run")
    torch = importlib.util.find_spec("torch") is not None
    yield Finding("PyTorch", "found" if torch else "not in this environment", "" if torch else "none, unless your scripts import it")


def system() -> Iterator[Finding]:
    release = platform.release()
    numbers = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    cost = ""
    if numbers < (4, 18):
        cost = "older than 4.18: not supported"
    elif numbers < (5, 4):
        cost = "without pidfds (5.4): workers are waited for by pid"
    yield Finding("kernel", f"{release} on {platform.machine()}", cost)
    name, version = platform.libc_ver()
    libc = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    old = name != "glibc" or libc < OLDEST_GLIBC
    yield Finding("libc", f"{name or 'unknown'} {version}".strip(), f"ddprun needs glibc {'.'.join(map(str, OLDEST_GLIBC))} or newer" if old else "")
    yield Finding("CPUs", f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}")


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def gpus() -> Iterator[Finding]:
    yield Finding("ddprun finds", dry_run_value(dry_run(), "GPUs") or "unknown")
    driver = os.path.exists("/proc/driver/nvidia/version")
    nodes = glob.glob("/dev/nvidia[0-9]*")
    if not driver and not nodes:
        yield Finding("NVIDIA driver", "not found", "jobs run on CPUs")
        return
    yield Finding("NVIDIA driver", f"{len(nodes)} GPUs in /dev",
                  "" if nodes else "jobs run on CPUs; start a container with its GPUs (docker: --gpus=all)")
    for library, cost in (("libnvidia-ml.so.1", "ddprun finds GPUs by /dev alone"),
                          ("libcuda.so.1", "no program can use the GPUs")):
        loads = _loads(library)
        yield Finding(library, "loads" if loads else "not found", "" if loads else cost)


@functools.lru_cache(maxsize=1)
def dry_run() -> str:
    """What ddprun itself would do here with one worker; empty: it does not run."""
    own = program("ddprun")
    if own is None:
        return ""
    try:
        return subprocess.run([str(own), "--dry-run", "--nproc-per-node=1", "/bin/true"], capture_output=True, text=True,
                              errors="replace", timeout=10, check=False, stdin=subprocess.DEVNULL).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def dry_run_value(text: str, title: str) -> str:
    """The rest of the line of --dry-run that begins with `title`; empty: there is none."""
    found = re.search(rf"^{re.escape(title)} +(.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def containment() -> Iterator[Finding]:
    level = dry_run_value(dry_run(), "containment")
    cost = {"cgroup": "", "pidns": "",
            "tree": "if ddprun and its agent are killed at the same instant, detached processes may live on; "
                    "with --contain=cgroup or pidns none does"}.get(level, "ddprun --dry-run does not report it")
    yield Finding("level", level or "unknown", cost)


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_OF_AGENT + FILES_OF_WORKER * (os.cpu_count() or 1)
    few = hard != resource.RLIM_INFINITY and hard < wanted
    yield Finding("open files", f"{_limit(soft)}, may be raised to {_limit(hard)}",
                  f"one worker for each CPU needs up to {wanted}: ulimit -Hn" if few else "")
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    low = soft != resource.RLIM_INFINITY and soft < 1024
    yield Finding("processes", _limit(soft), "threads of all your programs count: workers may fail to start (ulimit -u)" if low else "")
    soft, _ = resource.getrlimit(resource.RLIMIT_CORE)
    yield Finding("core files", _limit(soft), "" if soft else "a crash leaves no core file (ulimit -c unlimited)")


def folders() -> Iterator[Finding]:
    memory = "/dev/shm"
    try:
        room = shutil.disk_usage(memory).free
        writable = os.access(memory, os.W_OK)
        cost = "" if writable else "progress pages lie in TMPDIR, on a disk"
        if writable and room < 64 << 20:
            cost = "little: data loaders of PyTorch may fail with a bus error (docker: --shm-size=1g)"
        yield Finding(memory, f"{room >> 20} MiB free" if writable else "not writable", cost)
    except OSError:
        yield Finding(memory, "missing", "progress pages lie in TMPDIR, on a disk")
    try:
        temporary = tempfile.gettempdir()
    except OSError:  # Python has found none that it can write to
        temporary = ""
    wanted = os.environ.get("TMPDIR") or temporary
    usable = os.path.isdir(wanted) and os.access(wanted, os.W_OK | os.X_OK)
    yield Finding("TMPDIR", wanted or "missing", "" if usable else "no folder that you can write to: --log-dir has to name one")


def debuggers() -> Iterator[Finding]:
    for name, cost in (("py-spy", "a hang shows no Python lines (pip install py-spy)"),
                       ("gdb", "a hang shows no C frames")):
        path = shutil.which(name)
        yield Finding(name, path or "not found", "" if path else cost)


def protection() -> Iterator[Finding]:
    """What several nodes may need for themselves, opened at run time."""
    ssl = next((name for name in ("libssl.so.3", "libssl.so.1.1") if _loads(name)), "")
    yield Finding("OpenSSL", ssl or "not found", "" if ssl else "--rdzv-tls and rdzvd --tls can't be used (Debian: libssl3; RHEL: openssl-libs)")
    munge = _loads("libmunge.so.2")
    running = os.path.exists(MUNGE_SOCKET)
    found = "libmunge.so.2" if munge else "not found"
    if munge and not running:
        found += f", but no {MUNGE_SOCKET}"
    yield Finding("MUNGE", found, "" if munge and running else "nodes of one user need a secret to know each other (ddprun --make-secret)")


def ports() -> Iterator[Finding]:
    for port in PORTS:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("", port))
            found, cost = "free", ""
        except OSError as error:
            found, cost = error.strerror or str(error), "jobs of several nodes take it by default; give another port"
        yield Finding(f"port {port}", found, cost)
    name = socket.gethostname()
    try:
        addresses = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None)})
        only_local = all(address.startswith("127.") or address == "::1" for address in addresses)
        yield Finding("host name", f"{name}: {', '.join(addresses)}",
                      "other nodes can't reach this name: give them an address, and --local-addr here" if only_local else "")
    except OSError as error:
        yield Finding("host name", f"{name}: {error.strerror}", "other nodes can't reach this name: give them an address, and --local-addr here")


SECTIONS = (("Programs", programs), ("Python", python), ("System", system), ("GPUs", gpus), ("Containment", containment),
            ("Limits", limits), ("Folders", folders), ("Stacks of hangs", debuggers), ("Several nodes", protection), ("Network", ports))


def text(sections: Iterable[tuple[str, Iterable[Finding]]]) -> str:
    lines = []
    for title, findings in sections:
        lines.append(title)
        for finding in findings:
            lines.append(f"  {finding.name:<18} {finding.found}")
            if finding.cost:
                lines.append(f"  {'':<18} -> {finding.cost}")
    return "\n".join(lines)


def main() -> int:
    """Prints all findings. Ends with 1 if ddprun itself does not run here, else with 0."""
    if len(sys.argv) > 1:
        print("usage: python -m ddprun.doctor", file=sys.stderr if sys.argv[1] not in ("-h", "--help") else sys.stdout)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path may have letters that the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text((title, find()) for title, find in SECTIONS), flush=True)
    except BrokenPipeError:  # its reader has ended; Python would tell of it once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    own = program("ddprun")
    return 0 if own is not None and _first_line([str(own), "--version"]) else 1


if __name__ == "__main__":
    sys.exit(main())
