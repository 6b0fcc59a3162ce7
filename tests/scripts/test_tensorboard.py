"""TensorBoard's own reader reads the event files of train, also those of a run that was killed, and shows no step twice after a run has
gone on from a checkpoint.
Tried are python3 and the interpreters of DDPRUN_TEST_PYTHON, separated by ':'; skipped where none has tensorboard."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["DDPRUN_TEST_BIN"])
READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: [[one.step, one.value] for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


def interpreter():
    for python in (sys.executable, *os.environ.get("DDPRUN_TEST_PYTHON", "").split(":")):
        if python and subprocess.run([python, "-c", "import tensorboard"], capture_output=True, check=False).returncode == 0:
            return python
    return None


class EventFiles(unittest.TestCase):
    def setUp(self):
        self.python = interpreter()
        if self.python is None:
            self.skipTest("no Python has tensorboard")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "run"

    def start(self, *options):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("DDPRUN_", "TORCHELASTIC_"))}
        return subprocess.Popen([BIN / "train", "--device=cpu", "--log-every=1", "--tensorboard", "--quiet", "--checkpoint-every=6", "--keep=all",
                                 f"--out={self.out}", *options],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)

    def train(self, *options):
        run = self.start("--batch=500", "--max-steps=12", *options)
        _, told = run.communicate()
        self.assertEqual(run.returncode, 0, told)

    def steps(self):
        """Of the lines of metrics.jsonl, as far as they are whole."""
        try:
            text = (self.out / "metrics.jsonl").read_text()
        except FileNotFoundError:
            return []
        lines = [json.loads(line) for line in text.split("\n")[:-1]]
        return [line["step"] for line in lines if line["type"] == "interval"]

    def scalars(self):
        ran = subprocess.run([self.python, "-c", READ, self.out], check=True, capture_output=True, text=True)
        return json.loads(ran.stdout)

    def test_a_step_that_is_done_again_is_shown_once(self):
        self.train()
        first = self.scalars()
        self.assertEqual([step for step, _ in first["loss/train"]], list(range(1, 13)))
        self.assertEqual([step for step, _ in first["loss/held-out"]], [12])
        # As a kill would have it that came after step 12 and before its checkpoint.
        shutil.rmtree(self.out / "step-00000012")
        self.train("--lr=0.01")
        files = list(self.out.glob("events.out.tfevents.*"))
        self.assertEqual(len(files), 2)
        second = self.scalars()
        self.assertEqual([step for step, _ in second["loss/train"]], list(range(1, 13)))
        self.assertEqual([step for step, _ in second["loss/held-out"]], [12])
        self.assertEqual(second["loss/train"][:6], first["loss/train"][:6])
        self.assertNotEqual(second["loss/train"][7:], first["loss/train"][7:])

    def test_a_run_that_was_killed_is_shown_to_its_last_point(self):
        last = 0
        for kill in range(3):
            options = ("--batch=20", "--epochs=100000", "--lr=0.001")
            run = self.start(*options)
            try:
                deadline = time.monotonic() + 60
                wanted = last + 10 + 7 * kill
                while max(self.steps(), default=0) < wanted:
                    self.assertIsNone(run.poll(), "it has ended")
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
            finally:
                run.kill()
                run.communicate()
            last = self.steps()[-1]
            shown = [step for step, _ in self.scalars()["loss/train"]]
            # A line is written before its point.
            self.assertIn(shown, (list(range(1, last + 1)), list(range(1, last))))
        self.assertEqual(len(list(self.out.glob("events.out.tfevents.*"))), 3)


if __name__ == "__main__":
    unittest.main()
