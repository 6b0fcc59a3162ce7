"""The parts of scripts/gpu-check, which see."""

import argparse
import os
import pathlib
import re
import shutil
import signal
import sys
import time

from gpu_part import Failed, Part, Skipped, distance, final, lines_of, losses, write_folder

# --- The parts -----------------------------------------------------------------------------------------------------------

PARTS = {}  # name: (function, seconds)


def part(limit):
    def register(function):
        PARTS[function.__name__] = (function, limit)
        return function
    return register


@part(20)
def versions(check):
    """The plugin, the driver and CUDA's libraries are found."""
    said = check.run([check.train, "--version"])
    found = said[said.find("GPUs:"):]
    if "GPUs:" not in said or "not used" in found or re.search("cannot|was not found|is missing", found):
        raise Failed(" ".join(found.split()))
    if check.emulated:
        return found.strip()
    name = check.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
    libraries = re.findall(r"^  (\S+ \S+),", found, re.MULTILINE)
    return f"{name.splitlines()[0]}; {', '.join(libraries)}"


@part(20)
def smoke(check):
    """lenet trains, alone and under ddprun, twice to the same bits."""
    options = (check.data(), "--max-steps=20", "--batch=32", "--checkpoint-every=off")
    first, again = (final(check.train_run(*options)) for _ in range(2))
    launched = final(check.train_run(*options, launch=(check.ddprun, "--nproc-per-node=1")))
    hashes = {run["weights"] for run in (first, again, launched)}
    if len(hashes) != 1:
        raise Failed(f"three runs gave the weights {', '.join(sorted(hashes))}")
    return f"weights {first['weights']} three times, loss {first['train_loss']:.4f} after 20 steps"


def run_cases(check, program, cases=()):
    said = check.run([program, *cases], code=None)
    if "SKIPPED" in said:
        raise Failed(said[said.find("SKIPPED"):].splitlines()[0])
    passed = re.search(r"All tests passed \(.*\)", said)
    if not passed:
        failures = re.findall(r"^test cases:.*$", said, re.MULTILINE)
        raise Failed((failures or said.splitlines()[-1:] or ["no output"])[0])
    return passed[0]


@part(50)
def layers(check):
    """Each kind of layer against formulas in double precision."""
    program = check.program("tests/test_gpu_layers", "tests/test_trainer_layers_cuda")
    return run_cases(check, program, ["concat*"] if check.emulated else [])


@part(40)
def models(check):
    """A few steps of each kind of model against the CPU."""
    program = check.program("tests/test_gpu_models", "tests/test_trainer_cuda")
    return run_cases(check, program, ["models train on the GPU in half*"] if check.emulated else [])


# name: options of train, sides of the pictures (None: sentences), samples of a batch
CURVES = {
    "lenet": (("--lr=0.01", "--momentum=0"), (28, 28, 1), 32),
    "textclf": (("--optimizer=adamw", "--lr=0.0001"), None, 8),
    "resnet18": (("--lr=0.0001", "--momentum=0"), (20, 20, 3), 16),
    "alexnet": (("--lr=0.01", "--momentum=0"), (64, 64, 3), 8),
    "unet16": (("--lr=0.01", "--momentum=0"), (32, 32, 3), 4),
    "unet-resnet34": (("--lr=0.0001", "--momentum=0"), (64, 64, 3), 4),
}


@part(90)
def curves(check):
    """The loss of each of 100 calm steps of each model, against the CPU: within 1e-3."""
    steps = 3 if check.emulated else 100
    results = []
    for model in list(CURVES)[:2] if check.emulated else CURVES:
        options, sides, batch = CURVES[model]
        options = (f"--model={model}", f"--batch={batch}", f"--epochs={steps}", "--checkpoint-every=off", *options)
        if sides:
            data = check.new_folder()
            write_folder(data, sides, (batch, 2), masked=model.startswith("unet"))
            options += (f"--data={data}",)  # one batch: a step an epoch, and so a line for each step
        else:
            options += (f"--sentences={batch}",)
        far = distance(*(losses(check.train_run(*options, device=device)) for device in ("cuda", "cpu")))
        results.append(f"{model} {far:.1e}")
        if far > 1e-3:
            raise Failed(f"over {steps} steps the losses part: {', '.join(results)}")
    return ", ".join(results)


