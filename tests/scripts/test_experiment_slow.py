"""scripts/experiment on the real programs: every row of every experiment, with --quick."""

import json
import unittest

from test_experiment import BUILD, Experiment, experiment  # finds the scripts' modules
from experiments import cracks


class EveryRow(Experiment):
    def test_every_row_of_every_experiment_runs(self):
        out = self.experiment("all", "--quick", f"--build={BUILD}")
        self.assertEqual(self.done.returncode, 0, out + self.done.stderr)
        for name, module in experiment.PAGES.items():
            page = module.page(True)
            for row in page.rows:
                self.assertTrue((self.folder / "out" / name / "rows" / row.name / "result.json").exists(), f"{name} {row.name}")
            self.assertIn("| --- | ---: |", self.table(name))
            self.assertEqual((self.folder / "out" / name / "curves.svg").exists(), bool(page.curves))
        killed = json.loads((self.folder / "out" / "cracks" / "rows" / cracks.KILLED / "result.json").read_text())
        self.assertEqual(killed["final"]["restarts"], 1)


if __name__ == "__main__":
    unittest.main()
