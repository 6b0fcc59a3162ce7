"""Progress bars on a real terminal: no wrapped line, no torn piece, one line left for each bar."""

import os
import pathlib
import re
import signal
import unittest

from recorder import Recorder
from screens import BIN, WORKERS, Terminal, agent_of, ddprun


class Recordings(Recorder):
    def test_a_bar_of_each_of_eight_workers_is_one_line(self):
        self.check_counter(60, 8)

    def test_a_bar_fills_a_terminal_of_200_columns(self):
        self.check_counter(200, 2)

    def test_tqdm_and_prints_of_two_workers_are_whole(self):
        self.check_tqdm(80, 2)

    def test_tqdm_at_a_position_for_each_of_eight_workers(self):
        self.check_position(60, 8)

    def test_rich_with_two_bars_on_two_workers(self):
        self.check_rich(80, 2)

    @unittest.skipUnless((BIN / "train").exists(), "train was not built")
    def test_train_draws_a_bar_and_a_table_that_fit(self):
        for columns in (60, 80):
            with self.subTest(columns=columns), Terminal(columns) as terminal:
                terminal.start(*ddprun(2, "train", "--epochs", "2", "--out", "run"))
                lines, code = terminal.result(300)
                self.assertEqual(code, 0, lines)
                table = [line for line in lines if re.search(r"epoch  .*held-out accuracy", line)]
                self.assertEqual(len(table), 1, lines)
                # Paths and the hash line are as long as they are.
                for line in lines:
                    if not re.search(r"checkpoint|\(V=|training on", line):
                        self.assertLessEqual(len(line), columns, line)
                self.assertFalse([line for line in lines if re.search(r"step \d+/\d+", line)], lines)


class Interruptions(unittest.TestCase):
    def bars(self, lines):
        return [line for line in lines if re.match(r"\[rank\d\] step +\d+/\d+ #", line)]

    def running(self, terminal, *words):
        terminal.start(*ddprun(2, *words))
        terminal.wait_for(lambda lines: len(self.bars(lines)) == 2)

    def test_after_ctrl_c_the_screen_is_whole(self):
        with Terminal(80) as terminal:
            self.running(terminal, "--grace-period=5", WORKERS / "counter.py", "1000", "0.05")
            terminal.key("C-c")
            lines, code = terminal.result()
            self.assertEqual(code, 130)
            self.assertEqual(len([line for line in lines if "SIGINT: stopping the workers" in line]), 1, lines)
            for line in self.bars(lines):
                self.assertRegex(line, r"^\[rank\d\] step +\d+/1000 #+$")
            self.assertLessEqual(len(self.bars(lines)), 2, lines)
            self.assertTrue(terminal.cursor_shown())

    def test_ctrl_z_takes_bars_away_and_fg_brings_them_back(self):
        with Terminal(80) as terminal:
            terminal.start(*ddprun(2, WORKERS / "counter.py", "60", "0.1"))
            terminal.wait_for(lambda lines: len(self.bars(lines)) == 2)
            terminal.key("C-z")
            lines = terminal.wait_for(lambda now: any("Stopped" in line for line in now))
            self.assertEqual(self.bars(lines), [])
            terminal.type("fg")
            lines = terminal.wait_for(lambda now: len([line for line in self.bars(now) if "60/60" in line]) == 2)
            self.assertEqual(len(self.bars(lines)), 2, lines)

    def test_a_worker_that_is_killed_leaves_the_last_state_of_its_bar_in_one_line(self):
        with Terminal(80) as terminal:
            terminal.start(*ddprun(2, WORKERS / "counter.py", "20", "0.05", "crash"))
            lines, code = terminal.result()
            self.assertEqual(code, 137)
            self.assertLessEqual(len(self.bars(lines)), 2, lines)
            self.assertRegex("\n".join(lines), r"(?m)^\[rank0\] step  10/20 #+$")
            self.assertTrue(any(line.startswith("ddprun: culprit: rank 0") for line in lines), lines)

    def test_after_the_agent_is_killed_the_message_has_a_line_of_its_own(self):
        with Terminal(80) as terminal:
            self.running(terminal, "--grace-period=1", WORKERS / "counter.py", "1000", "0.05")
            os.kill(agent_of(terminal.pid()), signal.SIGKILL)
            lines, _ = terminal.result()
            message = [line for line in lines if "was killed by SIGKILL" in line]
            self.assertEqual(len(message), 1, lines)
            self.assertRegex(message[0], r"^ddprun: the agent \(pid \d+\) was killed by SIGKILL[^#]*$")

    def test_a_resize_leaves_no_pieces_of_bars(self):
        with Terminal(100) as terminal:
            resized = pathlib.Path(terminal.folder.name) / "resized"
            self.running(terminal, WORKERS / "counter.py", "20", "0.05", f"until={resized}")
            # A terminal has its new width before any program can know: a bar that moves just then would wrap.
            terminal.wait_for(lambda lines: all("20/20" in bar for bar in self.bars(lines)))
            for columns in (70, 120, 50):
                terminal.resize(columns)
                # What was wrapped meanwhile may have scrolled away; on the screen are two rows and no piece.
                terminal.wait_for(lambda _: sorted(len(row) for row in self.rows(terminal)) == [columns, columns])
            resized.touch()
            _, code = terminal.result()
            self.assertEqual(code, 0)
            self.assertEqual(len(self.rows(terminal)), 2, terminal.visible())

    def rows(self, terminal):
        """The rows of the screen below the command that have something of a bar."""
        return [row for row in terminal.visible() if "#" in row or "step" in row]