@part(30)
def precision(check):
    """bf16 and fp16 train about as on the CPU; an injected overflow skips one step."""
    options = (check.data(), "--max-steps=20", "--batch=32", "--checkpoint-every=off", "--lr=0.01")
    results = []
    for name, more in (("bf16", ()), ("fp16", ("--inject-overflow-at=3",))):
        ours, theirs = (final(check.train_run(*options, f"--precision={name}", *more, device=device))
                        for device in ("cuda", "cpu"))
        far = distance([ours["train_loss"]], [theirs["train_loss"]])
        results.append(f"{name} {far:.1e} from the CPU")
        if far > 2e-2 or ours["skipped"] != theirs["skipped"] or (more and ours["skipped"] < 1):
            raise Failed(f"{', '.join(results)}; skipped {ours['skipped']} and {theirs['skipped']} steps")
    return f"{', '.join(results)}, {ours['skipped']} skipped"


def worker_of(out):
    """The process of a worker with this --out, or None. (Launcher and agent have no LOCAL_RANK.)"""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if f"--out={out}".encode() in words and b"\0LOCAL_RANK=" in (process / "environ").read_bytes():
                return int(process.name)
        except OSError:
            continue
    return None


@part(40)
def restart(check):
    """A killed worker's run ends with the same bits; the CPU goes on from the GPU's checkpoint."""
    options = (check.data(), "--epochs=1000", "--batch=32", "--checkpoint-every=10")
    undisturbed = final(check.train_run(*options, "--max-steps=100"))
    out = check.new_folder()
    job = check.start([check.ddprun, "--nproc-per-node=1", "--max-restarts=1", check.train, "--device=cuda", f"--out={out}",
                       "--max-steps=100", *options], check.log.open("a"))
    victim = None
    while job.poll() is None and time.monotonic() < check.end:
        if victim is None and (out / "latest").exists():
            victim = worker_of(out)
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
        time.sleep(0.002)
    if job.poll() is None:
        job.kill()
        raise Failed("the job did not end after a worker was killed")
    ended = final(lines_of(out))
    if victim is None or ended["restarts"] < 1:
        raise Failed("the run was over before its worker could be killed")
    if job.returncode != 0 or ended["weights"] != undisturbed["weights"]:
        raise Failed(f"exit code {job.returncode}, weights {ended['weights']} instead of {undisturbed['weights']}")
    on_cpu = final(check.train_run(*options, "--max-steps=105", device="cpu", out=out))
    if on_cpu["steps"] != 105:
        raise Failed(f"the CPU went on to step {on_cpu['steps']} instead of 105")
    return f"weights {ended['weights']} with and without a kill; the CPU went on from step 100"


@part(30)
def ranks(check):
    """Two workers over NCCL give the bits of one: on two GPUs, or sharing one."""
    gpus = 1 if check.emulated else check.run(["nvidia-smi", "-L"]).count("GPU ")
    options = [check.data(), "--max-steps=10", "--batch=32", "--shards=2", "--exact", "--checkpoint-every=off"]
    if gpus < 2:
        options.append("--share-gpu")
    one, two = (final(check.train_run(*options, launch=(check.ddprun, f"--nproc-per-node={count}"), DDPRUN_EMULATED_GPUS="1"))
                for count in (1, 2))
    if one["weights"] != two["weights"]:
        raise Failed(f"weights {two['weights']} instead of {one['weights']}")
    return f"weights {one['weights']} of 1 and 2 workers, {'sharing a GPU' if gpus < 2 else 'a GPU for each'}"


@part(20)
def refusals(check):
    """What cannot work is refused with what to do, and 2."""
    cases = {
        "out of memory": (("--model=textclf", "--size=large", "--batch=1000", "--max-tokens=512", "--sentences=1000"),
                          {"DDPRUN_EMULATED_MEMORY": "1000000000"}, r"memory|GB"),
        "a GPU that is not there": ((), {"CUDA_VISIBLE_DEVICES": "77", "DDPRUN_EMULATED_GPUS": "0"}, r"GPU|CUDA"),
    }
    for name, (options, environment, expected) in cases.items():
        said = check.run([check.train, "--device=cuda", f"--out={check.new_folder()}", *options], 2, **environment)
        if not re.search(expected, said):
            raise Failed(f"{name}: {said.strip()}")
    return ", ".join(cases)


