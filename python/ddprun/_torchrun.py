"""What the wheel ddprun-torchrun imports at the start of Python, if the command may be PyTorch's launcher: it becomes ddprun if it is."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Optional

from ddprun._programs import MODULES, become_ddprun, is_torchrun


def launcher_arguments(words: Sequence[str]) -> Optional[Sequence[str]]:
    """The arguments of PyTorch's launcher in a command line of Python; None: it starts something else."""
    at = 1
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-"):
            return words[at:] if is_torchrun(pathlib.Path(word)) else None
        if word == "-" or word.startswith("--"):
            return None
        for place, letter in enumerate(word[1:], 2):
            if letter == "c":
                return None
            if letter not in "mWX":
                continue
            value = word[place:]
            if not value:
                value = words[at] if at < len(words) else ""
                at += 1
            if letter == "m":
                return words[at:] if value in MODULES else None
            break
    return None


def start() -> None:
    arguments = launcher_arguments(getattr(sys, "orig_argv", ()))
    if arguments is not None and os.environ.get("DDPRUN_TORCHRUN") != "0":
        # Not SystemExit: Python would print that its start has failed.
        code = become_ddprun(arguments, "torchrun")
        sys.stderr.flush()
        os._exit(code)


start()
