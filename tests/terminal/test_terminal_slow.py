"""Every program with progress bars, with 1, 2 and 8 workers, on terminals of 60, 80 and 200 columns."""

import re
import unittest

from recorder import Recorder
from screens import WORKERS, Terminal, ddprun, python_with, with_python

WIDTHS = (60, 80, 200)
GROUPS = (1, 2, 8)


class WholeRecordings(Recorder):
    """Every program with every number of workers at every width."""

    def every(self, check):
        for columns in WIDTHS:
            for workers in GROUPS:
                with self.subTest(columns=columns, workers=workers):
                    check(columns, workers)

    def test_every_counter(self):
        self.every(self.check_counter)

    def test_every_tqdm(self):
        self.every(self.check_tqdm)

    def test_every_tqdm_with_positions(self):
        self.every(self.check_position)

    def test_every_rich(self):
        self.every(self.check_rich)

    def test_every_trainer_of_transformers(self):
        python = python_with("torch", "transformers", "accelerate")
        for columns in WIDTHS:
            for workers in (1, 2):
                with self.subTest(columns=columns, workers=workers), Terminal(columns) as terminal:
                    terminal.start(*ddprun(workers, WORKERS / "hf_trainer.py"), environment=with_python(python))
                    lines, code = terminal.result(300)
                    self.assertEqual(code, 0, lines)
                    bars = [line for line in lines if re.search(r"100%\|.*20/20", line)]
                    self.assertEqual(len(bars), 1, lines)
                    # One worker writes to the terminal itself, and there a warning goes behind the bar.
                    for line in lines if workers > 1 else []:
                        self.assertFalse(re.search(r"^(\[rank\d\] )?\s*\d+%\|(?!.*20/20)", line), f"torn: {line}")
                        if "%|" in line:
                            self.assertLessEqual(len(line), columns, line)


if __name__ == "__main__":
    unittest.main()
