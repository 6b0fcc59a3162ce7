"""A pretended Debian 12 machine for tests of scripts/install-deps and scripts/lib/install-torch: PATH holds fakes of apt-get and its friends that
write down how they are called, and a folder stands for the machine's /usr."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROVIDES = {
    "libfmt-dev": "fmt/format.h",
    "libspdlog-dev": "spdlog/spdlog.h",
    "catch2": "catch2/catch.hpp",
    "nlohmann-json3-dev": "nlohmann/json.hpp",
    "libcli11-dev": "CLI/CLI.hpp",
    "libdnnl-dev": "oneapi/dnnl/dnnl.hpp",
    "zlib1g-dev": "zlib.h",
    "libjpeg-dev": "jpeglib.h",
    "libprotozero-dev": "protozero/pbf_writer.hpp",
    "libpng-dev": "png.h",
    "libsodium-dev": "sodium.h",
    "libssl-dev": "openssl/ssl.h",
    "libncurses-dev": "ncurses.h",
    "libboost1.81-dev": "boost/version.hpp",
}
PLAIN_TOOLS = ["basename", "bash", "cat", "chmod", "cp", "dirname", "find", "grep", "head", "ln", "mkdir", "mktemp", "paste",
               "readlink", "rm", "sed", "sleep", "sort", "tail", "tee", "timeout", "touch", "env", "true"]

FAKE_APT_GET = """#!/usr/bin/env bash
echo "apt-get $*" >>"$FAKE_MACHINE/calls"
for word in "$@"; do
  case $word in -*|[0-9]*|DPkg*|install|download|update) ;; *) packages+=("$word") ;; esac
done
case "$*" in
  *" -s "*)
    for package in "${packages[@]}"; do
      if [[ -e $FAKE_MACHINE/unknown/$package ]]; then echo "E: Unable to locate package $package"; exit 100; fi
      cat "$FAKE_MACHINE/plans/$package" 2>/dev/null || echo "Inst $package (1.0 Debian:12 [amd64])"
    done ;;
  update*)
    if [[ -e $FAKE_MACHINE/stale ]]; then echo "W: Failed to fetch http://mirror/dists: Could not resolve 'mirror'"; fi
    if [[ -e $FAKE_MACHINE/offline ]]; then echo "E: Could not resolve 'mirror'"; exit 100; fi ;;
  download*) touch "${packages[@]/%/.deb}" ;;
  *--download-only*) [[ ! -e $FAKE_MACHINE/broken_mirror ]] ;;
  install*)
    if [[ -e $FAKE_MACHINE/no_space ]]; then echo "E: You don't have enough free space in /var/cache/apt/archives/."; exit 100; fi
    if [[ -e $FAKE_MACHINE/slow ]]; then
      echo "Unpacking something ..."
      until [[ -e $FAKE_MACHINE/go_on ]]; do sleep 0.05; done
    fi
    for package in "${packages[@]}"; do "$FAKE_MACHINE/provide" "$package" "$DDPRUN_SYSTEM_ROOT"; done ;;
esac
"""
FAKE_DPKG = """#!/usr/bin/env bash
echo "dpkg $*" >>"$FAKE_MACHINE/calls"
name=${2##*/}
"$FAKE_MACHINE/provide" "${name%.deb}" "$3"
"""
FAKE_SUDO = """#!/usr/bin/env bash
echo "sudo $*" >>"$FAKE_MACHINE/calls"
[[ ! -e $FAKE_MACHINE/sudo_refuses ]] || exit 1
[[ $1 == -n ]] && shift
export FAKE_SUDO=1
exec "$@"
"""
FAKE_APT_CACHE = """#!/usr/bin/env bash
case "$1" in
  policy)
    if [[ $2 != libsentencepiece-dev ]]; then echo "  Candidate: $(cat "$FAKE_MACHINE/default_boost")"
    elif [[ -e $FAKE_MACHINE/has_sentencepiece ]]; then echo "  Candidate: 0.1.97-3"
    else echo "  Candidate: (none)"; fi ;;
  pkgnames) cat "$FAKE_MACHINE/boost_packages" ;;
esac
"""
PROVIDE = """#!/usr/bin/env bash
case "$1" in
%s
  libboost-process-dev) mkdir -p "$2/usr/lib"; touch "$2/usr/lib/libboost_process.a" ;;
  python3-torch) touch "$FAKE_MACHINE/torch" ;;
  python3-venv) touch "$FAKE_MACHINE/venv_module" ;;
  g++) printf '#!/bin/sh\\necho 12.2.0\\n' >"$FAKE_MACHINE/bin/g++"; chmod +x "$FAKE_MACHINE/bin/g++" ;;
