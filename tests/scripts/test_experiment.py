"""scripts/experiment on the real programs, with --quick; its data sets, kept rows and errors on pretended ones."""

import gzip
import io
import json
import pathlib
import signal
import subprocess
import sys
import tarfile
import time
import unittest

from gpu_scripts import BUILD, ROOT, Folder

sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import experiment  # noqa: E402
from experiments import cracks, data_sets, runs, schedules  # noqa: E402
from experiments.page import Sample  # noqa: E402
from gpu_part import header  # noqa: E402

SCRIPT = ROOT / "scripts" / "experiment"


def idx(count, *sides):
    size = 1
    for side in sides:
        size *= side
    return header((count, *sides)) + b"".join(bytes([i]) * size for i in range(count))


class Experiment(Folder):
    def experiment(self, *arguments, **environment):
        self.done = self.run_script(SCRIPT, f"--out={self.folder / 'out'}", *arguments, **environment)
        return self.done.stdout

    def table(self, name):
        return (self.folder / "out" / name / "table.md").read_text()


class OnTheRealPrograms(Experiment):
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


class OnPretendedPrograms(Experiment):
    # Trains nothing: writes what a run writes. The script "fails" ends the row with its name.
    TRAIN = Experiment.METRICS + """[[ $1 == --version ]] && { echo "train 1.2.3 (abc)"; echo "compute: pretended"; exit; }
        echo ran >>"$(dirname "$0")/../ran"
        [[ -e $(dirname "$0")/../fails && $out == *"$(cat "$(dirname "$0")/../fails")"* ]] && { echo "train: error: no luck"; exit 3; }
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

    def test_a_signal_ends_the_run_and_the_script(self):
        (self.folder / "waits").touch()
        script = subprocess.Popen([SCRIPT, "schedules", "--quick", f"--build={self.folder}", f"--out={self.folder / 'out'}"],
                                  stdout=subprocess.DEVNULL)
        self.addCleanup(script.kill)
        pid = self.folder / "pid"
        end = time.monotonic() + 60
        while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < end:
            time.sleep(0.01)
        script.send_signal(signal.SIGTERM)
        self.assertEqual(script.wait(timeout=60), 143)
        self.assert_gone()

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
        for arguments, words in (
                (("schedules", "--quick", f"--build={self.folder / 'nowhere'}"),
                 r"experiment: .*/nowhere/bin/ddprun is missing: scripts/quickstart .* --build names another folder"),
                (("schedules", f"--build={self.folder}", f"--data={self.folder / 'none'}"),
                 r"experiment: .*/none/fashion-mnist/train-images-idx3-ubyte.gz not found: get fashion-mnist from https://.*--quick"),
                (("alexnet-amp", f"--build={self.folder}", f"--data={self.folder / 'none'}"),
                 r"experiment: .*/none/cifar-10-batches-bin/data_batch_1.bin not found: get cifar-10 from https://"),
                (("cracks", f"--build={self.folder}", f"--data={self.folder / 'none'}"),
                 r"experiment: .*/none/crackforest/train/images not found: get crackforest from https://"),
                (("accumulation", f"--build={self.folder}", f"--data={self.folder / 'none'}"),
                 r"experiment: .*/none/sst2/train.tsv not found: get sst2 from https://"),
                (("schedules", "--quick", "--update-page"), r"--update-page needs figures that mean something"),
                (("shedules",), r"argument NAME: invalid choice: 'shedules'"),
                ((), r"NAME is missing: dp-ddp, accumulation, cracks, schedules, resnet18, alexnet-amp, or all")):
            self.experiment(*arguments, DDPRUN_TEST_DATA="")
            self.assertEqual(self.done.returncode, 2, words)
            self.assertRegex(self.done.stderr, words)
        self.experiment("schedules", f"--build={self.folder}", DDPRUN_TEST_DATA="")
        self.assertRegex(self.done.stderr, "experiment: no folder of data sets: fashion-mnist is needed; .*--data=DIR")

    def test_help_tells_every_option_and_the_list_every_experiment(self):
        said = self.run_script(SCRIPT, "--help").stdout
        for option in ("quick", "data", "out", "build", "again", "update-page", "list"):
            self.assertIn(f"--{option}", said)
        self.assertNotIn("--docs", said)
        listed = self.run_script(SCRIPT, "--list").stdout
        for name in experiment.PAGES:
            self.assertRegex(listed, rf"(?m)^{name} .*\(\d+ rows, about \d+ minutes\)$")


class Samples(Folder):
    def prepared(self, name, train, held_out):
        return data_sets.prepared(Sample(name, train, held_out), self.folder, self.folder / "work")

    def test_of_fashion_mnist_the_first_images_and_labels_are_taken(self):
        source = self.folder / "fashion-mnist"
        source.mkdir()
        for part in ("train", "t10k"):
            (source / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(5, 2, 3)))
            (source / f"{part}-labels-idx1-ubyte").write_bytes(idx(5))
        folder = self.prepared("fashion-mnist", 3, 2)
        self.assertEqual((folder / "train-images-idx3-ubyte").read_bytes(), idx(3, 2, 3))
        self.assertEqual((folder / "train-labels-idx1-ubyte").read_bytes(), idx(3))
        self.assertEqual((folder / "t10k-images-idx3-ubyte").read_bytes(), idx(2, 2, 3))
        self.assertEqual(self.prepared("fashion-mnist", None, None), source)

    def records(self, first, count):
        return b"".join(bytes([i]) * data_sets.RECORD for i in range(first, first + count))

    def check_cifar(self):
        folder = self.prepared("cifar-10", 10, 3)
        for number in range(5):
            self.assertEqual((folder / f"data_batch_{number + 1}.bin").read_bytes(), self.records(10 * number, 2))
        self.assertEqual((folder / "test_batch.bin").read_bytes(), self.records(100, 3))

    def test_of_cifar_10s_binary_files_each_gives_its_first_records(self):
        source = self.folder / "cifar-10-batches-bin"
        source.mkdir()
        for number in range(5):
            (source / f"data_batch_{number + 1}.bin").write_bytes(self.records(10 * number, 4))
        (source / "test_batch.bin").write_bytes(self.records(100, 4))
        self.check_cifar()

    def write_archive(self, name, files):
        with tarfile.open(self.folder / name, "w:gz") as archive:
            for path, data in files:
                member = tarfile.TarInfo(path)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))

    def test_cifar_10s_archive_needs_no_unpacking_by_hand(self):
        self.write_archive("cifar-10-binary.tar.gz", [
            *((f"cifar-10-batches-bin/data_batch_{i + 1}.bin", self.records(10 * i, 4)) for i in range(5)),
            ("cifar-10-batches-bin/test_batch.bin", self.records(100, 4)), ("cifar-10-batches-bin/readme.html", b"text")])
        self.check_cifar()

    def test_of_an_archive_of_class_folders_each_class_gives_its_first_files(self):
        self.write_archive("cifar-10-jpg.tar.gz", [(f"any/{part}/{name}/{i:04}.jpg", f"{part}{name}{i}".encode())
                                                   for part in ("train", "test") for name in ("cat", "dog") for i in (2, 0, 1)])
        folder = self.prepared("cifar-10", 4, 2)
        files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.jpg")}
        self.assertEqual(files, {"train/cat/0000.jpg": "traincat0", "train/cat/0001.jpg": "traincat1", "train/dog/0000.jpg": "traindog0",
                                 "train/dog/0001.jpg": "traindog1", "test/cat/0000.jpg": "testcat0", "test/dog/0000.jpg": "testdog0"})

    def test_of_sst2_the_first_lines_are_taken(self):
        source = self.folder / "sst2"
        source.mkdir()
        (source / "train.tsv").write_text("a\t0\nb\t1\nc\t0")
        (source / "dev.tsv").write_text("d\t0\ne\t1")
        folder = self.prepared("sst2", None, 1)
        self.assertEqual((folder / "train.tsv").read_text(), "a\t0\nb\t1\nc\t0")
        self.assertEqual((folder / "dev.tsv").read_text(), "d\t0\n")


class Lines(Folder):
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
