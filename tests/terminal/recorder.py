"""What programs with progress bars may leave on a terminal."""

import re
import unittest

from screens import WORKERS, Terminal, ddprun, python_with, with_python


class Recorder(unittest.TestCase):
    def record(self, columns, workers, script, *words, python="python3"):
        """What a job has left on a terminal."""
        with Terminal(columns) as terminal:
            terminal.start(*ddprun(workers, WORKERS / script, *words), environment=with_python(python))
            lines, code = terminal.result()
            self.assertEqual(code, 0, lines)
            self.assertTrue(terminal.cursor_shown())
        for line in lines:
            self.assertLessEqual(len(line), columns, f"wrapped: {line}")
        return lines

    def check_bars(self, lines, workers, bar, other):
        """Each rank has left one line for its bar; every other line is whole."""
        prefix = r"\[rank(\d+)\] " if workers > 1 else "()"
        found = [match.group(1) for line in lines if (match := re.fullmatch(prefix + bar, line))]
        self.assertEqual(sorted(found), sorted(str(rank) if workers > 1 else "" for rank in range(workers)), lines)
        for line in lines:
            self.assertRegex(line, f"^({prefix})({bar}|{other})$")

    def check_counter(self, columns, workers):
        lines = self.record(columns, workers, "counter.py", 20, 0.05)
        self.check_bars(lines, workers, r"step  20/20 #+", "nothing else")
        if workers > 1:
            self.assertEqual({len(line) for line in lines}, {columns})

    def check_tqdm(self, columns, workers):
        python = python_with("tqdm")
        if workers == 1:  # it writes to the terminal itself, and there a print goes behind the bar
            with Terminal(columns) as terminal:
                terminal.start(*ddprun(1, WORKERS / "tqdm_bar.py"), environment=with_python(python))
                lines, code = terminal.result()
            self.assertEqual(code, 0, lines)
            self.assertEqual(sum(line.count("loss of") for line in lines), 4, lines)
            return
        lines = self.record(columns, workers, "tqdm_bar.py", python=python)
        self.check_bars(lines, workers, r"epoch: 100%.*40/40 .*\]", r"loss of \d at \d+")
        self.assertEqual(sum("loss of" in line for line in lines), 4 * workers)

    def check_position(self, columns, workers):
        python = python_with("tqdm")
        lines = self.record(columns, workers, "tqdm_position.py", python=python)
        self.check_bars(lines, workers, r"epoch: 100%.*40/40 .*\]", "nothing else")

    def check_rich(self, columns, workers):
        python = python_with("rich")
        lines = self.record(columns, workers, "rich_progress.py", python=python)
        self.check_bars(lines, workers, r"epoch .* 100% 0:00:00", r"batch .* 100% 0:00:00|loss of \d at \d+")
        self.assertEqual(sum("loss of" in line for line in lines), 4 * workers)
        self.assertEqual(sum("batch" in line for line in lines), workers)
