"""A bar as wide as the terminal, drawn by hand; `counter.py STEPS SECONDS [crash] [until=FILE]`: with a FILE, the
last step is drawn again and again until the file exists."""

import os
import pathlib
import signal
import sys
import time

steps, seconds = int(sys.argv[1]), float(sys.argv[2])
until = [pathlib.Path(word[len("until="):]) for word in sys.argv if word.startswith("until=")]
step = 0
while step < steps or not all(file.exists() for file in until):
    step = min(step + 1, steps)
    columns = os.get_terminal_size(2).columns
    text = f"step {step:3}/{steps} "
    sys.stderr.write("\r" + text + "#" * (columns - len(text)))
    sys.stderr.flush()
    time.sleep(seconds)
    if "crash" in sys.argv and step == steps // 2 and os.environ["RANK"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
sys.stderr.write("\n")
