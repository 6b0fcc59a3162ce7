"""The data sets of scripts/experiment: their first samples, and files that are damaged."""

import gzip
import io
import random
import sys
import tarfile
import unittest

from gpu_scripts import ROOT, Folder, idx

sys.path.insert(0, str(ROOT / "scripts" / "lib"))
from experiments import data_sets  # noqa: E402
from experiments.page import Sample  # noqa: E402
from experiments.refused import Refused  # noqa: E402


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

    def test_a_damaged_archive_is_refused_and_leaves_nothing_that_is_taken_for_the_set(self):
        def refused(why):
            with self.assertRaisesRegex(Refused, rf"is damaged \({why}.*\): get cifar-10 again from https://"):
                self.prepared("cifar-10", 10, 3)
            self.assertEqual([path for path in (self.folder / "work").iterdir() if not path.name.startswith(".")], [])

        jpg = [(f"any/{part}/cat/{i}.jpg", random.Random(i).randbytes(2000)) for part in ("train", "test") for i in range(5)]
        self.write_archive("cifar-10-jpg.tar.gz", jpg)
        archive = self.folder / "cifar-10-jpg.tar.gz"
        archive.write_bytes(archive.read_bytes()[:9000])
        refused("Compressed file ended")
        archive.write_bytes(b"<html>")
        refused("file could not be opened")
        self.write_archive("cifar-10-jpg.tar.gz", jpg[:5])
        refused("train/CLASS/.* and test/CLASS/.* are not in it")
        self.write_archive("cifar-10-binary.tar.gz", [("any/data_batch_1.bin", self.records(0, 4))])
        refused("data_batch_2.bin is not in it")

    def test_of_cifar_10s_binary_files_a_torn_one_is_refused(self):
        for name in (name for names in data_sets.FILES.values() for name in names):
            (self.folder / name).write_bytes(self.records(0, 4))
        (self.folder / "data_batch_3.bin").write_bytes(self.records(0, 4)[:-1])
        with self.assertRaisesRegex(Refused, r"data_batch_3.bin is damaged \(it has no whole number of records\)"):
            self.prepared("cifar-10", None, None)

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


if __name__ == "__main__":
    unittest.main()
