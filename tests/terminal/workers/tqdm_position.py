"""One bar for each rank, stacked as tqdm stacks them."""

import os
import time

from tqdm import tqdm

rank = int(os.environ["RANK"])
for _ in tqdm(range(40), desc="epoch", position=rank):
    time.sleep(0.05)
