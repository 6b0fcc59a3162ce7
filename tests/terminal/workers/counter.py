"""A bar as wide as the terminal, drawn by hand; `counter.py STEPS SECONDS [crash]`."""

import os
import signal
import sys
import time

steps, seconds = int(sys.argv[1]), float(sys.argv[2])
for step in range(1, steps + 1):
    columns = os.get_terminal_size(2).columns
    text = f"step {step:3}/{steps} "
    sys.stderr.write("\r" + text + "#" * (columns - len(text)))
    sys.stderr.flush()
    time.sleep(seconds)
    if "crash" in sys.argv and step == steps // 2 and os.environ["RANK"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
sys.stderr.write("\n")
