"""scripts/site: the site builds without a warning, has the same bytes twice, and asks no other host for anything."""

import hashlib
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site" / "html"
# What a browser loads by itself, from another host: with a scheme, or with // alone.
LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?((?:https?:)?//[^\"' >]+)"
                    r"|<link\b[^>]*\brel=[\"']?(?:stylesheet|preconnect|preload|icon)[^>]*\bhref=[\"']?((?:https?:)?//[^\"' >]+)")
LOADED_BY_STYLE = re.compile(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)")


def hashes():
    return {str(file.relative_to(SITE)): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(SITE.rglob("*")) if file.is_file()}


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.build()

    @staticmethod
    def build():
        done = subprocess.run([ROOT / "scripts" / "site"], capture_output=True, text=True, check=False, timeout=900)
        if "pip install -r" in done.stderr or "python3-venv is missing" in done.stderr:
            raise unittest.SkipTest("mkdocs cannot be downloaded here")
        assert done.returncode == 0, done.stderr

    def test_the_same_checkout_gives_the_same_bytes(self):
        before = hashes()
        self.assertGreater(len(before), 60)
        self.build()
        self.assertEqual(hashes(), before)

    def test_no_page_loads_anything_from_another_host(self):
        found = []
        for page in SITE.rglob("*.html"):
            found += [(page.name, match) for match in LOADED.findall(page.read_text(encoding="utf-8"))]
        for style in SITE.rglob("*.css"):
            found += [(style.name, match) for match in LOADED_BY_STYLE.findall(style.read_text(encoding="utf-8"))]
        self.assertEqual(found, [])

    def test_pages_have_a_search_and_a_dark_theme(self):
        start = (SITE / "index.html").read_text(encoding="utf-8")
        self.assertIn('data-md-component="search"', start)
        self.assertIn('data-md-color-scheme="slate"', start)
        self.assertIn("nproc-per-node", (SITE / "search" / "search_index.json").read_text(encoding="utf-8"))

    def test_the_search_works_in_a_page_that_was_opened_as_a_file(self):
        # The index as a script, and a script in place of the worker that a browser would refuse, in all pages.
        index = (SITE / "search" / "search_index.js").read_text(encoding="utf-8")
        self.assertTrue(index.startswith("var __index = {"))
        for page in set(SITE.rglob("*.html")) - {SITE / "404.html"}:  # which only a server shows
            scripts = re.findall(r'<script src="([^"]*iframe-worker.js)">', page.read_text(encoding="utf-8"))
            self.assertEqual([(page.parent / script).resolve() for script in scripts], [SITE / "javascripts" / "iframe-worker.js"], page)


if __name__ == "__main__":
    unittest.main()
