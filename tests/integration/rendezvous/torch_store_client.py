"""PyTorch's own TCPStore client and gloo against a store that somebody else serves. Arguments: host, port, mode."""

import datetime
import os
import subprocess
import sys

import torch
import torch.distributed as dist

HOST, PORT, MODE = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def connect(seconds=30.0, **more):
    return dist.TCPStore(HOST, PORT, is_master=False, timeout=datetime.timedelta(seconds=seconds), **more)


def api():
    store = connect()
    other = connect()
    store.set("k", "v")
    assert store.get("k") == b"v"
    store.set("empty", "")
    assert store.get("empty") == b""
    assert store.add("n", 5) == 5
    assert store.add("n", -7) == -2
    assert store.get("n") == b"-2"
    assert store.check(["k", "n"])
    assert not store.check(["k", "none"])
    assert store.compare_set("cs", "", "A") == b"A"
    assert store.compare_set("cs", "A", "B") == b"B"
    assert store.compare_set("cs", "A", "C") == b"B"
    assert store.compare_set("cs2", "X", "Y") == b"X"
    assert store.num_keys() == 4, store.num_keys()
    assert store.delete_key("k")
    assert not store.delete_key("k")
    store.wait(["n"], datetime.timedelta(seconds=10))
    try:
        store.wait(["never"], datetime.timedelta(milliseconds=50))
    except Exception as error:  # the type differs between releases
        assert "imeout" in str(error) or "imed out" in str(error), error
    else:
        raise AssertionError("a wait for a key that never comes returned")
    assert store.num_keys() == 3  # still in step after the canceled wait
    large = b"x" * (3 << 20)
    store.set("large", large)
    assert other.get("large") == large
    done = ["set", "get", "add", "check", "compare_set", "num_keys", "delete_key", "wait", "cancel_wait"]
    if store.has_extended_api():
        store.append("ap", "po")
        store.append("ap", "tato")
        assert store.get("ap") == b"potato"
        store.multi_set(["m1", "m2"], ["one", "two"])
        assert store.multi_get(["m1", "m2"]) == [b"one", b"two"]
        done += ["append", "multi_set", "multi_get"]
    if hasattr(store, "queue_push"):
        store.queue_push("q", "first")
        store.queue_push("q", "second")
        assert other.queue_len("q") == 2
        assert other.queue_pop("q") == b"first"
        assert store.queue_pop("q") == b"second"
        assert store.queue_len("q") == 0
        done += ["queue_push", "queue_len", "queue_pop"]
    if hasattr(store, "list_keys"):
        keys = store.list_keys()
        assert "n" in keys and "large" in keys and "q" not in keys, keys
        done += ["list_keys"]
    if hasattr(store, "barrier"):
        store.barrier("b", 1)
        done += ["barrier"]
    if hasattr(store, "clone"):
        assert store.clone().get("n") == b"-2"
        done += ["clone"]
    prefixed = dist.PrefixStore("p", store)
    prefixed.set("x", "y")
    assert store.get("p/x") == b"y"
    counted = connect(world_size=2, wait_for_workers=True)
    assert counted.get("n") == b"-2"
    print("torch", torch.__version__, "used", " ".join(done))


def gloo_worker():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.full((1000,), float(rank))
    dist.all_reduce(tensor)
    assert tensor[0].item() == size * (size - 1) / 2
    group = dist.new_group([0, 1])
    if rank < 2:
        small = torch.tensor([1.0])
        dist.all_reduce(small, group=group)
        assert small.item() == 2
    names = [None] * size
    dist.all_gather_object(names, f"rank{rank}")
    assert names == [f"rank{other}" for other in range(size)]
    dist.barrier()
    dist.destroy_process_group()


def gloo():
    size = 3
    workers = []
    for rank in range(size):
        environment = dict(
            os.environ,
            MASTER_ADDR=HOST,
            MASTER_PORT=str(PORT),
            RANK=str(rank),
            WORLD_SIZE=str(size),
            TORCHELASTIC_USE_AGENT_STORE="True",
            TORCHELASTIC_RESTART_COUNT="0",
            TORCHELASTIC_RUN_ID="test",
        )
        command = [sys.executable, __file__, HOST, str(PORT), "gloo_worker"]
        workers.append(subprocess.Popen(command, env=environment))
    codes = [worker.wait(150) for worker in workers]
    assert codes == [0] * size, codes
    print("torch", torch.__version__, "gloo with", size, "workers")


{"api": api, "gloo": gloo, "gloo_worker": gloo_worker}[MODE]()
