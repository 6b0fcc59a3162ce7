"""torchrun beside ddprun, where a host is cut off silently and where an agent is killed and started again.

What torchrun does is printed, not judged: docs/benchmarks.md has the figures. Skipped where no Python has torch 2 or newer
(see ../pytorch/harness.py).
"""

import collections
import sys
import time
import unittest

import harness
from harness import WORKERS, Hosts, HostsTest, pytorch, until
from rounds import signs_of_life

harness.enter_namespaces()

CONF = "--rdzv-conf=keep_alive_interval=5,keep_alive_max_attempt=3,last_call_timeout=5,join_timeout=120"
OBSERVED = 60  # seconds after a fault
NEVER = f"not within {OBSERVED} s"

Worker = collections.namedtuple("Worker", "host rank size first last")


def told(seconds):
    return NEVER if seconds is None else f"after {seconds:.1f} s"


class Ddprun:
    name = "ddprun"

    def start(self, hosts, host, nodes):
        return hosts.ddprun(host, f"--nnodes={nodes}", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint=node1",
                            CONF, sys.executable, WORKERS / "alive.py")

    def agent(self, command):
        return command.agent()


class Torchrun:
    def __init__(self, torch):
        self.torch = torch
        self.name = f"torchrun {torch.version}"

    def start(self, hosts, host, nodes):
        environment = {name: value for name, value in self.torch.environment().items() if name == "USE_LIBUV"}
        return hosts.run(host, self.torch.torchrun(f"--nnodes={nodes}", "--nproc-per-node=1", "--rdzv-backend=c10d",
                                                   "--rdzv-endpoint=node1:29400", "--rdzv-id=job", "--max-restarts=3",
                                                   CONF, WORKERS / "alive.py"), **environment)

    def agent(self, command):
        return command.process.pid


class BesideTorchrun(HostsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torches = [torch for torch in pytorch.torches() if torch.release >= (2, 0)]
        if not torches:
            raise unittest.SkipTest("no Python with torch 2 or newer: set DDPRUN_TEST_PYTHON")
        cls.programs = [Ddprun(), Torchrun(max(torches, key=lambda torch: torch.release))]

    def workers(self, hosts):
        """By process id: where it is, what it is, and its first and last sign of life."""
        found = {}
        for host, _, rank, size, pid, at in signs_of_life(hosts):
            first = found[pid].first if pid in found else float(at)
            found[pid] = Worker(host, int(rank), int(size), first, float(at))
        return found.values()

    def wait_for_group(self, hosts, nodes, size, limit, after=0.0):
        """Of so many workers that were all started after that time: when the first was; none: not within the limit."""

        def group():
            living = [worker for worker in self.workers(hosts) if worker.size == size and worker.first > after
                      and worker.last > time.monotonic() - 0.5]
            return min(worker.first for worker in living) if len({w.rank for w in living}) == size else None

        try:
            return until(group, limit, "a group")
        except AssertionError:
            if after == 0.0:
                raise AssertionError(f"no group of {size}:\n" + "\n".join(map(str, nodes))) from None
            return None

    def longest_overlap(self, hosts):
        """How long two processes lived that both were the same rank of one job, in seconds."""
        workers = list(self.workers(hosts))
        return max((min(a.last, b.last) - max(a.first, b.first) for a in workers for b in workers
                    if a is not b and a.rank == b.rank), default=0)

    def cut_silently(self, program):
        with Hosts(3) as hosts:
            nodes = [program.start(hosts, host, "2:3") for host in hosts]
            self.wait_for_group(hosts, nodes, 3, 100)
            hosts[1].cut()
            cut_at = time.monotonic()
            began_at = self.wait_for_group(hosts, nodes, 2, OBSERVED, cut_at)
            time.sleep(max(0, 1 - (time.monotonic() - cut_at)))
            # Of a group that still lives nothing more is to come.
            fenced_at = max(worker.last for worker in self.workers(hosts) if worker.host == "node2")
            lives = fenced_at > time.monotonic() - 0.5
            fenced, began = None if lives else fenced_at - cut_at, None if began_at is None else began_at - cut_at
            print(f"{program.name}: a host cut off silently: its worker ended {told(fenced)}, the others' new group "
                  f"began {told(began)}", file=sys.stderr)
            return fenced, began

    def test_a_host_is_cut_off_silently(self):
        for program in self.programs:
            fenced, began = self.cut_silently(program)
            if program is self.programs[0]:
                self.assertIsNotNone(fenced)
                self.assertIsNotNone(began)
                self.assertLess(fenced, began)

    def killed_and_started_again(self, program, index):
        with Hosts(2) as hosts:
            nodes = [program.start(hosts, host, "1:2") for host in hosts]
            self.wait_for_group(hosts, nodes, 2, 100)
            harness.kill(program.agent(nodes[index]))
            killed_at = time.monotonic()
            nodes[index].wait()
            nodes.append(program.start(hosts, hosts[index], "1:2"))
            began_at = self.wait_for_group(hosts, nodes, 2, OBSERVED, killed_at)
            overlap = self.longest_overlap(hosts)
            print(f"{program.name}: the agent of node{index + 1} killed and started again: two workers of one rank at one "
                  f"time for {max(overlap, 0):.1f} s; the next group of two began "
                  f"{told(None if began_at is None else began_at - killed_at)}", file=sys.stderr)
            return overlap, began_at

    def test_an_agent_is_killed_and_started_again(self):
        for index in (0, 1):
            for program in self.programs:
                overlap, began_at = self.killed_and_started_again(program, index)
                if program is self.programs[0]:
                    self.assertLessEqual(overlap, 0)
                    self.assertIsNotNone(began_at)


if __name__ == "__main__":
    unittest.main()
