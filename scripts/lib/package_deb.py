"""Writes the Debian packages ddprun, ddprun-rdzvd and ddprun-dev by dpkg-deb; the same bytes for the same files."""

import gzip
import hashlib
import os
import pathlib
import re
import subprocess
import tempfile
import time

import package_files
from package_files import ROOT, File

# The project has no public address yet. dpkg warns of a package without a maintainer, and lintian refuses hosts that cannot exist,
# so this is an address of the kind that GitHub gives to those without a public one: it gets no mail.
PLACEHOLDER = ("ddprun maintainers", "ddprun@users.noreply.github.com")
PARTS = {
    "ddprun": ("utils", "torchrun-like launcher that starts in milliseconds",
               ["Starts the workers of a distributed PyTorch job with the command line and the", "environment of torchrun, "
                "restarts the group when one fails, names the rank", "that failed first, and leaves no process behind."]),
    "ddprun-rdzvd": ("net", "rendezvous of ddprun jobs as a service",
                     ["Forms the rounds of any number of ddprun jobs, so that a job does not depend on", "any one of its nodes, "
                      "and serves one key-value store in the protocol of", "PyTorch's TCPStore. The service is not started "
                      "by the installation."]),
    "ddprun-dev": ("libdevel", "header to report a worker's progress to ddprun",
                   ["A C header without dependencies. A worker that reports its steps is watched:", "ddprun finds the one that "
                    "hangs, and shows its stack."]),
}
DEFAULTS = """# Options of rdzvd (see rdzvd(8)), for example
#   RDZVD_OPTIONS="--listen=10.0.0.5:29400 --allow-uid=any --secret-file=/etc/ddprun/secret"
# Without any it serves 127.0.0.1:29400 for all users of this machine.
# It runs as the user rdzvd, which has to own the file of a secret. To make one:
#   head -c 24 /dev/urandom | base64 | install -D -o rdzvd -m 600 /dev/stdin /etc/ddprun/secret
"""
RELOAD = "[ ! -d /run/systemd/system ] || systemctl --system daemon-reload >/dev/null || true\n"
SCRIPTS = {
    "postinst": '#!/bin/sh\nset -e\nif [ "$1" = configure ] && ! getent passwd rdzvd >/dev/null; then\n'
                f"  adduser --quiet --system --group --home /nonexistent --no-create-home rdzvd\nfi\n{RELOAD}",
    "prerm": '#!/bin/sh\nset -e\nif [ "$1" = remove ] && [ -d /run/systemd/system ]; then\n'
             "  systemctl disable --now rdzvd.service >/dev/null 2>&1 || true\nfi\n",
    "postrm": f'#!/bin/sh\nset -e\n{RELOAD}'
              'if [ "$1" = purge ]; then\n  rm -rf /var/lib/private/rdzvd\n  rm -rf /var/lib/rdzvd\n'
              "  # It fails for a user that no package has made.\n"
              "  ! command -v deluser >/dev/null || deluser --quiet --system rdzvd >/dev/null 2>&1 || true\nfi\n",
}


# What lintian would call an error or a warning, and is wanted.
LINTIAN = """# train has libjpeg, libpng and zlib linked in, so that it runs on systems with other versions of them.
ddprun: embedded-library * [usr/libexec/ddprun/train]
# Relocations would cost a tenth of each start (docs/decisions/0014-portable-programs.md).
ddprun: hardening-no-pie [usr/bin/ddprun]
"""


def part_of(name: str) -> str:
    """The package that a staged file belongs to."""
    if name.startswith("include/"):
        return "ddprun-dev"
    if name.startswith("share/doc/"):
        return "ddprun"
    return "ddprun-rdzvd" if re.search(r"(^|/)_?rdzvd(\.\w+)?$", name) else "ddprun"


# More than libc.
DEPENDS = {"ddprun-rdzvd": ", adduser"}
# Opened at run time: for encrypted connections between nodes, and for nodes that know each other by their user.
SUGGESTS = "libssl3 | libssl3t64 | libssl1.1, libmunge2"


def place(file: File) -> File:
    """Where Debian has a staged file: below usr/, man pages compressed."""
    name = f"usr/{file.name}".replace("share/zsh/site-functions", "share/zsh/vendor-completions")
    if name == "usr/share/doc/ddprun/README.md":
        return File(name, file.content.replace(b"](LICENSE)", b"](copyright)"))
    if name.startswith("usr/share/man/"):
        return File(f"{name}.gz", gzip.compress(file.content, 9, mtime=0))
    return File(name, file.content, file.executable)


