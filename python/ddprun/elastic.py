"""Lets a worker go on, with its process and its memory, when another worker of its job has failed: docs/elastic.md.

    for round in elastic.rounds():
        with round:
            torch.distributed.init_process_group("gloo")
            step = round.share(step, model, optimizer)
            ... train, and call round.check(step) after each step ...

Without ddprun, or with one that is older than this module, there is one round, and nothing interrupts it.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import operator
import os
import select
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

from ddprun import _progress

__all__ = ["Interrupted", "Round", "rounds"]

_FRAME_BYTES_MAX = 65536
_HELLO = {"ddprun": "job", "versions": [1, 1], "features": ["elastic"]}
_HANDSHAKE_SECONDS = 10.0
# After an interruption for which nothing has failed, a rank may finish its step. One that has left closes its connections, so
# the others do not wait for it; this is for groups whose members do not notice that.
_STEP_SECONDS = 10.0
# What is shut down once may be opened again, by a rank that is about to meet the others when it is interrupted.
_SWEEP_SECONDS_FIRST, _SWEEP_SECONDS_LAST = 0.02, 0.25
_LATE_PAUSE = 0.1  # seconds between sweeps from which on waits are ended, too, that have no connection
_LISTENER_CONNECTIONS_MAX = 1024
_DESTROY_SECONDS = 10.0
_SHARED_CHUNK_BYTES = 1 << 28

# In lower case. Each is what a library prints when its peer is gone; those of agent/evidence/line_signs.cpp without the time-outs,
# after which no peer need be gone.
_LOST_PEER = (
    "connection reset by peer", "connection closed by peer", "connection closed by remote", "connection was reset", "connection refused",
    "broken pipe", "read error: connection", "remote process exited", "remote process has terminated", "nccl remote error", "ncclremoteerror",
    "nccl communicator was aborted", "ncclcommabort", "got 0 bytes", "connection was likely closed", "peer was lost",
)


class Interrupted(Exception):
    """The agent has interrupted this worker: it is to leave its round and to take part in the next one."""

    def __init__(self, when: str, reason: str) -> None:
        super().__init__(reason)
        self.when = when  #: "now": a rank is gone; "step": nothing has failed, the world is to change
        self.reason = reason


class _State:
    """What the agent, the watcher and the program know of a round. The attributes are set once each, but `step` and `came_with`."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.step: Optional[int] = None  # after how many steps this worker's state is; None: it has none that counts
        # The step with which it came into the round: until another one it may wait for workers that are being started, and is no
        # worker that hangs. None: it does not wait for any.
        self.came_with: Optional[int] = None
        self.interruption: Optional[Interrupted] = None
        self.sweep_at: Optional[float] = None  # when connections are shut down (next)
        self.sweep_pause = _SWEEP_SECONDS_FIRST
        self.before: Optional[frozenset[int]] = None  # inodes of the sockets that were open when the round began
        self.callbacks: list[Callable[[], object]] = []
        self.called = False  # the callbacks; from here on connections are shut down
        self.agreed = False  # the agent has interrupted this worker, before or after it left
        self.left = False  # it takes no part in the round any more
        self.finished = False  # the `with` of this round was left without an error


def _variable_of(entries: Mapping[str, str], name: str, default: Optional[int]) -> Optional[int]:
    try:
        return int(entries[name])
    except (KeyError, ValueError):
        return default