SPEEDS = {
    "lenet": ("--batch=256",),
    "resnet18": ("--batch=256", "--image-shape=28x28x3"),
    "alexnet": ("--batch=128", "--image-shape=224x224x3"),
    "textclf base": ("--size=base", "--batch=32", "--max-tokens=128"),
}


@part(70)
def speed(check):
    """Samples a second in fp32 and fp16: of this machine, to be noted."""
    seconds = 1 if check.emulated else 8
    results = []
    for name in list(SPEEDS)[:1] if check.emulated else SPEEDS:
        rates = []
        for kind in ("fp32", "fp16"):
            out = check.new_folder()
            process = check.start([check.train, f"--model={name.split()[0]}", "--device=cuda", f"--out={out}", "--epochs=1000",
                                   "--checkpoint-every=off", f"--precision={kind}", *SPEEDS[name]], check.log.open("a"))
            rate = measured_rate(process, out, min(check.end, time.monotonic() + 3 * seconds + 10), seconds)
            rates.append(f"{rate:.0f}")
        results.append(f"{name} {'/'.join(rates)}")
    return "samples/s, fp32/fp16: " + ", ".join(results)


def measured_rate(process, out, end, seconds):
    """The median of the intervals' rates over so many seconds, without the first interval; the run is then ended."""
    rates = []
    while process.poll() is None and time.monotonic() < end and len(rates) <= seconds:
        time.sleep(0.1)
        if (out / "metrics.jsonl").exists():
            rates = [line["samples_per_second"] for line in lines_of(out) if line["type"] == "interval"]
    if process.poll() is None:
        process.terminate()
        process.wait()
    if len(rates) < 2:
        raise Failed("no interval was measured; see the log")
    return sorted(rates[1:])[len(rates[1:]) // 2]


@part(60)
def sanitizer(check):
    """compute-sanitizer finds no wrong access and no race in the models' kernels."""
    if check.emulated:
        raise Skipped("it needs a GPU")
    tool = shutil.which("compute-sanitizer")
    if not tool:
        raise Skipped("compute-sanitizer is not on PATH")
    for kind in ("memcheck", "racecheck"):
        check.run([tool, f"--tool={kind}", "--error-exitcode=9", check.program("tests/test_gpu_models"), "*half precision*"])
    return "memcheck and racecheck found nothing"


# -------------------------------------------------------------------------------------------------------------------------

ROOT = pathlib.Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(prog="gpu-check", usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-check-out"))
    parser.add_argument("--limit", type=float)
    parser.add_argument("parts", nargs="*")
    parser.error = lambda what: parser.exit(64, f"gpu-check: {what}; see gpu-check --help\n")
    options = parser.parse_args()
    if options.list:
        for name, (function, limit) in PARTS.items():
            print(f"{name:10} {limit:4} s  {function.__doc__.strip()}")
        sys.exit(0)
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        print(f"gpu-check: no part {unknown[0]}: there are {', '.join(PARTS)}", file=sys.stderr)
        sys.exit(64)
    options.build = (options.build or (ROOT if (ROOT / "bin").is_dir() else ROOT / "build" / "release")).resolve()
    return options


def main():
    options = arguments()
    folder = options.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    with (folder / "summary.txt").open("w") as summary:
        for name in options.parts or PARTS:
            function, limit = PARTS[name]
            check = Part(options, folder, name, options.limit or limit * (10 if options.emulated else 1))
            begun = time.monotonic()
            try:
                result = f"ok       {function(check)}"
            except Skipped as why:
                result = f"skipped  {why}"
            except (Failed, OSError, LookupError, ValueError) as why:
                failed += 1
                result = f"FAILED   {why}"
            shutil.rmtree(check.folder, ignore_errors=True)
            line = f"{name:10} {time.monotonic() - begun:5.1f} s  {result}"
            print(line, flush=True)
            print(line, file=summary, flush=True)
    print(f"{failed} failed; logs: {folder}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
