"""Tests of the scripts and .ci/run in a copied project with a pretended cmake, or pretended builds."""

import fcntl
import os
import pathlib
import pty
import shutil
import struct
import subprocess
import tempfile
import termios
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

FAKE_CMAKE = """#!/usr/bin/env bash
printf '%s|' "$@" >>"$FAKE_CALLS"; echo >>"$FAKE_CALLS"
case "$1" in
  --preset) [[ -z ${FAKE_CONFIGURE_FAILS:-} ]] || { echo "CMake Error: no such thing"; exit 1; } ;;
  --build)
    for n in $(seq 1 40); do echo "[$n/40] Building CXX object number $n"; done
    [[ -z ${FAKE_BUILD_FAILS:-} ]] || { echo "a.cpp:3: error: what is this"; exit 1; } ;;
esac
"""


class CopiedProject(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.project = pathlib.Path(folder.name) / "a project"
        shutil.copytree(ROOT / "scripts", self.project / "scripts")
        shutil.copytree(ROOT / ".ci", self.project / ".ci")
        shutil.copy(ROOT / "CMakePresets.json", self.project)
        (self.project / "tests" / "scripts").mkdir(parents=True)
        for name in ("combine_tests.py", "summarize_tests.py"):
            shutil.copy(ROOT / "tests" / "scripts" / name, self.project / "tests" / "scripts")
        self.bin = pathlib.Path(folder.name) / "bin"
        self.bin.mkdir()

    def program(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_script(self, name, *arguments, **environment):
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("DDPRUN_", "CTEST_"))}
        variables |= {"PATH": f"{self.bin}:{os.environ['PATH']}", "FAKE_CALLS": str(self.bin / "calls")} | environment
        return subprocess.run([self.project / name, *arguments], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=120, env=variables)


class WithoutRoot(CopiedProject):
    def test_what_to_type_for_missing_packages_begins_with_their_lists(self):
        self.program(self.bin / "id", "#!/bin/sh\necho 1000\n")
        for name in ("python3", "sudo", "apt-get"):
            self.program(self.bin / name, "#!/bin/sh\nexit 1\n")
        for name in ("dpkg-source", "ninja"):
            self.program(self.bin / name, "#!/bin/sh\n")
        for name in ("package", "site"):
            done = self.run_script(f"scripts/{name}")
            self.assertEqual(done.returncode, 1)
            self.assertIn("as root, run: apt-get update && apt-get install --no-remove --no-install-recommends python3 python3-venv; ",
                          done.stderr)


class Help(CopiedProject):
    """--help shows how a script is used and does nothing else; an argument that it does not have does nothing either."""

    def setUp(self):
        super().setUp()
        for name in ("apt-get", "sudo", "cmake", "ctest", "debootstrap", "clang-format", "python3"):
            self.program(self.bin / name, f'#!/bin/sh\necho "{name} $*" >>"$FAKE_CALLS"\n')

    def does_nothing(self, name, *arguments):
        before = sorted(self.project.rglob("*"))
        done = self.run_script(name, *arguments)
        self.assertEqual(sorted(self.project.rglob("*")), before, name)
        self.assertFalse((self.bin / "calls").exists(), name)
        return done

    def test_help_of_every_script_is_its_usage_and_nothing_is_run(self):
        scripts = sorted(path.name for path in (self.project / "scripts").iterdir() if path.is_file())
        self.assertIn("quickstart", scripts)
        for name in [*(f"scripts/{script}" for script in scripts), "scripts/lib/install-torch", ".ci/run"]:
            for option in ("--help", "-h"):
                with self.subTest(f"{name} {option}"):
                    done = self.does_nothing(name, option)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn(f"usage: {'scripts/test' if name == '.ci/run' else name}", done.stdout)
                    self.assertNotIn("#!", done.stdout)

    def test_an_argument_that_a_script_does_not_have_is_refused_with_its_usage(self):
        for name in ("quickstart", "test", "check", "format", "install-deps", "dev", "kill-a-worker", "fresh-machine", "package"):
            with self.subTest(name):
                done = self.does_nothing(f"scripts/{name}", "nonsense")
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("nonsense", done.stderr)
                self.assertIn(f"usage: scripts/{name}", done.stderr)