class Round:
    """One round, in which the same workers train together. Made by rounds()."""

    def __init__(self, state: _State, connection: Optional[_Connection], is_new: bool) -> None:
        entries = state.variables
        self._state = state
        self._connection = connection
        #: This worker has no state that counts: it is a new process, or was interrupted before it had one.
        self.is_new = is_new
        self.rank: int = _variable_of(entries, "RANK", 0)  # type: ignore[assignment]
        self.local_rank: int = _variable_of(entries, "LOCAL_RANK", 0)  # type: ignore[assignment]
        self.world_size: int = _variable_of(entries, "WORLD_SIZE", 1)  # type: ignore[assignment]
        self.local_world_size: int = _variable_of(entries, "LOCAL_WORLD_SIZE", 1)  # type: ignore[assignment]
        self.number: int = _variable_of(entries, "DDPRUN_ROUND", 0)  # type: ignore[assignment]
        self.restart_count: int = _variable_of(entries, "TORCHELASTIC_RESTART_COUNT", 0)  # type: ignore[assignment]
        self.master_addr: Optional[str] = entries.get("MASTER_ADDR")
        self.master_port = _variable_of(entries, "MASTER_PORT", None)
        #: The rank whose state all others take over; None: there is none, so all load their checkpoint.
        self.source_rank = _variable_of(entries, "DDPRUN_SOURCE_RANK", None)

    def __repr__(self) -> str:
        return (f"<Round {self.number}: rank {self.rank} of {self.world_size}, source_rank {self.source_rank}, "
                f"{'new' if self.is_new else 'kept'}>")

    @property
    def interrupted(self) -> bool:
        """Whether the agent has interrupted this worker in this round."""
        return self._state.interruption is not None

    def check(self, step: int) -> None:
        """Notes that this worker's state is the one after `step` steps, reports the step as ddprun.progress() does, and raises
        Interrupted if the agent has interrupted this worker.

        To be called directly after each update of the state, before any other collective operation.
        """
        state = self._state
        if step != state.came_with:
            _progress.progress(step)
            state.came_with = None
        state.step = step
        if state.interruption is not None:
            raise Interrupted(state.interruption.when, state.interruption.reason)

    def forget(self) -> None:
        """This worker's state does not count until the next check(): it is about to be overwritten."""
        self._state.step = None

    def on_interrupt(self, function: Callable[[], object]) -> None:
        """Calls `function` in another thread when this rank is to leave whatever it waits in; in this one if that is now."""
        connection = self._connection
        if connection is None:
            return
        with connection.lock:
            if not self._state.called:
                self._state.callbacks.append(function)
                return
        function()

    def share(self, step: int, *objects: Any) -> int:
        """Gives all ranks the state of rank source_rank: `objects` have state_dict() and load_state_dict(), as models, optimizers
        and schedulers do. `step` is this worker's own step; the step of the source is returned, and noted as by check().

        A collective operation of the default process group of torch.distributed; nothing is exchanged if there is no source. A worker
        takes over the whole state or, if it is interrupted, none of it. Where its own step is the source's, it keeps what it has.
        """
        source = self.source_rank
        if source is not None and self.world_size > 1:
            mine = not self.is_new and self._state.step is not None
            found = _broadcast(self.rank == source, source, step, objects)
            if self.rank != source and not (mine and found[0] == step):
                self.forget()
                for thing, values in zip(objects, found[1]()):
                    thing.load_state_dict(values)
            step = found[0]
        self._state.came_with = None
        self.check(step)
        return step

    def interrupted_by(self, error: BaseException) -> bool:
        """Whether `error` ends this round only: it came of an interruption, or of the loss of another rank. Then this worker has left
        the round, and rounds() gives the next one. It waits for the agent, if the loss is all that this worker knows."""
        connection = self._connection
        if connection is None or not isinstance(error, Exception):
            return False
        if _is_interruption(error):
            connection.leave(self._state)
            return True
        if not _is_lost_peer(error) and not (self._state.called and _may_come_of_an_abort(error)):
            return False
        if not self._state.called:  # nobody has said so: it may be another connection's
            text = " ".join(str(error).split())[:200]
            print(f"ddprun.elastic: rank {self.rank} leaves round {self.number}: {type(error).__name__}, {text}", file=sys.stderr, flush=True)
        connection.leave(self._state)
        return connection.has_answered(self._state)

    def __enter__(self) -> Round:
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], _: object) -> bool:
        if error is not None:
            return self.interrupted_by(error)
        self._state.finished = True
        return False


def _is_interruption(error: BaseException) -> bool:
    """Whether it is an Interrupted, or was raised because of one."""
    seen = set()
    found: Optional[BaseException] = error
    while found is not None and id(found) not in seen:
        if isinstance(found, Interrupted):
            return True
        seen.add(id(found))
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    return False


def _is_lost_peer(error: BaseException) -> bool:
    """Whether this is what a library raises when another rank is gone."""
    if isinstance(error, ConnectionError):
        return True
    if not isinstance(error, (RuntimeError, OSError)):
        return False
    text = str(error).lower()
    return any(phrase in text for phrase in _LOST_PEER)


def _may_come_of_an_abort(error: BaseException) -> bool:
    """Whether it may come of connections that were shut down under it. Out of memory is an error of this worker alone."""
    return isinstance(error, (RuntimeError, OSError)) and "OutOfMemory" not in type(error).__name__


