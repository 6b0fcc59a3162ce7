"""Pods of an indexed Job of Kubernetes, which are hosts here: pod 0, which has the rendezvous, is started again elsewhere.

The other pod looks the name up again, and the job forms a new round; so it does if the name is unknown for a while.
"""

import sys
import unittest

import harness
from harness import Hosts, proc, until
from rounds import LEASE, RoundsTest

harness.enter_namespaces()

NAME = "train-0.train"


class Pods(RoundsTest):
    nodes = "2"
    processes = 1

    def pod(self, hosts, host, index):
        return self.start(hosts, [host], endpoint=NAME, JOB_COMPLETION_INDEX=str(index), HOSTNAME=f"train-{index}",
                          KUBERNETES_SERVICE_HOST="10.96.0.1")[0]

    def workers(self, host):
        return [pid for pid in host.processes() if (proc(pid, "cmdline") or "").startswith(f"{sys.executable}\0")]

    def check_restart(self, lose, unknown_meanwhile):
        """Pod 0 is on node1 and then on node3, pod 1 on node2."""
        with Hosts(3) as hosts:
            old, other, new = hosts
            for host in hosts:
                host.add_name(NAME, old.addr)
            pods = [self.pod(hosts, old, 0), self.pod(hosts, other, 1)]
            number, _ = self.wait_for_round(hosts, pods, 2)
            lose(old)
            if unknown_meanwhile:
                other.remove_name(NAME)
                self.assertEqual(len(self.workers(other)), 1)
                # Its workers end with their lease, and it goes on asking.
                pods[1].wait_for(f"cannot look up {NAME}", limit=20 + LEASE)
                until(lambda: not self.workers(other), 20 + LEASE, lambda: f"the end of the worker of\n{pods[1]}")
                other.add_name(NAME, new.addr)
            else:
                other.move_name(NAME, new.addr)
            new.move_name(NAME, new.addr)
            pods[0] = self.pod(hosts, new, 0)
            self.wait_for_round(hosts, pods, 2, number)
            ranks = {sign[0]: sign[2] for sign in self.alive(hosts) if sign[1] > number}
            self.assertEqual(ranks, {"node3": 0, "node2": 1}, pods[1])
            self.end(hosts, pods)

    def test_pod_0_with_a_new_address_forms_the_job_again(self):
        self.check_restart(lambda host: host.lose_power(), unknown_meanwhile=False)

    def test_so_it_does_where_its_old_address_refuses_connections(self):
        self.check_restart(lambda host: host.kill(), unknown_meanwhile=False)

    def test_so_it_does_where_its_name_is_unknown_for_longer_than_a_lease(self):
        self.check_restart(lambda host: host.lose_power(), unknown_meanwhile=True)


if __name__ == "__main__":
    unittest.main()
