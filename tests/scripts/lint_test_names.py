"""Finds names of test cases that ctest or Catch2 would read as something else, so that the test never runs.

usage: lint_test_names.py ROOT
"""

import pathlib
import re
import sys

from source_tree import line_of, source_files

CASE = re.compile(r'\b(?:TEST_CASE|TEST_CASE_METHOD|SCENARIO|TEMPLATE_TEST_CASE)\s*\(\s*(?:\w+\s*,\s*)?((?:"(?:\\.|[^"\\])*"\s*)+)')
LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"')

# What breaks a name on its way from the program's list through CMake's lists and ctest back to the program.
FORBIDDEN = {
    ";": "CMake splits lists there",
    "[": "CMake's lists keep an open bracket together with what follows",
    "]": "CMake's lists keep an open bracket together with what follows",
    "\\": "CMake and Catch2 each take an escape away",
    "$": "CMake expands it",
    "*": "Catch2 reads it as a wildcard",
}
FORBIDDEN_STARTS = {"~": "Catch2 reads it as 'not'", "#": "Catch2 reads it as a file's name", "-": "Catch2 reads it as an option",
                    "exclude:": "Catch2 reads it as 'not'"}


def problem_of(name):
    for character, why in FORBIDDEN.items():
        if character in name:
            return f"has a {character!r}: {why}"
    for start, why in FORBIDDEN_STARTS.items():
        if name.startswith(start):
            return f"starts with {start!r}: {why}"
    if not name or name != name.strip():
        return "is empty, or starts or ends with a space"
    return None


def names_in(text):
    """The names of test cases in a source, with the offset of each."""
    for match in CASE.finditer(text):
        yield "".join(LITERAL.findall(match.group(1))), match.start()


def problems(root):
    root = pathlib.Path(root)
    found = []
    for path in source_files(root, {".cpp", ".hpp"}):
        text = (root / path).read_text(encoding="utf-8")
        for name, offset in names_in(text):
            why = problem_of(name)
            if why:
                found.append(f"{path}:{line_of(text, offset)}: the test's name {why}")
    return found


if __name__ == "__main__":
    lines = problems(sys.argv[1])
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
