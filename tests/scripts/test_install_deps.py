"""Tests of scripts/install-deps (and scripts/lib/install-torch) on a pretended machine: PATH holds fakes of apt-get and its friends that write down how
they are called, and a folder stands for the machine's /usr."""

import os
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
    "libboost1.81-dev": "boost/version.hpp",
}
PLAIN_TOOLS = ["basename", "bash", "cat", "cp", "dirname", "find", "grep", "head", "ln", "mkdir", "mktemp", "paste",
               "readlink", "rm", "sed", "sleep", "sort", "tail", "timeout", "touch", "env", "true"]

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
  policy) echo "  Candidate: $(cat "$FAKE_MACHINE/default_boost")" ;;
  pkgnames) cat "$FAKE_MACHINE/boost_packages" ;;
esac
"""
PROVIDE = """#!/usr/bin/env bash
case "$1" in
%s
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
    """A pretended Debian 12 machine, with a copy of the script in a folder whose name has a space."""

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
        self.program("tmux", "#!/bin/sh\n")
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


class InstallDeps(unittest.TestCase):
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

    def test_a_complete_machine_is_left_alone_without_a_word(self):
        self.program_that_must_not_run("sudo")
        for uid in (0, 1000):
            self.machine.user(uid)
            done = self.succeeds("--tests")
            self.assertEqual(done.stdout + done.stderr, "")
        self.assertEqual(self.machine.calls(), [])

    def program_that_must_not_run(self, name):
        self.machine.program(name, f'#!/bin/sh\necho "{name} $*" >>"$FAKE_MACHINE/calls"\nexit 1\n')

    def test_root_installs_what_is_missing_and_forbids_apt_to_remove(self):
        self.machine.lacks("libcli11-dev", "zlib1g-dev")
        self.succeeds()
        self.assertTrue(self.machine.calls()[0].startswith("apt-get update"))
        self.assertEqual(len(self.machine.installs()), 1)
        install = self.machine.installs()[0]
        for word in ("--no-remove", "--no-install-recommends", "libcli11-dev", "zlib1g-dev"):
            self.assertIn(word, install)
        self.assertNotIn("libspdlog-dev", install)

    def test_a_user_with_sudo_installs_through_it(self):
        self.machine.user(1000)
        self.machine.program("sudo", FAKE_SUDO)
        self.machine.lacks("zlib1g-dev")
        self.succeeds()
        self.assertTrue(any(call.startswith("sudo apt-get install --no-remove") for call in self.machine.calls()))

    def test_a_user_without_sudo_is_told_the_command_and_nothing_is_installed(self):
        self.machine.user(1000)
        self.machine.lacks("zlib1g-dev", "libcli11-dev")
        message = self.fails(DDPRUN_RUN_AGAIN="scripts/quickstart")
        self.assertIn("As root, run: apt-get update && apt-get install --no-remove --no-install-recommends libcli11-dev zlib1g-dev; "
                      "then run scripts/quickstart again", message)
        self.assertEqual(message.count("zlib1g-dev"), 1)
        self.assertEqual(self.machine.installs(), [])
        self.assertFalse(any(call.startswith("apt-get update") for call in self.machine.calls()))

    def test_a_user_whose_sudo_wants_a_password_without_a_terminal_is_told_the_command(self):
        self.machine.user(1000)
        self.machine.program("sudo", FAKE_SUDO)
        (self.machine.folder / "sudo_refuses").touch()
        self.machine.lacks("zlib1g-dev")
        self.assertIn("As root, run: apt-get update && apt-get install", self.fails())
        self.assertEqual(self.machine.installs(), [])

    def test_a_user_without_package_lists_is_told_the_command(self):
        self.machine.user(1000)
        self.machine.lacks("zlib1g-dev")
        (self.machine.folder / "unknown" / "zlib1g-dev").touch()
        self.assertIn("apt-get install --no-remove --no-install-recommends zlib1g-dev", self.fails())

    def test_a_package_that_would_evict_another_is_unpacked_below_build_deps(self):
        self.machine.lacks("libboost1.81-dev", "zlib1g-dev")
        self.machine.plan("libboost1.81-dev", "Remv libboost-dev [1.74.0.3]", "Remv libboost1.74-dev [1.74.0+ds1-21]",
                          "Inst libboost1.81-dev (1.81.0-5 Debian:12 [amd64])")
        self.succeeds()
        self.assertEqual(len(self.machine.installs()), 1)
        self.assertIn("zlib1g-dev", self.machine.installs()[0])
        self.assertNotIn("boost", self.machine.installs()[0])
        self.assertIn("apt-get download -qq libboost1.81-dev", self.machine.calls())
        deps = self.machine.project / "build" / "deps"
        self.assertTrue((deps / "usr" / "include" / "boost" / "version.hpp").is_file())
        self.assertFalse((deps / "download").exists())
        # The next run finds it there.
        (self.machine.folder / "calls").unlink()
        self.succeeds()
        self.assertEqual(self.machine.calls(), [])

    def test_a_package_that_would_upgrade_another_is_unpacked_with_what_it_needs(self):
        self.machine.lacks("libdnnl-dev")
        self.machine.plan("libdnnl-dev", "Inst libdnnl2 [2.6.2-1] (2.6.3-1 Debian:12 [amd64])",
                          "Inst libdnnl-dev (2.6.3-1 Debian:12 [amd64])")
        self.succeeds()
        self.assertEqual(self.machine.installs(), [])
        self.assertIn("apt-get download -qq libdnnl2 libdnnl-dev", self.machine.calls())

    def test_unpacking_needs_no_root(self):
        self.machine.user(1000)
        self.machine.lacks("libboost1.81-dev")
        self.machine.plan("libboost1.81-dev", "Remv libboost-dev [1.74.0.3]", "Inst libboost1.81-dev (1.81.0-5)")
        self.succeeds()
        self.assertEqual(self.machine.installs(), [])

    def test_an_unpacked_link_to_an_installed_library_leads_to_it(self):
        self.machine.lacks("libboost1.81-dev")
        self.machine.plan("libboost1.81-dev", "Remv libboost-dev [1.74.0.3]", "Inst libboost1.81-dev (1.81.0-5)")
        library = self.machine.root / "usr" / "lib" / "libboost.so.1"
        library.parent.mkdir(parents=True)
        library.write_text("")
        link = self.machine.project / "build" / "deps" / "usr" / "lib" / "libboost.so"
        link.parent.mkdir(parents=True)
        link.symlink_to("libboost.so.1")
        self.succeeds()
        self.assertTrue(link.exists())

    def test_a_compiler_that_would_upgrade_something_is_refused_with_the_command(self):
        self.machine.lacks_program("g++")
        self.machine.plan("g++", "Inst libc6 [2.36-9] (2.37-1 Debian:12 [amd64])", "Inst g++ (12.2.0)")
        message = self.fails_after_the_list()
        self.assertIn("apt-get install g++", message)
        self.assertIn("libc6 [2.36-9]", message)
        self.assertEqual(self.machine.installs(), [])

    def test_a_pending_update_of_the_installed_version_is_installed_and_named(self):
        for old, new in (("5.36.0-7+deb12u3", "5.36.0-7+deb12u4"), ("12.4+deb12u10", "12.4+deb12u11"),
                         ("1:1.3.dfsg-1+b1", "1:1.3.dfsg-1+deb13u1"), ("2.39-0ubuntu8.3", "2.39-0ubuntu8.4")):
            with self.subTest(old):
                self.machine.lacks("zlib1g-dev")
                self.machine.plan("zlib1g-dev", f"Inst base [{old}] ({new} Debian-Security:12/oldstable-security [amd64]) [x:amd64 ]",
                                  "Inst zlib1g-dev (1.2.13 Debian:12 [amd64])")
                done = self.succeeds()
                self.assertIn(f"base {old} -> {new}", done.stderr)
                self.assertIn("--no-remove", self.machine.installs()[-1])
                self.assertFalse((self.machine.project / "build" / "deps").exists())

    def test_a_new_upstream_version_is_refused_however_small_the_step(self):
        for old, new in (("5.36.0-7", "5.36.1-1"), ("1:1.0-1", "2:1.0-1"), ("12.4+deb12u10", "12.5+deb12u1"), ("1.0", "1.1")):
            with self.subTest(old):
                self.machine.program("cmake", "#!/bin/sh\necho cmake version 3.22.1\n")
                self.machine.plan("cmake", f"Inst base [{old}] ({new} Debian:12 [amd64])", "Inst cmake (3.25.1-1)")
                self.assertIn(f"Inst base [{old}]", self.fails_after_the_list())
                self.assertEqual(self.machine.installs(), [])

    def test_a_removal_is_refused_even_beside_an_update_of_the_installed_version(self):
        self.machine.lacks_program("ninja")
        self.machine.plan("ninja-build", "Inst base [1.0-1] (1.0-2 Debian:12 [amd64])", "Remv other [1.0-1]")
        self.assertIn("Remv other", self.fails_after_the_list())
        self.assertEqual(self.machine.installs(), [])

    def test_git_is_not_needed(self):
        self.assertFalse((self.machine.bin / "git").exists())
        self.machine.lacks("zlib1g-dev")
        self.succeeds()
        self.assertNotIn(" git", "".join(self.machine.installs()))

    def test_an_installation_that_takes_long_shows_how_far_it_is(self):
        self.machine.lacks("zlib1g-dev")
        (self.machine.folder / "slow").touch()
        with subprocess.Popen([self.machine.project / "scripts" / "install-deps"], stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, env=self.machine.environment() | {"DDPRUN_PROGRESS_SECONDS": "1"}) as running:
            lines = []
            for line in running.stderr:
                lines.append(line)
                if "Unpacking something" in line:
                    (self.machine.folder / "go_on").touch()
            self.assertEqual(running.wait(60), 0, lines)
        self.assertRegex("".join(lines), r"install-deps: \d+ s: Unpacking something")

    def fails_after_the_list(self):
        done = self.machine.install_deps()
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr.splitlines()[-1]

    def test_an_old_boost_in_usr_include_counts_as_missing_and_a_new_one_as_present(self):
        header = self.machine.root / "usr" / "include" / "boost" / "version.hpp"
        header.write_text("#define BOOST_VERSION 107400\n")
        self.succeeds()
        self.assertIn("libboost1.81-dev", self.machine.installs()[0])
        (self.machine.folder / "calls").unlink()
        header.write_text("#define BOOST_VERSION 108300\n")
        self.succeeds()
        self.assertEqual(self.machine.calls(), [])

    def test_the_default_boost_is_taken_where_it_is_new_enough_else_the_newest_versioned_one(self):
        self.machine.user(1000)
        self.machine.lacks("libboost1.81-dev")
        (self.machine.folder / "default_boost").write_text("1.83.0.1ubuntu2\n")
        self.assertIn(" libboost-dev", self.fails())
        (self.machine.folder / "default_boost").write_text("1.74.0.3ubuntu7\n")
        (self.machine.folder / "boost_packages").write_text("libboost1.9-dev\nlibboost1.83-dev\nlibboost1.100-dev\n")
        self.assertIn(" libboost1.100-dev", self.fails())

    def test_a_library_below_cmake_prefix_path_counts_as_present(self):
        self.machine.lacks("zlib1g-dev")
        prefix = self.machine.folder / "my prefix"
        (prefix / "include").mkdir(parents=True)
        (prefix / "include" / "zlib.h").write_text("")
        self.succeeds(CMAKE_PREFIX_PATH=f"/nowhere:{prefix}")
        self.assertEqual(self.machine.calls(), [])

    def test_old_tools_count_as_missing(self):
        self.machine.user(1000)
        self.machine.program("cmake", "#!/bin/sh\necho cmake version 3.22.1\n")
        self.machine.program("g++", "#!/bin/sh\necho 9.4.0\n")
        self.assertIn(" g++ cmake", self.fails())

    def test_a_tool_that_stays_too_old_is_named_after_the_installation(self):
        self.machine.program("cmake", "#!/bin/sh\necho cmake version 3.22.1\n")
        self.assertIn("still missing or too old: cmake", self.fails_after_the_list())

    def test_python_is_asked_for_by_the_tests_only(self):
        self.machine.user(1000)
        self.machine.lacks_program("python3")
        self.succeeds()
        self.assertIn(" python3", self.fails("--tests"))

    def without_torch(self, **environment):
        """The script succeeds without having installed torch; gives the one line that says so."""
        (self.machine.folder / "torch").unlink(missing_ok=True)
        done = self.succeeds("--tests", **environment)
        self.assertFalse((self.machine.folder / "torch").exists())
        lines = [line for line in done.stderr.splitlines() if "will be skipped" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_pytorch_comes_from_pypi_where_the_distribution_has_none(self):
        (self.machine.folder / "torch").unlink()
        (self.machine.folder / "unknown" / "python3-torch").touch()
        (self.machine.folder / "pypi").touch()
        (self.machine.folder / "venv_module").unlink()
        self.succeeds("--tests")
        self.assertIn("python3-venv", self.machine.installs()[-1])
        self.assertTrue(any(call.startswith("pip install ") and " torch" in call for call in self.machine.calls()))
        self.assertTrue((self.machine.project / "build" / "pytorch-venv" / "bin" / "python").exists())
        (self.machine.folder / "calls").unlink()
        self.assertEqual(self.succeeds("--tests").stderr, "")
        self.assertEqual(self.machine.calls(), [])

    def test_pytorch_that_pypi_does_not_give_leaves_no_folder(self):
        (self.machine.folder / "unknown" / "python3-torch").touch()
        self.assertIn("pip install torch failed", self.without_torch())
        self.assertFalse((self.machine.project / "build" / "pytorch-venv").exists())

    def test_pytorch_is_installed_for_the_tests_only_and_once(self):
        (self.machine.folder / "torch").unlink()
        self.succeeds()
        self.assertEqual(self.machine.calls(), [])
        self.succeeds("--tests")
        install = self.machine.installs()[-1]
        for word in ("--no-remove", "--no-install-recommends", "python3-torch"):
            self.assertIn(word, install)
        (self.machine.folder / "calls").unlink()
        self.succeeds("--tests")
        self.assertEqual(self.machine.calls(), [])

    def test_pytorch_is_installed_after_what_the_build_needs(self):
        (self.machine.folder / "torch").unlink()
        self.machine.lacks("zlib1g-dev")
        self.succeeds("--tests")
        self.assertIn("zlib1g-dev", self.machine.installs()[0])
        self.assertIn("python3-torch", self.machine.installs()[-1])
        self.assertEqual(sum(call.startswith("apt-get update") for call in self.machine.calls()), 1)

    def test_a_distribution_without_pytorch_gets_a_line_and_no_failure(self):
        (self.machine.folder / "unknown" / "python3-torch").touch()
        self.assertIn("Unable to locate package python3-torch", self.without_torch())

    def test_pytorch_that_would_remove_something_is_left_out_with_a_line(self):
        self.machine.plan("python3-torch", "Remv libprotobuf23 [3.12.4-1]", "Inst python3-torch (1.13.1)")
        self.assertIn("Remv libprotobuf23", self.without_torch())
        self.assertEqual(self.machine.installs(), [])

    def test_pytorch_without_room_for_it_is_left_out_with_a_line(self):
        self.machine.room(900_000)
        self.assertIn("900 MB free at /", self.without_torch())
        self.assertEqual(self.machine.installs(), [])
        self.assertFalse(any(call.startswith("pip") for call in self.machine.calls()))

    def test_pytorch_that_cannot_be_downloaded_is_left_out_with_a_line(self):
        (self.machine.folder / "broken_mirror").touch()
        self.assertIn("not downloaded", self.without_torch())

    def test_a_user_who_may_not_install_pytorch_is_told_the_command(self):
        self.machine.user(1000)
        self.assertIn("apt-get install --no-remove --no-install-recommends python3-torch", self.without_torch())
        self.assertEqual(self.machine.installs(), [])

    def test_pytorch_needs_apt_and_a_network_but_the_build_does_not(self):
        (self.machine.folder / "offline").touch()
        self.assertIn("apt-get update failed", self.without_torch())
        self.machine.lacks_program("apt-get")
        self.assertIn("no apt-get", self.without_torch())

    def test_who_brings_or_does_not_want_pytorch_is_left_alone(self):
        (self.machine.folder / "torch").unlink()
        for environment in ({"DDPRUN_TEST_PYTHON": "/opt/python"}, {"DDPRUN_TEST_TORCH": "no"}):
            self.assertEqual(self.succeeds("--tests", **environment).stderr, "")
        self.assertEqual(self.machine.calls(), [])

    def test_what_the_tests_of_the_terminal_want_is_installed_where_that_only_adds(self):
        self.machine.lacks_program("tmux")
        (self.machine.folder / "rich").unlink()
        self.assertIn("installing: tmux python3-rich", self.succeeds("--tests").stderr)
        self.assertEqual(len(self.machine.installs()), 1)
        self.assertEqual(self.succeeds().stderr, "")

    def test_what_the_tests_of_the_terminal_want_is_left_out_with_a_line_where_it_would_remove_something(self):
        self.machine.lacks_program("tmux")
        self.machine.plan("tmux", "Remv libutempter0 [1.2]", "Inst tmux (3.3)")
        self.assertIn("without tmux some tests of the terminal are skipped", self.succeeds("--tests").stderr)
        self.assertEqual(self.machine.installs(), [])

    def test_a_machine_without_apt_is_told_what_is_missing(self):
        self.machine.lacks_program("apt-get")
        self.machine.lacks("zlib1g-dev")
        message = self.fails()
        self.assertIn("zlib1g-dev", message)
        self.assertIn("package manager", message)

    def test_a_machine_without_network_is_told_what_was_needed(self):
        self.machine.lacks("zlib1g-dev")
        (self.machine.folder / "offline").touch()
        message = self.fails_after_the_list()
        self.assertIn("apt-get update failed (E: Could not resolve 'mirror'): check the network", message)
        self.assertIn("zlib1g-dev", message)

    def test_a_network_that_fails_while_apt_reports_success_is_named(self):
        self.machine.lacks("zlib1g-dev")
        (self.machine.folder / "stale").touch()
        (self.machine.folder / "unknown" / "zlib1g-dev").touch()
        message = self.fails_after_the_list()
        self.assertIn("Unable to locate package zlib1g-dev", message)
        self.assertIn("Could not resolve 'mirror'", message)

    def test_a_full_disk_is_named_with_the_remedy(self):
        self.machine.lacks("zlib1g-dev")
        self.machine.room(3_000)
        (self.machine.folder / "no_space").touch()
        message = self.fails_after_the_list()
        self.assertIn("You don't have enough free space", message)
        self.assertIn("is full (3 MB free): make room", message)

    def test_a_checkout_that_cannot_be_written_is_refused_before_anything_is_installed(self):
        self.machine.lacks("zlib1g-dev")
        (self.machine.project / "build").write_text("in the way of the folder")
        message = self.fails()
        self.assertIn("can't write to", message)
        self.assertIn("copy the checkout", message)
        self.assertEqual(self.machine.calls(), [])

    def test_an_unknown_option_is_refused(self):
        done = self.machine.install_deps("--frobnicate")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown argument --frobnicate", done.stderr)
        self.assertIn("usage: scripts/install-deps [--tests]", done.stderr)


if __name__ == "__main__":
    unittest.main()
