"""Bugs that can be planted into the cores: each still has its place there. tests/sim/planted_bugs.py plants them."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/sim"))

import planted_bugs  # noqa: E402


class PlantedBugs(unittest.TestCase):
    def test_each_bug_has_its_place_in_the_sources_once(self):
        for name, bug in planted_bugs.BUGS.items():
            with self.subTest(name):
                self.assertEqual((ROOT / bug.file).read_text().count(bug.right), 1)
                self.assertNotEqual(bug.right, bug.wrong)


if __name__ == "__main__":
    unittest.main()
