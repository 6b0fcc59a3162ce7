"""`ddpctl top` on a real terminal, beside a real job."""

import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import time
import unittest

from screens import BIN, FOREIGN, WORKERS, Terminal, agent_of, ddprun

LIMIT = 60


class Job:
    """A job outside of the terminal, whose workers run until they are told to end."""

    def __init__(self, workers=2):
        self.folder = tempfile.TemporaryDirectory(prefix="ddprun_test_")
        self.name = pathlib.Path(self.folder.name).name
        self.end_file = pathlib.Path(self.folder.name) / "end"
        environment = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        self.output = pathlib.Path(self.folder.name) / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(ddprun(workers, f"--rdzv-id={self.name}", WORKERS / "steps.py", self.end_file), env=environment,
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def __enter__(self):
        deadline = time.monotonic() + LIMIT
        while f"/{self.name}" not in pathlib.Path("/proc/net/unix").read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(self.output.read_text())
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LIMIT)
        self.process.kill()
        self.folder.cleanup()

    def end(self, code=0):
        partial = self.end_file.with_suffix(".new")
        partial.write_text(str(code))
        partial.rename(self.end_file)
        return self.process.wait(LIMIT)


class Top(unittest.TestCase):
    def start(self, terminal, job, *words, environment=()):
        terminal.start(BIN / "ddpctl", "top", job.name, "--interval=0.2", *words, environment=environment)

    def shown(self, terminal, condition, columns=None):
        """The screen, once the condition holds for it."""
        deadline = time.monotonic() + LIMIT
        rows = []
        while time.monotonic() < deadline:
            rows = terminal.visible()
            fits = columns is None or all(len(row) <= columns for row in rows)
            if fits and condition("\n".join(rows)):
                return rows
            time.sleep(0.05)
        self.fail("not on the screen in time:\n" + "\n".join(rows))

    def shown_by_rank(self, rows):
        return {int(match.group(1)): match.group(0) for row in rows if (match := re.match(r" *(\d+) +running.*", row))}

    def test_each_rank_has_a_row_and_q_leaves_the_job_alone(self):
        with Job() as job, Terminal(100) as terminal:
            self.start(terminal, job)
            rows = self.shown(terminal, lambda text: re.search("[▂▃▄▅▆▇█]{3}", text) and "%" in text)
            ranks = self.shown_by_rank(rows)
            self.assertEqual(list(ranks), [1, 0], rows)  # the slowest first
            self.assertRegex(ranks[1], r"running +\d+ +\d+\.\d+ +\d.*s +[▁▂▃▄▅▆▇█]+ +forward +\d+% +[\d.]+M  loss of rank 1$")
            self.assertIn(f"{job.name}: running  round 0  0 of 0 restarts", rows[0])
            self.assertFalse(terminal.cursor_shown())
            terminal.key("q")
            lines, code = terminal.result()
            self.assertEqual((lines, code), ([], 0))
            self.assertTrue(terminal.cursor_shown())
            self.assertIsNone(job.process.poll())
            self.assertEqual(job.end(), 0)

    def test_it_follows_the_size_of_the_terminal_down_to_20_columns(self):
        with Job(8) as job, Terminal(80) as terminal:
            self.start(terminal, job)
            self.shown(terminal, lambda text: "PHASE" in text)
            terminal.resize(40, 10)
            rows = self.shown(terminal, lambda text: "STEP/S" in text and "PHASE" not in text, 40)
            self.assertEqual(len(self.shown_by_rank(rows)), 5, rows)
            self.assertRegex(rows[-1], "^3 more")
            terminal.key("Down")
            self.shown(terminal, lambda text: "1 above" in text)
            terminal.resize(20, 6)
            rows = self.shown(terminal, lambda text: "STATE" in text and "STEP/S" not in text, 20)
            self.assertEqual(len(self.shown_by_rank(rows)), 2, rows)
            terminal.resize(5, 2)
            self.shown(terminal, lambda text: "STATE" not in text, 5)
            terminal.resize(150, 24)
            rows = self.shown(terminal, lambda text: "LAST LINE" in text)
            self.assertEqual(len(self.shown_by_rank(rows)), 8, rows)
            terminal.key("q")
            self.assertEqual(terminal.result(), ([], 0))

    def test_keys_change_the_order_and_show_themselves(self):
        with Job() as job, Terminal(80) as terminal:
            self.start(terminal, job)
            self.shown(terminal, lambda text: list(self.shown_by_rank(text.split("\n"))) == [1, 0])
            terminal.type("sh", enter=False)
            rows = self.shown(terminal, lambda text: list(self.shown_by_rank(text.split("\n"))) == [0, 1])
            self.assertIn("by rank", "\n".join(rows))
            self.assertIn("q leave", rows[-1])
            terminal.key("C-c")
            self.assertEqual(terminal.result(), ([], 0))

    def test_ctrl_z_gives_the_terminal_back_and_fg_goes_on(self):
        with Job() as job, Terminal(80) as terminal:
            self.start(terminal, job)
            self.shown(terminal, lambda text: "PHASE" in text)
            terminal.key("C-z")
            rows = self.shown(terminal, lambda text: "Stopped" in text)
            self.assertNotIn("PHASE", "\n".join(rows))
            self.assertTrue(terminal.cursor_shown())
            terminal.type("fg")
            self.shown(terminal, lambda text: "PHASE" in text and "Stopped" not in text)
            terminal.key("q")
            self.shown(terminal, lambda text: "PHASE" not in text)

    def test_the_end_of_the_job_leaves_the_screen_and_is_told(self):
        for code, words in ((0, "has succeeded"), (7, "has ended with exit code 7")):
            with self.subTest(code), Job() as job, Terminal(80) as terminal:
                self.start(terminal, job)
                self.shown(terminal, lambda text: "PHASE" in text)
                self.assertEqual(job.end(code), code)
                self.assertEqual(terminal.result(), ([f"job {job.name} {words}"], 0))

    def test_a_job_that_does_not_answer_is_waited_for_and_one_that_is_gone_is_left(self):
        for no_color in (False, True):
            with self.subTest(no_color=no_color), Job() as job, Terminal(80) as terminal:
                self.start(terminal, job, environment=["NO_COLOR=1"] if no_color else [])
                self.shown(terminal, lambda text: "PHASE" in text)
                agent = agent_of(job.process.pid)
                os.kill(agent, signal.SIGSTOP)
                try:
                    self.shown(terminal, lambda text: "no answer for" in text)
                    colours = re.findall(r"\x1b\[(?:\d+;)*[34][0-7](?:;\d+)*m", terminal.tmux("capture-pane", "-p", "-e"))
                    self.assertEqual(bool(colours), not no_color, colours)
                finally:
                    os.kill(agent, signal.SIGCONT)
                self.shown(terminal, lambda text: "PHASE" in text and "no answer" not in text)
                os.kill(agent, signal.SIGKILL)
                lines, code = terminal.result()
                self.assertEqual(code, 69, lines)
                self.assertRegex("".join(lines), f"^ddpctl: job {job.name} does not answer any more: ")

    def test_signals_restore_the_terminal_and_sigkill_harms_no_job(self):
        with Job() as job:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
                with self.subTest(number), Terminal(80) as terminal:
                    self.start(terminal, job)
                    self.shown(terminal, lambda text: "PHASE" in text)
                    os.kill(terminal.pid(), number)
                    if number == signal.SIGKILL:  # nothing can restore the terminal then
                        self.shown(terminal, lambda text: "Killed" in text)
                        continue
                    lines, code = terminal.result()
                    self.assertEqual((lines, code), ([], 128 + number))
                    self.assertTrue(terminal.cursor_shown())
            with Terminal(80) as terminal:
                self.start(terminal, job)
                self.shown(terminal, lambda text: "PHASE" in text)
            # The terminal is gone.
            self.assertEqual(job.end(), 0)

    def test_without_utf_8_all_is_ascii(self):
        with Job() as job, Terminal(80) as terminal:
            self.start(terminal, job, environment=["LC_ALL=C"])
            rows = self.shown(terminal, lambda text: re.search(r"s  [_.~=+*#-]{3}", text))
            self.assertTrue("".join(rows).isascii(), rows)
            terminal.key("q")
            self.assertEqual(terminal.result(), ([], 0))

    def test_a_terminal_that_can_show_no_screen_is_told_what_to_type(self):
        with Job() as job:
            for environment, why in ((["TERM=dumb"], "the terminal TERM=dumb cannot move its cursor"), (["TERM="], "TERM is not set"),
                                     (["TERM=no-such"], "the terminal TERM=no-such is unknown here")):
                with self.subTest(environment), Terminal(200) as terminal:
                    self.start(terminal, job, environment=environment)
                    lines, code = terminal.result()
                    self.assertEqual(code, 1, lines)
                    self.assertEqual("".join(lines), f"ddpctl: top needs the whole terminal: {why}; type instead: ddpctl status {job.name}")
            command = shlex.join([str(BIN / "ddpctl"), "top", job.name])
            piped = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)
            self.assertEqual((piped.returncode, piped.stdout), (1, ""))
            self.assertIn("stdin and stdout are not both a terminal; type instead: ddpctl status", piped.stderr)


if __name__ == "__main__":
    unittest.main()
