"""scripts/experiment on the real programs, with --quick (test_experiment_slow.py has all rows); kept rows and errors on pretended ones."""

import gzip
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

from gpu_scripts import BUILD, ROOT, Folder, idx

sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import experiment  # noqa: E402
from experiments import data_files, out_folder, runs, schedules  # noqa: E402

SCRIPT = ROOT / "scripts" / "experiment"


class Experiment(Folder):
    def experiment(self, *arguments, **environment):
        self.done = self.run_script(SCRIPT, f"--out={self.folder / 'out'}", *arguments, **environment)
        return self.done.stdout

    def table(self, name):
        return (self.folder / "out" / name / "table.md").read_text()


class OnTheRealPrograms(Experiment):
    def test_the_rows_of_an_experiment_run(self):
        out = self.experiment("schedules", "--quick", f"--build={BUILD}")
        self.assertEqual(self.done.returncode, 0, out + self.done.stderr)
        for row in schedules.page(True).rows:
            self.assertTrue((self.folder / "out" / "schedules" / "rows" / row.name / "result.json").exists(), row.name)
        self.assertIn("| --- | ---: |", self.table("schedules"))


class OnPretendedPrograms(Experiment):
    # Trains nothing: writes what a run writes. The file "fails" ends the row with its name, "refuses" the rows
    # with its data.
    TRAIN = Experiment.METRICS + """[[ $1 == --version ]] && { echo "train 1.2.3 (abc)"; echo "compute: pretended"; exit; }
        echo ran >>"$(dirname "$0")/../ran"
        [[ -e $(dirname "$0")/../fails && $out == *"$(cat "$(dirname "$0")/../fails")"* ]] && { echo "train: error: no luck"; exit 3; }
        for word in "$@"; do case $word in --data=*) data=${word#--data=}; esac; done
        [[ -e $(dirname "$0")/../refuses && $data == *"$(cat "$(dirname "$0")/../refuses")"* ]] && {
          echo "train: error: $data/a.png: cut off: get it again"; exit 2; }
        [[ -e $(dirname "$0")/../waits ]] && { echo $$ >"$(dirname "$0")/../pid"; exec sleep 1000; }
        metrics '{"type": "epoch", "epoch": 0, "step": 5, "test_loss": 1.5, "test_accuracy": 0.5, "train_accuracy": 0.5}'
        weights=0123456789abcdef
        [[ -e $(dirname "$0")/../differs && $out == *linear-2* ]] && weights=ffffffffffffffff
        metrics '{"type": "final", "weights": "'$weights'", "steps": 5, "seconds": 2.5, "train_loss": 1, "test_loss": 1.5, "test_accuracy": 0.5}'
        """

    def setUp(self):
        super().setUp()
        self.pretend("bin/train", self.TRAIN)
        self.pretend("bin/ddprun", """while [[ $1 != train ]]; do shift; done; exec "$(dirname "$0")/train" "${@:2}" """)

    def schedules(self, *arguments):
        return self.experiment("schedules", "--quick", f"--build={self.folder}", *arguments)

    def runs_so_far(self):
        return (self.folder / "ran").read_text().count("ran")

    def test_the_table_has_the_machine_and_all_rows(self):
        out = self.experiment("schedules", "--quick", f"--build={self.folder}")
        self.assertEqual(self.done.returncode, 0, out + self.done.stderr)
        self.assertIn("| 16 x 4, rate 0.01 | 5 | 1.0000 | 1.5000 | 50.00 % |", self.table("schedules"))
        for number, row in enumerate(schedules.page(True).rows, 1):
            self.assertIn(f"schedules {number}/8 {row.name}: runs", out)

    def test_rows_that_are_done_are_kept_and_those_that_failed_run_again(self):
        (self.folder / "fails").write_text("64-small")
        out = self.schedules()
        self.assertEqual(self.done.returncode, 1)
        self.assertRegex(out, r"schedules 3/8 64-small: failed: exit code 3: train: error: no luck; log: .*/64-small/log.txt\n")
        self.assertIn("schedules: 1 of 8 rows failed, so there is no table", out)
        self.assertFalse((self.folder / "out" / "schedules" / "table.md").exists())
        (self.folder / "fails").unlink()
        before = self.runs_so_far()
        out = self.schedules()
        self.assertEqual(self.done.returncode, 0, out)
        self.assertEqual(self.runs_so_far(), before + 1)
        self.assertRegex(out, r"schedules 2/8 16x4-small: done on \d{4}-\d\d-\d\d\n")
        self.schedules("--again")
        self.assertEqual(self.runs_so_far(), before + 9)

    def test_a_row_with_other_options_runs_again(self):
        self.schedules()
        result = self.folder / "out" / "schedules" / "rows" / "16-small" / "result.json"
        result.write_text(result.read_text().replace("--lr=0.0025", "--lr=0.5"))
        before = self.runs_so_far()
        self.schedules()
        self.assertEqual(self.runs_so_far(), before + 1)

    def test_rows_that_should_have_the_same_bits_but_do_not_are_an_error(self):
        (self.folder / "differs").touch()
        out = self.schedules()
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("linear-1, linear-2, linear-4 should end with the same weights, but do not", out)

    def start_one_that_waits(self):
        """A script in the middle of its first row."""
        (self.folder / "waits").touch()
        script = subprocess.Popen([SCRIPT, "schedules", "--quick", f"--build={self.folder}", f"--out={self.folder / 'out'}"],
                                  stdout=subprocess.DEVNULL)
        self.addCleanup(script.kill)
        pid = self.folder / "pid"
        end = time.monotonic() + 60
        while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < end:
            time.sleep(0.01)
        return script

    def end(self, script):
        script.send_signal(signal.SIGTERM)
        self.assertEqual(script.wait(timeout=60), 143)
        self.assert_gone()

    def test_a_signal_ends_the_run_and_the_script(self):
        self.end(self.start_one_that_waits())

    def test_two_scripts_do_not_write_into_one_folder(self):
        script = self.start_one_that_waits()
        self.schedules()
        self.assertEqual(self.done.returncode, 2)
        self.assertRegex(self.done.stderr, rf"^experiment: .*/out: (scripts/experiment with process id {script.pid}|another "
                                           r"scripts/experiment) writes there: wait until it has ended, or name .* --out=DIR\n$")
        self.assertEqual(self.runs_so_far(), 1)
        self.end(script)
        (self.folder / "waits").unlink()
        self.schedules()
        self.assertEqual(self.done.returncode, 0)

    def test_rows_with_data_that_train_refused_are_left_out_and_others_run(self):
        (self.folder / "refuses").write_text("tiny-")
        out = self.schedules()
        self.assertEqual(self.done.returncode, 1)
        self.assertRegex(out, r"schedules 1/8 16-small: failed: exit code 2: train: error: .*/a.png: cut off: get it again; log: ")
        self.assertIn("schedules 8/8 linear-4: left out: train refused the same data in row 16-small\n", out)
        self.assertIn("schedules: 8 of 8 rows failed", out)
        self.assertEqual(self.runs_so_far(), 1)
        (self.folder / "refuses").write_text("tiny-sst2")
        rows = experiment.PAGES["dp-ddp"].page(True).rows
        out = self.experiment("dp-ddp", "--quick", f"--build={self.folder}")
        others = [row for row in rows if row.data.name != "tiny-sst2"]
        self.assertIn(f"dp-ddp: {len(rows) - len(others)} of {len(rows)} rows failed", out)
        self.assertEqual(self.runs_so_far(), 1 + 1 + len(others))

    def test_a_damaged_file_is_told_before_the_first_row(self):
        data = self.folder / "data" / "fashion-mnist"
        data.mkdir(parents=True)
        whole = gzip.compress(idx(3, 40, 40)[:16] + random.Random(1).randbytes(4800))  # which does not get smaller
        for part in ("train", "t10k"):
            (data / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(3, 4, 4)))
            (data / f"{part}-labels-idx1-ubyte").write_bytes(idx(3))
        for name, content, why in (("train-images-idx3-ubyte.gz", whole[:2000], "Compressed file ended before the end"),
                                   ("train-images-idx3-ubyte.gz", b"<html>", "Not a gzipped file"),
                                   ("train-images-idx3-ubyte.gz", whole[:1000] + b"damage" + whole[1006:], "CRC check failed"),
                                   ("t10k-labels-idx1-ubyte", idx(3)[:-1], "its header names 3 bytes, but 1 are missing"),
                                   ("t10k-labels-idx1-ubyte", b"", "it doesn't begin as an IDX file")):
            kept = (data / name).read_bytes()
            (data / name).write_bytes(content)
            for experiment_name in ("schedules", "resnet18"):  # all samples; some
                self.experiment(experiment_name, f"--build={self.folder}", f"--data={data.parent}")
                self.assertEqual(self.done.returncode, 2)
                self.assertRegex(self.done.stderr, rf"^experiment: .*/{name} is damaged \(({why}).*\): get fashion-mnist again from "
                                                   r"https://.*\n$")
            (data / name).write_bytes(kept)
        self.assertFalse((self.folder / "ran").exists())
        self.experiment("schedules", f"--build={self.folder}", f"--data={data.parent}")
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)

    def test_all_sets_that_are_missing_are_told_at_once(self):
        self.experiment("all", f"--build={self.folder}", f"--data={self.folder}")
        self.assertEqual(self.done.returncode, 2)
        for name in data_files.WHERE:
            self.assertRegex(self.done.stderr, rf"(?m)^experiment: .* not found: get {name} from https://")
        self.assertEqual(len(self.done.stderr.splitlines()), len(data_files.WHERE))

    def test_quick_tells_that_it_does_not_use_the_data(self):
        self.schedules("--data=/nowhere")
        self.assertEqual(self.done.returncode, 0)
        self.assertEqual(self.done.stderr, "experiment: --data=/nowhere is not used: --quick draws tiny data sets of its own\n")
        self.experiment("schedules", "--quick", f"--build={self.folder}", DDPRUN_TEST_DATA="/nowhere")
        self.assertEqual((self.done.returncode, self.done.stderr), (0, ""))

    def test_a_page_gets_the_tables_between_its_marks(self):
        begin, end = experiment.BEGIN.format("schedules"), experiment.END
        page = self.folder / "schedules.md"
        page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
        data = self.folder / "data" / "fashion-mnist"
        data.mkdir(parents=True)
        for part in ("train", "t10k"):
            (data / f"{part}-images-idx3-ubyte").write_bytes(idx(3, 4, 4))
            (data / f"{part}-labels-idx1-ubyte").write_bytes(idx(3))
        arguments = ("schedules", f"--build={self.folder}", f"--data={data.parent}", f"--docs={self.folder}", "--update-page")
        self.experiment(*arguments)
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        text = page.read_text()
        self.assertTrue(text.startswith(f"before\n{begin}\nMeasured on ") and text.endswith(f"{end}\nafter\n"), text)
        self.assertNotIn("old", text)
        self.assertIn("train 1.2.3 (abc)", text)
        self.assertIn("](schedules.svg)", text)
        self.assertTrue((self.folder / "schedules.svg").exists())
        self.experiment(*arguments)
        self.assertEqual(page.read_text(), text)
        page.write_text("no marks\n")
        self.experiment(*arguments)
        self.assertEqual(self.done.returncode, 2)
        self.assertIn("needs the line <!-- begin", self.done.stderr)

    def test_missing_programs_and_data_are_named_with_what_to_do(self):
        empty = self.folder / "empty"
        (empty / "sst2").mkdir(parents=True)
        (empty / "sst2" / "train.tsv").touch()
        build = f"--build={self.folder}"
        for arguments, words in (
                (("schedules", "--quick", f"--build={self.folder / 'nowhere'}"),
                 r"experiment: .*/nowhere/bin/ddprun is missing: scripts/quickstart .* --build names another folder"),
                (("schedules", build, f"--data={empty}"),
                 r"experiment: .*/empty/fashion-mnist/train-images-idx3-ubyte.gz not found: get fashion-mnist from https://.*--quick"),
                (("alexnet-amp", build, f"--data={empty}"),
                 r"experiment: .*/empty/cifar-10-batches-bin/data_batch_1.bin not found: get cifar-10 from https://"),
                (("cracks", build, f"--data={empty}"),
                 r"experiment: .*/empty/crackforest/train/images not found: get crackforest from https://"),
                (("accumulation", build, f"--data={empty}"), r"experiment: .*/empty/sst2/dev.tsv not found: get sst2 from https://"),
                (("accumulation", build, f"--data={empty / 'sst2'}"),
                 r"experiment: .*/sst2/sst2/train.tsv not found: train.tsv is in .*/empty/sst2 itself: name the parent folder"),
                (("schedules", build, f"--data={self.folder / 'none'}"),
                 r"^experiment: --data=.*/none: no such folder: name the one that has the data sets .*--quick"),
                (("schedules", build, f"--data={empty / 'sst2' / 'train.tsv'}"), r"^experiment: --data=.*/train.tsv: not a folder: name"),
                (("schedules", "--quick", build, "--out=/proc/nowhere"),
                 r"^experiment: can't write to the folder /proc/nowhere: .*: name another one with --out=DIR\n$"),
                (("schedules", "--quick", build, f"--out={empty / 'sst2' / 'train.tsv'}"),
                 r"^experiment: can't write to the folder .*/train.tsv: .*: name another one with --out=DIR\n$"),
                (("schedules", "--quick", "--update-page"), r"--update-page needs figures that mean something"),
                (("schedule",), r"no experiment is named schedule; did you mean schedules\? \(one of dp-ddp, .*, all\)"),
                (("resnet",), r"no experiment is named resnet; did you mean resnet18\?"),
                (("imagenet-1k",), r"no experiment is named imagenet-1k \(one of"),
                (("schedules", "--dta=x"), r"unknown argument --dta=x; did you mean --data\?"),
                (("schedules", "cracks"), r"one NAME at a time, but cracks is another one: `all` runs all of them"),
                ((), r"NAME is missing: dp-ddp, accumulation, cracks, schedules, resnet18, alexnet-amp, or all")):
            self.experiment(*arguments, DDPRUN_TEST_DATA="")
            self.assertEqual(self.done.returncode, 2, words)
            self.assertRegex(self.done.stderr, words)
            self.assertNotIn("Traceback", self.done.stderr)
        self.experiment("schedules", build, DDPRUN_TEST_DATA="")
        self.assertRegex(self.done.stderr, "experiment: no folder of data sets: fashion-mnist is needed; .*--data=DIR")
        self.experiment("schedules", build, DDPRUN_TEST_DATA=str(self.folder / "none"))
        self.assertRegex(self.done.stderr, "experiment: DDPRUN_TEST_DATA=.*/none: no such folder: ")

    def test_help_tells_every_option_and_the_list_every_experiment(self):
        said = self.run_script(SCRIPT, "--help").stdout
        for option in ("quick", "data", "out", "build", "again", "update-page", "list"):
            self.assertIn(f"--{option}", said)
        self.assertNotIn("--docs", said)
        listed = self.run_script(SCRIPT, "--list").stdout
        for name in experiment.PAGES:
            self.assertRegex(listed, rf"(?m)^{name} .*\(\d+ rows, about \d+ minutes\)$")


