"""Hosts that are lost: by power, by a silent cut that heals, by the end of their agent."""

import os
import signal
import sys
import time
import unittest

import harness
from harness import Hosts
from rounds import LEASE, RoundsTest

harness.enter_namespaces()


class Losses(RoundsTest):
    def test_hosts_go_on_without_one_that_lost_its_power_and_take_it_back_when_it_is_up_again(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts)
            number, _ = self.wait_for_round(hosts, nodes, 6)
            hosts[1].lose_power()
            lost_at = time.monotonic()
            number, began_at = self.wait_for_round(hosts, nodes, 4, number)
            print(f"power loss to the others' new round: {began_at - lost_at:.2f} s at a lease of {LEASE:g} s", file=sys.stderr)
            hosts[1].heal()
            nodes[1:2] = self.start(hosts, [hosts[1]])
            self.wait_for_round(hosts, nodes, 6, number)
            self.end(hosts, nodes)

    def test_hosts_go_on_at_once_without_one_the_agent_of_which_was_killed(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts)
            number, _ = self.wait_for_round(hosts, nodes, 6)
            killed_at = time.monotonic()
            harness.kill(nodes[2].agent())
            number, began_at = self.wait_for_round(hosts, nodes, 4, number)
            print(f"agent killed to the others' new round: {(began_at - killed_at) * 1000:.0f} ms", file=sys.stderr)
            self.assertEqual(nodes.pop(2).wait(), 70)  # an internal failure, says its warden
            self.end(hosts, nodes)

    def test_a_host_that_is_cut_off_stops_before_the_others_go_on_and_joins_again_when_healed(self):
        self.check_cut(lambda hosts, _: hosts[1].cut(), lambda hosts, _: hosts[1].heal())

    def test_the_warden_ends_the_workers_of_a_host_that_is_cut_off_while_its_agent_is_stopped(self):

        def cut(hosts, nodes):
            os.kill(nodes[1].agent(), signal.SIGSTOP)
            hosts[1].cut()

        def heal(hosts, nodes):
            nodes[1].wait()  # its warden has given it up
            hosts[1].heal()
            return True

        self.check_cut(cut, heal)

    def test_a_cut_that_heals_within_the_lease_changes_nothing(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts)
            self.wait_for_round(hosts, nodes, 6)
            hosts[1].cut()
            time.sleep(0.4 * LEASE)
            hosts[1].heal()
            time.sleep(LEASE + 1.5)  # it would have been given up 2 s after its lease
            self.assertEqual({sign[1] for sign in self.alive(hosts)}, {0}, "\n".join(map(str, nodes)))
            self.end(hosts, nodes)

    def test_hosts_that_are_cut_off_from_the_rendezvous_do_not_go_on_by_themselves(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts)
            self.wait_for_round(hosts, nodes, 6)
            hosts[0].cut()
            cut_at = time.monotonic()
            time.sleep(LEASE + 5)
            signs = self.alive(hosts)
            for host in hosts:
                newest = max(sign[4] for sign in signs if sign[0] == host.name)
                print(f"the rendezvous cut off: the workers of {host.name} ended after {newest - cut_at:.2f} s",
                      file=sys.stderr)
                self.assertLess(newest, cut_at + LEASE + 4)
            self.assertEqual({sign[1] for sign in signs}, {0})
            hosts[0].heal()
            self.wait_for_round(hosts, nodes, 6, 0)
            self.end(hosts, nodes)

    def test_a_refusal_from_a_host_that_never_had_the_rendezvous_proves_nothing(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts, [hosts[0], hosts[1]])
            self.wait_for_round(hosts, nodes, 4)
            hosts[0].cut()
            hosts[1].move_name("node1", hosts[2].addr)
            cut_at = time.monotonic()
            time.sleep(LEASE + 5)
            newest = max(sign[4] for sign in self.alive(hosts) if sign[0] == "node2")
            self.assertLess(newest, cut_at + LEASE + 4, nodes[1])
            hosts[1].move_name("node1", hosts[0].addr)
            hosts[0].heal()
            self.wait_for_round(hosts, nodes, 4, 0)
            self.end(hosts, nodes)


if __name__ == "__main__":
    unittest.main()
