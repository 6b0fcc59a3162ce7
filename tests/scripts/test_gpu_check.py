"""scripts/gpu-check on GPUs in software, so that its first run on a real one is not the first of all; its ways to fail, on
pretended programs; and scripts/gpu-bundle."""

import os
import pathlib
import re
import shutil
import signal
import sys
import tarfile
import time
import unittest

from gpu_scripts import BUILD, ROOT, Folder

sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import gpu_cifar  # noqa: E402


def write_cifar(folder, count):
    """Files of so many records each, of noise."""
    folder.mkdir(parents=True)
    for name in (name for names in gpu_cifar.FILES.values() for name in names):
        (folder / name).write_bytes(b"".join(bytes([i % 10]) + os.urandom(3 * 32 * 32) for i in range(count)))


class OnEmulatedGpus(Folder):
    def test_every_part_passes_on_gpus_in_software(self):
        write_cifar(self.folder / "data" / "cifar-10-batches-bin", 30)
        lines = self.check("--emulated", f"--build={BUILD}", f"--data={self.folder / 'data'}")
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        listed = self.run_script(ROOT / "scripts" / "gpu-check", "--list").stdout.splitlines()
        alone = [line.split()[0] for line in listed if line.endswith("(Only where it is named.)")]
        self.assertEqual(alone, ["sanitizer"])
        self.assertEqual([line.split()[0] for line in lines], [line.split()[0] for line in listed if line.split()[0] not in alone])
        self.assertEqual([line for line in lines if line.split()[3] != "ok"], [])
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()), ["log.txt", "summary.txt"])

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
    DDPRUN = 'while [[ $1 == --* ]]; do shift; done; exec "$@"'

    def test_a_part_that_fails_is_told_with_its_reason_and_the_next_ones_go_on(self):
        self.pretend("bin/train", """[[ $1 == --version ]] && { echo "GPUs: not used: no driver"; exit 0; }
            echo "train: no GPU"; exit 2""")
        lines = self.check(f"--build={self.folder}", "versions", "layers", "precision")
        self.assertEqual(self.done.returncode, 3)
        self.assertRegex(lines[0], "^versions .* FAILED +GPUs: not used: no driver$")
        self.assertRegex(lines[2], "^precision .* FAILED +exit code 2 instead of 0: train: no GPU; the command: ")
        self.assertRegex(lines[1], "^layers .* FAILED +.*test_gpu_layers is missing: in a checkout, scripts/build release ")
        self.assertRegex(self.log(), "(?s)^== versions, .*== layers, .*== precision, .*train: no GPU")
        self.assertTrue(self.done.stdout.endswith(f"3 failed, 0 not run; logs: {self.folder}/out/log.txt\n"), self.done.stdout)

    def test_a_part_that_hangs_ends_at_its_limit_with_all_its_processes(self):
        self.pretend("bin/train", f"sleep 1000 & echo $! >{self.folder}/pid; wait")
        lines = self.check(f"--build={self.folder}", "--limit=1", "versions")
        self.assertEqual(self.done.returncode, 1)
        self.assertRegex(lines[0], "not run +the time was up during: .*/train --version$")
        self.assertIn("0 failed, 1 not run;", self.done.stdout)
        self.assert_gone()

    def test_parts_for_which_there_is_no_time_are_not_run(self):
        self.pretend("bin/train", "exec sleep 1000")
        lines = self.check(f"--build={self.folder}", "--total=1", "versions", "smoke", "precision")
        self.assertEqual(self.done.returncode, 3)
        self.assertRegex(lines[0], "^versions .* not run +the time was up during: ")
        self.assertRegex(lines[1], "^smoke .* not run +the 1 s of all parts were over$")
        self.assertRegex(lines[2], "^precision .* not run +the 1 s of all parts were over$")

    def test_a_script_that_is_killed_leaves_what_is_known_in_a_few_files(self):
        self.pretend("bin/train", f"""[[ $1 == --version ]] && {{ echo "GPUs: not used: no driver"; exit; }}
            echo "as far as this"; echo $$ >{self.folder}/pid; exec sleep 1000""")
        self.end_during(signal.SIGKILL, "versions", "precision")
        os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()),
                         ["log.txt", "precision.log", "summary.txt"])
        self.assertIn("GPUs: not used: no driver", self.log())

    def test_libraries_are_read_and_pytorch_is_imported_once_before_the_other_parts(self):
        library = self.folder / "cuda" / "libcublasLt.so.13"
        self.pretend("cuda/libcublasLt.so.13", "x" * 50_000_000)
        self.pretend("bin/train", f"echo 'GPUs: here, CUDA 13.0'; echo '  cuBLASLt 13.1.0, {library}'; echo '  cuDNN was not found'")
        self.pretend("tools/python3", f"""case "$*" in
            *"import torch"*) echo "2.11.0, NVIDIA H200" ;;
            *) exec {sys.executable} "$@" ;;
            esac""")
        lines = self.check(f"--build={self.folder}", "warm", PATH=self.path())
        self.assertRegex(lines[0], r"ok +0\.1 GB of libraries read in \d+ s; PyTorch 2\.11\.0, NVIDIA H200, imported in \d+ s$")

    def test_the_driver_is_held_by_a_look_now_and_then_and_let_go_at_the_end(self):
        self.pretend("tools/nvidia-smi", f"""[[ $1 == --loop=30 ]] || {{ echo "GPU"; exit; }}
            echo $$ >{self.folder}/pid; exec sleep 1000""")
        self.pretend("bin/train", f"until [[ -s {self.folder}/pid ]]; do sleep 0.01; done; exit 1")
        self.check(f"--build={self.folder}", "versions", PATH=self.path())
        self.assertEqual(self.done.returncode, 1)
        self.assert_gone()

    def test_the_driver_is_let_go_also_where_the_script_is_killed(self):
        self.pretend("tools/nvidia-smi", f"echo $$ >{self.folder}/looks; exec sleep 1000")
        self.pretend("bin/train", f"""until [[ -s {self.folder}/looks ]]; do sleep 0.01; done
            echo $$ >{self.folder}/train; cp {self.folder}/looks {self.folder}/pid; exec sleep 1000""")
        self.end_during(signal.SIGKILL, "versions", PATH=self.path())
        os.kill(int((self.folder / "train").read_text()), signal.SIGKILL)
        end = time.monotonic() + 5  # its own end comes after that of the script
        while not self.is_gone() and time.monotonic() < end:
            time.sleep(0.01)
        self.assert_gone()

    def test_without_nvidia_smi_the_parts_that_need_it_name_it(self):
        self.pretend("bin/train", "echo 'GPUs: here, CUDA 13.0'")
        for name in ("python3", "bash", "dirname", "basename"):
            (self.folder / "few").mkdir(exist_ok=True)
            (self.folder / "few" / name).symlink_to(shutil.which(name))
        lines = self.check(f"--build={self.folder}", "versions", "ranks", "kill", PATH=str(self.folder / "few"),
                           CUDA_VISIBLE_DEVICES=None)
        self.assertEqual(self.done.returncode, 3)
        for line in lines:
            self.assertRegex(line, r"FAILED +nvidia-smi is missing: is NVIDIA's driver installed\?$")

    def test_the_libraries_of_a_bundle_are_for_its_own_programs_alone(self):
        (self.folder / "lib").mkdir()
        self.pretend("bin/train", "echo \"GPUs: $LD_LIBRARY_PATH\"")
        self.pretend("tools/nvidia-smi", "echo \"with $LD_LIBRARY_PATH.\"")
        lines = self.check(f"--build={self.folder}", "versions", PATH=self.path(), LD_LIBRARY_PATH="/mine")
        self.assertRegex(lines[0], "ok +with /mine.;")
        self.assertIn(f"GPUs: {self.folder}/lib:/mine\n", self.log())

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
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()), ["log.txt", "summary.txt", "versions"])

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
        names = {line.split("=")[0] for line in self.log().splitlines()}
        self.assertIn("CUDA_VISIBLE_DEVICES", names)
        self.assertEqual(names & set(foreign), set())

    def test_workers_share_the_gpu_where_only_one_is_visible(self):
        self.pretend("bin/train", "")
        self.pretend("bin/ddprun", "exit 1")
        for visible, shares in (("0", True), ("0,1", False)):
            self.check(f"--build={self.folder}", "ranks", CUDA_VISIBLE_DEVICES=visible)
            self.assertEqual("--share-gpu" in self.log(), shares, visible)

    def test_a_gpu_that_nccl_does_not_share_cannot_tell(self):
        self.pretend("bin/train", self.METRICS + """
            metrics '{"type": "final", "weights": "a", "train_loss": 1}'""")
        for reason in ("ncclCommInitRankConfig: invalid usage", "NCCL has not connected all ranks by the deadline: why"):
            self.pretend("bin/ddprun", f"""[[ $1 == --nproc-per-node=1 ]] || {{
                echo "train: {reason}"; echo "ddprun: failed"; exit 1; }}
                """ + self.DDPRUN)
            lines = self.check(f"--build={self.folder}", "ranks", CUDA_VISIBLE_DEVICES="0")
            self.assertEqual(self.done.returncode, 0)
            self.assertRegex(lines[0], f"skipped +NCCL .*: train: {reason}$")
            self.assertEqual(self.check(f"--build={self.folder}", "ranks", CUDA_VISIBLE_DEVICES="0,1")[0].split()[3], "FAILED")

    def test_a_run_that_was_over_before_its_kill_cannot_tell(self):
        self.pretend("bin/train", self.METRICS + """
            metrics '{"type": "final", "weights": "a", "restarts": 0}'""")
        self.pretend("bin/ddprun", self.DDPRUN)
        lines = self.check(f"--build={self.folder}", "restart")
        self.assertRegex(lines[0], "^restart .* skipped +the run was over before its worker could be killed$")

    INTERVALS = """[[ $1 == --help ]] && exit
        for rate in 1 100 100 100; do metrics '{"type": "interval", "samples_per_second": '$rate'}'; done
        exec sleep 1000"""

    def test_a_race_tells_how_fast_both_sides_were(self):
        self.pretend("bin/train", self.METRICS + self.INTERVALS)
        self.pretend("tools/python3", f"""case "$*" in
            *pytorch_gpu.py*) echo '{{"rate": 80, "flops": 1}}' ;;
            *"import torch"*) echo "2.11.0, NVIDIA H200" ;;
            *) exec {sys.executable} "$@" ;;
            esac""")
        lines = self.check(f"--build={self.folder}", "race", PATH=self.path())
        self.assertRegex(lines[0], "ok +resnet18-28 bf16 100 samples/s, 1.25x PyTorch's; alexnet-227 fp16 100 .*, 1.25x ")

    def test_a_race_without_pytorch_tells_why(self):
        self.pretend("bin/train", self.METRICS + self.INTERVALS)
        self.pretend("tools/python3", f"""case "$*" in
            *"import torch"*) echo "No module named 'torch'"; exit 1 ;;
            *) exec {sys.executable} "$@" ;;
            esac""")
        lines = self.check(f"--build={self.folder}", "race", PATH=self.path())
        self.assertRegex(lines[0], "ok +resnet18-28 bf16 100 samples/s; alexnet-227 fp16 100 .*; without PyTorch: .*'torch'")

    def test_a_race_does_not_wait_for_pytorch_until_its_time_is_up(self):
        self.pretend("bin/train", self.METRICS + self.INTERVALS)
        self.pretend("tools/python3", f"""[[ "$*" != *"import torch"* ]] && exec {sys.executable} "$@"; exec sleep 1000""")
        lines = self.check(f"--build={self.folder}", "--limit=12", "race", PATH=self.path())
        self.assertRegex(lines[0], "ok +resnet18-28 bf16 100 samples/s.*; without PyTorch: the time was up during: python3")

    def test_a_race_tells_what_it_measured_before_the_time_was_up(self):
        self.pretend("bin/train", self.METRICS + '[[ " $* " != *" --model=alexnet "* ]] || exec sleep 1000\n' + self.INTERVALS)
        self.pretend("tools/python3", f"""[[ "$*" != *"import torch"* ]] && exec {sys.executable} "$@"; exit 1""")
        lines = self.check(f"--build={self.folder}", "--limit=4", "race", PATH=self.path())
        self.assertRegex(lines[0], "ok +resnet18-28 bf16 100 samples/s; then the time was up; without PyTorch: ")

    def test_a_race_without_a_rate_of_train_has_failed(self):
        self.pretend("bin/train", "echo 'train: no GPU'; exit 2")
        lines = self.check(f"--build={self.folder}", "race")
        self.assertRegex(lines[0], "FAILED +resnet18-28 bf16: train ended by itself with exit code 2: train: no GPU$")

    def test_an_overflow_that_only_one_worker_skips_is_found(self):
        self.pretend("bin/train", self.METRICS + """
            skipped=0; weights=a
            [[ " $* " == *" --inject-overflow-at="* ]] && skipped=1 && weights=b$WORKERS
            metrics '{"type": "final", "weights": "'$weights'", "train_loss": 1, "skipped": '$skipped'}'""")
        self.pretend("bin/ddprun", "export WORKERS=${1#*=}\n" + self.DDPRUN)
        lines = self.check(f"--build={self.folder}", "ranks", CUDA_VISIBLE_DEVICES="0")
        self.assertRegex(lines[0], "FAILED +an overflow on one of 2 workers: 1 steps skipped, weights b2; of 1 worker: 1, b1$")

    def test_other_weights_after_a_worker_was_killed_are_found(self):
        self.pretend("bin/train", self.METRICS + """
            metrics '{"type": "final", "weights": "'${WEIGHTS:-a}'", "restarts": 1}'
            touch "$out/latest"; while [[ -n $WEIGHTS ]]; do sleep 0.05; done""")
        # A job of two: only the second worker is started, and lives until it is killed.
        self.pretend("bin/ddprun", """[[ $1 == --nproc-per-node=2 ]] && export WEIGHTS=b LOCAL_RANK=1
            while [[ $1 == --* ]]; do shift; done
            "$@"; [[ $? == 0 || $? == 137 ]]""")
        lines = self.check(f"--build={self.folder}", "kill", CUDA_VISIBLE_DEVICES="0")
        self.assertRegex(lines[0], "FAILED +weights b after the restart instead of a$")

    def test_cifar_without_its_files_is_skipped_with_the_places(self):
        for arguments, environment, expected in (
                ((), {}, "no folder: set --data or DDPRUN_TEST_DATA"),
                ((f"--data={self.folder}/a",), {"DDPRUN_TEST_DATA": "/b"}, f"{self.folder}/a or /b")):
            environment = {"DDPRUN_TEST_DATA": ""} | environment
            lines = self.check(f"--build={self.folder}", *arguments, "cifar", **environment)
            self.assertRegex(lines[0], f"skipped +CIFAR-10's binary files .* were looked for in {expected}$")

    def test_cifar_below_its_accuracy_has_failed_also_where_the_time_is_up(self):
        write_cifar(self.folder / "cifar-10", 1)
        options = (f"--build={self.folder}", f"--data={self.folder}")
        self.pretend("bin/train", self.METRICS + """
            metrics '{"type": "final", "test_accuracy": 0.8, "skipped": 2}'""")
        lines = self.check(*options, "cifar")
        self.assertRegex(lines[0], "FAILED +accuracy 0.8000 after 20 epochs in .*, 2 steps skipped: less than 0.82$")
        self.pretend("bin/train", self.METRICS + """
            metrics '{"type": "epoch", "test_accuracy": 0.5}' '{"type": "epoch", "test_accuracy": 0.625}'; exec sleep 1000""")
        lines = self.check(*options, "--limit=2", "cifar")
        self.assertRegex(lines[0], "not run +the time was up during: .*; accuracy of its epochs: 0.500, 0.625$")

    def test_an_archive_of_pictures_that_leads_out_of_its_folder_is_refused(self):
        for name, expected in (("../train/cat/1.jpg", "would write outside of its folder: ../train/cat/1.jpg"),
                               ("cifar/training/cat/1.jpg", "has no folders train/ and test/")):
            with tarfile.open(self.folder / gpu_cifar.ARCHIVE, "w:gz") as tar:
                tar.addfile(tarfile.TarInfo(name))
            lines = self.check(f"--build={self.folder}", f"--data={self.folder}", "cifar")
            self.assertTrue(lines[0].endswith(expected), lines[0])
            self.assertIn(" FAILED ", lines[0])

    def test_a_sanitizer_under_which_the_tests_do_not_pass_is_no_success(self):
        for program in ("layers", "models"):
            self.pretend(f"tests/test_gpu_{program}", "")
        for text, result in (("echo skipped", "FAILED +memcheck found nothing in the layers, but"),
                             ("[[ $* == *models* ]] || echo 'All tests passed'",
                              "FAILED +memcheck found nothing in the models"),
                             ("echo 'All tests passed'", "ok +memcheck and racecheck found nothing in all layers, memcheck"),
                             ("[[ $1 == *racecheck ]] || exec sleep 1000", "not run +the time was up .*memcheck")):
            self.pretend("tools/compute-sanitizer", text)
            lines = self.check(f"--build={self.folder}", "--limit=2", "sanitizer", PATH=self.path())
            self.assertRegex(lines[0], result)
        self.assertLess(float(lines[0].split()[1]), 1.9)  # a third of its limit: the rest is the other runs'

    def test_a_sanitizer_counts_no_failed_calls_of_cuda_and_looks_for_races_in_our_own_kernels_alone(self):
        for program in ("layers", "models"):
            self.pretend(f"tests/test_gpu_{program}", "")
        self.pretend("tools/compute-sanitizer", f"""echo "$*" >>{self.folder}/runs; echo 'All tests passed'""")
        self.check(f"--build={self.folder}", "sanitizer", PATH=self.path())
        runs = (self.folder / "runs").read_text().splitlines()
        self.assertEqual([line.split()[0] for line in runs], ["--tool=memcheck", "--tool=racecheck", "--tool=memcheck"])
        for line in runs:
            self.assertIn(" --report-api-errors no ", line)
            self.assertEqual(" --kernel-name kernel_substring=run_kernel " in line, "racecheck" in line)

    def test_a_sanitizer_that_is_missing_is_skipped_and_not_ok(self):
        if shutil.which("compute-sanitizer"):
            self.skipTest("it is there")
        lines = self.check(f"--build={self.folder}", "sanitizer")
        self.assertEqual(self.done.returncode, 0)
        self.assertRegex(lines[0], r"^sanitizer .* skipped +compute-sanitizer is not on PATH$")

    def test_cifar_is_read_from_an_archive_of_pictures(self):
        with tarfile.open(self.folder / gpu_cifar.ARCHIVE, "w:gz") as tar:
            for name in ("train/cat", "test/cat"):
                tar.addfile(tarfile.TarInfo(f"cifar/{name}/1.jpg"))
        self.pretend("bin/train", self.METRICS + """for word in "$@"; do case $word in --data=*) data=${word#--data=}; esac; done
            [[ -f $data/train/cat/1.jpg && -f $data/test/cat/1.jpg && " $* " == *" --image-shape=160x160x3 "* ]] || exit 1
            metrics '{"type": "final", "test_accuracy": 0.9, "skipped": 2}'""")
        lines = self.check(f"--build={self.folder}", f"--data={self.folder}", "cifar")
        self.assertRegex(lines[0], "ok +accuracy 0.9000 after 20 epochs in .*, 2 steps skipped$")

    def test_unusable_arguments_are_no_number_of_failed_parts(self):
        self.check("nonsense")
        self.assertEqual(self.done.returncode, 64)
        self.assertIn("no part nonsense: there are warm, versions, smoke,", self.done.stderr)
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
        for name in ("bin/train", "bin/ddprun", "bin/bench_gpu_gaps", "bin/libtrain_cuda.so", "tests/test_gpu_layers",
                     "tests/test_gpu_models"):
            (self.build / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy("/bin/bash", self.build / name)

    def bundle(self, *arguments, cwd=None, **environment):
        return self.run_script(ROOT / "scripts" / "gpu-bundle", f"--build={self.build}", *arguments, cwd=cwd, **environment)

    def test_a_bundle_has_programs_and_script_but_no_c_library(self):
        target = self.folder / "a bundle"
        done = self.bundle("--archive", target)
        self.assertEqual(done.returncode, 0, done.stderr)
        unpacked = self.folder / "unpacked"
        self.run_script(sys.executable, "-m", "tarfile", "-e", self.folder / "a bundle.tar.xz", unpacked)
        self.assertTrue(os.access(unpacked / "a bundle" / "scripts" / "gpu-check", os.X_OK))
        self.assertTrue(os.access(target / "bin" / "train", os.X_OK))
        libraries = [path.name for path in (target / "lib").iterdir()]
        self.assertIn("libtinfo.so.6", libraries)
        self.assertFalse([name for name in libraries if name.startswith("libc.")])
        for name in ("scripts/lib/gpu_race.py", "bench/train_step/pytorch_step.py", "tests/pytorch/twins/textclf.py"):
            self.assertTrue((target / name).is_file(), name)
        # It runs where the checkout is not.
        self.assertIn("alexnet-227/fp16", self.run_script(target / "scripts" / "gpu-race", "--list").stdout)
        self.check("versions", script=target / "scripts" / "gpu-check")
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("FAILED", self.done.stdout)
        self.assertNotIn("missing", self.done.stdout)
        # Again: it replaces its own.
        self.assertEqual(self.bundle(target).returncode, 0)
        self.assertFalse((target / "bin" / "bench_nccl").exists())

    def test_the_libraries_of_a_bundle_are_not_for_pytorch_that_runs_a_file_of_the_bundle(self):
        target = self.folder / "there"
        self.assertEqual(self.bundle(target).returncode, 0)
        self.pretend("there/bin/train", self.METRICS + "echo \"train with ${LD_LIBRARY_PATH-nothing}.\"\n" +
                     OnPretendedPrograms.INTERVALS)
        self.pretend("tools/python3", f"""case "$*" in
            *pytorch_gpu.py*) echo "PyTorch with ${{LD_LIBRARY_PATH-nothing}}."; echo '{{"rate": 80, "flops": 1}}' ;;
            *"import torch"*) echo "2.11.0, NVIDIA H200" ;;
            *) exec {sys.executable} "$@" ;;
            esac""")
        lines = self.check("race", script=target / "scripts" / "gpu-check", PATH=self.path(), LD_LIBRARY_PATH=None)
        self.assertRegex(lines[0], "ok +resnet18-28 bf16 100 samples/s, 1.25x PyTorch's; ")
        self.assertIn(f"train with {target}/lib.", self.log())
        self.assertIn("PyTorch with nothing.", self.log())

    def test_bench_nccl_is_in_a_bundle_where_it_is_asked_for(self):
        shutil.copy("/bin/bash", self.build / "bin" / "bench_nccl")
        self.assertEqual(self.bundle("--bench-nccl", self.folder / "there").returncode, 0)
        self.assertTrue((self.folder / "there" / "bin" / "bench_nccl").exists())

    def test_pictures_are_in_a_bundle_where_they_are_asked_for_and_found_there(self):
        with tarfile.open(self.folder / "pictures.tgz", "w:gz") as tar:
            for name in ("train/cat", "test/cat"):
                tar.addfile(tarfile.TarInfo(f"cifar/{name}/1.jpg"))
        self.assertEqual(self.bundle("--cifar=pictures.tgz", "there", cwd=self.folder).returncode, 0)
        self.pretend("there/bin/train", self.METRICS + """metrics '{"type": "final", "test_accuracy": 0.9, "skipped": 0}'""")
        lines = self.check("cifar", script=self.folder / "there" / "scripts" / "gpu-check", DDPRUN_TEST_DATA="")
        self.assertRegex(lines[0], "ok +accuracy 0.9000")
        done = self.bundle("--cifar=nowhere.tgz", "there", cwd=self.folder)
        self.assertIn("nowhere.tgz is no file", done.stderr)

    def test_an_archive_that_is_too_large_is_refused_with_what_to_look_at(self):
        self.pretend("tools/xz", "cat >/dev/null; head -c 30000001 /dev/zero")
        done = self.bundle("--archive", self.folder / "there", PATH=self.path())
        self.assertEqual(done.returncode, 1)
        self.assertIn("there.tar.xz would have 30 MB: programs and libraries may have 30 MB: look for what is new in ", done.stderr)
        self.assertFalse((self.folder / "there.tar.xz").exists())
        with (self.folder / "pictures.tgz").open("wb") as pictures:
            pictures.truncate(50_000_000)
        self.pretend("tools/xz", "cat >/dev/null; head -c 60000001 /dev/zero")
        done = self.bundle("--archive", f"--cifar={self.folder}/pictures.tgz", self.folder / "there", PATH=self.path())
        self.assertIn("with pictures it may have 60 MB: name a smaller --cifar", done.stderr)

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
        self.assertTrue((self.folder / "there.tar.xz").exists())

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

    def test_the_commands_for_a_borrowed_machine_fit_into_it_and_leave_a_few_files(self):
        page = (ROOT / "docs" / "gpu-first-contact.md").read_text()
        commands = re.findall(r"^```bash\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        self.assertEqual(len(commands), 4)
        self.assertEqual(self.bundle("--archive", self.folder / "gpu-bundle").returncode, 0)
        shutil.rmtree(self.folder / "gpu-bundle")
        (self.folder / "tmp").mkdir()
        # Shorter: parts and a row that write no data; the rest is as on the page.
        shorter = (("--total=540", "--total=540 versions smoke"), ("--total=170", "--total=170"),
                   ("'*/bf16'", "textclf-large-16/bf16"), ("resnet18-28/bf16 alexnet-227/bf16 ", ""))
        files = ("summary.txt", "summary.txt", "race.txt", "race.txt")
        for number, ((whole, less), command, expected) in enumerate(zip(shorter, commands, files)):
            self.assertLess(len(command), 2000)
            self.assertIn(whole, command)
            out = self.folder / f"out-{number}"
            out.mkdir()
            done = self.run_script("bash", "-c", command.replace(whole, less), cwd=self.folder, OUT=str(out),
                                   TMPDIR=str(self.folder / "tmp"))
            self.assertNotEqual(done.returncode, 64, done.stderr)
            names = sorted(path.name for path in out.rglob("*"))
            self.assertIn("log.txt", names)
            self.assertIn(expected, names, done.stdout + done.stderr)
            self.assertLessEqual(len(names), 8)
        self.assertEqual([path.name for path in (self.folder / "tmp").iterdir()], ["gpu-bundle"])


if __name__ == "__main__":
    unittest.main()
