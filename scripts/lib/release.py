"""What scripts/release reads in the sources: the version, the changelog, and texts that a release makes false.

release.py problems VERSION   prints why the version is not ready, one reason a line
release.py notes VERSION      prints its section of CHANGELOG.md
"""

import datetime
import pathlib
import re
import sys

import package_files

# What is true until the first release.
UNRELEASED = "There is no release yet"
HEADING = re.compile(r"^## \[?([^\]\s]+)\]?(?: - (\S+))?\s*$")


def sections(changelog: str) -> list[tuple[str, str, str]]:
    """Name, date and text of each section, in the order of the file."""
    found: list[tuple[str, str, str]] = []
    for line in changelog.splitlines():
        heading = HEADING.match(line)
        if heading:
            found.append((heading.group(1), heading.group(2) or "", ""))
        elif found:
            name, date, text = found[-1]
            found[-1] = (name, date, f"{text}{line}\n")
    return found


def entries(text: str) -> bool:
    return re.search(r"^- ", text, re.MULTILINE) is not None


def changelog_problems(changelog: str, version: str, today: datetime.date) -> list[str]:
    found = sections(changelog)
    names = [name for name, _, _ in found]
    if version not in names:
        return [f"CHANGELOG.md has no section '## {version} - {today}': give the entries under '## Unreleased' that heading"]
    problems = []
    name, date, text = found[names.index(version)]
    try:
        if datetime.date.fromisoformat(date) > today:
            problems.append(f"the section {version} of CHANGELOG.md has a date in the future, {date}")
    except ValueError:
        problems.append(f"the section {version} of CHANGELOG.md has {f'{date} as its date' if date else 'no date'}: write '## {version} - {today}'")
    if not entries(text):
        problems.append(f"the section {version} of CHANGELOG.md is empty: describe what has changed")
    for name, _, text in found[:names.index(version)]:
        if name != "Unreleased":
            problems.append(f"the section {name} of CHANGELOG.md is above that of {version}: versions go down from the newest")
        elif entries(text):
            problems.append(f"CHANGELOG.md has entries under '## Unreleased', but they are part of this commit: move them into the section {version}")
    return problems


def text_problems(root: pathlib.Path) -> list[str]:
    texts = [path for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))] if path.is_file()]
    names = [path.relative_to(root).as_posix() for path in texts if UNRELEASED in " ".join(path.read_text(encoding="utf-8").split())]
    if not names:
        return []
    return [f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'} the sentence '{UNRELEASED}': write how to install the release instead"]


def problems(version: str) -> list[str]:
    own = package_files.version()
    wrong = [] if own == version else [f"CMakeLists.txt has version {own}, not {version}: change project(... VERSION ...) there, or give {own}"]
    changelog = (package_files.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return wrong + changelog_problems(changelog, version, datetime.datetime.now(datetime.timezone.utc).date()) + text_problems(package_files.ROOT)


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in ("problems", "notes"):
        raise SystemExit(__doc__)
    what, version = sys.argv[1:]
    if what == "problems":
        sys.stdout.writelines(f"{line}\n" for line in problems(version))
        return
    changelog = (package_files.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    texts = [text for name, _, text in sections(changelog) if name == version]
    if not texts:
        raise SystemExit(f"release: CHANGELOG.md has no section {version}")
    print(texts[0].strip())


if __name__ == "__main__":
    main()
