"""The commonest loop there is: a bar on stderr, lines on stdout between its updates."""

import os
import time

from tqdm import tqdm

rank = os.environ["RANK"]
for step in tqdm(range(40), desc="epoch"):
    time.sleep(0.05)
    if step % 10 == 9:
        print(f"loss of {rank} at {step}", flush=True)
