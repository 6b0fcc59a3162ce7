"""Finds options of ddprun that would do nothing: rows of the option table that no code reads, and values that no planner uses.

usage: lint_options.py ROOT     prints one line for each finding; exit 1 if there are any
"""

import pathlib
import re
import sys

from source_tree import code_only, line_of

OPTIONS = pathlib.Path("launcher") / "options"
ROW = re.compile(r'OptionRow\{\s*\.name = "([^"]+)",(.*?)\n    \},', re.DOTALL)
# A choice of one word has nothing to tell.
ONE_CHOICE = re.compile(r'\.choices = "[^"|]*"')
# LaunchOptions, and its groups.
VALUES = re.compile(r"\nstruct (\w+Options) \{\n(.*?)\n\};", re.DOTALL)
# `Type name;` and `Type name = value;`, at the beginning of a line.
MEMBER = re.compile(r"^  [\w:<>, ]+? (\w+)(?: = [^;]+)?;", re.MULTILINE)


def unread_rows(root):
    """Rows that have something to tell, and that launcher/options/*.cpp do not name."""
    reading = "".join(path.read_text(encoding="utf-8") for path in sorted((root / OPTIONS).glob("*.cpp")))
    for path in sorted((root / OPTIONS).glob("option_rows_*.hpp")):
        text = path.read_text(encoding="utf-8")
        for row in ROW.finditer(text):
            name, fields = row.groups()
            idle = ".no_effect" in fields or ("ValueType::choice," in fields and ONE_CHOICE.search(fields))
            if not idle and f'"{name}"' not in reading:
                yield f"{path.relative_to(root)}:{line_of(text, row.start())}: no code reads --{name}; " \
                      "read it in launcher/options/, or give the row a .no_effect"


def names_of(struct, structs, using):
    """What values of a struct are called: as a member of another one, as a parameter, as a reference to a member."""
    members = set(re.findall(rf"\b{struct} (\w+)", "".join(other.group(2) for other in structs)))
    references = re.findall(r"auto& (\w+) = [\w.>-]*\b(\w+);", using)
    return {"options"} | members | set(re.findall(rf"\b{struct}& (\w+)", using)) | {name for name, member in references if member in members}


def unused_values(root):
    """Members of LaunchOptions and its groups that the launcher does not use outside launcher/options/."""
    path = root / OPTIONS / "options.hpp"
    text = path.read_text(encoding="utf-8")
    structs = list(VALUES.finditer(code_only(text)))
    if "LaunchOptions" not in [struct.group(1) for struct in structs]:
        yield f"{OPTIONS / 'options.hpp'}:1: no struct LaunchOptions is there; teach tests/scripts/lint_options.py its new place"
        return
    using = "".join(source.read_text(encoding="utf-8") for source in sorted((root / "launcher").rglob("*.cpp"))
                    if OPTIONS not in source.relative_to(root).parents)
    for struct in structs:
        owners = "|".join(names_of(struct.group(1), structs, using))
        for member in MEMBER.finditer(struct.group(2)):
            if not re.search(rf"\b(?:{owners})(?:\.|->){member.group(1)}\b", using):
                line = line_of(text, struct.start(2) + member.start())
                yield f"{OPTIONS / 'options.hpp'}:{line}: nothing uses {struct.group(1)}::{member.group(1)} behind the parser"


def findings(root):
    root = pathlib.Path(root)
    return [*unread_rows(root), *unused_values(root)]


if __name__ == "__main__":
    lines = findings(sys.argv[1])
    print("\n".join(lines), end="\n" if lines else "")
    sys.exit(1 if lines else 0)
