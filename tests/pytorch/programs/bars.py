"""tqdm bars on every rank; the numbers they count are what matters here."""

import os
import time

from tqdm import tqdm

total = 0
for number in tqdm(range(30), desc=f"rank {os.environ['RANK']}"):
    total += number
    time.sleep(0.02)
tqdm.write(f"RESULT rank {os.environ['RANK']} total {total}")
