"""Writes the wheel: a zip file of the form of PEP 427, the same bytes for the same files."""

import base64
import hashlib
import io
import pathlib
import time
import zipfile

import package_files
from package_files import ROOT, File

SUMMARY = "A torchrun-like launcher that starts in milliseconds"
LICENSES = ("LICENSE", "THIRD_PARTY_NOTICES")
CLASSIFIERS = (
    "Development Status :: 3 - Alpha",
    "Environment :: Console",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: C++",
    "Programming Language :: Python :: 3",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Typing :: Typed",
)


def tag(glibc: str, arch: str) -> str:
    return f"py3-none-manylinux_{glibc.replace('.', '_')}_{arch}"


def metadata(version: str, readme: str) -> str:
    lines = [
        "Metadata-Version: 2.4",
        "Name: ddprun",
        f"Version: {version}",
        f"Summary: {SUMMARY}",
        "License-Expression: Apache-2.0",
        *(f"License-File: {name}" for name in LICENSES),
        "Keywords: torchrun,distributed,pytorch,launcher",
        *(f"Classifier: {name}" for name in CLASSIFIERS),
        "Requires-Python: >=3.8",
        # An extra cannot bring a file of its own, so it is a wheel of its own (package_torchrun.py).
        "Provides-Extra: torchrun",
        f'Requires-Dist: ddprun-torchrun=={version}; extra == "torchrun"',
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + readme


def place(file: File, data: str) -> File:
    """Where pip finds a staged file: programs go to the environment's bin/, all else below its prefix."""
    if file.name.startswith("bin/"):
        return File(f"{data}/scripts/{file.name.removeprefix('bin/')}", file.content, True)
    return File(f"{data}/data/{file.name}", file.content, file.executable)


def record_line(file: File) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(file.content).digest()).rstrip(b"=").decode()
    return f"{file.name},sha256={digest},{len(file.content)}\n"


def recorded(files: list[File], info: str) -> list[File]:
    """All files of a wheel in their order; RECORD, with a line for each, comes last as PEP 427 recommends."""
    # Python's own folder first, then the information about the wheel.
    files = sorted(files, key=lambda file: (file.name.startswith(info), file.name))
    record = "".join(map(record_line, files)) + f"{info}/RECORD,,\n"
    return [*files, File(f"{info}/RECORD", record.encode())]


def wheel_files(staged: list[File], package: pathlib.Path, version: str, glibc: str, arch: str) -> list[File]:
    """All files of the wheel."""
    info, data = f"ddprun-{version}.dist-info", f"ddprun-{version}.data"
    files = [place(file, data) for file in staged]
    files += [File(f"ddprun/{path.name}", path.read_bytes()) for path in package.iterdir()
              if path.suffix in (".py", ".typed") and path.name != "_version.py"]
    files.append(File("ddprun/_version.py", f'"""Written by the wheel\'s build."""\n\n__version__ = "{version}"\n'.encode()))
    files += [File(f"{info}/licenses/{name}", (ROOT / name).read_bytes()) for name in LICENSES]
    files.append(File(f"{info}/METADATA", metadata(version, (ROOT / "README.md").read_text()).encode()))
    files.append(File(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: ddprun {version}\nRoot-Is-Purelib: false\n"
                                       f"Tag: {tag(glibc, arch)}\n".encode()))
    return recorded(files, info)


def zipped(files: list[File], seconds: int) -> bytes:
    """A zip file. Its bytes depend on nothing but the arguments."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        for file in files:
            entry = zipfile.ZipInfo(file.name, time.gmtime(seconds)[:6])
            entry.create_system = 3  # Unix: the mode below counts
            entry.external_attr = (0o100755 if file.executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.content, compresslevel=9)  # the level of the archive does not count for a ZipInfo
    return output.getvalue()


def main() -> None:
    given = package_files.arguments(__doc__ or "")
    version = package_files.version()
    files = wheel_files(package_files.staged(given.stage), ROOT / "python" / "ddprun", version, given.glibc, given.arch)
    path = given.output / f"ddprun-{version}-{tag(given.glibc, given.arch)}.whl"
    path.write_bytes(zipped(files, package_files.timestamp()))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
