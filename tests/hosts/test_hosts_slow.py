"""Links that are cut one way; and random partitions of five hosts, as many as DDPRUN_TEST_PARTITIONS says.

Never do two groups of workers live at once.
"""

import os
import random
import signal
import sys
import time
import unittest

import harness
from harness import Hosts
from rounds import RoundsTest

harness.enter_namespaces()

PARTITIONS = int(os.environ.get("DDPRUN_TEST_PARTITIONS", "10"))
SEED = int(os.environ.get("DDPRUN_TEST_SEED", "0")) or random.randrange(1, 1 << 30)


class OneWay(RoundsTest):
    def test_a_host_that_is_only_not_heard_stops_before_the_others_go_on(self):
        self.check_cut(lambda hosts, _: hosts[1].cut_towards(hosts[0]), lambda hosts, _: hosts[1].heal_towards(hosts[0]))

    def test_a_host_that_only_does_not_hear_stops_before_the_others_go_on(self):
        self.check_cut(lambda hosts, _: hosts[0].cut_towards(hosts[1]), lambda hosts, _: hosts[0].heal_towards(hosts[1]))


class Partitions(RoundsTest):
    nodes = "3:5"
    processes = 1

    def cut(self, chance, hosts, lost):
        """Cuts the lost hosts off from all others in one of three ways. Gives the function that heals it."""
        way = chance.choice(["both ways", "not heard", "does not hear"])
        for host in lost:
            for other in hosts:
                if way == "both ways" or other in lost:
                    continue
                source, target = (host, other) if way == "not heard" else (other, host)
                source.cut_towards(target)
            if way == "both ways":
                host.cut()

        def heal():
            for host in lost:
                host.heal()
                for other in hosts:
                    if way == "both ways" or other in lost:
                        continue
                    source, target = (host, other) if way == "not heard" else (other, host)
                    source.heal_towards(target)

        return way, heal

    def test_workers_of_two_rounds_never_live_at_once_whatever_is_cut_off_and_healed(self):
        chance = random.Random(SEED)
        print(f"seed {SEED}", file=sys.stderr)
        with Hosts(5) as hosts:
            nodes = self.start(hosts)
            number, _ = self.wait_for_round(hosts, nodes, 5)
            for count in range(PARTITIONS):
                time.sleep(chance.uniform(0, 2))  # at any instant between two keep-alives, or while a round begins
                lost = chance.sample(list(hosts), 2)  # also the one that has the rendezvous
                index = list(hosts).index(lost[0])
                stopped = nodes[index].agent() if index > 0 and chance.random() < 0.3 else None
                if stopped:
                    os.kill(stopped, signal.SIGSTOP)
                way, heal = self.cut(chance, hosts, lost)
                cut_for = chance.uniform(0.5, 9)
                time.sleep(cut_for)
                heal()
                if stopped and os.path.exists(f"/proc/{stopped}"):
                    os.kill(stopped, signal.SIGCONT)
                print(f"{count}: {[host.name for host in lost]} {way}{', agent stopped' if stopped else ''} "
                      f"for {cut_for:.2f} s", file=sys.stderr)
                self.wait_for_living(hosts, nodes, index if stopped else None)
                self.check_rounds_never_overlap(hosts)
            self.end(hosts, nodes)

    def wait_for_living(self, hosts, nodes, replaced):
        """All five live in one round, now; one that its warden may have given up is started again."""

        def living():
            if replaced is not None and nodes[replaced].status is not None:
                nodes[replaced:replaced + 1] = self.start(hosts, [hosts[replaced]])
            signs = self.alive(hosts)
            newest = max(sign[1] for sign in signs)
            now = time.monotonic()
            return {sign[2] for sign in signs if sign[1] == newest and sign[3] == 5 and sign[4] > now - 0.5} == set(range(5))

        harness.until(living, 60, lambda: "five workers in one round\n" + "\n".join(map(str, nodes)))


if __name__ == "__main__":
    unittest.main()