def copyright_text() -> bytes:
    notices = (ROOT / "THIRD_PARTY_NOTICES").read_text()
    return (f"ddprun\n\nCopyright: the ddprun authors\nLicense: Apache-2.0; on Debian systems its text is in\n"
            f"/usr/share/common-licenses/Apache-2.0.\n\n{notices}").encode()


def changelog(package: str, version: str, contact: str, seconds: int) -> bytes:
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(seconds))
    text = f"{package} ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the project.\n\n -- {contact}  {date}\n"
    return gzip.compress(text.encode(), 9, mtime=0)


def maintainer() -> str:
    """Name and address for the packages: of the environment, as Debian's own tools have it, or the placeholder."""
    return f"{os.environ.get('DEBFULLNAME') or PLACEHOLDER[0]} <{os.environ.get('DEBEMAIL') or PLACEHOLDER[1]}>"


def control(package: str, version: str, contact: str, glibc: str, architecture: str, kilobytes: int) -> str:
    section, summary, description = PARTS[package]
    binary = architecture != "all"
    lines = [f"Package: {package}", f"Version: {version}", f"Architecture: {architecture}", f"Maintainer: {contact}",
             f"Installed-Size: {kilobytes}", *([f"Depends: libc6 (>= {glibc}){DEPENDS.get(package, '')}", f"Suggests: {SUGGESTS}"] if binary else []),
             *(["Multi-Arch: foreign"] if not binary else []),
             f"Section: {section}", "Priority: optional", f"Description: {summary}",
             *(f" {line}" for line in description)]
    return "\n".join(lines) + "\n"


def package_files_of(staged: list[File], package: str, version: str, contact: str, seconds: int) -> list[File]:
    """All files of one package, but for its control files."""
    # Debian has the licences in a file `copyright`.
    files = [place(file) for file in staged
             if part_of(file.name) == package and pathlib.PurePath(file.name).name not in ("LICENSE", "THIRD_PARTY_NOTICES")]
    files.append(File(f"usr/share/doc/{package}/copyright", copyright_text()))
    files.append(File(f"usr/share/doc/{package}/changelog.Debian.gz", changelog(package, version, contact, seconds)))
    if package == "ddprun":
        files.append(File("usr/share/lintian/overrides/ddprun", LINTIAN.encode()))
    if package == "ddprun-rdzvd":
        unit = (ROOT / "rendezvous/daemon/packaging/rdzvd.service.in").read_text().replace("@RDZVD@", "/usr/bin/rdzvd")
        files.append(File("usr/lib/systemd/system/rdzvd.service", unit.encode()))
        files.append(File("etc/default/rdzvd", DEFAULTS.encode()))
    return sorted(files, key=lambda file: file.name)


def control_files(package: str, files: list[File], text: str) -> list[File]:
    sums = "".join(f"{hashlib.md5(file.content).hexdigest()}  {file.name}\n" for file in files if not file.name.startswith("etc/"))
    control = [File("DEBIAN/control", text.encode()), File("DEBIAN/md5sums", sums.encode())]
    if package == "ddprun-rdzvd":
        control.append(File("DEBIAN/conffiles", b"/etc/default/rdzvd\n"))
        control += [File(f"DEBIAN/{name}", script.encode(), True) for name, script in SCRIPTS.items()]
    return control


def build(files: list[File], output: pathlib.Path, seconds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        for file in files:
            path = root / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
            path.chmod(0o755 if file.executable else 0o644)
        for path in [root, *root.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
            os.utime(path, (seconds, seconds))
        subprocess.run(["dpkg-deb", "--root-owner-group", "--threads-max=1", "-Zxz", "--build", root, output], check=True,
                       stdout=subprocess.DEVNULL, env=os.environ | {"SOURCE_DATE_EPOCH": str(seconds)})


def main() -> None:
    given = package_files.arguments(__doc__ or "")
    version = package_files.version() + "-1"
    seconds = package_files.timestamp()
    staged = package_files.staged(given.stage)
    for package in PARTS:
        files = package_files_of(staged, package, version, maintainer(), seconds)
        kilobytes = sum((len(file.content) + 1023) // 1024 for file in files)
        architecture = "all" if package == "ddprun-dev" else package_files.ARCHITECTURES[given.arch]
        text = control(package, version, maintainer(), given.glibc, architecture, kilobytes)
        path = given.output / f"{package}_{version}_{architecture}.deb"
        build([*files, *control_files(package, files, text)], path, seconds)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
