"""Tests of lint_test_names.py: names of test cases that would never run, and that this project has none."""

import pathlib
import tempfile
import unittest

import lint_test_names

ROOT = pathlib.Path(__file__).resolve().parents[2]


def problems(text):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "a_test.cpp").write_text(text)
        return lint_test_names.problems(folder)


class Names(unittest.TestCase):
    def test_a_sentence_is_fine(self):
        self.assertEqual(problems('TEST_CASE("a node, once expired, joins anew: 100 % (really)") {}'), [])

    def test_a_name_with_a_semicolon_is_found_with_its_line(self):
        found = problems('// one\n\nTEST_CASE(\n    "too high; fp32 ones do not") {}\n')
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("a_test.cpp:3: "), found)

    def test_every_character_that_ctest_or_catch2_reads_as_something_else_is_found(self):
        for name in ("a [b", "a] b", "a \\\\ b", "a ${b}", "every *", "~not", "#file", "-x", "exclude:x", " a", "a ", ""):
            with self.subTest(name):
                self.assertEqual(len(problems(f'TEST_CASE("{name}") {{}}')), 1)

    def test_a_name_in_pieces_and_one_of_a_method_are_looked_at(self):
        self.assertEqual(len(problems('TEST_CASE("one "\n  "two; three", "[.]") {}')), 1)
        self.assertEqual(len(problems('TEST_CASE_METHOD(Fixture, "a;b") {}')), 1)

    def test_this_project_has_no_such_name(self):
        self.assertEqual(lint_test_names.problems(ROOT), [])


if __name__ == "__main__":
    unittest.main()
