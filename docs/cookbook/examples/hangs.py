import os
import time

from ddprun import progress


def load(step):
    if os.environ["RANK"] == "1" and step == 3:
        time.sleep(3600)


for step in range(10):
    progress(step, "load data")
    load(step)
    progress(step, "all-reduce")
    time.sleep(0.1)
