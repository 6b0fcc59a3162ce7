"""Hosts that are lost: by power, by a silent cut that heals, by the end of their agent."""

import sys
import time
import unittest

import harness
from harness import WORKERS, Hosts, HostsTest, until

harness.enter_namespaces()

# A lease of 3 s.
CONF = "--rdzv-conf=keep_alive_interval=0.6,keep_alive_max_attempt=5,last_call_timeout=5"


class Losses(HostsTest):
    def start(self, hosts, on=None):
        return [hosts.ddprun(host, "--nnodes=2:3", "--nproc-per-node=2", "--grow-delay=0.2", "--rdzv-backend=c10d",
                             "--rdzv-endpoint=node1", CONF, sys.executable, WORKERS / "alive.py")
                for host in on or hosts]

    def alive(self, hosts):
        """The workers' signs of life: (host, round, rank, world size, time)."""
        path = hosts.folder / "alive"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [(host, int(number), int(rank), int(size), float(at))
                for host, number, rank, size, at in (line.split() for line in lines)]

    def wait_for_round(self, hosts, nodes, size, after=-1, limit=40):
        """A round newer than `after` in which so many workers live: its number, and the time of its first sign of life."""

        def found():
            signs = [sign for sign in self.alive(hosts) if sign[1] > after and sign[3] == size]
            newest = max((sign[1] for sign in signs), default=None)
            if len({sign[2] for sign in signs if sign[1] == newest}) < size:
                return None
            return newest, min(sign[4] for sign in signs if sign[1] == newest)

        return until(found, limit, lambda: f"a round of {size} workers after round {after}\n" + "\n".join(map(str, nodes)))

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

    def test_hosts_go_on_without_one_that_lost_its_power(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts)
            number, _ = self.wait_for_round(hosts, nodes, 6)
            hosts[1].lose_power()
            lost_at = time.monotonic()
            number, began_at = self.wait_for_round(hosts, nodes, 4, number)
            print(f"power loss to the others' new round: {began_at - lost_at:.2f} s at a lease of 3 s", file=sys.stderr)
            nodes.pop(1)
            self.end(hosts, nodes)

    def test_hosts_go_on_at_once_without_one_the_agent_of_which_was_killed(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts)
            number, _ = self.wait_for_round(hosts, nodes, 6)
            killed_at = time.monotonic()
            harness.kill(nodes[2].agent())
            number, began_at = self.wait_for_round(hosts, nodes, 4, number)
            print(f"agent killed to the others' new round: {(began_at - killed_at) * 1000:.0f} ms", file=sys.stderr)
            self.assertEqual(nodes.pop(2).wait(), 137)
            self.end(hosts, nodes)

    def test_a_host_that_was_rebooted_joins_again(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts)
            number, _ = self.wait_for_round(hosts, nodes, 6)
            hosts[2].lose_power()
            number, _ = self.wait_for_round(hosts, nodes, 4, number)
            hosts[2].heal()
            nodes[2:] = self.start(hosts, [hosts[2]])
            self.wait_for_round(hosts, nodes, 6, number)
            self.end(hosts, nodes)

    def check_cut(self, hosts, cut, limit=40):
        """A silent cut of that host; its own workers end before the others' next round begins. Gives that round."""
        nodes = self.start(hosts)
        number, _ = self.wait_for_round(hosts, nodes, 6)
        hosts[cut].cut()
        cut_at = time.monotonic()
        newer, began_at = self.wait_for_round(hosts, nodes, 4, number, limit)
        fenced_at = max(sign[4] for sign in self.alive(hosts) if sign[0] == hosts[cut].name)
        print(f"silent cut: own workers ended after {fenced_at - cut_at:.2f} s, the others' new round began after "
              f"{began_at - cut_at:.2f} s at a lease of 3 s", file=sys.stderr)
        return nodes, newer

    def test_a_host_that_is_cut_off_stops_before_the_others_go_on_and_joins_again_when_healed(self):
        with Hosts(3) as hosts:
            nodes, number = self.check_cut(hosts, 1)
            hosts[1].heal()
            self.wait_for_round(hosts, nodes, 6, number)
            self.end(hosts, nodes)

    def test_a_cut_that_heals_within_the_lease_changes_nothing(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts)
            self.wait_for_round(hosts, nodes, 6)
            hosts[1].cut()
            time.sleep(1.2)
            hosts[1].heal()
            time.sleep(6)
            self.assertEqual({sign[1] for sign in self.alive(hosts)}, {0}, "\n".join(map(str, nodes)))
            self.end(hosts, nodes)

    def test_hosts_that_are_cut_off_from_the_rendezvous_do_not_go_on_by_themselves(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts)
            self.wait_for_round(hosts, nodes, 6)
            hosts[0].cut()
            cut_at = time.monotonic()
            time.sleep(9)
            signs = self.alive(hosts)
            for host in hosts:
                newest = max(sign[4] for sign in signs if sign[0] == host.name)
                print(f"the rendezvous cut off: the workers of {host.name} ended after {newest - cut_at:.2f} s",
                      file=sys.stderr)
                self.assertLess(newest, cut_at + 7)
            self.assertEqual({sign[1] for sign in signs}, {0})
            hosts[0].heal()
            self.wait_for_round(hosts, nodes, 6, 0)
            self.end(hosts, nodes)


if __name__ == "__main__":
    unittest.main()
