"""Jobs of workers that log their signs of life (workers/alive.py), and what must be true of those.

DDPRUN_TEST_LEASE: another lease than 3 s, in seconds; agents have 15 s where nothing else is asked for.
"""

import os
import sys
import time

from harness import BIN, WORKERS, Hosts, HostsTest, until

LEASE = float(os.environ.get("DDPRUN_TEST_LEASE", "3"))
CONF = f"--rdzv-conf=keep_alive_interval={LEASE / 5:g},keep_alive_max_attempt=5,last_call_timeout=5"


def signs_of_life(hosts):
    """The words of all lines that the workers have written so far, the oldest first."""
    path = hosts.folder / "alive"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    # A line that is being written can be read in part: what follows the last line's end is left for the next call.
    return [line.split() for line in text[:text.rfind("\n") + 1].splitlines()]


class RoundsTest(HostsTest):
    nodes = "2:3"
    processes = 2

    def start(self, hosts, on=None, options=(), endpoint="node1", backend="c10d", **environment):
        return [hosts.ddprun(host, f"--nnodes={self.nodes}", f"--nproc-per-node={self.processes}", "--grow-delay=0.2",
                             f"--rdzv-backend={backend}", f"--rdzv-endpoint={endpoint}", CONF, *options, sys.executable,
                             WORKERS / "alive.py", **environment)
                for host in on or hosts]

    def alive(self, hosts):
        """The workers' signs of life: (host, round, rank, world size, time)."""
        return [(host, int(number), int(rank), int(size), float(at))
                for host, number, rank, size, _, at in signs_of_life(hosts)]

    def wait_for_round(self, hosts, nodes, size, after=-1, limit=40):
        """A round newer than `after` in which so many workers live: its number, and the time of its first sign of life."""

        def found():
            signs = [sign for sign in self.alive(hosts) if sign[1] > after and sign[3] == size]
            newest = max((sign[1] for sign in signs), default=None)
            if len({sign[2] for sign in signs if sign[1] == newest}) < size:
                return None
            return newest, min(sign[4] for sign in signs if sign[1] == newest)

        return until(found, limit, lambda: f"a round of {size} workers after round {after}\n" + "\n".join(map(str, nodes)))

    def attached(self, hosts, host, endpoint):
        """How many nodes have a connection to the rendezvous, asked from that host."""
        status = hosts.run(host, [BIN / "rdzvd", "--status", f"--endpoint={endpoint}"])
        status.wait()
        return status.out.count("attached, ")

    def check_rounds_never_overlap(self, hosts):
        first, last = {}, {}
        for host, number, rank, _, at in self.alive(hosts):
            sign = (at, f"round {number}, rank {rank} on {host}")
            first[number] = min(first.get(number, sign), sign)
            last[number] = max(last.get(number, sign), sign)
        numbers = sorted(first)
        for older, newer in zip(numbers, numbers[1:]):
            self.assertLess(max(last[number] for number in numbers if number <= older), first[newer])

    def end(self, hosts, nodes):
        (hosts.folder / "gate").touch()
        self.finish(hosts, nodes)
        self.check_rounds_never_overlap(hosts)

    def check_cut(self, cut, heal):
        """node2 is cut off by `cut`: its workers end before the others go on. After `heal` it joins again.

        `heal` says whether its ddprun has ended, so that another one has to be started.
        """
        with Hosts(3) as hosts:
            nodes = self.start(hosts)
            number, _ = self.wait_for_round(hosts, nodes, 6)
            cut(hosts, nodes)
            cut_at = time.monotonic()
            newer, began_at = self.wait_for_round(hosts, nodes, 4, number)
            fenced_at = max(sign[4] for sign in self.alive(hosts) if sign[0] == "node2")
            print(f"cut off: its workers ended after {fenced_at - cut_at:.2f} s, the others' new round began after "
                  f"{began_at - cut_at:.2f} s at a lease of {LEASE:g} s", file=sys.stderr)
            if heal(hosts, nodes):
                nodes[1:2] = self.start(hosts, [hosts[1]])
            self.wait_for_round(hosts, nodes, 6, newer)
            self.end(hosts, nodes)
