"""scripts/gpu-race on GPUs in software, and its table and ways to fail on pretended programs."""

import json
import pathlib
import sys
import unittest

from gpu_scripts import BUILD, ROOT, Folder

sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import gpu_race  # noqa: E402


class Race(Folder):
    def race(self, *arguments, **environment):
        """The lines of race.txt."""
        self.done = self.run_script(ROOT / "scripts" / "gpu-race", f"--out={self.folder / 'out'}", *arguments, **environment)
        table = self.folder / "out" / "race.txt"
        return table.read_text().splitlines() if table.exists() else []

    def figures(self):
        return [json.loads(line) for line in (self.folder / "out" / "race.jsonl").read_text().splitlines()]


class OnAnEmulatedGpu(Race):
    def test_train_is_measured_for_pictures_masks_and_texts(self):
        self.race("--emulated", f"--build={BUILD}", "--seconds=1", "--rounds=1", "--sides=train", "*/fp16")
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        rows = {found["row"]: found for found in self.figures() if "row" in found}
        self.assertEqual(set(rows), {f"{name}/fp16" for name in gpu_race.SMALL})
        for row, found in rows.items():
            self.assertGreater(found["rates"]["train"], 0, row)
            self.assertGreater(found["gaps"]["steps"], 0, row)
            self.assertTrue(0 < found["gaps"]["gap_share"] < 1, row)
            self.assertGreater(found["gaps"]["update_gb_s"], 0, row)


