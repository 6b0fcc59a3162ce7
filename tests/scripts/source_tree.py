"""What the lints share: the project's source files, and C++ text as comments, or without them and literals."""

import pathlib
import re

SOURCE_SUFFIXES = {".cpp", ".hpp", ".c", ".h", ".cu", ".cuh"}
SKIPPED_FOLDERS = {"build", ".git", ".cache", "__pycache__"}

_COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"'
    r'|"(?:\\.|[^"\\\n])*"'
    # A quote between digits or letters separates digits (1'000); it opens no character.
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)


def source_files(root, suffixes=SOURCE_SUFFIXES):
    """All source files below root, as paths relative to it, in a fixed order."""
    root = pathlib.Path(root)
    found = []
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if relative.parts[0] in SKIPPED_FOLDERS or "__pycache__" in relative.parts:
            continue
        if path.suffix in suffixes and path.is_file():
            found.append(relative)
    return sorted(found)


def code_only(text):
    """The text with comments and the insides of literals blanked; every character keeps its place and line."""
    def blank(match):
        whole = match.group()
        kept = re.sub(r"[^\n]", " ", whole)
        if whole[0] in "\"'R" and len(kept) >= 2:
            kept = '"' + kept[1:-1] + '"'
        return kept
    return _COMMENT_OR_LITERAL.sub(blank, text)


def comments_in(text):
    """Yields (offset, comment) for each comment; lines with // one below the other, in one column, are one comment."""
    line, column = -1, -1  # of the comment line before
    for match in _COMMENT_OR_LITERAL.finditer(text):
        if match.group()[0] != "/":
            continue
        begin = text.rfind("\n", 0, match.start()) + 1
        here = (line_of(text, match.start()), match.start() - begin)
        goes_on = here == (line + 1, column) and not text[begin:match.start()].strip()
        line, column = here
        if not goes_on:
            yield match.start(), match.group()


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1
