"""An agent for tests of ddprun.elastic: it starts workers and gives them rounds as worker/ddprun_elastic.h describes it.

It measures no time. Each round has a store of its own, in a process that `store_python` runs, which has PyTorch; without it
MASTER_PORT is a free port.
"""

import json
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import time

LIMIT = 60  # seconds in which workers that were interrupted have to wait for the next round


# Makes a store for each line that it reads, and prints its port.
STORES = """
import sys, torch.distributed as dist
kept = []
for line in sys.stdin:
    kept = [*kept[-1:], dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)]
    print(kept[-1].port, flush=True)
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def frame_of(**entries):
    data = "".join(f"{name}={value}\0" for name, value in entries.items()).encode()
    return struct.pack(">I", len(data)) + data


class Worker:
    """A process of the job, and its connection."""

    def __init__(self, process, rank):
        self.process = process
        self.rank = rank
        self.stream = None  # once it has joined
        self.buffer = b""
        self.waits = False
        self.step = None  # of its wait
        self.interrupted = False
        self.closed = False  # it needs no other round

    @property
    def joined(self):
        return self.stream is not None

    def send(self, **entries):
        try:
            self.stream.sendall(frame_of(**entries))
        except OSError:
            pass  # its process has just ended, which poll() finds


class FakeAgent:
    """`command` is one worker's. A worker that fails is replaced, if no more than `restarts` rounds have failed."""

    def __init__(self, command, size, environment, folder, restarts=0, refuses=False, features=("elastic",), store_python=None):
        self.command = [str(word) for word in command]
        self.size = size
        self.folder = pathlib.Path(folder)
        self.restarts_left = restarts
        self.refuses = refuses
        self.features = features
        self.round = 0
        self.replaced = 0
        self.source = None
        self.without_source = 0  # rounds after the first one in which no state had survived
        self.log = []
        self.stores = None
        if store_python:
            self.stores = subprocess.Popen([store_python, "-c", STORES], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           text=True)
        self.port = self.new_store()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = f"ddprun-test/{os.getpid()}/{id(self)}"
        self.listener.bind(b"\0" + name.encode())
        self.listener.listen(64)
        self.environment = environment | {"DDPRUN_SOCKET": "@" + name}
        self.unknown = []  # connections before their join: [stream, buffer]
        self.workers = [self.start(rank) for rank in range(size)]

    def new_store(self):
        if self.stores is None:
            return free_port()
        self.stores.stdin.write("\n")
        self.stores.stdin.flush()
        return int(self.stores.stdout.readline())

    def variables(self, rank):
        found = {
            "RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": self.size, "LOCAL_WORLD_SIZE": self.size,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.port, "TORCHELASTIC_RESTART_COUNT": self.round,
            "TORCHELASTIC_USE_AGENT_STORE": self.stores is not None, "DDPRUN_ROUND": self.round,
        }
        if self.source is not None:
            found["DDPRUN_SOURCE_RANK"] = self.source
        return {name: str(value) for name, value in found.items()}

    def start(self, rank):
        output = open(self.folder / f"output.{rank}", "ab")  # noqa: SIM115
        with output:
            process = subprocess.Popen(self.command, env=self.environment | self.variables(rank), stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output, start_new_session=True)
        return Worker(process, rank)

    def accept(self):
        stream, _ = self.listener.accept()
        self.unknown.append([stream, b""])

    def by_pid(self, pid):
        return next((worker for worker in self.workers if worker.process.pid == pid), None)

    def on_unknown(self, entry):
        """The hello and the join of a worker."""
        stream = entry[0]
        data = stream.recv(65536)
        entry[1] += data
        while len(entry[1]) >= 4 and len(entry[1]) - 4 >= (size := struct.unpack(">I", entry[1][:4])[0]):
            body, entry[1] = entry[1][4:4 + size], entry[1][4 + size:]
            if body.startswith(b"{"):
                hello = json.dumps({"ddprun": "job", "versions": [1, 1], "features": list(self.features)}).encode()
                stream.sendall(struct.pack(">I", len(hello)) + hello)
                continue
            assert body == b"message=join\0", body
            pid = struct.unpack("3i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            worker = self.by_pid(pid)
            self.unknown.remove(entry)
            if self.refuses or worker is None:
                stream.sendall(frame_of(message="refused", reason="not a worker"))
                stream.close()
                return
            worker.stream, worker.buffer = stream, entry[1]
            worker.send(message="joined")
            return
        if not data:
            self.unknown.remove(entry)
            stream.close()

    def on_worker(self, worker):
        try:
            data = worker.stream.recv(65536)
        except OSError:
            data = b""
        if not data:
            worker.stream.close()
            worker.stream, worker.closed = None, True
            return
        worker.buffer += data
        while len(worker.buffer) >= 4 and len(worker.buffer) - 4 >= (size := struct.unpack(">I", worker.buffer[:4])[0]):
            body, worker.buffer = worker.buffer[4:4 + size], worker.buffer[4 + size:]
            entries = dict(entry.split("=", 1) for entry in body.decode().split("\0") if entry)
            assert entries.pop("message") == "wait", body
            worker.waits, worker.step = True, int(entries["step"]) if "step" in entries else None
            self.note(f"rank {worker.rank} waits, step {worker.step}")

    def note(self, text):
        self.log.append(f"{time.monotonic():.3f} round {self.round}: {text}")

    def poll(self, seconds=0.02):
        """Takes what has come from workers."""
        streams = {worker.stream: worker for worker in self.workers if worker.stream is not None}
        entries = {entry[0]: entry for entry in self.unknown}
        for stream in select.select([self.listener, *streams, *entries], [], [], seconds)[0]:
            if stream is self.listener:
                self.accept()
            elif stream in streams:
                self.on_worker(streams[stream])
            elif entries[stream] in self.unknown:
                self.on_unknown(entries[stream])

    def interrupt(self, when="now", reason="rank 0 was killed"):
        for worker in self.workers:
            if worker.joined and not worker.interrupted and worker.process.poll() is None:
                worker.interrupted = True
                worker.send(message="interrupt", when=when, reason=reason)

    def kill(self, worker):
        """SIGKILL to its session's process group, and the end of its connection."""
        try:
            os.killpg(worker.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        worker.process.wait()
        if worker.stream is not None:
            worker.stream.close()
            worker.stream = None

    def failed(self):
        return [worker for worker in self.workers if worker.process.poll() not in (None, 0)]

    def step(self):
        """One turn of the job: a failure ends the round. Returns the exit code once all workers have ended with 0."""
        self.poll()
        if all(worker.process.poll() == 0 for worker in self.workers):
            return 0
        if self.failed() or any(worker.waits for worker in self.workers):
            if self.restarts_left == 0:
                return 1
            self.restarts_left -= 1
            self.next_round("now", f"rank {[worker.rank for worker in self.failed()]} failed")
        return None

    def next_round(self, when, reason, limit=LIMIT, hung=()):
        """Interrupts all workers, and starts the next round with those that wait for it, the others replaced. Those whose ranks are in
        `hung` are not waited for, and are there until all others have left."""
        self.note(f"ends ({reason})")
        self.interrupt(when, reason)
        end = time.monotonic() + limit
        while late := [worker.rank for worker in self.workers if worker.joined and not worker.waits and worker.process.poll() is None
                       and worker.rank not in hung]:
            if time.monotonic() > end:
                self.note(f"too late: {late}")
                raise AssertionError("a worker has not left its round:\n" + "\n".join(self.log))
            self.poll()
            # One that has not joined yet cannot wait; it may do so meanwhile.
            self.interrupt(when, reason)
        kept = [worker for worker in self.workers if worker.waits and worker.process.poll() is None]
        for worker in self.workers:
            if worker not in kept:
                self.kill(worker)
        steps = {worker.rank: worker.step for worker in kept if worker.step is not None}
        self.source = min(steps, key=lambda rank: (-steps[rank], rank)) if steps else None
        self.round += 1
        self.port = self.new_store()
        self.without_source += self.source is None
        for rank, worker in enumerate(self.workers):
            if worker in kept:
                worker.waits, worker.interrupted, worker.step = False, False, None
                worker.send(message="round", **self.variables(rank))
            else:
                self.replaced += 1
                self.workers[rank] = self.start(rank)
        self.note(f"begins: kept {sorted(worker.rank for worker in kept)}, source {self.source}")

    def run(self, limit):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            code = self.step()
            if code is not None:
                return code
        raise AssertionError(f"the job has not ended after {limit} s:\n" + "\n".join(self.log))

    def output(self, rank):
        return (self.folder / f"output.{rank}").read_text(encoding="utf-8", errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            self.kill(worker)
        for stream, _ in self.unknown:
            stream.close()
        self.listener.close()
        if self.stores is not None:
            self.stores.kill()
            self.stores.communicate()
