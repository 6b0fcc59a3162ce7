"""scripts/plot on metrics of pretended runs."""

import json
import pathlib
import re
import unittest
import xml.etree.ElementTree

from gpu_scripts import ROOT, Folder

SVG = "{http://www.w3.org/2000/svg}"


def interval(step, loss, **more):
    return {"type": "interval", "step": step, "loss": loss, "accuracy": 0.5, "learning_rate": 0.1, **more}


def epoch(step, loss, **more):
    return {"type": "epoch", "step": step, "test_loss": loss, "test_accuracy": 0.6, "train_loss": loss, **more}


class Plot(Folder):
    def run_of(self, name, *lines):
        folder = self.folder / name
        folder.mkdir()
        (folder / "metrics.jsonl").write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        return folder

    def plot(self, *arguments):
        self.done = self.run_script(ROOT / "scripts" / "plot", f"--output={self.folder / 'plot.svg'}", *arguments)
        path = pathlib.Path(self.folder / "plot.svg")
        return xml.etree.ElementTree.parse(path).getroot() if path.exists() else None

    def points(self, svg):
        """Of each curve, by their order in the drawing."""
        return [line.get("points").split() for line in svg.iter(SVG + "polyline")]

    def texts(self, svg):
        return [node.text for node in svg.iter(SVG + "text")]

    def test_losses_scores_and_rates_of_two_runs_are_in_one_drawing(self):
        one = self.run_of("one", interval(10, 2.0), interval(20, 1.0), epoch(20, 1.5))
        two = self.run_of("two", interval(10, 3.0), interval(20, 2.0), interval(30, 1.0), epoch(30, 1.5))
        svg = self.plot(one, two)
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        # Of the loss and the accuracy each run has two curves, of the rate one.
        self.assertEqual([len(points) for points in self.points(svg)], [2, 1, 3, 1, 2, 1, 3, 1, 2, 3])
        for word in ("one", "two", "loss", "accuracy", "learning rate", "step"):
            self.assertIn(word, self.texts(svg))

    def test_points_are_where_their_numbers_say(self):
        svg = self.plot(self.run_of("one", interval(0, 1.0), interval(50, 3.0), interval(100, 2.0)))
        (x0, y0), (x1, y1), (x2, y2) = [tuple(map(float, point.split(","))) for point in self.points(svg)[0]]
        self.assertAlmostEqual(x1 - x0, x2 - x1, delta=0.11)
        self.assertAlmostEqual(y0 - y2, (y0 - y1) / 2, delta=0.11)  # larger is higher
        self.assertGreater(y0, y1)

    def test_steps_that_a_restart_repeated_count_once(self):
        run = self.run_of("run", interval(10, 3.0), interval(20, 2.0), interval(30, 9.0), interval(20, 2.5, round=1),
                          interval(30, 1.0, round=1))
        self.assertEqual(len(self.points(self.plot(run))[0]), 3)

    def test_a_line_that_is_cut_off_and_numbers_that_are_none_are_left_out(self):
        run = self.run_of("run", interval(10, 3.0), interval(20, None), "[]\n", '{"type":"interval","step":30,"lo')
        self.assertEqual(len(self.points(self.plot(run))[0]), 1)
        self.assertEqual(self.done.returncode, 0)

    def test_names_are_taken_as_they_are(self):
        svg = self.plot("--names=<a>&b", self.run_of("run", interval(10, 3.0)))
        self.assertIn("<a>&b", self.texts(svg))

    def test_runs_without_curves_and_wrong_arguments_are_named(self):
        empty = self.run_of("empty", '{"type":"final"}\n')
        self.assertIsNone(self.plot(empty))
        self.assertEqual(self.done.returncode, 2)
        self.assertRegex(self.done.stderr, r"^plot: .*/empty/metrics.jsonl: no interval .* --log-every=1\n$")
        self.plot(self.folder / "nowhere")
        self.assertEqual(self.done.returncode, 2)
        self.assertRegex(self.done.stderr, r"^plot: .*/nowhere: No such file or directory\n$")
        self.plot("--names=a,b", empty)
        self.assertEqual(self.done.returncode, 2)
        self.assertIn("--names has 2 names for 1 runs", self.done.stderr)

    def test_help_tells_every_option(self):
        said = self.run_script(ROOT / "scripts" / "plot", "--help").stdout
        source = (ROOT / "scripts" / "lib" / "plot_runs.py").read_text()
        for option in re.findall(r'add_argument\("(--[a-z]+)"', source):
            self.assertIn(option, said)


if __name__ == "__main__":
    unittest.main()
