"""Appends to the file $HOSTS/alive every 20 ms: host, round, rank, world size, process id, time. Ends when $HOSTS/gate exists.
Prints one line when it begins.

torchrun does not tell its workers the round; theirs is -1.
"""

import os
import socket
import time

folder = os.environ["HOSTS"]
me = " ".join([socket.gethostname(), os.environ.get("DDPRUN_ROUND", "-1"), os.environ["RANK"], os.environ["WORLD_SIZE"],
               str(os.getpid())])
alive = os.open(f"{folder}/alive", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
print(f"round {os.environ.get('DDPRUN_ROUND', '-1')} begins", flush=True)
while not os.path.exists(f"{folder}/gate"):
    os.write(alive, f"{me} {time.monotonic():.6f}\n".encode())
    time.sleep(0.02)
