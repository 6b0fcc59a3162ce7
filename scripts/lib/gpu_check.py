"""The main program of scripts/gpu-check. The usage is at the top of that."""

import argparse
import collections
import os
import pathlib
import sys
import tempfile
import time

from gpu_cifar import cifar
from gpu_groups import kill, ranks, restart
from gpu_part import LOG, ROOT, Failed, Part, Skipped, TimeUp, end_on_signals, held_driver
from gpu_parts import curves, layers, models, precision, race, refusals, sanitizer, smoke, versions, warm

# In the order of worth.
PARTS = {function.__name__: function for function in (warm, versions, smoke, layers, models, curves, precision, cifar, restart,
                                                      ranks, kill, refusals, race, sanitizer)}


def arguments():
    parser = argparse.ArgumentParser(prog="gpu-check", usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-check-out"))
    parser.add_argument("--limit", type=float)
    parser.add_argument("--total", type=float)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("parts", nargs="*")
    parser.error = lambda what: parser.exit(64, f"gpu-check: {what}; see gpu-check --help\n")
    options = parser.parse_args()
    if options.list:
        for name, function in PARTS.items():
            alone = " (Only where it is named.)" if function.alone else ""
            print(f"{name:10} {function.limit:4} s  {' '.join(function.__doc__.split())}{alone}")
        sys.exit(0)
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        print(f"gpu-check: no part {unknown[0]}: there are {', '.join(PARTS)}", file=sys.stderr)
        sys.exit(64)
    options.total = options.total or 560 * (10 if options.emulated else 1)
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


def outcome(options, folder, name, left):
    """How the part ended, and its text. `left`: seconds for all parts that are to come."""
    function = PARTS[name]
    if left <= 0:
        return "not run", f"the {options.total:g} s of all parts were over"
    try:
        limit = options.limit or function.limit * (10 if options.emulated else 1)
        with Part(options, folder, name, min(limit, left)) as check:
            return "ok", function(check)
    except Skipped as why:
        return "skipped", why
    except TimeUp as why:
        return "not run", why
    except (Failed, OSError, LookupError, ValueError) as why:
        return "FAILED", why


def run_parts(options, folder, names, lines):
    """How often each outcome occurred. Each part's line is written as it ends."""
    counts = collections.Counter()
    end = time.monotonic() + options.total
    for name in names:
        begun = time.monotonic()
        word, text = outcome(options, folder, name, end - begun)
        counts[word] += 1
        lines[name] = f"{name:10} {time.monotonic() - begun:5.1f} s  {word:8} {text}"
        print(lines[name], flush=True)
        write_summary(folder, lines)
    return counts


def main():
    options = arguments()
    end_on_signals()
    folder = options.out.resolve()
    names = options.parts or [name for name, function in PARTS.items() if not function.alone]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.rmdir(tempfile.mkdtemp(dir=folder))
        lines = earlier_lines(folder, names)
        write_summary(folder, lines)
        if not lines:
            (folder / LOG).write_text("")
    except OSError as why:
        unwritable(folder, why)
    with held_driver(options.emulated):
        counts = run_parts(options, folder, names, lines)
    print(f"{counts['FAILED']} failed, {counts['not run']} not run; logs: {folder / LOG}")
    return counts["FAILED"] + counts["not run"]


if __name__ == "__main__":
    sys.exit(main())
