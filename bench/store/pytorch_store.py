"""A bare PyTorch TCPStore server for bench_store: prints its port, serves until stdin is closed."""
import sys

from torch.distributed import TCPStore

store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=sys.argv[1] == "libuv")
print(f"127.0.0.1:{store.port}", flush=True)
sys.stdin.read()
