"""The documentation names only what exists: links, paths, scripts."""

import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
# `folder/and/file.ext` or `folder/`, in one of our folders, without placeholders.
PATH = re.compile(r"`((?:agent|base|bench|cmake|docs|launcher|machine|proto|python|rendezvous|scripts|tests|trainer|warden|worker)/[\w./-]*)`")

# json["key"], or {"key", value} of a list of them.
JSON_KEY = re.compile(r'(?:json\[|\{)"([a-z][a-z0-9_]*)"')


def documents():
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


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

    def test_every_path_in_code_type_exists(self):
        self.assertEqual(self.missing(PATH, lambda document: ROOT), [])

    def test_every_script_can_be_executed(self):
        scripts = [path for path in [*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run"] if path.is_file()]
        self.assertEqual([path.name for path in scripts if not os.access(path, os.X_OK)], [])

    def test_every_key_of_the_lines_of_train_is_in_its_page(self):
        keys = set()
        for name in ("report_lines.cpp", "evaluation_lines.cpp"):
            keys.update(JSON_KEY.findall((ROOT / "trainer" / "run" / name).read_text(encoding="utf-8")))
        self.assertGreater(len(keys), 40)
        page = (ROOT / "docs" / "trainer.md").read_text(encoding="utf-8")
        self.assertEqual(sorted(key for key in keys if f"`{key}`" not in page), [])


if __name__ == "__main__":
    unittest.main()