class Lines(unittest.TestCase):
    BAR = WORKERS / "bar_and_lines.py"

    def test_long_lines_that_are_written_over_a_bar_are_whole(self):
        with Terminal(80) as terminal:
            terminal.start(*ddprun(2, self.BAR, "over"))
            lines, code = terminal.result()
        self.assertEqual(code, 0, lines)
        whole = [f"[rank0] BEGIN {step} {'0123456789' * 20} END" for step in (9, 19)]
        self.assertEqual([line for line in lines if "BEGIN" in line], whole, lines)
        self.assertEqual(sorted(line[:14] for line in lines if line not in whole), ["[rank0] bar 29", "[rank1] bar 29"], lines)

    def test_bars_overwrite_nothing_that_tee_prints(self):
        with Terminal(80, 50) as terminal:
            terminal.start("eval", " ".join(map(str, ddprun(2, self.BAR, "beside"))) + " | tee log")
            lines, code = terminal.result()
        self.assertEqual(code, 0, lines)
        self.assertEqual([line for line in lines if "line" in line], [f"[rank0] line {step}" for step in range(30)])

    def test_a_job_in_the_background_draws_nothing_over_other_programs(self):
        with Terminal(80, 50) as terminal:
            job = " ".join(map(str, ddprun(2, self.BAR, "wiped")))
            terminal.start("eval", f"{job} & for i in 1 2 3 4; do seq $((i * 100)) $((i * 100 + 5)); sleep 0.3; done; wait")
            lines, code = terminal.result()
        self.assertEqual(code, 0, lines)
        numbers = [str(hundred + i) for hundred in (100, 200, 300, 400) for i in range(6)]
        self.assertEqual([line for line in lines if line.isdigit()], numbers, lines)
        self.assertFalse([line for line in lines if "bar" in line and "[rank" in line], lines)

    def test_bars_that_are_wiped_leave_nothing(self):
        for workers in (2, 4):
            with self.subTest(workers=workers), Terminal(80) as terminal:
                terminal.start(*ddprun(workers, self.BAR, "wiped"))
                lines, code = terminal.result()
                self.assertEqual(code, 0, lines)
                self.assertEqual(lines, [])


class Prompts(unittest.TestCase):
    def test_a_question_is_answered_while_others_draw_bars(self):
        code = ("import os, time, sys\n"
                "if os.environ['RANK'] == '0':\n"
                "    print('got', input('Continue? '))\n"
                "else:\n"
                "    for i in range(40): sys.stderr.write(f'\\rstep {i}'); sys.stderr.flush(); time.sleep(0.05)\n"
                "    sys.stderr.write('\\n')\n")
        with Terminal(80) as terminal:
            terminal.start(*ddprun(2, "--no-python", "python3", "-c", code))
            terminal.wait_for(lambda lines: any(line.startswith("[rank0] Continue?") for line in lines))
            terminal.type("yes")
            lines, code = terminal.result()
            self.assertEqual(code, 0)
            self.assertIn("[rank0] Continue? yes", lines)
            self.assertTrue(any(line.endswith("got yes") for line in lines), lines)
            self.assertEqual([line for line in lines if "step" in line], ["[rank1] step 39"])


class OddTerminals(unittest.TestCase):
    def run_on(self, columns, *words, environment=()):
        with Terminal(columns) as terminal:
            terminal.start(*ddprun(2, *words), environment=environment)
            return terminal.result()

    def test_of_20_columns(self):
        lines, code = self.run_on(20, WORKERS / "counter.py", "10", "0.05")
        self.assertEqual(code, 0)
        self.assertEqual(len(lines), 2, lines)

    def test_a_line_of_all_workers_is_shown_once(self):
        lines, code = self.run_on(80, "--fold=auto", "/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo same; sleep 0.02; done; echo end of $RANK")
        self.assertEqual(code, 0)
        self.assertIn("[rank0-1] same", lines)
        self.assertEqual(sorted(line for line in lines if "end" in line), ["[rank0] end of 0", "[rank1] end of 1"])

    def test_a_dumb_terminal_gets_lines(self):
        lines, code = self.run_on(80, "--bar-interval=0.3", WORKERS / "counter.py", "20", "0.05", environment=["TERM=dumb"])
        self.assertEqual(code, 0)
        for line in lines:
            self.assertRegex(line, r"^\[rank\d\] step +\d+/20 #+$")
        self.assertEqual(len([line for line in lines if "20/20" in line]), 2, lines)
        self.assertGreater(len(lines), 2)

    def test_a_cell_of_a_notebook_gets_lines(self):
        for variable in ("JPY_PARENT_PID=1", "COLAB_RELEASE_TAG=r", "KAGGLE_KERNEL_RUN_TYPE=Interactive"):
            with self.subTest(variable=variable):
                lines, code = self.run_on(80, "--bar-interval=0.2", WORKERS / "counter.py", "12", "0.05", environment=[variable])
                self.assertEqual(code, 0)
                for line in lines:
                    self.assertRegex(line, r"^\[rank\d\] step +\d+/12 #+$")
                self.assertEqual(len([line for line in lines if "12/12" in line]), 2, lines)
                self.assertGreater(len(lines), 2)


if __name__ == "__main__":
    unittest.main()
