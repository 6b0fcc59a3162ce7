"""The progress page of docs/progress.md: tells ddprun how far this worker is. Without ddprun nothing happens."""

from __future__ import annotations

import enum
import mmap
import operator
import os
import struct
import time
from typing import Optional

_PAGE_BYTES = 128
_VERSION = 1
_DO_NOT_WATCH = 1
_SAVES = 2
_FIELDS = struct.Struct("=QQ24sII")  # step, time, phase, place, flags
_FIELDS_AT, _FLAGS_AT, _STOP_AT, _SAVE_AT, _SAVED_AT, _TIMES_AT = 8, 52, 56, 64, 68, 72
_TIMES = struct.Struct("=6Q")  # reached step, first step, first time, reached time, saving, waiting
_WAITS = ("all-", "barrier", "share", "wait")
_NUMBER = struct.Struct("=I")


class Stop(enum.IntEnum):
    """Why ddprun stops a worker with SIGTERM or another signal."""

    UNKNOWN = 0  #: not from ddprun, or there is no page
    SAVE = 1  #: nothing has failed: there is time to save the state, at most --grace-period
    NOW = 2  #: a worker or a node has failed: end at once


class _Page:
    def __init__(self) -> None:
        self.memory: Optional[mmap.mmap] = None
        self.opened = False
        self.step = -1
        self.place = 0
        self.flags = 0
        self.phase = ""

    def open(self) -> None:
        self.opened = True
        path = os.environ.get("DDPRUN_PROGRESS_FILE", "")
        if not path:
            return
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # its round is over
            return
        try:
            # Not ftruncate: on a full /dev/shm the first store would end in SIGBUS.
            os.posix_fallocate(descriptor, 0, _PAGE_BYTES)
            self.memory = mmap.mmap(descriptor, _PAGE_BYTES)
        except OSError:  # memory is full
            return
        finally:
            os.close(descriptor)
        if self.memory[6] != _VERSION:
            reached = os.environ.get("DDPRUN_REACHED_STEP", "")
            struct.pack_into("=Q", self.memory, _TIMES_AT, int(reached) if reached.isdecimal() else 0)
        _permit_debuggers()

    def book(self, memory: mmap.mmap, step: int, phase: str, now: int) -> None:
        """What the time since the last update went into, for ddprun's report."""
        spent, self.phase = self.phase, phase
        saves = spent.startswith("save") or "checkpoint" in spent
        waits = not saves and spent.startswith(_WAITS)
        reached_step, first_step, first, reached, saving, waiting = _TIMES.unpack_from(memory, _TIMES_AT)
        if first and reached and not saves and not waits:
            return
        last = struct.unpack_from("=Q", memory, _FIELDS_AT + 8)[0]
        if not first:  # the phase before was of another round
            first_step, first = step, now
            saves = waits = False
        if not reached and step >= reached_step:
            reached = now
        if saves:
            saving += now - last
        elif waits:
            waiting += now - last
        _TIMES.pack_into(memory, _TIMES_AT, reached_step, first_step, first, reached, saving, waiting)


def _permit_debuggers() -> None:
    """Lets ddprun read this process's stacks where the kernel allows that to parents only (Yama)."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            if file.read().strip() != "1":
                return
        import ctypes

        ctypes.CDLL(None).prctl(0x59616D61, os.getppid(), 0, 0, 0)  # PR_SET_PTRACER
    except (ImportError, OSError, AttributeError):
        return


_page = _Page()


def progress(step: int, phase: str = "") -> None:
    """Reports that this worker is at `step`, in `phase` (up to 24 bytes). One thread calls it; it makes no system call but the first time.

    The time in phases "save...", or with "checkpoint" in it, counts as saving in ddprun's report, in "all-...", "barrier...", "share..." and
    "wait..." as waiting for other workers.

    Raises TypeError or ValueError, also without ddprun, for a step that is no integer from 0 to 2**64 - 1.
    """
    step = operator.index(step)
    if not 0 <= step < 1 << 64:
        raise ValueError(f"the step must be from 0 to 2**64 - 1, not {step}")
    text = phase.encode()[:24]
    if not _page.opened:
        _page.open()
    memory = _page.memory
    if memory is None:
        return
    _page.place = _page.place + 1 if step == _page.step else 0
    _page.step = step
    now = time.monotonic_ns()
    _page.book(memory, step, phase, now)
    _FIELDS.pack_into(memory, _FIELDS_AT, step, now, text, _page.place, _page.flags)
    if memory[6] != _VERSION:  # the first update: the version comes last
        memory[0:6] = b"ddprun"
        struct.pack_into("=H", memory, 6, _VERSION)


def progress_close() -> None:
    """This worker is not watched any more, nor counted on to save; the next progress() changes that."""
    if _page.memory is not None:
        _NUMBER.pack_into(_page.memory, _FLAGS_AT, _DO_NOT_WATCH)


def stop_reason() -> Stop:
    """Why ddprun has sent a stop signal; for handlers of signals, too."""
    if _page.memory is None:
        return Stop.UNKNOWN
    value = struct.unpack_from("=Q", _page.memory, _STOP_AT)[0]
    return Stop(value) if value in (1, 2) else Stop.UNKNOWN


def save_requested() -> bool:
    """Whether ddprun asks for a checkpoint now, after which the program goes on (`ddpctl save`): true until save_done().

    For every step: it reads the page and makes no system call but the first time. From the first call on, and the first
    progress(), ddprun counts on this worker.
    """
    if not _page.opened:
        _page.open()
    memory = _page.memory
    if memory is None:
        return False
    if not _page.flags & _SAVES:
        _page.flags |= _SAVES
        _NUMBER.pack_into(memory, _FLAGS_AT, _NUMBER.unpack_from(memory, _FLAGS_AT)[0] | _SAVES)
    return _NUMBER.unpack_from(memory, _SAVE_AT) != _NUMBER.unpack_from(memory, _SAVED_AT)


def save_done() -> None:
    """The checkpoint is on disk. It counts for all that has been asked for until now: while a program saves, it does no steps."""
    if _page.memory is not None:
        _NUMBER.pack_into(_page.memory, _SAVED_AT, *_NUMBER.unpack_from(_page.memory, _SAVE_AT))
