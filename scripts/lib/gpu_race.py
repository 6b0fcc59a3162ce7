"""Samples a second of `train` beside PyTorch, and the main program of scripts/gpu-race. The usage is at the top of that."""

import argparse
import contextlib
import dataclasses
import fnmatch
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
import types

from gpu_part import HELD_OUT, LOG, ROOT, TRAIN, Failed, Part, TimeUp, end_on_signals, held_driver, measured_rate, write_noise
from gpu_race_report import SIDES, Report, aims_of, gaps_line, line_of, merged, summary_of, title

PYTORCH = ROOT / "bench" / "gpu" / "pytorch_gpu.py"


@dataclasses.dataclass(frozen=True)
class Case:
    """A model at one size. Pictures are noise; texts are generated."""

    model: str
    batch: int
    sides: tuple = None  # height, width, channels; None: texts
    tokens: int = 0
    size: str = ""  # of textclf
    stem: str = ""  # of resnet18
    optimizer: str = "sgd"
    limit: int = 90  # seconds for a row

    @property
    def masked(self):
        return self.model.startswith("unet")

    @property
    def shape(self):
        return "x".join(map(str, self.sides or (28, 28, 1)))

    def options(self):
        """That `train` and pytorch_gpu.py share."""
        named = {"model": self.model, "batch": self.batch, "optimizer": self.optimizer, "size": self.size, "stem": self.stem}
        return [f"--{name}={value}" for name, value in named.items() if value]


# --max-tokens: sentences come out shorter than this, so that nearly all batches are 128 tokens wide.
WIDE = 172

CASES = {
    "resnet18-28": Case("resnet18", 256, (28, 28, 1)),
    "alexnet-227": Case("alexnet", 128, (227, 227, 3), optimizer="adamw"),
    "textclf-large-16": Case("textclf", 16, tokens=WIDE, size="large", optimizer="adamw", limit=180),
    "textclf-large-64": Case("textclf", 64, tokens=WIDE, size="large", optimizer="adamw", limit=180),
    "resnet18-224": Case("resnet18", 128, (224, 224, 3), stem="imagenet"),
    "unet16-448": Case("unet16", 4, (448, 448, 3), limit=120),
}
# Of a GPU in software, and of PyTorch on the CPU.
SMALL = {
    "resnet18-28": Case("resnet18", 2, (8, 8, 1)),
    "textclf-large-16": Case("textclf", 2, tokens=32, size="tiny", optimizer="adamw"),
    "unet16-448": Case("unet16", 1, (32, 32, 3)),
}
PRECISIONS = ("bf16", "fp16", "fp32", "tf32")
DATA_BYTES = 600_000_000  # of pictures, at most: an epoch ends as seldom as that allows


def rows_of(cases):
    """In the order of worth."""
    return [f"{name}/{precision}" for precision in PRECISIONS for name in cases]


