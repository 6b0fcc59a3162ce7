"""The parts of scripts/gpu-check, and its main program. The usage is at the top of scripts/gpu-check."""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time

from gpu_part import (ROOT, Failed, Part, Skipped, distance, end_on_signals, final, lines_of, losses, measured_rate,
                      write_folder)

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
    if not shutil.which("nvidia-smi"):
        raise Failed("nvidia-smi is missing: is NVIDIA's driver installed?")
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


@part(95)
def curves(check):
    """The loss of each of 20 calm steps of each model (lenet, textclf: 100), against the CPU: within 1e-3."""
    threads = min(16, len(os.sched_getaffinity(0)))
    results = []
    for model in list(CURVES)[:2] if check.emulated else CURVES:
        options, sides, batch, steps = CURVES[model]
        steps = 3 if check.emulated else steps
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
    steps = 100 if check.emulated else 2000
    options = (check.data(), "--epochs=1000", "--batch=32", f"--checkpoint-every={10 if check.emulated else 100}")
    undisturbed = final(check.train_run(*options, f"--max-steps={steps}"))
    out = check.new_folder()
    job = check.start([check.ddprun, "--nproc-per-node=1", "--max-restarts=1", check.train, "--device=cuda", f"--out={out}",
                       f"--max-steps={steps}", *options])
    worker = None
    killed = False
    while job.poll() is None and time.monotonic() < check.end:
        if worker is None:
            worker = worker_of(out)
        elif not killed and (out / "latest").exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
            killed = True
        time.sleep(0.002)
    if job.poll() is None:
        raise Failed(f"the time was up {'after the worker was killed' if killed else 'before the first checkpoint'}")
    if job.returncode != 0:
        raise Failed(f"exit code {job.returncode} of ddprun; see the log")
    ended = final(lines_of(out))
    if not killed or ended["restarts"] < 1:
        raise Skipped("the run was over before its worker could be killed")
    if ended["weights"] != undisturbed["weights"]:
        raise Failed(f"weights {ended['weights']} instead of {undisturbed['weights']}")
    on_cpu = final(check.train_run(*options, f"--max-steps={steps + 5}", device="cpu", out=out))
    if on_cpu["steps"] != steps + 5:
        raise Failed(f"the CPU went on to step {on_cpu['steps']} instead of {steps + 5}")
    return f"weights {ended['weights']} with and without a kill; the CPU went on from step {steps}"


def gpu_count(check):
    if check.emulated:
        return 1
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([entry for entry in visible.split(",") if entry.strip()])
    return len(re.findall(r"^GPU ", check.run(["nvidia-smi", "-L"]), re.MULTILINE))


@part(30)
def ranks(check):
    """Two workers over NCCL, on two GPUs or sharing one: --exact gives the bits of one worker, else about its loss."""
    shares = gpu_count(check) < 2
    options = [check.data(), "--max-steps=10", "--batch=32", "--shards=4", "--checkpoint-every=off"]
    if shares:
        options += ["--share-gpu", "--rendezvous-timeout=10s"]

    def run(count, *more):
        launch = (check.ddprun, f"--nproc-per-node={count}")
        return final(check.train_run(*options, *more, launch=launch, DDPRUN_EMULATED_GPUS="1"))

    one = run(1, "--exact")
    try:
        two, inexact = run(2, "--exact"), run(2)
    except Failed:
        refused = [line for line in check.log.read_text().splitlines() if "ncclCommInitRankConfig" in line]
        if shares and refused:
            raise Skipped(f"NCCL refuses to share a GPU: {refused[0]}") from None
        raise
    if one["weights"] != two["weights"]:
        raise Failed(f"weights {two['weights']} instead of {one['weights']}")
    far = distance([inexact["train_loss"]], [one["train_loss"]])
    if far > 1e-3:
        raise Failed(f"without --exact the loss of 2 workers is {far:.1e} from that of 1")
    how = "sharing a GPU" if shares else "a GPU for each"
    return f"weights {one['weights']} of 1 and 2 workers, {how}; without --exact {far:.1e} from their loss"