class _Connection:
    """The connection to the agent, and the thread that reads it. Two threads use it: the program's and the watcher."""

    def __init__(self, stream: socket.socket, state: _State) -> None:
        self.stream = stream
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.state = state  # of the newest round
        self.ended = False
        threading.Thread(target=self._watch, name="ddprun-elastic", daemon=True).start()

    # The program's side.

    def leave(self, state: _State) -> None:
        """Leaves the round: nothing that other ranks use is used from here on. Then the agent is told so."""
        with self.lock:
            if state.left:
                return
            state.left = True
            if state.interruption is None:  # unasked, as another rank was lost
                state.interruption = Interrupted("now", "this worker has left the round")
        _progress.progress_close()  # it makes no progress until the others are there
        _shut_down_sockets(state)  # so that no other rank waits for this one, and that what follows does not wait
        _destroy_process_groups()
        _reset_names_of_groups()
        words = ["message=wait"] if state.step is None else ["message=wait", f"step={state.step}"]
        with contextlib.suppress(OSError):  # the watcher finds the end of the connection
            _send(self.stream, "".join(word + "\0" for word in words).encode())

    def has_answered(self, state: _State) -> bool:
        """Waits for what the agent says after leave(): whether this worker goes on."""
        with self.lock:
            while self.state is state and not state.agreed and not self.ended:
                self.changed.wait()
            return self.state is not state or state.agreed

    def next_round(self, state: _State) -> Optional[_State]:
        """Waits for the round after `state`; None: there is none for this worker."""
        with self.lock:
            while self.state is state and not self.ended:
                self.changed.wait()
            return self.state if self.state is not state else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.stream.shutdown(socket.SHUT_RDWR)  # which also ends the watcher

    # The watcher's side.

    def _watch(self) -> None:
        stream = self.stream
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        try:
            while True:
                # No time-out, so no wake-up, unless there is an interruption.
                if poll.poll(self._milliseconds()):
                    self._on_message(_entries(_receive(stream)))
                else:
                    self._sweep()
        except (OSError, ValueError, struct.error):
            pass
        finally:
            with self.lock:
                self.ended = True
                self.changed.notify_all()
            stream.close()

    def _milliseconds(self) -> Optional[float]:
        with self.lock:
            at = None if self.state.left else self.state.sweep_at
        return None if at is None else max(0.0, (at - time.monotonic()) * 1000)

    def _on_message(self, entries: dict[str, str]) -> None:
        message = entries.pop("message", "")
        with self.lock:
            state = self.state
            if message == "round":
                self.state = _State(entries)
            elif message == "interrupt":
                self._on_interrupt(state, entries)
            self.changed.notify_all()

    def _on_interrupt(self, state: _State, entries: dict[str, str]) -> None:
        when = entries.get("when", "now")
        state.agreed = True
        if state.left:
            return
        if state.interruption is None or when == "now":
            state.interruption = Interrupted(when, entries.get("reason", "the agent has interrupted this worker"))
        at = time.monotonic() + (_STEP_SECONDS if when == "step" else 0)
        state.sweep_at = at if state.sweep_at is None else min(at, state.sweep_at)

    def _sweep(self) -> None:
        with self.lock:
            state = self.state
            if state.left:
                return
            callbacks = [] if state.called else state.callbacks
            state.called = True
            state.sweep_at = time.monotonic() + state.sweep_pause
            state.sweep_pause = min(2 * state.sweep_pause, _SWEEP_SECONDS_LAST)
            # Under the lock, so that the program does not leave and open connections of the next round meanwhile.
            _shut_down_sockets(state, also_listeners=state.sweep_pause > _LATE_PAUSE)
        if callbacks is state.callbacks:
            _abort_accelerators()
        for function in callbacks:
            try:
                function()
            except Exception:  # the watcher has to go on
                traceback.print_exc()


# Frames.


def _send(stream: socket.socket, data: bytes) -> None:
    stream.sendall(struct.pack(">I", len(data)) + data)