esac
exit 0
"""
FAKE_PYTHON = """#!/usr/bin/env bash
case "$*" in
  *find_spec*tqdm | *find_spec*rich) [[ -e $FAKE_MACHINE/${*: -1} ]] ;;
  *find_spec*) [[ -e $FAKE_MACHINE/torch ]] ;;
  *ensurepip*) [[ -e $FAKE_MACHINE/venv_module ]] ;;
  "-m venv "*)
    mkdir -p "$3/bin"
    ln -s "$FAKE_MACHINE/pip" "$3/bin/pip"
    printf '#!/bin/sh\\n[ -e "$FAKE_MACHINE/torch_of_pypi" ]\\n' >"$3/bin/python"
    "$FAKE_MACHINE/executable" "$3/bin/python" ;;
esac
"""
FAKE_PIP = """#!/usr/bin/env bash
echo "pip $*" >>"$FAKE_MACHINE/calls"
[[ -e $FAKE_MACHINE/pypi ]] && touch "$FAKE_MACHINE/torch_of_pypi"
"""


class Machine:
    """A pretended Debian 12 machine, with a copy of the script in a folder with a space in its name."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "a machine"
        self.bin = self.folder / "bin"
        self.bin.mkdir(parents=True)
        self.root = self.folder / "root"
        self.project = self.folder / "the project"
        (self.project / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "install-deps", self.project / "scripts")
        shutil.copytree(ROOT / "scripts" / "lib", self.project / "scripts" / "lib")
        for tool in PLAIN_TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        for name, text in {"apt-get": FAKE_APT_GET, "apt-cache": FAKE_APT_CACHE, "dpkg": FAKE_DPKG}.items():
            self.program(name, text)
        cases = []
        for package, header in PROVIDES.items():
            text = "#define BOOST_VERSION 108100" if header.startswith("boost") else ""
            cases.append(f'  {package}) h="$2/usr/include/{header}"; mkdir -p "${{h%/*}}"; echo "{text}" >"$h" ;;')
        self.program("provide", PROVIDE % "\n".join(cases), self.folder)
        self.program("g++", "#!/bin/sh\necho 12.2.0\n")
        self.program("cmake", "#!/bin/sh\necho cmake version 3.25.1\n")
        self.program("ninja", "#!/bin/sh\n")
        self.program("python3", FAKE_PYTHON)
        self.program("pip", FAKE_PIP, self.folder)
        self.program("executable", f'#!/bin/sh\n{shutil.which("chmod")} +x "$1"\n', self.folder)
        for name in ("tmux", "zsh", "fish", "tcsh", "bridge", "scontrol", "slurmctld", "slurmd", "munged", "mpirun",
                     "mpiexec.hydra", "sshd", "etcd", "etcdctl", "xz"):
            self.program(name, "#!/bin/sh\n")
        for name in ("torch", "venv_module", "tqdm", "rich"):
            (self.folder / name).touch()
        self.room(50_000_000)
        self.user(0)
        (self.folder / "default_boost").write_text("1.74.0.3\n")
        (self.folder / "boost_packages").write_text("libboost1.81-dev\nlibboost1.74-dev\nlibboost1.81-doc\n")
        for name in ("plans", "unknown"):
            (self.folder / name).mkdir()
        for package in PROVIDES:
            self.has(package)

    def program(self, name, text, folder=None):
        path = (folder or self.bin) / name
        path.write_text(text)
        path.chmod(0o755)

    def user(self, uid):
        self.program("id", f"#!/bin/sh\necho {uid}\n")

    def room(self, kib):
        self.program("df", f"#!/bin/sh\necho Filesystem 1024-blocks Used Available Capacity Mounted on\n"
                           f"echo '/dev/sda1  90000000 4000 {kib}  34% /'\n")

    def has(self, package):
        subprocess.run([self.folder / "provide", package, self.root], check=True, env=self.environment())

    def lacks(self, *packages):
        for package in packages:
            (self.root / "usr" / "include" / PROVIDES[package]).unlink()

    def lacks_program(self, name):
        (self.bin / name).unlink()

    def plan(self, package, *lines):
        """What apt would do when asked to install the package."""
        (self.folder / "plans" / package).write_text("".join(line + "\n" for line in lines))

    def environment(self):
        return {"PATH": str(self.bin), "FAKE_MACHINE": str(self.folder), "DDPRUN_SYSTEM_ROOT": str(self.root),
                "TMPDIR": str(self.folder)}

    def install_deps(self, *options, **environment):
        return subprocess.run([self.project / "scripts" / "install-deps", *options], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False, env=self.environment() | environment)

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def installs(self):
        return [call for call in self.calls() if call.startswith("apt-get install") and " -s " not in call]


class InstallDepsTest(unittest.TestCase):
    """Each test has a machine of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.machine = Machine(folder.name)

    def succeeds(self, *options, **environment):
        done = self.machine.install_deps(*options, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def fails(self, *options, **environment):
        done = self.machine.install_deps(*options, **environment)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def program_that_must_not_run(self, name):
        self.machine.program(name, f'#!/bin/sh\necho "{name} $*" >>"$FAKE_MACHINE/calls"\nexit 1\n')

    def fails_after_the_list(self):
        done = self.machine.install_deps()
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr.splitlines()[-1]