class Lines(Folder):
    def test_the_holder_of_a_lock_is_found_by_the_kernels_lines(self):
        status = os.stat(self.folder)
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        locks = (f"1: POSIX  ADVISORY  WRITE 11 {place} 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 {place}1 0 EOF\n"
                 f"3: FLOCK  ADVISORY  WRITE 4711 {place} 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 13 {place} 0 EOF\n")
        self.assertEqual(out_folder.holder(locks, status), 4711)
        self.assertIsNone(out_folder.holder("", status))

    def test_a_line_names_data_by_the_folder_or_a_file_in_it_only(self):
        folder = pathlib.Path("/d/set.1")
        for line, named in (("train: error: /d/set.1/a.png: cut off", True), ("train: error: /d/set.1: no file", True),
                            ("[default0]: error: /d/set.1", True), ("train: error: /d/set.10/a.png: cut off", False),
                            ("train: error: /e/d/set.1/a.png: cut off", False), ("train: error: --out=/d/run", False)):
            self.assertEqual(runs.names_file_in(folder, line), named, line)

    def test_of_a_repeated_epoch_the_last_line_counts_and_an_unfinished_line_is_left_out(self):
        (self.folder / "metrics.jsonl").write_text('{"type": "epoch", "epoch": 0, "x": 1}\n{"type": "epoch", "epoch": 1, "x": 2}\n'
                                                   '{"type": "epoch", "epoch": 1, "x": 3}\n{"type": "fin')
        self.assertEqual([line["x"] for line in runs.epochs_of(runs.lines_of(self.folder))], [1, 3])
        self.assertEqual(runs.lines_of(self.folder / "nowhere"), [])


class Pages(unittest.TestCase):
    def test_every_experiment_has_a_page_with_the_marks_for_its_tables(self):
        folder = ROOT / "docs" / "experiments"
        index = (folder / "README.md").read_text()
        for name in experiment.PAGES:
            text = (folder / f"{name}.md").read_text()
            self.assertEqual(text.count(experiment.BEGIN.format(name)), 1, name)
            self.assertEqual(text.count(experiment.END), 1, name)
            self.assertIn(f"scripts/experiment {name}", text)
            self.assertIn(f"({name}.md)", index)
        self.assertEqual({path.stem for path in folder.glob("*.md")} - {"README"}, set(experiment.PAGES))

    def test_rows_have_names_of_their_own_and_groups_name_rows(self):
        for module in experiment.PAGES.values():
            for quick in (False, True):
                page = module.page(quick)
                names = [row.name for row in page.rows]
                self.assertEqual(len(set(names)), len(names))
                self.assertLessEqual({name for group in (page.curves, *page.same) for name in group}, set(names))


if __name__ == "__main__":
    unittest.main()
