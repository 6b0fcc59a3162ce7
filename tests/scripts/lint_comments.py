"""Finds comments that cannot be read alone: they begin "Of", "The same" or "Likewise", so their subject stands elsewhere.

usage: lint_comments.py ROOT      prints one line for each finding; exit 1 where there are any
"""

import pathlib
import re
import sys

from source_tree import comments_in, line_of, source_files

LEANING = re.compile(r"(?://+<?|/\*+)\s*(Of|The same|Likewise)\b")


def findings_in(text):
    """Yields (line, what is wrong) for one file."""
    for offset, comment in comments_in(text):
        if found := LEANING.match(comment):
            yield line_of(text, offset), f'a comment begins "{found.group(1)}": name what it is about'


def main(root):
    wrong = 0
    for path in source_files(root):
        for line, what in findings_in((pathlib.Path(root) / path).read_text(encoding="utf-8")):
            print(f"{path}:{line}: {what}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
