"""Two bars that rich draws again and again, and lines above them."""

import os
import time

from rich.progress import Progress

rank = os.environ["RANK"]
with Progress() as progress:
    task = progress.add_task("epoch", total=40)
    other = progress.add_task("batch", total=40)
    for step in range(40):
        time.sleep(0.05)
        progress.advance(task)
        progress.advance(other)
        if step % 10 == 9:
            progress.console.print(f"loss of {rank} at {step}")
