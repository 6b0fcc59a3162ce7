"""Tests of summarize_tests.py: what the last line of scripts/test counts, and the reasons it gives."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from xml.sax.saxutils import escape

import summarize_tests

SCRIPT = pathlib.Path(summarize_tests.__file__)


def case(status, output="", skipped=None):
    mark = f'<skipped message="{skipped}"/>' if skipped else ""
    return f'<testcase name="x" status="{status}">{mark}<system-out>{escape(output)}</system-out></testcase>'


def skip(output):
    return case("notrun", output, "SKIP_RETURN_CODE=77")


def results(*cases):
    return f"<testsuite>{''.join(cases)}</testsuite>"


def lines(*cases, seconds=60):
    return summarize_tests.summary(xml.etree.ElementTree.ElementTree(xml.etree.ElementTree.fromstring(results(*cases))),
                                   seconds)[0]


class Summary(unittest.TestCase):
    def test_passed_and_failed_tests_are_counted(self):
        self.assertEqual(lines(case("run"), case("run"), case("fail")), ["2 passed, 0 skipped, 1 failed in 60 s"])

    def test_skips_are_counted_by_the_start_of_their_reason(self):
        found = lines(case("run"), skip("SKIPPED: no gdb here\n"), skip("x\nSKIPPED: no cgroup: a\n"),
                      skip("SKIPPED: no cgroup: b\n"), seconds=200)
        self.assertEqual(found, ["1 passed, 3 skipped (2 no cgroup, 1 no gdb here), 0 failed in 3 min"])

    def test_a_skip_of_python_tells_its_reason_too(self):
        found = lines(skip("test_x (m.C.test_x) ... skipped 'no torchrun that works: none'\n\nOK (skipped=1)\n"))
        self.assertEqual(found, ["0 passed, 1 skipped (1 no torchrun that works), 0 failed in 60 s"])

    def test_many_reasons_are_cut_but_every_skip_is_counted(self):
        found = lines(*[skip(f"SKIPPED: reason {n}\n") for n in range(12)])
        self.assertIn("12 skipped", found[0])
        self.assertIn(", 4 for other reasons)", found[0])

    def test_a_skip_without_a_reason_and_a_disabled_test_are_skips(self):
        self.assertIn("2 skipped (1 no reason given, 1 disabled)", lines(skip(""), case("disabled"))[0])

    def test_a_test_without_its_program_has_failed(self):
        self.assertEqual(lines(case("notrun", "", "Unable to find executable")), ["0 passed, 0 skipped, 1 failed in 60 s"])

    def test_without_pytorch_a_line_tells_what_went_untested(self):
        found = lines(skip("test_x (m.C.test_x) ... skipped 'no PyTorch: scripts/install-deps --tests'\n"))
        self.assertEqual(len(found), 2)
        self.assertIn("nothing here has tested that programs for torchrun run unchanged", found[0])
        self.assertEqual(found[-1], "0 passed, 1 skipped (1 no PyTorch), 0 failed in 60 s")


class Program(unittest.TestCase):
    def run_on(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "results.xml"
            if text is not None:
                path.write_text(text)
            return subprocess.run([sys.executable, "-B", SCRIPT, path, "3"], capture_output=True, text=True, check=False)

    def test_no_test_at_all_and_no_results_are_failures(self):
        self.assertEqual(self.run_on(results()).returncode, 1)
        self.assertEqual(self.run_on(None).returncode, 1)

    def test_failed_tests_are_the_concern_of_ctest(self):
        done = self.run_on(results(case("fail")))
        self.assertEqual((done.returncode, done.stdout), (0, "0 passed, 0 skipped, 1 failed in 3 s\n"))


if __name__ == "__main__":
    unittest.main()
