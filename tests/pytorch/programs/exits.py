"""Ends as its argument says, without PyTorch: rank 1 by that exit code, or by that signal; rank 0 would go on."""

import os
import pathlib
import signal
import sys
import time

how = sys.argv[1]
print(f"RESULT rank {os.environ['RANK']} runs until rank 1 ends by {how}\n", end="")
printed = pathlib.Path("rank 0 has printed")
if os.environ["RANK"] == "0":
    printed.touch()
    time.sleep(60)
for _ in range(3000):
    if printed.exists():
        break
    time.sleep(0.02)
if how.isdigit():
    sys.exit(int(how))
os.kill(os.getpid(), getattr(signal, how))
time.sleep(60)
