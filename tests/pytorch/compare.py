"""The inside of scripts/compare-with-torchrun: runs the programs of comparison.py under both launchers, prints a table."""

import argparse
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import comparison
import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Each line is one call of pip; those below the first may fail, and then their programs are skipped.
PACKAGES = (["torch", "numpy", "tqdm"], ["transformers", "accelerate"], ["lightning"],
            ["--no-build-isolation", "deepspeed"])
VENV_ROOM_GB = 9  # with pip's cache of what it has downloaded
PIP_LIMIT_S = 1800
PR_SET_CHILD_SUBREAPER = 36


class Failure(Exception):
    """Ends the script with one line."""


def print_progress(text):
    print(f"compare-with-torchrun: {text}", file=sys.stderr, flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="compare-with-torchrun", add_help=False,
        usage="scripts/compare-with-torchrun [--programs NAME,...] [--venv DIR] [--bin DIR] [--limit SECONDS] [--list]")
    parser.add_argument("--programs")
    parser.add_argument("--venv", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    known = {program.name: program for program in comparison.ALL}
    names = [name for name in options.programs.split(",") if name] if options.programs is not None else list(known)
    if options.limit is not None and options.limit < 1:
        parser.error("--limit: at least 1 second")
    if not names:
        parser.error("--programs: no name given")
    for name in names:
        if name not in known:
            parser.error(f"--programs: unknown program {name}; known: {', '.join(known)}")
    options.programs = [known[name] for name in names]
    return options


def pip(venv, packages):
    """Installs `packages` and prints every 20 s that it still does; pip's exit code, or 1 after too long a time."""
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    begin = time.monotonic()
    with subprocess.Popen(command, env=os.environ | {"DS_BUILD_OPS": "0"}) as running:
        while True:
            try:
                return running.wait(20)
            except subprocess.TimeoutExpired:
                waited = time.monotonic() - begin
                print_progress(f"pip is still busy after {waited:.0f} s")
                if waited > PIP_LIMIT_S:
                    running.kill()
                    print_progress(f"pip is stopped after {PIP_LIMIT_S} s")
                    return 1


def make_venv(venv):
    """A venv with PyTorch from PyPI; does nothing where it was made before."""
    done = venv / "complete"
    if done.exists():
        return
    parent = next(folder for folder in venv.absolute().parents if folder.exists())
    room = shutil.disk_usage(parent).free / 1e9
    if room < VENV_ROOM_GB:
        raise Failure(f"{parent} has {room:.1f} GB free, and the environment needs {VENV_ROOM_GB} GB: make room, or name "
                      "an environment that has PyTorch with --venv")
    print_progress(f"making {venv} from PyPI (about 6 GB, some minutes)")
    if subprocess.run([sys.executable, "-m", "venv", venv], check=False, timeout=300).returncode != 0:
        raise Failure("this Python cannot make an environment: apt-get install python3-venv, or name one with --venv")
    for number, packages in enumerate(PACKAGES):
        print_progress(f"pip install {' '.join(packages)}")
        if pip(venv, packages) != 0:
            if number == 0:
                raise Failure("PyTorch could not be installed (see pip's message above): name an environment that has it "
                              "with --venv")
            print_progress(f"{packages[-1]} could not be installed; its program is skipped (remove {venv} to try again)")
    done.touch()


def end_leftovers():
    """Kills the processes that a run left behind, which this process has adopted; returns their number."""
    found = 0
    for _ in range(1000):
        children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
        if not children:
            break
        for child in children:
            found += 1
            os.kill(int(child), signal.SIGKILL)
            os.waitpid(int(child), 0)
    return found


def compare(program, torch, limit_s):
    """One row of the table: the columns, and the outcome: same, different or skipped."""
    reason = comparison.not_runnable(program, torch)
    if reason:
        return ["-", "-", f"skipped: {reason}"], "skipped"
    columns, notes, ended = [], [], []
    for name, launcher in (("torchrun", torch.torchrun), ("ddprun", torch.ddprun)):
        print_progress(f"{program.name} under {name}")
        try:
            ended.append(comparison.run_under(launcher, program, torch, limit_s))
        except AssertionError as error:  # the harness's: not done within the limit
            first = str(error).splitlines()[0]
            return [*columns, "-", "-"][:2] + [f"DIFFERENT: {name}: {first}"], "different"
        finally:
            left = end_leftovers()
            if left:
                notes.append(f"{name} left {left} process{'es' if left > 1 else ''} behind")
        columns.append(f"{ended[-1].status:>4} {ended[-1].seconds:6.1f} s")
        if ended[-1].repeated:
            notes.append(f"{name}: run {ended[-1].repeated + 1}, PyTorch failed in those before")
    differs = comparison.difference(program, *ended)
    for name, one in zip(("torchrun", "ddprun"), ended if differs else []):
        lines = "\n".join(f"    {line}" for line in one.output.splitlines()[-20:])
        print_progress(f"the last lines under {name}:\n{lines}")
    verdict = f"DIFFERENT: {differs}" if differs else f"same {len(ended[0].results)} lines"
    return [*columns, "; ".join([verdict, *notes])], "different" if differs else "same"


def print_row(name, columns):
    print(f"{name:<12} {columns[0]:>13} {columns[1]:>13}  {columns[2]}", flush=True)


def main():
    options = parse(sys.argv[1:])
    if options.list:
        print("\n".join(f"{program.name:<12} {program.about}" for program in options.programs))
        return 0
    # As an adopter of orphans this process sees, and ends, everything that a launcher leaves behind.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if not os.access(options.bin / "ddprun", os.X_OK):
            raise Failure(f"no {options.bin / 'ddprun'}: run scripts/quickstart first, or name its folder with --bin")
        venv = options.venv
        if venv is None:
            venv = ROOT / "build" / "compare-venv"
            make_venv(venv)
        torch = harness.probe(str(venv / "bin" / "python"))
        if torch is None:
            raise Failure(f"{venv}/bin/python has no PyTorch: install it there, or leave out --venv")
        harness.BIN = options.bin.resolve()
        print_progress(f"{torch}, {comparison.WORKERS} workers; programs: {len(options.programs)}")
        names = {"same": [], "different": [], "skipped": []}
        print_row("program", ["torchrun", "ddprun", ""])
        for program in options.programs:
            columns, outcome = compare(program, torch, options.limit)
            print_row(program.name, columns)
            names[outcome].append(program.name)
    except (Failure, OSError, subprocess.SubprocessError) as error:
        print_progress(error)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        end_leftovers()
    print(", ".join(f"{len(found)} {outcome}" for outcome, found in names.items()))
    return 0 if names["same"] and not names["different"] else 1


if __name__ == "__main__":
    sys.exit(main())
