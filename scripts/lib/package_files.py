"""The files of a package: what scripts/package has staged, in one order, with one time."""

import argparse
import dataclasses
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The first moment that a zip file can hold.
EARLIEST = 315532800
PROGRAMS = ("bin/ddprun", "bin/ddpctl", "bin/rdzvd", "libexec/ddprun/train")
# Each architecture by the kernel's name for it, and Debian's.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclasses.dataclass(frozen=True)
class File:
    """One file of a package; its name has slashes and no leading one."""

    name: str
    content: bytes
    executable: bool = False


def version(root: pathlib.Path = ROOT) -> str:
    """The version of the project, which CMakeLists.txt alone has."""
    found = re.search(r"^project\(ddprun VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text(), re.MULTILINE)
    if not found:
        raise SystemExit("package: CMakeLists.txt has no version")
    return found.group(1)


def timestamp() -> int:
    """Seconds since 1970 for all files of a package."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if text and not re.fullmatch("[0-9]+", text):
        raise SystemExit(f"package: SOURCE_DATE_EPOCH={text} is not a number of seconds")
    return max(int(text or 0), EARLIEST)


def staged(stage: pathlib.Path) -> list[File]:
    """The files below `stage`, sorted by name."""
    missing = [name for name in PROGRAMS if not (stage / name).is_file()]
    if missing:
        raise SystemExit(f"package: {stage / missing[0]} is missing: build the programs first")
    files = []
    for path in stage.rglob("*"):
        if path.is_symlink():
            raise SystemExit(f"package: {path} is a link, which a wheel cannot hold")
        if path.name == "__pycache__":  # compiled by this machine's Python, so no two builds would have the same bytes
            raise SystemExit(f"package: {path} has compiled files of Python: leave it out of the installation (CMakeLists.txt)")
        if path.is_file():
            files.append(File(path.relative_to(stage).as_posix(), path.read_bytes(), os.access(path, os.X_OK)))
    return sorted(files, key=lambda file: file.name)


def arguments(description: str) -> argparse.Namespace:
    """The command line of a packer; its output folder exists."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--stage", type=pathlib.Path, required=True, help="what cmake --install left")
    parser.add_argument("--arch", choices=ARCHITECTURES, required=True, help="what the programs were compiled for")
    parser.add_argument("--glibc", required=True, help="the oldest glibc, such as 2.28")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="the folder of the package")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    return given
