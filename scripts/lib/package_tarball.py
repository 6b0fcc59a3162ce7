"""Writes the tarball, compressed by gzip, which every system unpacks: one folder that runs wherever it is unpacked; the same bytes
for the same files."""

import gzip
import io
import tarfile

import package_files
from package_files import ROOT, File

# Names the reason where a program would only give an error of the loader.
CHECK = """#!/bin/sh
# Prints one line: the version of the programs of this folder, or why they do not run here.
program=$(dirname "$0")/bin/ddprun
if version=$("$program" --version 2>/dev/null); then
  printf '%s\\n' "$version" | sed 1q
  exit 0
fi
fail() { echo "ddprun: $1" >&2; exit 1; }
machine=$(uname -m)
[ "$(uname -s)" = Linux ] && [ "$machine" = @ARCH@ ] || fail "made for Linux on @ARCH@, this is $(uname -s) on $machine"
[ -x "$program" ] || fail "$program is missing, or not executable here, for example because its file system is mounted noexec"
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc //p')
[ -n "$glibc" ] || fail "needs glibc @GLIBC@ or newer, and this system seems to have another libc (musl?)"
oldest=$(printf '%s\\n%s\\n' @GLIBC@ "$glibc" | sort -V | head -n 1)
[ "$oldest" = @GLIBC@ ] || fail "needs glibc @GLIBC@ or newer, this system has $glibc"
exec "$program" --version
"""


def tarball_files(staged: list[File], folder: str, glibc: str, arch: str) -> list[File]:
    files = [File(f"{folder}/{file.name}", file.content, file.executable) for file in staged]
    files.append(File(f"{folder}/check", CHECK.replace("@GLIBC@", glibc).replace("@ARCH@", arch).encode(), True))
    files += [File(f"{folder}/{name}", (ROOT / name).read_bytes()) for name in ("LICENSE", "THIRD_PARTY_NOTICES")]
    return sorted(files, key=lambda file: file.name)


def archive(files: list[File], seconds: int) -> bytes:
    """A compressed tar file of files owned by root. Its bytes depend on the arguments and the version of zlib."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in files:
            entry = tarfile.TarInfo(file.name)
            entry.size = len(file.content)
            entry.mtime = seconds
            entry.mode = 0o755 if file.executable else 0o644
            entry.uname = entry.gname = "root"
            tar.addfile(entry, io.BytesIO(file.content))
    return gzip.compress(output.getvalue(), 9, mtime=0)


def main() -> None:
    given = package_files.arguments(__doc__ or "")
    folder = f"ddprun-{package_files.version()}-linux-{given.arch}"
    files = tarball_files(package_files.staged(given.stage), folder, given.glibc, given.arch)
    path = given.output / f"{folder}.tar.gz"
    path.write_bytes(archive(files, package_files.timestamp()))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
