"""Several rdzvd, or agents that host the rendezvous, with an etcd on other hosts: the leading one is killed again and again, or
cut off from etcd and not from the agents; members of etcd are cut off in turn.

DDPRUN_TEST_KILLS: for how many seconds the leader is killed every five; 120 where nothing else is asked for.
"""

import contextlib
import os
import re
import signal
import sys
import time
import unittest

import harness
from harness import BIN, Hosts, until
from over_etcd import AGENT_LEASE, LEADER_LEASE, TAKE_OVER_LIMIT, USUAL_LEASE, Etcd, OverEtcdTest
from rounds import signs_of_life

harness.enter_namespaces()

KILLS = float(os.environ.get("DDPRUN_TEST_KILLS", "120"))


def program_of(pid):
    """None: it has ended meanwhile."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe")
    return None


class OverEtcd(OverEtcdTest):
    def cut_from(self, etcd, host):
        for member in etcd.members:
            host.cut_towards(member)
            member.cut_towards(host)

    def heal_from(self, etcd, host):
        for member in etcd.members:
            host.heal_towards(member)
            member.heal_towards(host)

    def wait_for_take_over(self, etcd, services, old, **more):
        """The host that leads, after `old` was cut off from etcd just now."""
        cut_at = time.monotonic()
        new = self.wait_for_leader(etcd, services, other_than=old, **more)
        took = time.monotonic() - cut_at
        print(f"cut off from etcd: another one led after {took:.2f} s at a lease of {LEADER_LEASE} s", file=sys.stderr)
        self.assertLess(took, TAKE_OVER_LIMIT)
        return new

    def test_no_worker_notices_that_the_leading_rdzvd_is_killed_every_five_seconds(self):
        self.check_kills(KILLS)

    @unittest.skipUnless((BIN / "train").exists(), "train was not built")
    def test_training_goes_on_while_the_leading_rdzvd_is_killed_every_five_seconds(self):
        with Hosts(7) as hosts:
            members, workers = list(hosts)[:3], list(hosts)[3:]
            etcd = Etcd(hosts, members)
            daemons = {host: self.start_rdzvd(hosts, host, etcd) for host in members}
            endpoint = ",".join(f"{host.name}:29400" for host in daemons)
            nodes = [hosts.ddprun(host, "--nnodes=4", "--max-restarts=9", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}",
                                  USUAL_LEASE, "train", "--epochs=1000000", "--checkpoint-every=off") for host in workers]

            def step():
                """The newest one that rank 0 has printed."""
                return max((int(found) for node in nodes for found in re.findall(r"step (\d+)", str(node))), default=0)

            def trainers():
                """The processes of `train`, by host."""
                train = str((BIN / "train").resolve())
                return {host.name: [pid for pid in host.processes() if program_of(pid) == train] for host in workers}

            first = until(step, 60, lambda: "\n".join(map(str, nodes)))
            before = trainers()
            self.assertEqual([len(pids) for pids in before.values()], [1] * 4)
            self.kill_leaders(hosts, etcd, daemons, KILLS)
            self.assertEqual(trainers(), before, "\n".join(map(str, nodes)))
            last = step()
            self.assertGreater(last, first)
            until(lambda: step() > last, 60, "a step after the last kill")
            print(f"train was at step {first} before, and at step {last} after", file=sys.stderr)
            for node in nodes:
                node.process.send_signal(signal.SIGINT)
            for node in nodes:
                self.assertEqual(node.wait(60), 130, node)
                self.assertNotIn("restarting", str(node))

    def test_a_leader_that_is_cut_off_from_etcd_but_not_from_the_agents_is_left_by_them(self):
        with Hosts(5) as hosts:
            store, first, second, *workers = hosts
            etcd = Etcd(hosts, [store])
            daemons = {host: self.start_rdzvd(hosts, host, etcd) for host in (first, second)}
            nodes, number = self.start_job(hosts, daemons, workers)
            old = self.wait_for_leader(etcd, daemons)
            self.cut_from(etcd, old)
            self.wait_for_take_over(etcd, daemons, old)
            daemons[old].wait_for("leads no more: ")
            number = self.fail_a_worker(hosts, nodes, number)
            self.heal_from(etcd, old)
            daemons[old].wait_for("a standby: the rendezvous at ")
            self.fail_a_worker(hosts, nodes, number)
            self.end_job(hosts, nodes, daemons)

    def test_no_worker_notices_that_the_leading_candidate_is_cut_off_from_etcd_but_not_from_the_agents(self):
        prefix = "ddprun/runs/job"
        with Hosts(6) as hosts:
            members, workers = list(hosts)[:3], list(hosts)[3:]
            etcd = Etcd(hosts, members)
            self.nodes = "3"
            options = ["--rdzv-id=job", "--max-restarts=9", "--log-level=info", USUAL_LEASE]
            nodes = dict(zip(workers, self.start(hosts, workers, options=options, backend="etcd",
                                                 endpoint=",".join(f"{host.name}:2379" for host in members))))
            number, _ = self.wait_for_round(hosts, nodes.values(), 3)
            for node in nodes.values():
                node.wait_for("hosts a candidate for the rendezvous")
            old = self.wait_for_leader(etcd, nodes, prefix=prefix)
            before = {(host, rank, pid) for host, _, rank, _, pid, _ in signs_of_life(hosts)}
            self.assertEqual(len(before), 3)
            cut_at = time.monotonic()
            self.cut_from(etcd, old)
            new = self.wait_for_take_over(etcd, nodes, old, prefix=prefix)
            place = etcd.leader(prefix)

            def wait_for_attached(count):
                until(lambda: self.attached(hosts, new, place) == count, 20, lambda: "\n".join(map(str, nodes.values())))
                return time.monotonic() - cut_at

            others_after = wait_for_attached(2)
            # Only in etcd does the agent on the same host find another leader, so it has no other way than to wait.
            self.heal_from(etcd, old)
            all_after = wait_for_attached(3)
            print(f"cut off from etcd: two agents were with the new leader after {others_after:.2f} s, the third one after "
                  f"{all_after:.2f} s, when etcd was reached again", file=sys.stderr)
            # A lease that was not renewed since the cut is over then, and its workers stopped.
            time.sleep(max(0, cut_at + AGENT_LEASE + 3 - time.monotonic()))
            now = time.monotonic()
            until(lambda: len({sign[2] for sign in self.alive(hosts) if sign[4] > now}) == 3, 10, "signs of life of all workers")
            (hosts.folder / "gate").touch()
            for node in nodes.values():
                self.assertEqual(node.wait(60), 0, node)
                self.assertNotIn("restarting", str(node))
            self.assertEqual({(host, rank, pid) for host, _, rank, _, pid, _ in signs_of_life(hosts)}, before)
            self.assertEqual({sign[1] for sign in self.alive(hosts)}, {number})

    def test_a_job_goes_on_while_each_member_of_etcd_is_cut_off_in_turn(self):
        with Hosts(5) as hosts:
            members, workers = list(hosts)[:3], list(hosts)[3:]
            etcd = Etcd(hosts, members)
            daemons = {host: self.start_rdzvd(hosts, host, etcd) for host in members}
            nodes, number = self.start_job(hosts, daemons, workers)
            for lost in members:  # with its rdzvd, which may be the one that leads
                lost.cut()
                number = self.fail_a_worker(hosts, nodes, number)
                lost.heal()
                until(lambda: etcd.read(lost, "x") is not None, 30, lambda: f"{lost.name} in etcd again")
            self.end_job(hosts, nodes, daemons)


if __name__ == "__main__":
    unittest.main()