def write_data(check, case, most_bytes):
    """The options for the data of `train`. Pictures are written once for a row."""
    if case.tokens:
        steps = 2 if check.emulated else 64
        return [f"--sentences={case.batch * steps}", f"--max-tokens={case.tokens}"]
    folder = check.folder / "data"
    if not folder.exists():
        height, width, channels = case.sides
        of_sample = height * width * (channels + case.masked)
        steps = 2 if check.emulated else max(4, min(256, most_bytes // (of_sample * case.batch)))
        folder.mkdir()
        for name, count in ((TRAIN, steps * case.batch), (HELD_OUT, case.batch)):
            write_noise(folder, name, case.sides, count, case.masked)
    return [f"--data={folder}"]


def gpu_of_nvidia_smi():
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"


class Memory:
    """The most of the GPU's memory that is in use while this `with` lasts, beyond what was before, in GiB. None where
    nvidia-smi does not tell. Neither `train` nor PyTorch gives memory back, so that looks now and then find the peak."""

    QUERY = ("--query-gpu=memory.used", "--format=csv,noheader,nounits")

    def __init__(self, check):
        self.check, self.peak, self.process = check, None, None

    def __enter__(self):
        command = ["nvidia-smi", f"--id={gpu_of_nvidia_smi()}", *self.QUERY]
        if self.check.emulated or not shutil.which("nvidia-smi"):
            return self
        try:
            self.before = int(self.check.run(command, seconds=10))
        except (Failed, ValueError):
            return self
        self.path = self.check.new_folder()
        with self.path.open("w") as output:
            self.process = self.check.start([*command, "--loop-ms=100"], output)
        return self

    def __exit__(self, *_):
        if self.process:
            self.check.stop(self.process)
            used = [int(line) for line in self.path.read_text().split() if line.isdigit()]
            if used:
                self.peak = (max(used) - self.before) / 1024


def train_command(check, program, out, case, precision, settings):
    return [program, "--device=cuda", f"--out={out}", "--quiet", "--epochs=1000000", "--checkpoint-every=off",
            "--resume=never", "--lr=0.0001", "--schedule=constant", f"--precision={precision}", *case.options(),
            *write_data(check, case, settings.data_bytes), *settings.train_options]


def run_train(check, case, precision, settings):
    out = check.new_folder()
    command = train_command(check, check.train, out, case, precision, settings)
    with Memory(check) as memory:
        rate = measured_rate(check, check.start(command), out, settings.seconds, patience=60)
    if rate is None:
        raise TimeUp("the time was up before a rate was measured")
    return {"rate": rate, "gib": memory.peak}


def run_gaps(check, case, precision, settings):
    """Of `train`: the share of a step in which the GPU had nothing to do, and bytes a second of the optimizer's pass. Its events
    take time, too: so this is no part of the race."""
    program = check.program("bin/bench_gpu_gaps", "tests/bench_gpu_gaps_emulated")
    steps = 6 if check.emulated else 80  # the first 20 are not measured
    said = check.run(train_command(check, program, check.new_folder(), case, precision, settings) + [f"--max-steps={steps}"])
    return json.loads(said.strip().splitlines()[-1])


def pytorch(check, settings, *options):
    """What pytorch_gpu.py found."""
    cache = settings.cache
    said = check.run([settings.python, "-B", str(PYTORCH), f"--device={'cpu' if check.emulated else 'cuda'}", *options],
                     TORCHINDUCTOR_CACHE_DIR=cache, TRITON_CACHE_DIR=cache + "/triton")
    found = [line for line in said.splitlines() if line.startswith("{")]
    if not found:
        raise Failed("pytorch_gpu.py printed no figures")
    return json.loads(found[-1])


def run_pytorch(check, case, precision, settings, *more):
    with Memory(check) as memory:
        found = pytorch(check, settings, f"--shape={case.shape}", f"--tokens={case.tokens}", f"--precision={precision}",
                        f"--seconds={settings.seconds}", *case.options(), *more)
    return found | {"gib": memory.peak}


def run_compiled(check, case, precision, settings):
    return run_pytorch(check, case, precision, settings, "--compile")


RUN = {"train": run_train, "eager": run_pytorch, "compile": run_compiled}


def race(check, case, precision, settings, sides):
    """Each side in turn, for as many rounds as fit into the time: {side: figures of each round}, {side: the exception that says
    why it has none}."""
    found, problems = {side: [] for side in sides}, {}
    for _ in range(settings.rounds):
        begun = time.monotonic()
        for side in sides:
            if side in problems:
                continue
            try:
                found[side].append(RUN[side](check, case, precision, settings))
            except (Failed, OSError, ValueError) as why:
                if not found[side]:
                    problems[side] = why
        if check.left() < 1.2 * (time.monotonic() - begun):
            break
    return found, problems


def quick_settings(check):
    """For scripts/gpu-check."""
    rows = ["resnet18-28/bf16"] if check.emulated else ["resnet18-28/bf16", "alexnet-227/fp16"]
    return types.SimpleNamespace(rows=rows, cases=SMALL if check.emulated else CASES, rounds=1, seconds=2, python="python3",
                                 train_options=[], data_bytes=DATA_BYTES // 4, cache=str(check.folder / "inductor"))


def versions_of(check, settings, share=0.5):
    """Of PyTorch; empty: it cannot be used. The reason is in the second. `share`: of the time that is left, at most: the first
    import on a machine reads gigabytes."""
    needed = "torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU'"
    try:
        said = check.run([settings.python, "-c", f"import torch; print(torch.__version__, {needed}, sep=', ')"],
                         seconds=check.left() * share)
    except (Failed, OSError) as why:
        return "", str(why)
    version = said.strip().splitlines()[-1]
    if "no GPU" in version and not check.emulated:
        return "", f"{version} for it"
    return version, ""


@contextlib.contextmanager
def compile_cache():
    """The folder in which torch.compile keeps what it has compiled: for all rows, and for later runs where the environment
    names one."""
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if named:
        yield named
        return
    folder = tempfile.mkdtemp(prefix="ddprun-inductor-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def begin(options, folder, report):
    """What the rows need to know: which sides there are, and the GPU's rates."""
    sides, ceiling = list(options.sides), {}
    with Part(options, folder, "ceilings", min(150 * (10 if options.emulated else 1), options.left())) as check:
        version, why = versions_of(check, options)
        report.line(f"PyTorch: {version or 'none: ' + why}")
        if not version:
            sides = [side for side in sides if side == "train"]
        else:
            try:
                ceiling = pytorch(check, options, "--ceilings")
            except (Failed, ValueError) as reason:
                report.line(f"the GPU's rates were not measured: {reason}")
    if ceiling:
        report.figures({"ceilings": ceiling})
        products = ", ".join(f"{name} {ceiling[name]:.4g}" for name in PRECISIONS)
        report.line(f"{ceiling['gpu']}: matrix products in TFLOP/s: {products}; copy {ceiling['copy']:.4g} GB/s")
    return sides, ceiling


def turns_of(rows, sides):
    """What is measured in one go, in the order of worth: rows with their sides, as stages. Of each precision all rows beside
    eager come first: to compile takes longer than all else."""
    beside_eager = [side for side in sides if side != "compile"] if "eager" in sides or "compile" not in sides else []
    beside_compile = [side for side in sides if side != "eager"] if "compile" in sides else []
    return [[(row, stage) for row in rows if row.endswith(f"/{precision}")]
            for precision in PRECISIONS for stage in (beside_eager, beside_compile) if stage]


def run_turn(options, folder, report, row, sides, limit, ceiling, earlier):
    """What is known of the row by now, and whether no side failed. `earlier`: what was known before."""
    name, precision = row.split("/")
    case = options.cases[name]
    problems, gaps = {}, None
    with Part(options, folder, row.replace("/", "-"), min(limit, options.left())) as check:
        if "train" in sides and not earlier:
            try:
                gaps = run_gaps(check, case, precision, options)
            except (Failed, OSError, LookupError, ValueError) as why:
                problems["gaps"] = why
        found, of_sides = race(check, case, precision, options, sides)
    problems = {side: str(why) for side, why in (of_sides | problems).items()}
    summary = merged(earlier, summary_of(found, precision, ceiling) | {"gaps": gaps})
    report.figures({"row": row} | summary | {"measured": found, "problems": problems})
    report.line(line_of(row, summary))
    for side, figures in found.items():
        ways = {one["compiled_by"] for one in figures if one.get("compiled_by")}
        if ways - {"inductor, reduce-overhead"}:
            report.line(f"  {side}: compiled by {', '.join(sorted(ways))}")
    for side, why in problems.items():
        report.line(f"  {side}: {why}")
    if gaps:
        report.line(gaps_line(gaps, ceiling.get("copy")))
    return summary, not problems


LEAST = 45  # seconds of a turn: the start of both sides, and a round


def run_turns(options, folder, report, sides, ceiling):
    """How many rows have a side that failed, and what is known of each row."""
    failed, summaries, late = set(), {}, []
    for stage in turns_of(options.rows, sides):
        for number, (row, its_sides) in enumerate(stage):
            if options.left() < 15:
                late.append(f"{row} ({', '.join(its_sides)})")
                continue
            limit = (options.limit or options.cases[row.split("/")[0]].limit) * (10 if options.emulated else 1)
            if "compile" not in its_sides:  # all of the stage get a turn
                limit = min(limit, max(LEAST, options.left() / (len(stage) - number)))
            summaries[row], complete = run_turn(options, folder, report, row, its_sides, limit, ceiling, summaries.get(row))
            if not complete:
                failed.add(row)
    if late:
        report.line(f"the time was up before: {', '.join(late)}")
    return len(failed), summaries


def arguments():
    parser = argparse.ArgumentParser(prog="gpu-race", usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-race-out"))
    parser.add_argument("--python", default=os.environ.get("DDPRUN_BENCH_PYTHON", "python3"))
    parser.add_argument("--sides", type=lambda text: text.split(","), default=list(SIDES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--minutes", type=float, default=9.5)
    parser.add_argument("--train-option", dest="train_options", action="append", default=[])
    parser.add_argument("rows", nargs="*")
    parser.error = lambda what: parser.exit(64, f"gpu-race: {what}; see gpu-race --help\n")
    options = parser.parse_args()
    options.cases = SMALL if options.emulated else CASES
    options.data_bytes = DATA_BYTES
    rows = rows_of(options.cases)
    if options.list:
        print("\n".join(rows))
        sys.exit(0)
    for side in options.sides:
        if side not in SIDES:
            parser.error(f"no side {side}: there are {', '.join(SIDES)}")
    for pattern in options.rows:
        if not any(fnmatch.fnmatchcase(row, pattern) for row in rows):
            parser.error(f"no row {pattern}: there are {', '.join(rows)}")
    options.rows = [row for row in rows if not options.rows or any(fnmatch.fnmatchcase(row, one) for one in options.rows)]
    options.build = (options.build or (ROOT if (ROOT / "bin").is_dir() else ROOT / "build" / "release")).resolve()
    options.end = time.monotonic() + 60 * options.minutes
    options.left = lambda: options.end - time.monotonic()
    return options


def main():
    options = arguments()
    end_on_signals()
    folder = options.out.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        report = Report(folder)
    except OSError as why:
        print(f"gpu-race: cannot write to {folder}: {why.strerror}; name another folder by --out", file=sys.stderr)
        return 64
    with held_driver(options.emulated), compile_cache() as options.cache:
        try:
            sides, ceiling = begin(options, folder, report)
        except Failed as why:
            report.line(f"gpu-race: {why}")
            return 1
        report.line(title())
        failed, summaries = run_turns(options, folder, report, sides, ceiling)
    report.line(f"samples/s: medians; a ratio is above 1 where `train` is faster; {failed} rows with a side that failed; "
                f"logs: {folder / LOG}")
    report.line("aims:")
    for line in aims_of(summaries):
        report.line(line)
    return failed


if __name__ == "__main__":
    sys.exit(main())