class Quickstart(CopiedProject):
    def setUp(self):
        super().setUp()
        self.program(self.project / "scripts" / "install-deps", "#!/bin/sh\n")
        self.program(self.project / "scripts" / "build", '#!/bin/sh\necho "build: $*"\n')
        self.program(self.project / "build" / "release" / "bin" / "ddprun", '#!/bin/sh\necho "ddprun: $*"\n')

    def test_it_builds_all_that_is_installed_and_trains(self):
        done = self.run_script("scripts/quickstart")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("build: release programs\n", done.stdout)
        self.assertIn("ddprun: --nproc_per_node=2 --max-restarts=3 train --out build/quickstart\n", done.stdout)

    def test_a_checkout_that_cannot_be_written_is_one_line_before_anything_happens(self):
        shutil.rmtree(self.project / "build")
        (self.project / "build").write_text("in the way of the folder")
        done = self.run_script("scripts/quickstart")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"\Aquickstart: can't write to .*/build: .*; copy the checkout .*\n\Z")


class Build(CopiedProject):
    def setUp(self):
        super().setUp()
        self.program(self.bin / "cmake", FAKE_CMAKE)

    def calls(self):
        return (self.bin / "calls").read_text().splitlines()

    def test_release_is_the_preset_that_is_built_when_none_is_named(self):
        done = self.run_script("scripts/build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.calls()[0], "--preset|release|-DDDPRUN_WERROR=OFF|")
        self.assertTrue(self.calls()[1].startswith("--build|build/release|"))

    def test_targets_are_passed_on(self):
        self.run_script("scripts/build", "asan", "ddprun", "train")
        self.assertTrue(self.calls()[1].endswith("--target|ddprun|train|"), self.calls())

    def test_an_unknown_preset_is_refused_with_the_known_ones(self):
        done = self.run_script("scripts/build", "relese")
        self.assertEqual(done.returncode, 2)
        self.assertIn("release dev launcher trainer asan tsan", done.stderr)

    def test_a_warning_is_an_error_only_where_that_is_asked_for(self):
        presets = (self.project / "CMakePresets.json").read_text()
        self.assertNotIn("WERROR", presets)
        self.run_script("scripts/build", "asan", DDPRUN_WERROR="ON")
        self.assertIn("-DDDPRUN_WERROR=ON|", self.calls()[0])

    def test_what_install_deps_unpacked_is_looked_at_first(self):
        (self.project / "build" / "deps" / "usr").mkdir(parents=True)
        self.run_script("scripts/build")
        self.assertIn(f"-DCMAKE_PREFIX_PATH={self.project}/build/deps/usr|", self.calls()[0])

    def test_without_a_terminal_the_progress_is_thinned_and_the_last_step_shown(self):
        text = self.run_script("scripts/build").stdout
        self.assertIn("[40/40]", text)
        self.assertLess(text.count("Building"), 15)

    def progress(self, seconds, lines, output=subprocess.PIPE):
        """What show_progress makes of them, so many seconds after the start of a build of 40 objects."""
        command = f". '{self.project}/scripts/lib/build_progress.sh'; SECONDS={seconds}; show_progress 40"
        return subprocess.run(["bash", "-euc", command], input="".join(f"{line}\n" for line in lines), stdout=output, text=True,
                              check=True, timeout=60).stdout

    def test_the_time_left_is_told_once_some_objects_are_built(self):
        objects = [f"[{10 + number}/50] Building CXX object {number}" for number in range(1, 31)]
        generated = [f"[{number}/50] Generating {number}" for number in range(1, 11)]
        for seconds, built, expected in ((300, 5, "[15/50, about 35 min left] Building"), (300, 30, "[40/50, about 2 min left] Building"),
                                         (90, 30, "[40/50, less than a minute left] Building"), (19, 30, "[40/50] Building")):
            self.assertIn(expected, self.progress(seconds, generated + objects[:built]))
        self.assertNotIn("left", self.progress(300, generated + objects[:4]))

    def test_on_a_terminal_the_progress_is_one_line_and_a_warning_stays(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 30, 0, 0))
        self.progress(0, ["[1/2] Building CXX object with a long name", "a.cpp: warning: what", "[2/2] Linking"], theirs)
        os.close(theirs)
        self.assertEqual(os.read(ours, 10000).decode(), "\r\x1b[K[1/2] Building CXX object wit\r\x1b[Ka.cpp: warning: what\r\n"
                         "\r\x1b[K[2/2] Linking\r\n")

    def test_a_compiler_error_is_shown_whole_and_the_script_fails(self):
        done = self.run_script("scripts/build", FAKE_BUILD_FAILS="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a.cpp:3: error: what is this", done.stdout)

    def test_a_failing_configuration_is_shown_and_the_script_fails(self):
        done = self.run_script("scripts/build", FAKE_CONFIGURE_FAILS="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("CMake Error: no such thing", done.stderr)

    def test_a_build_folder_made_for_another_place_is_started_afresh(self):
        cache = self.project / "build" / "release" / "CMakeCache.txt"
        cache.parent.mkdir(parents=True)
        cache.write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={self.project}\n")
        self.run_script("scripts/build")
        self.assertTrue(cache.exists())
        cache.write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
        self.run_script("scripts/build")
        self.assertFalse(cache.exists())


class Dev(CopiedProject):
    def setUp(self):
        super().setUp()
        self.program(self.project / "scripts" / "build", '#!/bin/sh\necho "build: $*"\n')
        self.program(self.bin / "ctest", '#!/bin/sh\necho "ctest: $* seeds=$DDPRUN_SIM_SEEDS"\n')

    def lines(self, *arguments):
        done = self.run_script("scripts/dev", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_without_a_house_everything_is_built_and_the_unit_tests_run(self):
        built, tested = self.lines("-R", "sampler")
        self.assertEqual(built, "build: dev")
        self.assertIn("--test-dir build/dev ", tested)
        self.assertTrue(tested.endswith(" -R sampler seeds="), tested)

    def test_of_a_house_only_the_unit_tests_are_built_and_run(self):
        for house in ("launcher", "trainer"):
            built, tested = self.lines(house, "-R", "parser")
            self.assertEqual(built, f"build: {house} unit_tests")
            self.assertIn(f"--test-dir build/{house} ", tested)
            self.assertIn(" -L ^unit$ -LE ^slow$ ", tested)
            self.assertTrue(tested.endswith(" -R parser seeds=300:20"), tested)

    def test_seeds_that_are_asked_for_are_played(self):
        done = self.run_script("scripts/dev", "launcher", DDPRUN_SIM_SEEDS="300:300")
        self.assertTrue(done.stdout.endswith(" seeds=300:300\n"), done.stdout)


class Test(CopiedProject):
    def setUp(self):
        super().setUp()
        self.program(self.project / "scripts" / "install-deps", "#!/bin/sh\n")
        self.program(self.project / "scripts" / "build", '#!/bin/sh\necho "build: $1"\n[ ! -e "build/$1/broken" ]\n')
        self.build_holds("asan", 'add_test(data sh -c "echo data=$DDPRUN_TEST_DATA; echo SKIPPED: no data here; exit 77")\n'
                   'set_tests_properties(data PROPERTIES SKIP_RETURN_CODE 77)\nadd_test(leaks sh -c "echo $ASAN_OPTIONS")\n'
                   'add_test(long true)\nset_tests_properties(long PROPERTIES LABELS slow)\n')
        self.build_holds("release", "add_test(fast true)\nset_tests_properties(fast PROPERTIES LABELS speed)\n")
        self.build_holds("tsan", "add_test(threads true)\n")

    def build_holds(self, preset, text):
        self.program(self.project / "build" / preset / "CTestTestfile.cmake", text)

    def last_line(self, done):
        return done.stdout.splitlines()[-1]

    def test_the_last_line_is_the_summary_of_all_builds_even_where_tests_are_skipped(self):
        done = self.run_script("scripts/test")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(self.last_line(done), r"^2 passed, 1 skipped \(1 no data here\), 0 failed in \d+ s$")
        self.assertIn("100% tests passed, 0 tests failed out of 3", done.stdout)

    def test_a_failing_test_makes_it_fail_and_the_summary_says_so(self):
        self.build_holds("release", "add_test(fast false)\nset_tests_properties(fast PROPERTIES LABELS speed)\n")
        done = self.run_script("scripts/test")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(", 1 failed in ", self.last_line(done))

    def test_a_build_that_fails_makes_it_fail(self):
        for preset in ("asan", "release"):
            broken = self.project / "build" / preset / "broken"
            broken.touch()
            self.assertNotEqual(self.run_script("scripts/test").returncode, 0)
            broken.unlink()

    def test_slow_tests_run_only_when_asked_for(self):
        self.assertNotIn("long", self.run_script("scripts/test").stdout)
        done = self.run_script("scripts/test", "--slow")
        self.assertIn("asan: long", done.stdout)
        self.assertIn("3 passed, 1 skipped", self.last_line(done))

    def test_the_thread_sanitizer_build_runs_when_asked_for(self):
        done = self.run_script("scripts/test", "--tsan")
        self.assertIn("tsan: threads", done.stdout)

    def test_a_race_that_its_test_does_not_notice_makes_it_fail(self):
        # The shell takes the quotes away as ThreadSanitizer does.
        self.build_holds("tsan", """add_test(threads sh -c [[eval "log_path=${TSAN_OPTIONS##*:log_path=}"; echo "a race" >"$log_path.$$"]])\n""")
        done = self.run_script("scripts/test", "--tsan")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(", 1 failed in ", self.last_line(done))
        self.assertIn("a race", done.stdout)

    def test_tsan_starts_where_the_kernel_spreads_addresses_widely(self):
        self.program(self.bin / "setarch", '#!/bin/sh\n[ "$1" = -R ] || exit 1\nshift\nFIXED=yes exec "$@"\n')
        self.build_holds("tsan", 'add_test(threads sh -c "echo fixed=$FIXED")\n')
        self.assertIn("fixed=yes\n", self.run_script("scripts/test", "--tsan", "-V").stdout)

    def test_options_for_ctest_are_passed_on(self):
        done = self.run_script("scripts/test", "-R", "leaks", "-V")
        self.assertIn("1 passed, 0 skipped, 0 failed in ", self.last_line(done))
        self.assertIn("detect_leaks=1", done.stdout)

    def test_a_run_without_tests_is_a_failure(self):
        self.assertNotEqual(self.run_script("scripts/test", "-R", "no such test").returncode, 0)

    def test_the_folder_of_real_data_reaches_the_tests_as_an_absolute_path(self):
        (self.project / "data").mkdir()
        done = self.run_script("scripts/test", "-V", DDPRUN_TEST_DATA=str(self.project / "scripts" / ".." / "data"))
        self.assertIn(f"data={self.project}/data", done.stdout)

    def test_a_folder_of_real_data_that_does_not_exist_is_an_error(self):
        done = self.run_script("scripts/test", DDPRUN_TEST_DATA="/no/such/folder")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/folder", done.stderr)

    def test_the_ci_makes_a_warning_an_error(self):
        self.program(self.project / "scripts" / "build", '#!/bin/sh\necho "build: $1 $DDPRUN_WERROR"\n')
        self.assertIn("build: asan ON\n", self.run_script(".ci/run").stdout)
        self.assertIn("build: asan OFF\n", self.run_script(".ci/run", DDPRUN_WERROR="OFF").stdout)
        self.assertIn("build: asan \n", self.run_script("scripts/test").stdout)

    def test_the_ci_takes_the_real_data_beside_the_checkout_where_there_is_some(self):
        self.assertIn("data=\n", self.run_script(".ci/run", "-V").stdout)
        data = self.project.parent / "shared" / "data"
        data.mkdir(parents=True)
        self.assertIn(f"data={data}\n", self.run_script(".ci/run", "-V").stdout)


if __name__ == "__main__":
    unittest.main()
