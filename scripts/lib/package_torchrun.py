"""Writes the wheel ddprun-torchrun, of the extra ddprun[torchrun]: with it, PyTorch's command torchrun starts ddprun."""

import package_files
import package_wheel
from package_files import ROOT, File

HOOK = "ddprun_torchrun.pth"
DESCRIPTION = """\
With this package in an environment, `torchrun`, `python -m torch.distributed.run` and `python -m torch.distributed.launch` of that
environment start ddprun. Install it with `pip install "ddprun[torchrun]"`. `DDPRUN_TORCHRUN=0` in the environment gives PyTorch's
launcher for one command, `pip uninstall ddprun-torchrun` for good: no file of PyTorch is changed.
"""


def metadata(version: str) -> str:
    lines = [
        "Metadata-Version: 2.4",
        "Name: ddprun-torchrun",
        f"Version: {version}",
        "Summary: Lets the command torchrun start ddprun",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        "Requires-Python: >=3.10",  # sys.orig_argv
        f"Requires-Dist: ddprun=={version}",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + DESCRIPTION


def wheel_files(version: str) -> list[File]:
    info = f"ddprun_torchrun-{version}.dist-info"
    return package_wheel.recorded([
        File(HOOK, (ROOT / "python" / "torchrun" / HOOK).read_bytes()),
        File(f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes()),
        File(f"{info}/METADATA", metadata(version).encode()),
        File(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: ddprun {version}\nRoot-Is-Purelib: true\nTag: py3-none-any\n".encode()),
    ], info)


def main() -> None:
    given = package_files.arguments(__doc__ or "")
    version = package_files.version()
    path = given.output / f"ddprun_torchrun-{version}-py3-none-any.whl"
    path.write_bytes(package_wheel.zipped(wheel_files(version), package_files.timestamp()))
    print(f"{path}: {path.stat().st_size / 1e3:.1f} kB")


if __name__ == "__main__":
    main()
