"""Reports its steps until there is a file named as its argument, and ends with the code in it. Rank 1 is half as fast."""

import mmap
import os
import pathlib
import struct
import sys
import time

END = pathlib.Path(sys.argv[1])
RANK = int(os.environ["RANK"])
BYTES = 64

fd = os.open(os.environ["DDPRUN_PROGRESS_FILE"], os.O_RDWR | os.O_CREAT, 0o600)
os.posix_fallocate(fd, 0, BYTES)
page = mmap.mmap(fd, BYTES)
step = 0
while not END.exists():
    struct.pack_into("=6sHQQ24sI", page, 0, b"ddprun", 1, step, time.monotonic_ns(), b"forward", 0)
    print(f"\x1b[32mloss\x1b[0m of rank {RANK}", file=sys.stderr, flush=True)
    time.sleep(0.2 if RANK == 1 else 0.1)
    step += 1
sys.exit(int(END.read_text()))
