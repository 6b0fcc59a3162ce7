"""scripts/gpu-check on GPUs in software, so that its first run on a real one is not the first of all; its ways to fail, on
pretended programs; and scripts/gpu-bundle."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", "."))


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, *command, cwd=None, **environment):
        return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=500,
                              cwd=cwd, env=os.environ | environment)

    def check(self, *arguments, script=ROOT / "scripts" / "gpu-check", **environment):
        self.done = self.run_script(script, f"--out={self.folder / 'out'}", *arguments, **environment)
        summary = self.folder / "out" / "summary.txt"
        return summary.read_text().splitlines() if summary.exists() else []

    def pretend(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def path(self):
        """PATH, with the pretended tools first."""
        return f"{self.folder / 'tools'}:{os.environ['PATH']}"

    def end_during(self, number, *arguments):
        """The exit code of a gpu-check that gets this signal once a pretended program has written the file pid."""
        script = subprocess.Popen([ROOT / "scripts" / "gpu-check", f"--out={self.folder / 'out'}", f"--build={self.folder}",
                                   *arguments], stdout=subprocess.DEVNULL)
        self.addCleanup(script.kill)
        pid = self.folder / "pid"
        end = time.monotonic() + 60
        while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < end:
            time.sleep(0.01)
        script.send_signal(number)
        return script.wait(timeout=60)

    def assert_gone(self):
        status = pathlib.Path(f"/proc/{int((self.folder / 'pid').read_text())}/stat")
        self.assertTrue(not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z")


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
        self.assertRegex(lines[0], r"^curves .* FAILED +within 3 steps the losses part: lenet ")

    def test_a_signal_also_ends_the_workers_of_ddprun(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "ddprun").symlink_to(BUILD / "bin" / "ddprun")
        for prepare in ("", "trap '' TERM"):
            with self.subTest(prepare):
                (self.folder / "pid").unlink(missing_ok=True)
                self.pretend("tests/train_emulated", f"{prepare}\necho $$ >{self.folder}/pid\nexec sleep 1000")
                self.assertEqual(self.end_during(signal.SIGHUP, "--emulated", "ranks"), 128 + signal.SIGHUP)
                self.assert_gone()


class OnPretendedPrograms(Folder):
    # Writes a run's metrics.jsonl into --out.
    METRICS = """for word in "$@"; do case $word in --out=*) out=${word#--out=}; mkdir -p "$out"; esac; done
        metrics() { printf '%s\\n' "$@" >>"$out/metrics.jsonl"; }
        """
    DDPRUN = 'while [[ $1 == --* ]]; do shift; done; exec "$@"'

    def test_a_part_that_fails_is_told_with_its_reason_and_the_next_ones_go_on(self):
        self.pretend("bin/train", """[[ $1 == --version ]] && { echo "GPUs: not used: no driver"; exit 0; }
            echo "train: no GPU"; exit 2""")
        lines = self.check(f"--build={self.folder}", "versions", "layers", "precision")
        self.assertEqual(self.done.returncode, 3)
        self.assertRegex(lines[0], "^versions .* FAILED +GPUs: not used: no driver$")
        self.assertRegex(lines[2], "^precision .* FAILED +exit code 2 instead of 0: train: no GPU; the command: ")
        self.assertRegex(lines[1], "^layers .* FAILED +.*test_gpu_layers is missing: in a checkout, scripts/build release ")
        self.assertIn("train: no GPU", (self.folder / "out" / "precision.log").read_text())

    def test_a_part_that_hangs_ends_at_its_limit_with_all_its_processes(self):
        self.pretend("bin/train", f"sleep 1000 & echo $! >{self.folder}/pid; wait")
        lines = self.check(f"--build={self.folder}", "--limit=1", "versions")
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("the time was up during:", lines[0])
        self.assert_gone()

    def test_a_program_that_does_not_end_when_killed_does_not_hold_up_the_script(self):
        # Its output stays open: the one that holds it is in a session of its own.
        self.pretend("bin/train", f"setsid sleep 1000 & echo $! >{self.folder}/pid; wait")
        lines = self.check(f"--build={self.folder}", "--limit=1", "versions")
        os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)
        self.assertRegex(lines[0], "FAILED +did not end after SIGKILL: .*train --version$")

    def test_a_signal_ends_the_script_and_all_its_processes(self):
        self.pretend("bin/train", f"sleep 1000 & echo $! >{self.folder}/pid; wait")
        self.assertEqual(self.end_during(signal.SIGTERM, "versions"), 128 + signal.SIGTERM)
        self.assert_gone()
        self.assertEqual([path.name for path in (self.folder / "out").iterdir() if path.is_dir()], [])

    def test_the_users_own_files_in_the_out_folder_stay(self):
        self.pretend("bin/train", "exit 1")
        mine = self.folder / "out" / "versions" / "file"
        mine.parent.mkdir(parents=True)
        mine.write_text("mine")
        self.check(f"--build={self.folder}", "versions")
        self.assertEqual(self.done.returncode, 1)
        self.assertEqual(mine.read_text(), "mine")
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()),
                         ["summary.txt", "versions", "versions.log"])

    def test_the_lines_of_other_parts_stay_in_the_summary(self):
        self.pretend("bin/train", "exit 1")
        self.check(f"--build={self.folder}", "precision", "versions")
        self.pretend("bin/train", "exit 3")
        lines = self.check(f"--build={self.folder}", "precision")
        self.assertRegex(lines[0], "^versions .* exit code 1 ")
        self.assertRegex(lines[1], "^precision .* exit code 3 ")
        self.assertEqual(len(lines), 2)

    def test_what_a_job_around_it_sets_does_not_reach_the_programs(self):
        self.pretend("bin/train", "env; exit 1")
        foreign = {name: "7" for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID")}
        self.check(f"--build={self.folder}", "versions", CUDA_VISIBLE_DEVICES="7", **foreign)
        names = {line.split("=")[0] for line in (self.folder / "out" / "versions.log").read_text().splitlines()}
        self.assertIn("CUDA_VISIBLE_DEVICES", names)
        self.assertEqual(names & set(foreign), set())

    def test_workers_share_the_gpu_where_only_one_is_visible(self):
        self.pretend("bin/train", "")
        self.pretend("bin/ddprun", "exit 1")
        for visible, shares in (("0", True), ("0,1", False)):
            self.check(f"--build={self.folder}", "ranks", CUDA_VISIBLE_DEVICES=visible)
            self.assertEqual("--share-gpu" in (self.folder / "out" / "ranks.log").read_text(), shares, visible)

    def test_a_gpu_that_nccl_does_not_share_cannot_tell(self):
        self.pretend("bin/train", self.METRICS + """
            metrics '{"type": "final", "weights": "a", "train_loss": 1}'""")
        self.pretend("bin/ddprun", """[[ $1 == --nproc-per-node=1 ]] || {
            echo "train: ncclCommInitRankConfig: invalid usage"; echo "ddprun: failed"; exit 1; }
            """ + self.DDPRUN)
        lines = self.check(f"--build={self.folder}", "ranks", CUDA_VISIBLE_DEVICES="0")
        self.assertEqual(self.done.returncode, 0)
        self.assertRegex(lines[0], "skipped +NCCL .*: train: ncclCommInitRankConfig: invalid usage$")
        self.assertEqual(self.check(f"--build={self.folder}", "ranks", CUDA_VISIBLE_DEVICES="0,1")[0].split()[3], "FAILED")

    def test_a_run_that_was_over_before_its_kill_cannot_tell(self):
        self.pretend("bin/train", self.METRICS + """
            metrics '{"type": "final", "weights": "a", "restarts": 0}'""")
        self.pretend("bin/ddprun", self.DDPRUN)
        lines = self.check(f"--build={self.folder}", "restart")
        self.assertRegex(lines[0], "^restart .* skipped +the run was over before its worker could be killed$")

    def test_speed_tells_what_it_measured_before_the_time_was_up(self):
        self.pretend("bin/train", self.METRICS + """
            [[ " $* " == *" --model=lenet "* ]] || exec sleep 1000
            for rate in 1 100 100 100 100 100; do metrics '{"type": "interval", "samples_per_second": '$rate'}'; done
            exec sleep 1000""")
        lines = self.check(f"--build={self.folder}", "--limit=3", "speed")
        self.assertRegex(lines[0], "ok +samples/s: lenet fp32 100, lenet fp16 100; then the time was up$")
        self.pretend("bin/train", "exec sleep 1000")
        lines = self.check(f"--build={self.folder}", "--limit=1", "speed")
        self.assertRegex(lines[0], "FAILED +the time was up before a rate was measured")

    def test_a_sanitizer_under_which_the_tests_do_not_pass_is_no_success(self):
        self.pretend("tests/test_gpu_models", "")
        for text, result in (("echo skipped", "FAILED +memcheck found nothing, but"),
                             ("echo 'All tests passed'", "ok +memcheck and racecheck found nothing"),
                             ("[[ $1 == *racecheck ]] || exec sleep 1000", "FAILED +the time was up .*memcheck")):
            self.pretend("tools/compute-sanitizer", text)
            lines = self.check(f"--build={self.folder}", "--limit=2", "sanitizer", PATH=self.path())
            self.assertRegex(lines[0], result)
        self.assertLess(float(lines[0].split()[1]), 1.9)  # half of its limit: the rest is the other tool's

    def test_all_parts_together_take_less_than_eight_minutes(self):
        listed = self.run_script(ROOT / "scripts" / "gpu-check", "--list").stdout.splitlines()
        self.assertLess(sum(int(line.split()[1]) for line in listed), 480)

    def test_unusable_arguments_are_no_number_of_failed_parts(self):
        self.check("nonsense")
        self.assertEqual(self.done.returncode, 64)
        self.assertIn("no part nonsense: there are versions, smoke,", self.done.stderr)
        self.check("--limit=x")
        self.assertEqual(self.done.returncode, 64)

    def test_an_out_folder_that_cannot_be_written_is_refused_in_one_line(self):
        (self.folder / "out").write_text("a file")
        self.done = self.run_script(ROOT / "scripts" / "gpu-check", f"--out={self.folder / 'out'}", "versions")
        self.assertEqual((self.done.returncode, self.done.stdout), (64, ""))
        self.assertRegex(self.done.stderr, "^gpu-check: cannot write to .*/out: .*; name another folder by --out\n$")

    def test_an_old_python_is_refused_in_one_line(self):
        self.pretend("tools/python3", "exit 1")
        self.check("versions", PATH=self.path())
        self.assertEqual((self.done.returncode, self.done.stdout), (64, ""))
        self.assertRegex(self.done.stderr, r"^gpu-check: python3 is missing or older than 3\.9: .*\n$")


class Bundle(Folder):
    def setUp(self):
        super().setUp()
        self.build = self.folder / "build"
        for name in ("bin/train", "bin/ddprun", "bin/libtrain_cuda.so", "tests/test_gpu_layers", "tests/test_gpu_models"):
            (self.build / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy("/bin/bash", self.build / name)

    def bundle(self, *arguments, **environment):
        return self.run_script(ROOT / "scripts" / "gpu-bundle", f"--build={self.build}", *arguments, **environment)

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

    def test_a_checkout_is_no_bundle(self):
        checkout = self.folder / "checkout"
        shutil.copytree(ROOT / "scripts", checkout / "scripts")
        done = self.bundle(checkout)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no bundle", done.stderr)
        self.assertTrue((checkout / "scripts" / "gpu-bundle").exists())

    def test_folders_are_those_of_where_the_user_stands(self):
        done = self.run_script(ROOT / "scripts" / "gpu-bundle", "--archive", "--build=build/", "there/", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "there" / "bin" / "train").exists())
        self.assertTrue((self.folder / "there.tar.gz").exists())

    def test_a_library_that_is_missing_here_is_named(self):
        self.pretend("tools/ldd", r"printf '\tlibnone.so.1 => not found\n'")
        done = self.bundle(self.folder / "bundle", PATH=self.path())
        self.assertEqual(done.returncode, 1)
        self.assertIn("libnone.so.1", done.stderr)
        self.assertFalse((self.folder / "bundle").exists())

    def test_a_build_without_cuda_is_refused(self):
        (self.build / "bin" / "libtrain_cuda.so").unlink()
        done = self.bundle(self.folder / "bundle")
        self.assertEqual(done.returncode, 1)
        self.assertIn("libtrain_cuda.so is missing: that is no whole build with CUDA", done.stderr)
        self.assertFalse((self.folder / "bundle").exists())


if __name__ == "__main__":
    unittest.main()
