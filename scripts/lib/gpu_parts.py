"""The parts of scripts/gpu-check that need a single process at a time."""

import os
import pathlib
import re
import shutil
import time

import gpu_race
from gpu_part import Failed, Skipped, TimeUp, distance, final, losses, part, write_folder


def read_whole(paths, until):
    """How many bytes of the files were read, so that they are in memory."""
    count = 0
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while time.monotonic() < until and (block := file.read(1 << 24)):
                count += len(block)
    return count


@part(150)
def warm(check):
    """Reads CUDA's libraries, and imports PyTorch where it is installed: a machine that has just started reads gigabytes, and
    no other part's time is to be spent on that."""
    said = check.run([check.train, "--version"])
    folders = {pathlib.Path(path).parent for path in re.findall(r"^  \S+ \S+, (/\S.*)$", said, re.MULTILINE)}
    begun = time.monotonic()
    libraries = sorted({path.resolve() for folder in folders for path in folder.iterdir()
                        if re.match(r"lib(cu|nccl|nv).*\.so", path.name) and path.is_file()})
    count = read_whole(libraries, check.end)
    text = f"{count / 1e9:.1f} GB of libraries read in {time.monotonic() - begun:.0f} s; "
    begun = time.monotonic()
    version, why = gpu_race.versions_of(check, gpu_race.quick_settings(check), share=1)
    return text + (f"PyTorch {version}, imported in {time.monotonic() - begun:.0f} s" if version else f"without PyTorch: {why}")


