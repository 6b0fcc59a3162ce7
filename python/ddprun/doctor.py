"""python -m ddprun.doctor: what this wheel starts, then ddprun doctor: what ddprun finds on this machine, and what each missing thing costs."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import os
import pathlib
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator

from ddprun._programs import MODULES, become_ddprun, is_torchrun, program
from ddprun._version import __version__


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and what it costs; no cost: all is well."""

    name: str
    found: str
    cost: str = ""


def own_command() -> str:
    """What to type to start this ddprun."""
    first = shutil.which("ddprun")
    return "ddprun" if first and pathlib.Path(first).resolve() == program("ddprun") else f"{sys.executable} -m ddprun"


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


def findings() -> Iterator[Finding]:
    yield Finding("package", f"{__version__}, {pathlib.Path(__file__).parent}")
    yield from torchrun()


def text(found: Iterable[Finding]) -> str:
    lines = ["Wheel"]
    for finding in found:
        lines.append(f"  {finding.name:<18} {finding.found}")
        if finding.cost:
            lines.append(f"  {'':<18} -> {finding.cost}")
    return "\n".join(lines)


def main() -> int:
    """Prints what only this Python knows, and becomes the program, which prints the rest. Returns an exit code only if that failed."""
    if len(sys.argv) > 1:
        print("usage: python -m ddprun.doctor", file=sys.stderr if sys.argv[1] not in ("-h", "--help") else sys.stdout)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path may have letters that the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text(findings()), flush=True)
    except BrokenPipeError:  # its reader has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return become_ddprun(["doctor"])


if __name__ == "__main__":
    sys.exit(main())
