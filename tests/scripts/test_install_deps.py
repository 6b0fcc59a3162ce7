"""Tests of scripts/install-deps: what the build needs, on a pretended machine."""

import pathlib
import subprocess
import unittest

from pretended_machine import FAKE_SUDO, InstallDepsTest


class InstallDeps(InstallDepsTest):
    def test_a_complete_machine_is_left_alone_without_a_word(self):
        self.program_that_must_not_run("sudo")
        for uid in (0, 1000):
            self.machine.user(uid)
            done = self.succeeds("--tests")
            self.assertEqual(done.stdout + done.stderr, "")
        self.assertEqual(self.machine.calls(), [])

    def test_root_installs_what_is_missing_and_forbids_apt_to_remove(self):
        self.machine.lacks("libcli11-dev", "zlib1g-dev")
        self.succeeds()
        self.assertTrue(self.machine.calls()[0].startswith("apt-get update"))
        self.assertEqual(len(self.machine.installs()), 1)
        install = self.machine.installs()[0]
        for word in ("--no-remove", "--no-install-recommends", "libcli11-dev", "zlib1g-dev"):
            self.assertIn(word, install)
        self.assertNotIn("libspdlog-dev", install)

    def test_an_optional_package_comes_along_where_the_distribution_has_it(self):
        self.machine.lacks("zlib1g-dev")
        self.succeeds()
        self.assertNotIn("sentencepiece", self.machine.installs()[0])
        (self.machine.folder / "has_sentencepiece").touch()
        self.succeeds()  # nothing else is missing any more
        self.assertEqual(len(self.machine.installs()), 1)
        self.machine.lacks("zlib1g-dev")
        self.succeeds()
        self.assertIn("libsentencepiece-dev", self.machine.installs()[1])
        self.machine.user(1000)
        self.machine.lacks("zlib1g-dev")
        self.assertNotIn("sentencepiece", self.fails())

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

    def test_an_old_boost_in_usr_include_counts_as_missing_and_a_new_one_as_present(self):
        header = self.machine.root / "usr" / "include" / "boost" / "version.hpp"
        header.write_text("#define BOOST_VERSION 107400\n")
        self.succeeds()
        self.assertIn("libboost1.81-dev", self.machine.installs()[0])
        (self.machine.folder / "calls").unlink()
        header.write_text("#define BOOST_VERSION 108300\n")
        self.succeeds()
        self.assertEqual(self.machine.calls(), [])

    def test_what_the_tests_of_bundles_need_is_wanted_for_tests_alone(self):
        self.machine.lacks_program("xz")
        self.succeeds()
        self.assertEqual(self.machine.calls(), [])
        self.machine.install_deps("--tests")
        self.assertIn("xz-utils", self.machine.installs()[0])

    def test_a_boost_whose_process_is_a_library_needs_that_library(self):
        usr = self.machine.root / "usr"
        (usr / "include" / "boost" / "version.hpp").write_text("#define BOOST_VERSION 108800\n")
        config = usr / "include" / "boost" / "process" / "v2" / "detail" / "config.hpp"
        config.parent.mkdir(parents=True)
        config.write_text("#define BOOST_PROCESS_V2_HEADER_ONLY 1\n")
        self.succeeds()
        self.assertEqual(self.machine.calls(), [])
        config.write_text("#define BOOST_PROCESS_V2_DECL\n")
        self.succeeds()
        self.assertIn("libboost-process-dev libboost-filesystem-dev", self.machine.installs()[0])
        (self.machine.folder / "calls").unlink()
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

    def test_schedulers_are_installed_where_they_are_asked_for_and_only_add(self):
        self.machine.lacks_program("slurmd")
        self.machine.lacks_program("mpirun")
        self.succeeds("--tests")
        self.assertEqual(self.machine.calls(), [])
        self.succeeds("--cluster")
        self.assertEqual(len(self.machine.installs()), 1)
        for word in ("--no-remove", " slurmd ", " slurm-wlm-basic-plugins ", " openmpi-bin "):
            self.assertIn(word, self.machine.installs()[0] + " ")
        for word in (" slurmctld ", " etcd-server ", " mpich "):
            self.assertNotIn(word, self.machine.installs()[0])
        self.machine.plan("slurmd", "Remv something [1.0]", "Inst slurmd (22.05.8-4)")
        done = self.succeeds("--cluster")
        self.assertIn("some tests are skipped: apt would remove or upgrade packages", done.stderr)
        self.assertEqual(len(self.machine.installs()), 1)
        self.machine.user(1000)
        self.assertIn("as root, run: apt-get update && apt-get install --no-remove", self.succeeds("--cluster").stderr)

    def test_both_mpis_are_installed_and_none_beside_the_mpirun_of_another(self):
        self.machine.lacks_program("mpiexec.hydra")
        self.succeeds("--cluster")
        self.assertIn(" mpich ", self.machine.installs()[-1] + " ")
        self.assertNotIn(" openmpi-bin ", self.machine.installs()[-1] + " ")
        self.machine.lacks_program("mpirun")
        self.succeeds("--cluster")
        for word in ("--no-remove", " mpich ", " openmpi-bin "):
            self.assertIn(word, self.machine.installs()[-1] + " ")

    def test_an_sshd_and_an_etcd_for_the_tests_are_installed_and_stay_off(self):
        root = self.machine.root
        units = root / "etc/systemd/system"
        units.mkdir(parents=True)
        (root / "usr/sbin").mkdir(parents=True, exist_ok=True)
        self.succeeds("--cluster")
        self.assertEqual(list(units.iterdir()), [])  # the machine has both
        self.machine.lacks_program("sshd")
        (units / "ssh.socket").write_text("the user's own")
        self.succeeds("--cluster")
        self.assertIn(" openssh-server ", self.machine.installs()[0] + " ")
        self.assertEqual((units / "ssh.service").readlink(), pathlib.Path("/dev/null"))
        self.assertEqual((units / "ssh.socket").read_text(), "the user's own")
        self.assertFalse((units / "etcd.service").is_symlink())
        self.assertFalse((root / "usr/sbin/policy-rc.d").exists())
        self.machine.lacks_program("etcd")
        self.succeeds("--cluster")
        self.assertIn(" etcd-server ", self.machine.installs()[-1] + " ")
        self.assertEqual((units / "etcd.service").readlink(), pathlib.Path("/dev/null"))

    def test_an_unknown_option_is_refused(self):
        done = self.machine.install_deps("--frobnicate")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown argument --frobnicate", done.stderr)
        self.assertIn("usage: scripts/install-deps [--tests] [--cluster]", done.stderr)


if __name__ == "__main__":
    unittest.main()
