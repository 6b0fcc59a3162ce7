import os
import sys
import time

restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
rank = os.environ["RANK"]
if restarts == "0":
    if rank == "1":
        sys.exit(3)
    time.sleep(60)
print(f"rank {rank} is done after {restarts} restart")
