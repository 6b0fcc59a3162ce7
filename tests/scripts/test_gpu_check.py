"""scripts/gpu-check on GPUs in software, so that its first run on a real one is not the first of all; its ways to fail, on
pretended programs; and scripts/gpu-bundle."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", "."))


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, *command):
        return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=500)

    def check(self, *arguments, script=ROOT / "scripts" / "gpu-check"):
        self.done = self.run_script(script, f"--out={self.folder / 'out'}", *arguments)
        summary = self.folder / "out" / "summary.txt"
        return summary.read_text().splitlines() if summary.exists() else []


class OnEmulatedGpus(Folder):
    def test_every_part_passes_on_gpus_in_software(self):
        lines = self.check("--emulated", f"--build={BUILD}")
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        listed = self.run_script(ROOT / "scripts" / "gpu-check", "--list").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], [line.split()[0] for line in listed])
        results = {line.split()[0]: line.split()[3] for line in lines}
        self.assertEqual({name for name, result in results.items() if result != "ok"}, {"sanitizer"})

    def test_an_emulated_gpu_that_computes_something_else_is_found(self):
        # The CPU's run in place of the GPU's, with another rate.
        self.pretend("tests/train_emulated", f"""
            case " $* " in *" --device=cuda "*) exec {BUILD}/bin/train "$@" --device=cpu --weight-decay=50 ;; esac
            exec {BUILD}/bin/train "$@" """.replace('"$@" --device=cpu', '"${@/--device=cuda/--device=cpu}"'))
        lines = self.check("--emulated", f"--build={self.folder}", "curves")
        self.assertEqual(self.done.returncode, 1, self.done.stderr)
        self.assertRegex(lines[0], r"^curves .* FAILED +over 3 steps the losses part: lenet ")

    def pretend(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)


class OnPretendedPrograms(Folder):
    def pretend(self, text):
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "train").write_text(f"#!/bin/bash\n{text}\n")
        (self.folder / "bin" / "train").chmod(0o755)

    def test_a_part_that_fails_is_told_with_its_reason_and_the_next_ones_go_on(self):
        self.pretend('[[ $1 == --version ]] && { echo "GPUs: not used: no driver"; exit 0; }; echo "train: no GPU"; exit 2')
        lines = self.check(f"--build={self.folder}", "versions", "precision", "layers")
        self.assertEqual(self.done.returncode, 3)
        self.assertRegex(lines[0], "^versions .* FAILED +GPUs: not used: no driver$")
        self.assertRegex(lines[1], "^precision .* FAILED +exit code 2 instead of 0: train: no GPU; the command: ")
        self.assertRegex(lines[2], "^layers .* FAILED +.*test_gpu_layers is missing")
        self.assertIn("train: no GPU", (self.folder / "out" / "precision.log").read_text())

    def test_a_part_that_hangs_ends_at_its_limit_with_all_its_processes(self):
        self.pretend(f"sleep 1000 & echo $! >{self.folder}/pid; wait")
        lines = self.check(f"--build={self.folder}", "--limit=1", "versions")
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("the time was up during:", lines[0])
        child = int((self.folder / "pid").read_text())
        status = pathlib.Path(f"/proc/{child}/stat")
        self.assertTrue(not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z")

    def test_unusable_arguments_are_no_number_of_failed_parts(self):
        self.check("nonsense")
        self.assertEqual(self.done.returncode, 64)
        self.assertIn("no part nonsense: there are versions, smoke,", self.done.stderr)
        self.check("--limit=x")
        self.assertEqual(self.done.returncode, 64)


class Bundle(Folder):
    def setUp(self):
        super().setUp()
        self.build = self.folder / "build"
        for name in ("bin/train", "bin/ddprun", "bin/libtrain_cuda.so", "tests/test_gpu_layers", "tests/test_gpu_models"):
            (self.build / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy("/bin/bash", self.build / name)

    def bundle(self, *arguments):
        return self.run_script(ROOT / "scripts" / "gpu-bundle", f"--build={self.build}", *arguments)

    def test_a_bundle_has_programs_and_script_but_no_c_library(self):
        target = self.folder / "a bundle"
        done = self.bundle("--archive", target)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "a bundle.tar.gz").exists())
        self.assertTrue(os.access(target / "bin" / "train", os.X_OK))
        libraries = [path.name for path in (target / "lib").iterdir()]
        self.assertIn("libtinfo.so.6", libraries)
        self.assertFalse([name for name in libraries if name.startswith("libc.")])
        # It runs where the checkout is not.
        self.check("versions", script=target / "scripts" / "gpu-check")
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("FAILED", self.done.stdout)
        self.assertNotIn("missing", self.done.stdout)
        # Again: it replaces its own.
        self.assertEqual(self.bundle(target).returncode, 0)

    def test_a_folder_that_is_no_bundle_is_left_alone(self):
        done = self.bundle(self.build)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no bundle", done.stderr)
        self.assertTrue((self.build / "bin" / "train").exists())

    def test_a_build_without_cuda_is_refused(self):
        (self.build / "bin" / "libtrain_cuda.so").unlink()
        done = self.bundle(self.folder / "bundle")
        self.assertEqual(done.returncode, 1)
        self.assertIn("libtrain_cuda.so is missing: that is no whole build with CUDA", done.stderr)
        self.assertFalse((self.folder / "bundle").exists())


if __name__ == "__main__":
    unittest.main()
