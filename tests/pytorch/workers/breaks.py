"""A gloo group of which one rank breaks in the middle of training; the others notice by their broken connections.
Arguments: how, and which rank."""

import atexit
import ctypes
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

how, breaking_rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
for step in range(100):
    if step == 20 and dist.get_rank() == breaking_rank:
        if how == "exception and slow end":
            atexit.register(time.sleep, 1)  # so that the others are gone before it is
        if how.startswith("exception"):
            raise ValueError("a learning rate of nan")
        if how == "exit code":
            sys.exit(7)
        if how == "leaves":
            os._exit(0)  # at an ordinary exit PyTorch 2.6 sometimes aborts
        if how == "segmentation fault":
            ctypes.string_at(0)
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1000))
