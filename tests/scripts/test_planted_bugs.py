"""Bugs that can be planted into the cores: each still has its place there. tests/sim/planted_bugs.py plants them."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/sim"))

import planted_bugs  # noqa: E402


class PlantedBugs(unittest.TestCase):
    def test_each_bug_has_its_place_in_the_sources_once(self):
        for name, edits in planted_bugs.BUGS.items():
            for edit in edits:
                with self.subTest(name, file=edit.file):
                    self.assertEqual((ROOT / edit.file).read_text().count(edit.right), 1)
                    self.assertNotEqual(edit.right, edit.wrong)

    def test_what_is_copied_can_be_built(self):
        for place in re.findall(r"^ *add_subdirectory\((\w+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE):
            self.assertIn(place, planted_bugs.FOLDERS)


if __name__ == "__main__":
    unittest.main()
