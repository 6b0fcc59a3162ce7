"""tests/fuzz/inputs.py: bytes become text that git can compare, and the same bytes again."""

import pathlib
import random
import sys
import unittest

FUZZ = pathlib.Path(__file__).resolve().parents[1] / "fuzz"
sys.path.insert(0, str(FUZZ))
import inputs  # noqa: E402


class Inputs(unittest.TestCase):
    def test_all_bytes_come_back(self):
        draw = random.Random(1)
        some = {f"input_{i}": draw.randbytes(300) for i in range(50)}
        some.update(empty=b"", name=b"# name\n# b\n", blanks=b"a \n \n\n ", slashes=b"\\x41\\n\\", all=bytes(range(256)))
        self.assertEqual(inputs.inputs_in(inputs.text_of(some)), some)

    def test_lines_are_short_and_end_where_the_bytes_have_a_newline(self):
        self.assertEqual(inputs.text_of({"b": b"", "a": b"one\ntwo " + b"x" * 200}),
                         "# a\none\\n\ntwo " + "x" * 96 + "\n" + "x" * 100 + "\n" + "x" * 4 + "\n\n# b\n")

    def test_every_kept_file_is_as_the_script_writes_it(self):
        files = sorted((FUZZ / "corpus").glob("*.txt"))
        self.assertGreater(len(files), 15)
        for file in files:
            with self.subTest(file.name):
                self.assertEqual(inputs.text_of(inputs.inputs_in(file.read_text())), file.read_text())


if __name__ == "__main__":
    unittest.main()
