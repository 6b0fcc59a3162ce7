"""The documentation names only what exists: links, paths, scripts."""

import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
# A link to a heading, of another document or of its own.
ANCHOR_LINK = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
# The pages in the navigation of mkdocs.yml.
NAVIGATION = re.compile(r"^ +- (?:.*: )?([\w/.-]+\.md)$", re.MULTILINE)
# `folder/and/file.ext` or `folder/`, in one of our folders, without placeholders.
PATH = re.compile(r"`((?:agent|base|bench|cmake|docs|launcher|machine|proto|python|rendezvous|scripts|tests|texts|trainer|warden|worker)/[\w./-]*)`")

# json["key"], or {"key", value} of a list of them.
JSON_KEY = re.compile(r'(?:json\[|\{)"([a-z][a-z0-9_]*)"')


def documents():
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


def anchors_of(document):
    """The anchors of its headings, as GitHub and mkdocs.yml make them."""
    text = FENCED.sub("", document.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


def table_rows(document):
    return [line for line in document.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]


class Documentation(unittest.TestCase):
    def missing(self, pattern, base_of):
        found = []
        for document in documents():
            for match in pattern.finditer(document.read_text(encoding="utf-8")):
                target = match.group(1)
                if "://" not in target and not (base_of(document) / target).exists():
                    found.append(f"{document.relative_to(ROOT)}: {target}")
        return found

    def test_every_link_leads_to_a_file(self):
        self.assertEqual(self.missing(LINK, lambda document: document.parent), [])

    def test_every_link_to_a_heading_leads_to_one(self):
        lost = []
        for document in documents():
            for target, anchor in ANCHOR_LINK.findall(document.read_text(encoding="utf-8")):
                if "://" not in target and anchor not in anchors_of(document.parent / target if target else document):
                    lost.append(f"{document.relative_to(ROOT)}: {target}#{anchor}")
        self.assertEqual(lost, [])

    def test_pages_of_the_site_link_only_to_pages_of_the_site(self):
        docs = ROOT / "docs"
        outside = [f"{document.relative_to(ROOT)}: {target}" for document in docs.rglob("*.md")
                   for target in LINK.findall(document.read_text(encoding="utf-8"))
                   if "://" not in target and docs not in (document.parent / target).resolve().parents]
        self.assertEqual(outside, [])

    def test_every_document_is_in_the_navigation_of_the_site(self):
        named = NAVIGATION.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
        there = [str(document.relative_to(ROOT / "docs")) for document in (ROOT / "docs").rglob("*.md")]
        self.assertEqual(sorted(named), sorted(there))

    def test_the_first_page_of_the_site_has_the_figures_of_the_readme(self):
        rows = [row for row in table_rows(ROOT / "docs" / "index.md") if not row.startswith("| ---")]
        self.assertGreater(len(rows), 4)
        self.assertEqual([row for row in rows if row not in table_rows(ROOT / "README.md")], [])

    def test_every_path_in_code_type_exists(self):
        self.assertEqual(self.missing(PATH, lambda document: ROOT), [])

    def test_every_promise_has_tests_that_are_run(self):
        listed = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("CMakeLists.txt"))
        rows = [row for row in table_rows(ROOT / "docs" / "promises.md")[2:]]
        self.assertGreater(len(rows), 90)
        for row in rows:
            tests = re.findall(r"`[\w./]*?(\w+_test\.cpp|\w+_entry\.cpp|test_\w+)(?:\.py)?`", row)
            folders = re.findall(r"`tests/\w+/`|`scripts/[\w-]+`", row)
            self.assertTrue(tests or folders, row)
            self.assertEqual([test for test in tests if not re.search(rf"\b{re.escape(test)}\b", listed)], [], row)

    def test_every_script_can_be_executed(self):
        scripts = [path for path in [*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run"] if path.is_file()]
        self.assertEqual([path.name for path in scripts if not os.access(path, os.X_OK)], [])

    def test_every_key_of_the_lines_of_train_is_in_its_page(self):
        lines = ROOT / "trainer" / "run" / "report" / "report_lines.cpp"
        keys = set(JSON_KEY.findall(lines.read_text(encoding="utf-8")))
        self.assertGreater(len(keys), 40)
        page = (ROOT / "docs" / "trainer.md").read_text(encoding="utf-8")
        self.assertEqual(sorted(key for key in keys if f"`{key}`" not in page), [])


if __name__ == "__main__":
    unittest.main()
