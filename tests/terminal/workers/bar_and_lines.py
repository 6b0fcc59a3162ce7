"""A bar on stderr and, of rank 0, lines; `bar_and_lines.py over|beside|wiped`.

over: long lines on stderr, written over the bar as tqdm.write does. beside: short lines on stdout. wiped: none, and the
bar is wiped at the end.
"""

import os
import sys
import time

kind = sys.argv[1]
first = os.environ["RANK"] == "0"
for step in range(30):
    columns = os.get_terminal_size(2).columns - 1 if sys.stderr.isatty() else 40
    sys.stderr.write("\r" + f"bar {step:2} ".ljust(columns, "#"))
    sys.stderr.flush()
    time.sleep(0.05)
    if first and kind == "over" and step in (9, 19):
        sys.stderr.write("\r" + " " * columns + "\r" + f"BEGIN {step} {'0123456789' * 20} END\n")
    if first and kind == "beside":
        print(f"line {step}", flush=True)
sys.stderr.write("\r" + " " * columns + "\r" if kind == "wiped" else "\n")