class OnPretendedPrograms(Race):
    TRAIN = Race.METRICS + """[[ $1 == --help ]] && exit
        for rate in 1 100 100 100; do metrics '{"type": "interval", "samples_per_second": '$rate'}'; done
        exec sleep 1000"""
    # Of PyTorch: its version, the GPU's rates, and figures.
    PYTHON = """case "$*" in
        *"import torch"*) echo "2.11.0, NVIDIA H200" ;;
        *--ceilings*) echo '{"bf16": 0.5, "fp16": 0.5, "tf32": 0.25, "fp32": 0.125, "copy": 4000, "gpu": "NVIDIA H200"}' ;;
        *--compile*) COMPILE ;;
        *pytorch_gpu.py*) echo '{"rate": 80, "flops": 1e9}' ;;
        esac"""

    def pretend_sides(self, compiled="""echo '{"rate": 125, "compiled_by": "inductor, reduce-overhead"}'"""):
        self.pretend("bin/train", self.TRAIN)
        self.pretend("python", self.PYTHON.replace("COMPILE", compiled))
        self.pretend("bin/bench_gpu_gaps", """echo "the final table"
            echo '{"gap_share": 0.013, "step_seconds": 0.01, "update_gb_s": 3000, "steps": 40}'""")

    def options(self, *rows):
        return (f"--build={self.folder}", f"--python={self.folder / 'python'}", "--rounds=2", "--seconds=1", *rows)

    def test_a_row_has_rates_ratios_and_the_share_of_the_gpus_matrix_rate(self):
        self.pretend_sides()
        lines = self.race(*self.options("resnet18-28/bf16"))
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertEqual(lines[0], "PyTorch: 2.11.0, NVIDIA H200")
        self.assertIn("matrix products in TFLOP/s: bf16 0.5, fp16 0.5, fp32 0.125, tf32 0.25; copy 4000 GB/s", lines[1])
        # 100 samples of 1e9 operations a second, of 0.5e12. What is known by then: at first without compile.
        self.assertEqual(" ".join(lines[3].split()), "resnet18-28 bf16 100 80 1.25x - - -, -, - 20.0% 2")
        self.assertEqual(" ".join(lines[5].split()), "resnet18-28 bf16 100 80 1.25x 125 0.80x -, -, - 20.0% 2")
        self.assertEqual([{side: len(figures) for side, figures in turn["measured"].items()} for turn in self.figures()[1:]],
                         [{"train": 2, "eager": 2}, {"train": 2, "compile": 2}])

    def test_eager_of_all_rows_comes_before_what_is_compiled_and_bf16_before_fp16(self):
        self.pretend_sides()
        self.race(*self.options("--rounds=1", "resnet18-28/*16", "alexnet-227/bf16"))
        self.assertEqual([(turn["row"], list(turn["measured"])[1]) for turn in self.figures()[1:]],
                         [("resnet18-28/bf16", "eager"), ("alexnet-227/bf16", "eager"), ("resnet18-28/bf16", "compile"),
                          ("alexnet-227/bf16", "compile"), ("resnet18-28/fp16", "eager"), ("resnet18-28/fp16", "compile")])

    def test_what_was_compiled_is_kept_for_all_rows_and_for_later_runs_where_a_folder_is_named(self):
        self.pretend_sides(f"""echo "$TORCHINDUCTOR_CACHE_DIR" >>{self.folder}/caches; mkdir -p "$TORCHINDUCTOR_CACHE_DIR"
            echo '{{"rate": 125}}'""")
        for named in (None, str(self.folder / "kept")):
            (self.folder / "caches").unlink(missing_ok=True)
            self.race(*self.options("--rounds=1", "--sides=compile", "resnet18-28/bf16", "resnet18-28/fp16"),
                      TORCHINDUCTOR_CACHE_DIR=named)
            caches = (self.folder / "caches").read_text().splitlines()
            self.assertEqual((len(caches), len(set(caches))), (2, 1))
            self.assertEqual(pathlib.Path(caches[0]).exists(), named is not None)

    def test_the_peak_of_memory_is_what_nvidia_smi_saw_beyond_what_was_before(self):
        self.pretend_sides()
        self.pretend("tools/nvidia-smi", """[[ " $* " == *" --loop-ms=100 "* ]] || { echo 1024; exit; }
            for used in 1024 3072 2048; do echo $used; done; exec sleep 1000""")
        self.race(*self.options("resnet18-28/bf16"), PATH=self.path())
        self.assertEqual(self.figures()[-1]["gib"], {"train": 2, "eager": 2, "compile": 2})

    def test_the_aims_that_were_met_and_missed_are_told_at_the_end_with_figures(self):
        self.pretend_sides()
        self.pretend("tools/nvidia-smi", """[[ " $* " == *" --loop-ms=100 "* ]] || { echo 1024; exit; }
            for used in 1024 3072 2048; do echo $used; done; exec sleep 1000""")
        lines = self.race(*self.options("resnet18-28/bf16"), PATH=self.path())
        self.assertEqual(self.done.returncode, 0)  # an aim is no failure
        self.assertEqual([" ".join(line.split()) for line in lines[lines.index("aims:") + 1:]],
                         ["missed resnet18-28/* at least 1.0x compile: resnet18-28/bf16 0.80x",
                          "missed resnet18-28/* at least 1.3x eager: resnet18-28/bf16 1.25x",
                          "not measured alexnet-227/* at least 1.0x compile",
                          "not measured alexnet-227/* at least 1.3x eager",
                          "not measured textclf-large-*/* at least 0.9x compile",
                          "met memory at most PyTorch's: resnet18-28/bf16 2.00 of 2.00 GiB",
                          "met host gaps below 2% of a step: resnet18-28/bf16 1.3%"])

    def test_a_row_tells_for_how_long_the_gpu_had_nothing_to_do_and_the_rate_of_the_optimizer(self):
        self.pretend_sides()
        lines = self.race(*self.options("resnet18-28/bf16"))
        self.assertEqual(lines[4], "  train: for 1.3% of a step the GPU had nothing to do; optimizer 3000 GB/s, 75% of a copy "
                         "(40 steps)")
        self.assertEqual(self.figures()[1]["gaps"]["gap_share"], 0.013)

    def test_gaps_that_cannot_be_measured_are_told_with_the_reason(self):
        self.pretend_sides()
        self.pretend("bin/bench_gpu_gaps", "echo no GPU; exit 2")
        lines = self.race(*self.options("resnet18-28/bf16"))
        self.assertEqual(self.done.returncode, 1)
        self.assertRegex(lines[4], "^  gaps: exit code 2 instead of 0: no GPU; the command: .*--max-steps=80$")
        self.assertNotIn("nothing to do", "\n".join(lines))

    def test_a_side_that_fails_is_told_with_its_reason_and_the_others_go_on(self):
        self.pretend_sides("echo no compiler; exit 1")
        lines = self.race(*self.options("resnet18-28/fp16", "resnet18-28/bf16"))
        self.assertEqual(self.done.returncode, 2)
        self.assertRegex(lines[3], r"^resnet18-28 +bf16 +100 +80 +1.25x +- +- .* 2$")
        self.assertRegex(lines[6], "^  compile: exit code 1 instead of 0: no compiler; the command: ")
        self.assertRegex(lines[7], "^resnet18-28 +fp16 +100 ")

    def test_another_way_to_compile_is_told(self):
        self.pretend_sides("""echo '{"rate": 125, "compiled_by": "cudagraphs"}'""")
        lines = self.race(*self.options("resnet18-28/bf16"))
        self.assertEqual(lines[6], "  compile: compiled by cudagraphs")

    def test_tf32_is_measured_of_both(self):
        self.pretend_sides()
        self.assertRegex(self.race(*self.options("resnet18-28/tf32"))[3], r"^resnet18-28 +tf32 +100 +80 +1.25x ")

    def test_without_pytorch_train_is_measured_alone(self):
        self.pretend_sides()
        self.pretend("python", "echo \"No module named 'torch'\"; exit 1")
        lines = self.race(*self.options("resnet18-28/bf16"))
        self.assertEqual(self.done.returncode, 0)
        self.assertRegex(lines[0], "^PyTorch: none: .*No module named 'torch'")
        self.assertRegex(lines[2], r"^resnet18-28 +bf16 +100 +- +- +- ")

    def test_rows_end_at_the_total_and_those_that_did_not_begin_are_named(self):
        self.pretend_sides()
        self.pretend("bin/train", "[[ $1 == --help ]] && exit; exec sleep 1000")
        lines = self.race(*self.options("resnet18-28/bf16", "resnet18-28/fp16", "--sides=train", "--minutes=0.3"))
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("  train: the time was up before a rate was measured", lines)
        self.assertIn("the time was up before: resnet18-28/fp16 (train)", lines)

    def test_unusable_arguments_are_no_number_of_rows(self):
        for argument, expected in (("nonsense/*", "no row nonsense/*: there are resnet18-28/bf16,"),
                                   ("--sides=train,jax", "no side jax: there are train, eager, compile")):
            self.race(argument)
            self.assertEqual(self.done.returncode, 64)
            self.assertIn(expected, self.done.stderr)


if __name__ == "__main__":
    unittest.main()