@part(30)
def versions(check):
    """The plugin, the driver and CUDA's libraries are found."""
    said = check.run([check.train, "--version"])
    found = said[said.find("GPUs:"):]
    if "GPUs:" not in said or "not used" in found or re.search("cannot|was not found|is missing", found):
        raise Failed(" ".join(found.split()))
    if check.emulated:
        return found.strip()
    name = check.nvidia_smi("--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    libraries = re.findall(r"^  (\S+ \S+),", found, re.MULTILINE)
    return f"{name.splitlines()[0]}; {', '.join(libraries)}"


@part(60)
def smoke(check):
    """lenet trains, alone and under ddprun, twice to the same bits."""
    steps = check.small(20, 4)
    options = (check.data(), f"--max-steps={steps}", f"--batch={check.small(32, 8)}", "--checkpoint-every=off")
    first, again = (final(check.train_run(*options)) for _ in range(2))
    launched = final(check.train_run(*options, launch=(check.ddprun, "--nproc-per-node=1")))
    hashes = {run["weights"] for run in (first, again, launched)}
    if len(hashes) != 1:
        raise Failed(f"three runs gave the weights {', '.join(sorted(hashes))}")
    return f"weights {first['weights']} three times, loss {first['train_loss']:.4f} after {steps} steps"


def run_cases(check, program, cases=()):
    said = check.run([program, *cases], code=None)
    if "SKIPPED" in said:
        raise Failed(said[said.find("SKIPPED"):].splitlines()[0])
    passed = re.search(r"All tests passed \(.*\)", said)
    if not passed:
        failures = re.findall(r"^test cases:.*$", said, re.MULTILINE)
        raise Failed((failures or said.splitlines()[-1:] or ["no output"])[0])
    return passed[0]


@part(60)
def layers(check):
    """Each kind of layer against formulas in double precision."""
    program = check.program("tests/test_gpu_layers", "tests/test_trainer_layers_cuda")
    return run_cases(check, program, ["concat*"] if check.emulated else [])


@part(60)
def models(check):
    """A few steps of each kind of model against the CPU."""
    program = check.program("tests/test_gpu_models", "tests/test_trainer_cuda")
    return run_cases(check, program, ["models train on the GPU in half*"] if check.emulated else [])


# name: options of train, sides of the pictures (None: sentences), samples of a batch, steps. The CPU sets the sizes: with
# two cores its runs take about a minute.
CURVES = {
    "lenet": (("--lr=0.01", "--momentum=0"), (28, 28, 1), 32, 100),
    "textclf": (("--optimizer=adamw", "--lr=0.0001"), None, 8, 100),
    "resnet18": (("--lr=0.0001", "--momentum=0"), (12, 12, 3), 8, 20),
    "alexnet": (("--lr=0.01", "--momentum=0"), (64, 64, 3), 4, 20),
    "unet16": (("--lr=0.01", "--momentum=0"), (32, 32, 3), 2, 20),
    "unet-resnet34": (("--lr=0.0001", "--momentum=0"), (64, 64, 3), 2, 20),
}


@part(90)
def curves(check):
    """The loss of each of 20 calm steps of each model (lenet, textclf: 100), against the CPU: within 1e-3."""
    threads = min(16, len(os.sched_getaffinity(0)))
    results = []
    for model in list(CURVES)[:check.small(len(CURVES), 2)]:
        options, sides, batch, steps = CURVES[model]
        steps = check.small(steps, 3)
        batch = min(batch, check.small(batch, 8))
        options = (f"--model={model}", f"--batch={batch}", f"--epochs={steps}", "--checkpoint-every=off", *options)
        if sides:
            data = check.new_folder()
            write_folder(data, sides, (batch, 2), masked=model.startswith("unet"))
            options += (f"--data={data}",)  # one batch: a step an epoch, and so a line for each step
        else:
            options += (f"--sentences={batch}",)
        ours = losses(check.train_run(*options))
        theirs = losses(check.train_run(*options, f"--threads-per-shard={threads}", device="cpu"))
        far = distance(ours, theirs)
        results.append(f"{model} {far:.1e}")
        if far > 1e-3:
            raise Failed(f"within {steps} steps the losses part: {', '.join(results)}")
    return ", ".join(results)


@part(60)
def precision(check):
    """tf32, bf16 and fp16 train about as on the CPU (tf32: as fp32 there); an injected overflow skips one step."""
    options = (check.data(), f"--max-steps={check.small(20, 6)}", f"--batch={check.small(32, 8)}", "--checkpoint-every=off",
               "--lr=0.01")
    results = []
    for name, on_cpu, limit, more in (("tf32", "fp32", 5e-3, ()), ("bf16", "bf16", 2e-2, ()),
                                      ("fp16", "fp16", 2e-2, ("--inject-overflow-at=3",))):
        ours, theirs = (final(check.train_run(*options, f"--precision={one}", *more, device=device))
                        for device, one in (("cuda", name), ("cpu", on_cpu)))
        far = distance([ours["train_loss"]], [theirs["train_loss"]])
        results.append(f"{name} {far:.1e} from the CPU")
        if far > limit or ours["skipped"] != theirs["skipped"] or (more and ours["skipped"] < 1):
            raise Failed(f"{', '.join(results)}; skipped {ours['skipped']} and {theirs['skipped']} steps")
    return f"{', '.join(results)}, {ours['skipped']} skipped"


@part(30)
def refusals(check):
    """What cannot work is refused with what to do, and 2."""
    cases = {
        "out of memory": (("--model=textclf", "--size=large", "--batch=1000", "--max-tokens=512", "--sentences=1000"),
                          {"DDPRUN_EMULATED_MEMORY": "1000000000"}, r"this run needs .* of GPU memory"),
        "a GPU that is not there": ((), {"CUDA_VISIBLE_DEVICES": "77", "DDPRUN_EMULATED_GPUS": "0"},
                                    "CUDA_VISIBLE_DEVICES=77"),
    }
    for name, (options, environment, expected) in cases.items():
        said = check.run([check.train, "--device=cuda", f"--out={check.new_folder()}", *options], 2, **environment)
        if not re.search(expected, said):
            raise Failed(f"{name}: {said.strip()}")
    return ", ".join(cases)


@part(75)
def race(check):
    """Samples a second of two models, beside PyTorch's where it is installed: to be noted. scripts/gpu-race measures more."""
    settings = gpu_race.quick_settings(check)
    version, why = gpu_race.versions_of(check, settings)
    sides = ("train", "eager") if version else ("train",)
    results = []
    for row in settings.rows:
        name, kind = row.split("/")
        found, problems = gpu_race.race(check, settings.cases[name], kind, settings, sides)
        if not found["train"] and results and check.left() < 1:
            results.append("then the time was up")
            break
        if not found["train"]:
            failure = TimeUp if isinstance(problems["train"], TimeUp) else Failed
            raise failure("; ".join([*results, f"{name} {kind}: {problems['train']}"]))
        figures = gpu_race.summary_of(found, kind, {})
        text = f"{name} {kind} {figures['rates']['train']:.0f} samples/s"
        if figures["ratios"].get("eager"):
            text += f", {figures['ratios']['eager']:.2f}x PyTorch's"
        results.append(text)
    return "; ".join(results + ([] if version else [f"without PyTorch: {why}"]))


# Calls of CUDA that fail are left out: libraries ask by such calls what a driver knows. Of races only our own kernels are
# watched (trainer/cuda/kernels/launchers.cuh): those of cuBLASLt and cuDNN take a multiple of the time.
SANITIZER_OPTIONS = {"memcheck": ("--report-api-errors", "no"),
                     "racecheck": ("--report-api-errors", "no", "--kernel-name", "kernel_substring=run_kernel")}


@part(150, alone=True)
def sanitizer(check):
    """compute-sanitizer finds no wrong access in the kernels of all layers and of models, and no race in our own of layers."""
    if check.emulated:
        raise Skipped("it needs a GPU")
    tool = shutil.which("compute-sanitizer")
    if not tool:
        raise Skipped("compute-sanitizer is not on PATH")
    runs = (("memcheck", "layers", []), ("racecheck", "layers", []), ("memcheck", "models", ["*half precision*"]))
    for number, (kind, program, cases) in enumerate(runs):
        said = check.run([tool, f"--tool={kind}", *SANITIZER_OPTIONS[kind], "--error-exitcode=9",
                          check.program(f"tests/test_gpu_{program}"), *cases],
                         seconds=check.left() / (len(runs) - number))
        if "All tests passed" not in said:
            raise Failed(f"{kind} found nothing in the {program}, but the tests did not pass; see the log")
    return "memcheck and racecheck found nothing in all layers, memcheck nothing in models"
