"""Uses every method of PyTorch's TCPStore against a running server, and prints each result: the same for
every correct server. Arguments: host, port."""

import datetime
import os
import sys
import threading
import time

import torch.distributed as dist

HOST, PORT = sys.argv[1], int(sys.argv[2])
BACKEND = {"use_libuv": False} if os.environ.get("USE_LIBUV") == "0" else {}


def seconds(number):
    return datetime.timedelta(seconds=number)


def connect(limit=60, **more):
    return dist.TCPStore(HOST, PORT, is_master=False, timeout=seconds(limit), **BACKEND, **more)


def tell(what, action, *arguments):
    try:
        result = action(*arguments)
    except Exception as error:  # the type differs between releases, but not between servers
        result = type(error).__name__
    text = f"{len(result)} bytes" if isinstance(result, bytes) and len(result) > 100 else repr(result)
    print(f"{what}: {text}", flush=True)
    return result


def meanwhile(action, *arguments):
    """What the action gives after it had to wait for something that the caller does next."""
    result = []
    thread = threading.Thread(target=lambda: result.append(action(*arguments)))
    thread.start()
    time.sleep(0.1)

    def finish():
        thread.join(60)
        return result

    return finish


store, other = connect(), connect()
HAS_NEWEST = hasattr(store, "queue_push") and not BACKEND  # only the client for libuv's server knows them

tell("set", store.set, "k", "v")
tell("get", other.get, "k")
tell("set empty", store.set, "empty", "")
tell("get empty", store.get, "empty")
tell("set other letters", store.set, "ключ", "значение")
tell("get other letters", other.get, "ключ")
tell("overwrite", store.set, "k", "a new value")
tell("get again", other.get, "k")
tell("set large", store.set, "large", "x" * (3 << 20))
tell("get large", other.get, "large")
tell("add", store.add, "n", 5)
tell("add a negative number", other.add, "n", -7)
tell("get a number", store.get, "n")
tell("set a number", store.set, "m", "41")
tell("add to it", store.add, "m", 1)
tell("compare_set makes it", store.compare_set, "cs", "", "A")
tell("compare_set changes it", other.compare_set, "cs", "A", "B")
tell("compare_set refuses", store.compare_set, "cs", "A", "C")
tell("compare_set of a missing key", store.compare_set, "cs missing", "X", "Y")
tell("num_keys", store.num_keys)
tell("delete_key", store.delete_key, "k")
tell("delete_key again", store.delete_key, "k")
tell("num_keys after it", other.num_keys)
tell("wait for what is there", store.wait, ["n", "large"])
tell("wait with a time-out for what is there", store.wait, ["n"], seconds(60))
tell("host", lambda: store.host == HOST)
tell("port", lambda: store.port == PORT)

waiting = meanwhile(other.wait, ["late 1", "late 2"])
store.set("late 2", "2")
store.add("late 1", 1)
tell("wait for what comes later", waiting)
waiting = meanwhile(other.get, "late 3")
store.set("late 3", "3")
tell("get what comes later", waiting)

clients = [connect() for _ in range(6)]
threads = [threading.Thread(target=lambda client=client: [client.add("counted", 1) for _ in range(200)]) for client in clients]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
tell("add by many clients at once", store.get, "counted")

prefixed = dist.PrefixStore("outer", dist.PrefixStore("inner", store))
tell("set with prefixes", prefixed.set, "x", "y")
tell("get with prefixes", prefixed.get, "x")
tell("add with prefixes", prefixed.add, "count", 3)
tell("get the same without", lambda: (store.get("inner/outer/x"), other.get("inner/outer/count")))
tell("wait with prefixes", prefixed.wait, ["x", "count"])
tell("delete_key with prefixes", prefixed.delete_key, "x")
tell("delete_key without", store.delete_key, "inner/outer/x")

counted = connect(world_size=2, wait_for_workers=True)
tell("a client that counts itself", counted.get, "n")

if hasattr(store, "check"):
    tell("check", store.check, ["m", "n"])
    tell("check for a missing key", store.check, ["m", "never"])
    tell("check for nothing", store.check, [])
    tell("check with prefixes", prefixed.check, ["count"])

if hasattr(store, "append"):
    tell("has_extended_api", store.has_extended_api)
    tell("append makes it", store.append, "ap", "po")
    tell("append", other.append, "ap", "tato")
    tell("get what was appended", store.get, "ap")
    tell("multi_set", store.multi_set, ["m1", "m2", "m3"], ["one", "", "three"])
    tell("multi_get", other.multi_get, ["m3", "m1", "m2", "m1"])
    tell("multi_get with prefixes", prefixed.multi_get, ["count", "count"])
    waiting = meanwhile(other.multi_get, ["m1", "late m"])
    store.multi_set(["late m"], ["m"])
    tell("multi_get what comes later", waiting)

if hasattr(store, "clone"):
    clone = store.clone()
    tell("clone", clone.get, "n")
    tell("clone of a prefix store", lambda: prefixed.clone().get("count"))

if HAS_NEWEST:
    tell("queue_push", lambda: [store.queue_push("q", item) for item in ("first", "", "third")])
    tell("queue_len", other.queue_len, "q")
    tell("queue_pop", lambda: [other.queue_pop("q"), store.queue_pop("q"), other.queue_pop("q")])
    tell("queue_len of the empty queue", store.queue_len, "q")
    tell("queue_pop of the empty queue without waiting", lambda: store.queue_pop("q", block=False))
    waiting = meanwhile(other.queue_pop, "q")
    store.queue_push("q", "late")
    tell("queue_pop what comes later", waiting)
    tell("queues with prefixes", lambda: (prefixed.queue_push("q", "inside"), store.queue_len("inner/outer/q"),
                                          prefixed.queue_pop("q"), prefixed.queue_len("q")))

if HAS_NEWEST and hasattr(store, "barrier"):
    tell("barrier of one", store.barrier, "barrier 1", 1)
    waiting = meanwhile(other.barrier, "barrier 2", 2)
    store.barrier("barrier 2", 2)
    tell("barrier of two", waiting)
    tell("a barrier that is used again", store.barrier, "barrier 1", 1)

if HAS_NEWEST and hasattr(store, "list_keys"):
    tell("list_keys", lambda: sorted(store.list_keys()))

# Time-outs. Before 2.1 a client could not take a wait back, and PyTorch's own server then answered out of step; so the
# client that had a time-out is only asked what it may do next, which is to be refused.
can_go_on = hasattr(store, "append")
for limit in ("of the call", "of the store"):
    impatient = connect()
    if limit == "of the store":
        impatient.set_timeout(seconds(0.2))
        tell("timeout", lambda: impatient.timeout)
        tell("get runs into a time-out", impatient.get, "never")
    else:
        tell("wait runs into a time-out", impatient.wait, ["n", "never"], seconds(0.2))
    if not can_go_on:
        continue
    tell("and goes on", lambda: (impatient.get("n"), impatient.add("after a time-out", 1)))
    for number in range(3):
        tell("once more", impatient.wait, ["never"], seconds(0.05))
    tell("and goes on again", lambda: (impatient.get("n"), impatient.add("after a time-out", 1)))
if can_go_on:
    tell("multi_get runs into a time-out", impatient.multi_get, ["n", "never"])
    if HAS_NEWEST:
        tell("queue_pop runs into a time-out", impatient.queue_pop, "q")
    if HAS_NEWEST and hasattr(store, "barrier"):
        tell("barrier runs into a time-out", impatient.barrier, "barrier 3", 2)
    tell("and goes on after all", impatient.add, "after a time-out", 1)
tell("the others noticed nothing", other.get, "n")
