"""`train` beside losses that were recorded from PyTorch (recorded.py): parity where no Python has torch."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

import recorded
from harness import BIN, run
from parity import of_epochs, relative_distances


class RecordedLosses(unittest.TestCase):
    def test_every_model_has_the_losses_that_pytorch_had(self):
        losses = json.loads(recorded.FILE.read_text())
        self.assertEqual(set(losses), set(recorded.CASES), "run recorded.py with torch")
        for name in recorded.CASES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "out"
                options = recorded.options_of(name, pathlib.Path(folder))
                train = [BIN / "train", "--device=cpu", *options, f"--out={out}", "--checkpoint-every=1h", "--keep=1", "--quiet"]
                result = run(train, dict(os.environ), folder, limit=280)
                self.assertEqual(result.status, 0, result)
                for what, there in (("train_loss", "losses"), ("test_loss", "held_out")):
                    ours, theirs = of_epochs(out, what), losses[name][there]
                    self.assertEqual(len(ours), len(theirs))
                    distance = max(relative_distances(ours, theirs))
                    print(f"{name}: {what}: greatest relative difference {distance:.1e}", file=sys.stderr)
                    self.assertLess(distance, 1e-4, f"{ours}\nPyTorch {losses[name]['torch']}: {theirs}")


if __name__ == "__main__":
    unittest.main()
