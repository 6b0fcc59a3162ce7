"""A link of a host on which each frame takes a while. In user space, because many kernels lack netem.

The host's end of the link is taken from the switch. Between both a thread carries the frames: bytes, order and unfinished
checksums stay as they are, so a host sees nothing but a slow network.
"""

import collections
import select
import socket
import threading
import time

from harness import checked

SOL_PACKET = 263
PACKET_VNET_HDR = 15  # each frame begins with what the kernel still has to do to it: its checksum, its division
PACKET_IGNORE_OUTGOING = 23
ETH_P_ALL = 3
FRAME_BYTES_MAX = 1 << 17


def frames_of(interface):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.bind((interface, ETH_P_ALL))
    return end


def why_not():
    """None where links can be slow."""
    try:
        frames_of("lo").close()
    except OSError as error:
        return f"this machine does not allow to read frames: {error}"
    return None


class SlowLink:
    """`with SlowLink(host, 0.05):` each frame takes at least 50 ms to this host, and as long from it."""

    def __init__(self, host, delay):
        self.host = host
        self.delay = delay
        self.near = host.port
        self.far = f"{host.port}far"
        self.at_switch = f"{host.port}slow"
        self.stop, self.stopped = socket.socketpair()
        self.thread = threading.Thread(target=self.carry)

    def __enter__(self):
        # Without ARP: this machine would answer for the switch at once.
        checked(["ip", "-batch", "-"], input=f"link add {self.far} type veth peer name {self.at_switch}\n"
                                             f"link set {self.near} nomaster arp off\n"
                                             f"link set {self.far} arp off up\n"
                                             f"link set {self.at_switch} master hub up\n")
        self.host.port = self.at_switch
        self.ends = [frames_of(self.near), frames_of(self.far)]
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.send(b"x")
        self.thread.join()
        for end in (*self.ends, self.stop, self.stopped):
            end.close()
        checked(["ip", "-batch", "-"], input=f"link del {self.far}\nlink set {self.near} master hub arp on\n")
        self.host.port = self.near

    def carry(self):
        waiting = collections.deque()  # (when, to which end, frame)
        while True:
            limit = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
            readable, _, _ = select.select([*self.ends, self.stopped], [], [], limit)
            if self.stopped in readable:
                return
            for end in readable:
                waiting.append((time.monotonic() + self.delay, self.ends[end is self.ends[0]], end.recv(FRAME_BYTES_MAX)))
            while waiting and waiting[0][0] <= time.monotonic():
                _, end, frame = waiting.popleft()
                end.send(frame)
