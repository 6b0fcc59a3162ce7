"""Stands in for torch.distributed.run, so that tools which call it start their workers by ddprun.

python -m ddprun.torch_run COMMAND ...: runs a command of this environment (accelerate launch, fabric run, tune run).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Optional

from ddprun._programs import become_ddprun

USAGE = "usage: python -m ddprun.torch_run COMMAND [ARGUMENT...], for example accelerate launch --num_processes 2 train.py"


def words_of(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> list[str]:
    """The command line that means what `arguments` say. Defaults of `parser`, PyTorch's own, are left out."""
    words = []
    for action in parser._actions:
        value = getattr(arguments, action.dest, None)
        if not action.option_strings or value is None or str(value) == str(action.default):
            continue
        name = action.option_strings[-1]
        if action.nargs == 0:
            words += [name] if value else []
        else:
            words.append(f"{name}={value}")
    if not getattr(arguments, "use_env", True):  # torch.distributed.launch
        words.append("--local-rank-argument=dash")
    return [*words, arguments.training_script, *arguments.training_script_args]


def run(args: argparse.Namespace) -> NoReturn:
    """torch.distributed.run.run: this process becomes ddprun, so it does not return."""
    parser = importlib.import_module("torch.distributed.run").get_args_parser()
    raise SystemExit(become_ddprun(words_of(args, parser), "torchrun"))


def main(args: Optional[Sequence[str]] = None) -> NoReturn:
    """torch.distributed.run.main: this process becomes ddprun, so it does not return."""
    raise SystemExit(become_ddprun(sys.argv[1:] if args is None else args, "torchrun"))


def install() -> None:
    """Puts run() and main() in the place of PyTorch's. Call it before the tool is imported."""
    launcher = importlib.import_module("torch.distributed.run")
    for function in (run, main):
        setattr(launcher, function.__name__, function)


def command(name: str) -> Optional[Callable[[], Any]]:
    """The function behind a command that pip has installed into this environment; None: there is no such command."""
    for distribution in importlib.metadata.distributions():
        for entry in distribution.entry_points:
            if entry.group == "console_scripts" and entry.name == name:
                function: Callable[[], Any] = entry.load()
                return function
    return None


def _fail(text: str) -> NoReturn:
    print(f"ddprun: {text}", file=sys.stderr)
    raise SystemExit(2)


def start() -> Any:
    """The module's own command line."""
    words = sys.argv[1:]
    if not words or words[0].startswith("-"):
        _fail(USAGE)
    try:
        install()
    except ModuleNotFoundError as error:
        _fail(f"{error}: without PyTorch no command can call its launcher; use ddprun itself")
    function = command(words[0])
    if function is None:
        _fail(f"{words[0]} is not a command of a Python package in this environment; {USAGE}")
    sys.argv = words
    return function()


if __name__ == "__main__":
    sys.exit(start())
