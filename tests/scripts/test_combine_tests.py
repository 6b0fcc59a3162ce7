"""Tests of combine_tests.py: one ctest run over several builds, in which nothing gets lost."""

import os
import pathlib
import subprocess
import tempfile
import unittest
import unittest.mock

import combine_tests

NEVER = "^gpu$|^slow$"
SPEED = "^(speed|release)$"


class Combined(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "with a space"
        self.output = self.folder / "test"

    def build(self, preset, text):
        (self.folder / preset).mkdir(parents=True)
        (self.folder / preset / "CTestTestfile.cmake").write_text(text)

    def combine(self, *runs):
        combine_tests.main(str(self.output), NEVER, *runs)

    def ctest(self, *options):
        done = subprocess.run(["ctest", "--test-dir", str(self.output), "--output-on-failure", *options],
                              capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout

    def test_one_summary_counts_the_tests_of_both_builds(self):
        self.build("asan", 'add_test("a sentence" true)\nadd_test(second true)\n')
        self.build("release", 'add_test(fast true)\nset_tests_properties(fast PROPERTIES LABELS speed)\n')
        self.combine(f"asan:exclude:{SPEED}", f"release:only:{SPEED}")
        status, text = self.ctest()
        self.assertEqual(status, 0, text)
        self.assertIn("100% tests passed, 0 tests failed out of 3", text)
        self.assertIn("asan: a sentence", text)
        self.assertIn("release: fast", text)

    def test_labels_decide_which_build_runs_a_test(self):
        text = "".join(f"add_test({label} true)\nset_tests_properties({label} PROPERTIES LABELS {label})\n"
                       for label in ("unit", "speed", "release", "slow", "gpu"))
        self.build("asan", text)
        self.build("release", text)
        self.combine(f"asan:exclude:{SPEED}", f"release:only:{SPEED}")
        _, printed = self.ctest()
        for name in ("asan: unit", "release: speed", "release: release"):
            self.assertIn(name, printed)
        self.assertIn("out of 3", printed)

    def test_a_failing_test_of_either_build_makes_the_run_fail(self):
        self.build("asan", "add_test(good true)\n")
        self.build("release", "add_test(bad false)\nset_tests_properties(bad PROPERTIES LABELS speed)\n")
        self.combine(f"asan:exclude:{SPEED}", f"release:only:{SPEED}")
        status, text = self.ctest()
        self.assertNotEqual(status, 0)
        self.assertIn("1 tests failed out of 2", text)

    def test_a_test_without_a_built_program_fails(self):
        self.build("asan", "add_test(gone /no/such/program)\nadd_test(test_x_NOT_BUILT test_x_NOT_BUILT)\n")
        self.combine(f"asan:exclude:{SPEED}")
        status, text = self.ctest()
        self.assertNotEqual(status, 0)
        self.assertIn("2 tests failed out of 2", text)

    def test_environment_labels_timeouts_and_skips_are_kept(self):
        self.build("asan", """
add_test([=[skips]=] sh -c "exit 77")
set_tests_properties([=[skips]=] PROPERTIES SKIP_RETURN_CODE 77 LABELS "unit;other")
add_test(reads sh -c "test \\"$A\\" = 'x y' -a \\"$B\\" = 2 -a \\"$(pwd)\\" = /")
set_tests_properties(reads PROPERTIES ENVIRONMENT "A=x y;B=2" WORKING_DIRECTORY / TIMEOUT 5)
add_test(hangs sleep 100)
set_tests_properties(hangs PROPERTIES TIMEOUT 0.2)
""")
        self.combine(f"asan:exclude:{SPEED}")
        _, text = self.ctest()
        self.assertIn("asan: skips (Skipped)", text)
        self.assertIn("asan: hangs (Timeout)", text)
        self.assertIn("1 tests failed out of 3", text)

    def test_arguments_with_quotes_brackets_and_semicolons_arrive_whole(self):
        self.build("asan", """add_test(quotes sh -c [==[test "$1" = 'a;b]=] "$c' ]==] sh [==[a;b]=] "$c]==])\n""")
        self.combine(f"asan:exclude:{SPEED}")
        status, text = self.ctest()
        self.assertEqual(status, 0, text)

    def test_tests_labelled_speed_run_alone(self):
        self.build("release", "add_test(fast true)\nset_tests_properties(fast PROPERTIES LABELS speed)\n")
        self.combine(f"release:only:{SPEED}")
        self.assertIn("RUN_SERIAL", (self.output / "CTestTestfile.cmake").read_text())

    def test_a_report_of_any_process_under_tsan_fails_the_run_even_if_its_test_passes(self):
        self.build("tsan", 'add_test(hides sh -c [[echo "race in $DIR" >"$DIR/report.$$"]])\n'
                   'set_tests_properties(hides PROPERTIES ENVIRONMENT "DIR=$ENV{REPORTS}")\nadd_test(other true)\n')
        reports = self.output / "tsan-reports"
        with unittest.mock.patch.dict(os.environ, {"REPORTS": str(reports)}):
            self.combine(f"tsan:exclude:{SPEED}")
            status, text = self.ctest()
            self.assertNotEqual(status, 0)
            self.assertIn("1 tests failed out of 3", text)
            self.assertIn(f"race in {reports}", text)
            self.combine(f"tsan:exclude:{SPEED}")  # starts without old reports
            status, text = self.ctest("-R", "other")
        self.assertEqual(status, 0, text)
        self.assertIn("no process has reported a data race", text)

    def test_a_test_under_tsan_has_more_time(self):
        self.build("tsan", "add_test(slow sleep 0.3)\nset_tests_properties(slow PROPERTIES TIMEOUT 0.2)\n")
        self.combine(f"tsan:exclude:{SPEED}")
        status, text = self.ctest()
        self.assertEqual(status, 0, text)

    def test_a_build_without_any_test_is_an_error(self):
        self.build("asan", "")
        with self.assertRaises(SystemExit):
            self.combine(f"asan:exclude:{SPEED}")


if __name__ == "__main__":
    unittest.main()