@part(20)
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


SPEEDS = {
    "lenet": ("--batch=256",),
    "resnet18": ("--batch=256", "--image-shape=28x28x3"),
    "alexnet": ("--batch=128", "--image-shape=224x224x3"),
    "textclf base": ("--size=base", "--batch=32", "--max-tokens=128"),
}


@part(70)
def speed(check):
    """Samples a second in fp32 and fp16: of this machine, to be noted."""
    seconds = 1 if check.emulated else 4
    results = []
    for name in list(SPEEDS)[:1] if check.emulated else SPEEDS:
        for kind in ("fp32", "fp16"):
            if time.monotonic() >= check.end:
                break
            out = check.new_folder()
            process = check.start([check.train, f"--model={name.split()[0]}", "--device=cuda", f"--out={out}",
                                   "--epochs=1000", "--checkpoint-every=off", f"--precision={kind}", *SPEEDS[name]])
            rate = measured_rate(check, process, out, seconds)
            if rate is not None:
                results.append(f"{name} {kind} {rate:.0f}")
    if not results:
        raise Failed("the time was up before a rate was measured; see the log")
    late = "; then the time was up" if time.monotonic() >= check.end else ""
    return f"samples/s: {', '.join(results)}{late}"


@part(60)
def sanitizer(check):
    """compute-sanitizer finds no wrong access and no race in the models' kernels."""
    if check.emulated:
        raise Skipped("it needs a GPU")
    tool = shutil.which("compute-sanitizer")
    if not tool:
        raise Skipped("compute-sanitizer is not on PATH")
    kinds = ("memcheck", "racecheck")
    for number, kind in enumerate(kinds):
        said = check.run([tool, f"--tool={kind}", "--error-exitcode=9", check.program("tests/test_gpu_models"),
                          "*half precision*"], seconds=check.left() / (len(kinds) - number))
        if "All tests passed" not in said:
            raise Failed(f"{kind} found nothing, but the tests did not pass; see the log")
    return "memcheck and racecheck found nothing"


# -------------------------------------------------------------------------------------------------------------------------


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


def unwritable(folder, why):
    print(f"gpu-check: cannot write to {folder}: {why.strerror}; name another folder by --out", file=sys.stderr)
    sys.exit(64)


def earlier_lines(folder, without):
    """The lines of summary.txt of parts that do not run now."""
    path = folder / "summary.txt"
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    found = {line.split(" ", 1)[0]: line for line in lines}
    return {name: line for name, line in found.items() if name in PARTS and name not in without}


def write_summary(folder, lines):
    text = "".join(f"{lines[name]}\n" for name in PARTS if name in lines)
    (folder / "summary.txt").write_text(text)


def outcome(options, folder, name):
    """How the part ended, and its text."""
    function, limit = PARTS[name]
    try:
        with Part(options, folder, name, options.limit or limit * (10 if options.emulated else 1)) as check:
            return "ok", function(check)
    except Skipped as why:
        return "skipped", why
    except (Failed, OSError, LookupError, ValueError) as why:
        return "FAILED", why


def main():
    options = arguments()
    end_on_signals()
    folder = options.out.resolve()
    names = options.parts or list(PARTS)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.rmdir(tempfile.mkdtemp(dir=folder))
        lines = earlier_lines(folder, names)
        write_summary(folder, lines)
    except OSError as why:
        unwritable(folder, why)
    failed = 0
    for name in names:
        begun = time.monotonic()
        word, text = outcome(options, folder, name)
        failed += word == "FAILED"
        lines[name] = f"{name:10} {time.monotonic() - begun:5.1f} s  {word:8} {text}"
        print(lines[name], flush=True)
        write_summary(folder, lines)
    print(f"{failed} failed; logs: {folder}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
