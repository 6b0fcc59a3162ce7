"""PyTorch's own store on a free port: prints the port and serves until its stdin ends."""

import os
import sys

import torch.distributed as dist

backend = {"use_libuv": False} if os.environ.get("USE_LIBUV") == "0" else {}
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, **backend)
print(store.port, flush=True)
sys.stdin.read()