def _receive_bytes(stream: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise ConnectionResetError("the agent has closed the connection")
        data += more
    return data


def _receive(stream: socket.socket) -> bytes:
    (count,) = struct.unpack(">I", _receive_bytes(stream, 4))
    if count > _FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {count} bytes: not a ddprun")
    return _receive_bytes(stream, count)


def _entries(frame: bytes) -> dict[str, str]:
    entries = {}
    for entry in frame.split(b"\0"):
        name, sign, value = entry.partition(b"=")
        if sign:
            entries[os.fsdecode(name)] = os.fsdecode(value)
    return entries


def _connect() -> Optional[socket.socket]:
    """A connection over which the agent has taken this worker in; None: there is no such agent."""
    address = os.environ.get("DDPRUN_SOCKET", "")
    if not address.startswith("@"):
        return None
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # close-on-exec, as all of Python's
    try:
        stream.settimeout(_HANDSHAKE_SECONDS)
        stream.connect(b"\0" + os.fsencode(address[1:]))
        _send(stream, json.dumps(_HELLO).encode())
        if "elastic" in json.loads(_receive(stream)).get("features", ()):
            _send(stream, b"message=join\0")
            if _entries(_receive(stream)).get("message") == "joined":
                stream.settimeout(None)
                return stream
    except (OSError, ValueError, AttributeError, struct.error):
        pass
    stream.close()
    return None


# What ends the waits of this process.


def _sockets() -> dict[int, int]:
    """Inode and descriptor of each open socket."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if target.startswith("socket:["):
                found[int(target[8:-1])] = int(name)
    return found


def _lowest_chosen_port() -> int:
    """The lowest port that the kernel chooses where a program names none."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768


def _is_listener(stream: socket.socket) -> bool:
    return stream.family in (socket.AF_INET, socket.AF_INET6) and bool(stream.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _is_between_ranks(stream: socket.socket, store_port: Optional[int], lowest: int) -> bool:
    """Whether it may connect two ranks, or a rank and the store: the ports of ranks are chosen by the kernel at both ends."""
    if stream.family not in (socket.AF_INET, socket.AF_INET6) or stream.type != socket.SOCK_STREAM:
        return False
    ports = (stream.getsockname()[1], stream.getpeername()[1])  # OSError: it is not connected
    return store_port in ports or min(ports) >= lowest


def _fail_listener(stream: socket.socket, connections: int) -> None:
    """Ends the waits of gloo for ranks that are gone before they had connected.

    Such a wait is for a connection which begins with a certain number, and has no socket that could be shut down. So it gets that
    connection, and its end. The numbers count from 0, one for each rank of each group.
    """
    host, port = stream.getsockname()[:2]
    host = {"::": "::1", "0.0.0.0": "127.0.0.1"}.get(host, host)
    for number in range(min(connections, _LISTENER_CONNECTIONS_MAX)):
        with socket.socket(stream.family, socket.SOCK_STREAM) as made:
            made.settimeout(1)
            made.connect((host, port))
            made.sendall(struct.pack("=q", number))


def _shut_down_sockets(state: _State, also_listeners: bool = False) -> None:
    """Shuts down the connections to other ranks and to the store that were made in this round, by libraries: not Python's own."""
    if state.before is None:  # the program does not know of the round yet
        return
    made = {inode: fd for inode, fd in _sockets().items() if inode not in state.before}
    if not made:
        return
    of_python = {thing.fileno() for thing in gc.get_objects() if issubclass(type(thing), socket.socket)}
    store_port = _variable_of(state.variables, "MASTER_PORT", None)
    lowest = _lowest_chosen_port()
    for inode, fd in made.items():
        if fd in of_python:
            continue
        with contextlib.suppress(OSError):
            copy = os.dup(fd)
            try:
                if os.fstat(copy).st_ino != inode:  # closed meanwhile, and its number taken by another
                    continue
                with socket.socket(fileno=os.dup(copy)) as stream:
                    if _is_listener(stream):
                        if also_listeners and stream.getsockname()[1] not in (store_port, 0):
                            _fail_listener(stream, 4 * (_variable_of(state.variables, "WORLD_SIZE", 1) or 1))
                    elif _is_between_ranks(stream, store_port, lowest):
                        stream.shutdown(socket.SHUT_RDWR)
            finally:
                os.close(copy)


def _distributed() -> Optional[Any]:
    """torch.distributed, if the program has imported it and it has a process group."""
    module = sys.modules.get("torch.distributed")
    try:
        return module if module is not None and module.is_available() and module.is_initialized() else None
    except AttributeError:  # it is being imported
        return None


def _abort_accelerators() -> None:
    """Aborts the process groups that have an abort. gloo's does nothing; its connections are shut down."""
    if _distributed() is None:
        return
    c10d = sys.modules["torch.distributed.distributed_c10d"]

    def abort() -> None:
        with contextlib.suppress(Exception):
            for group in list(c10d._world.pg_map):
                if hasattr(group, "abort") and "nccl" in str(c10d.get_backend(group)):
                    group.abort()

    # NCCL's may wait; the watcher does not.
    threading.Thread(target=abort, name="ddprun-elastic-abort", daemon=True).start()


def _destroy_process_groups() -> None:
    distributed = _distributed()
    if distributed is None:
        return

    def destroy() -> None:
        with contextlib.suppress(Exception):
            distributed.destroy_process_group()

    # Gloo's does not wait. Another's may.
    thread = threading.Thread(target=destroy, name="ddprun-elastic-destroy", daemon=True)
    thread.start()
    thread.join(_DESTROY_SECONDS)
    if thread.is_alive() or _distributed() is not None:
        raise RuntimeError(f"torch.distributed cannot destroy the process group of the last round within {_DESTROY_SECONDS} s: "
                           "this worker ends, and ddprun replaces it")


def _reset_names_of_groups() -> None:
    """The next process group has the name that it has in a new process, also after one that failed while it was made."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is not None and hasattr(c10d, "_group_count") and _distributed() is None:
        c10d._group_count = 0


def _broadcast(is_source: bool, source: int, step: int, objects: tuple[Any, ...]) -> tuple[int, Callable[[], Any]]:
    """The source's step, and a function that gives the source's states."""
    import torch
    import torch.distributed as dist

    device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
    buffer = io.BytesIO()
    if is_source:
        torch.save([thing.state_dict() for thing in objects], buffer)
    head = torch.tensor([step, buffer.tell()], dtype=torch.int64, device=device)
    dist.broadcast(head, source)
    found, size = (int(value) for value in head)
    memory = buffer.getbuffer() if is_source else bytearray(size)
    data = torch.frombuffer(memory, dtype=torch.uint8)
    for part in data.split(_SHARED_CHUNK_BYTES):
        on_device = part.to(device)
        dist.broadcast(on_device, source)
        if not is_source and device.type != "cpu":
            part.copy_(on_device)

    def states() -> Any:
        # It comes from a process of this very job.
        return torch.load(io.BytesIO(memory), map_location="cpu", weights_only=False)

    return found, states


# The rounds.

_connection: Optional[_Connection] = None
_is_child = False  # forked from a worker


def _after_fork() -> None:
    """A child of a worker is no worker: it has no connection, and is not interrupted."""
    global _connection, _is_child
    if _connection is None:
        return
    _is_child = True
    # The lock may be held by a thread that the child does not have.
    _connection.lock = threading.Lock()
    _connection.changed = threading.Condition(_connection.lock)
    state = _connection.state
    state.interruption, state.left, state.called = None, True, False
    _connection.ended = True
    _connection.stream.close()  # not a shutdown, which would be the worker's, too
    _connection = None


os.register_at_fork(after_in_child=_after_fork)


def _begin(state: _State) -> None:
    """The environment is that of the round."""
    if "DDPRUN_SOURCE_RANK" not in state.variables:
        os.environ.pop("DDPRUN_SOURCE_RANK", None)
    os.environ.update(state.variables)
    if sys.excepthook.__name__ == "_distributed_excepthook":  # PyTorch's, which puts the last round's rank before each line
        sys.excepthook = sys.__excepthook__
    with _connection.lock if _connection else contextlib.nullcontext():
        state.before = frozenset(_sockets())


def rounds() -> Iterator[Round]:
    """The rounds in which this worker takes part, one after the other; the first one is that in which it was started.

    A new round comes after an interruption: after a `with round` that was left by it, after `except Interrupted`, or when interrupted_by()
    was true. Otherwise the iteration ends. Process groups of torch.distributed are made within a round, and destroyed before the next.
    """
    global _connection
    if _connection is not None:
        raise RuntimeError("ddprun.elastic.rounds() is in use already")
    stream = None if _is_child else _connect()
    state = _State(dict(os.environ))
    if stream is None:
        yield Round(state, None, is_new=True)
        return
    state.before = frozenset(_sockets())
    connection = _connection = _Connection(stream, state)
    try:
        is_new = True
        while True:
            yield Round(state, connection, is_new)
            if state.finished or (state.interruption is None and not state.left):
                return
            connection.leave(state)
            # Overwritten tensors, and DDP's hooks of the last round, are in cycles.
            gc.collect()
            following = connection.next_round(state)
            if following is None:  # it is about to be ended
                raise SystemExit(1)
            is_new = state.step is None
            following.came_with = state.step
            state = following
            _begin(state)
    finally:
        connection.close()
        _connection = None
