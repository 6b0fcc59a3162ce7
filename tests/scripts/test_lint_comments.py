"""Tests of lint_comments.py: which comments need the line above them."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import lint_comments

ROOT = pathlib.Path(__file__).resolve().parents[2]


def lines(text):
    return [line for line, _ in lint_comments.findings_in(text)]


class Comments(unittest.TestCase):
    def test_a_comment_that_has_no_subject_is_reported(self):
        for begin in ("Of the last round.", "The same, but of all workers.", "Likewise."):
            for mark in ("//", "///", "/*"):
                self.assertEqual(lines(f"int a;\n{mark} {begin} */\nint b;\n"), [2], begin)
            self.assertEqual(lines(f"int a;  ///< {begin}\nint b;  // {begin}\n"), [1, 2], begin)

    def test_a_comment_that_names_its_subject_is_not(self):
        self.assertEqual(lines("/// Learning rate of the next update.\n// Offers the same.\nint a;  ///< of the host\n"), [])

    def test_only_the_first_line_of_a_comment_is_its_beginning(self):
        self.assertEqual(lines("  /// Workers that exited.\n  /// Of others nothing is known.\n  int a;\n"), [])
        self.assertEqual(lines("int a;  ///< workers that exited\n        ///< Of others nothing is known.\n"), [])
        self.assertEqual(lines("int a;  // workers that exited\n// Of others nothing is known.\nint b;\n"), [2])

    def test_text_in_quotes_is_no_comment(self):
        self.assertEqual(lines('const char* a = "// Of nothing";\nauto b = R"(\n// The same\n)";\n'), [])


class WholeTree(unittest.TestCase):
    def test_a_finding_is_printed_with_file_and_line_and_makes_the_lint_fail(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "proto", "a.cpp")
            file.parent.mkdir()
            file.write_text("// what for\n\n// Likewise.\n")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                self.assertEqual(lint_comments.main(folder), 1)
            self.assertTrue(printed.getvalue().startswith("proto/a.cpp:3: "), printed.getvalue())

    def test_the_comments_of_the_sources_stand_alone(self):
        self.assertEqual(lint_comments.main(ROOT), 0)


if __name__ == "__main__":
    unittest.main()
