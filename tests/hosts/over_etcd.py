"""Several rdzvd with an etcd on other hosts, and jobs that meet there."""

import base64
import json
import os
import random
import shutil
import signal
import statistics
import sys
import time
import unittest
import urllib.request

import harness
from harness import BIN, Hosts, until
from rounds import RoundsTest, signs_of_life


class Etcd:
    """One member on each of some hosts. Asked from the switch, which a cut between two hosts does not touch."""

    def __init__(self, hosts, members):
        self.members = members
        cluster = ",".join(f"{host.name}=http://{host.addr}:2380" for host in members)
        for host in members:
            client, peer = (f"http://{host.addr}:{port}" for port in (2379, 2380))
            hosts.run(host, ["etcd", f"--name={host.name}", "--data-dir=data", "--logger=zap",
                             f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                             f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                             f"--initial-cluster={cluster}"])
        until(lambda: all(self.read(host, "x") is not None for host in members), 30, "an etcd that answers")

    @property
    def journal(self):
        return "etcd://" + ",".join(f"{host.addr}:2379" for host in self.members)

    def read(self, host, key):
        """Of that member, which asks the others; None: it does not answer now."""
        body = json.dumps({"key": base64.b64encode(key.encode()).decode()}).encode()
        try:
            with urllib.request.urlopen(f"http://{host.addr}:2379/v3/kv/range", body, timeout=1) as answer:
                found = json.load(answer).get("kvs", [])
        except (OSError, ValueError):
            return None
        return base64.b64decode(found[0]["value"]).decode() if found else ""

    def leader(self, prefix="ddprun"):
        """The host and port of the service that leads; empty: none does, or no member answers."""
        return next((place for host in self.members if (place := self.read(host, f"{prefix}/leader"))), "")


LEADER_LEASE = 5  # in seconds
# Another one leads so many seconds after a leader is lost, or earlier (docs/rdzvd.md).
TAKE_OVER_LIMIT = LEADER_LEASE + 2
# Of agents, in seconds.
AGENT_LEASE = 15
USUAL_LEASE = "--rdzv-conf=keep_alive_interval=3,keep_alive_max_attempt=5,last_call_timeout=5"


class OverEtcdTest(RoundsTest):
    nodes = "2"
    processes = 1

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not shutil.which("etcd"):
            raise unittest.SkipTest("etcd is not installed: scripts/install-deps --cluster")

    def start_rdzvd(self, hosts, host, etcd):
        rdzvd = hosts.run(host, [BIN / "rdzvd", f"--listen={host.addr}:29400", "--allow-uid=any", "--log-level=info",
                                 f"--journal={etcd.journal}"])
        rdzvd.wait_for(":29400\n")
        return rdzvd

    def leading(self, etcd, services, prefix="ddprun"):
        """The host that leads, of those with a service: the service serves the jobs by its own log, and etcd's key names its host.

        None: none does. The key alone proves less: it outlives a killed leader, and a new leader first reads the journal.
        """
        for host, service in services.items():
            log = service.out + service.err
            if log.count("leads, and serves the jobs") <= log.count("leads no more: "):
                continue
            if etcd.leader(prefix).rpartition(":")[0] == host.addr:
                return host
        return None

    def wait_for_leader(self, etcd, services, other_than=None, **more):
        """The host that leads, of those with a service."""
        others = {host: service for host, service in services.items() if host is not other_than}
        return until(lambda: self.leading(etcd, others, **more), 30, lambda: "\n".join(map(str, services.values())))

    def start_job(self, hosts, daemons, workers, *options):
        endpoints = ",".join(f"{host.name}:29400" for host in daemons)
        nodes = self.start(hosts, workers, options=["--max-restarts=9", *options], endpoint=endpoints)
        number, _ = self.wait_for_round(hosts, nodes, len(workers))
        return nodes, number

    def fail_a_worker(self, hosts, nodes, after):
        """It is killed, and the job goes on with a new round: the rendezvous works."""
        newest = [line for line in signs_of_life(hosts) if int(line[1]) == after][-1]
        harness.kill(int(newest[4]))
        return self.wait_for_round(hosts, nodes, len(nodes), after)[0]

    def kill_leaders(self, hosts, etcd, daemons, seconds):
        """The leading rdzvd is killed every five seconds or a bit later, for so long, and started again."""
        took, began = [], time.monotonic()
        leader = self.wait_for_leader(etcd, daemons)
        while time.monotonic() < began + seconds:
            killed_at = time.monotonic()
            os.kill(daemons[leader].process.pid, signal.SIGKILL)
            self.assertEqual(daemons[leader].wait(), -signal.SIGKILL)
            daemons[leader] = self.start_rdzvd(hosts, leader, etcd)
            leader = self.wait_for_leader(etcd, daemons)  # also the new one on that host
            led_at = time.monotonic()
            took.append(led_at - killed_at)
            # Agents can connect meanwhile. The lease is renewed every 1.25 s: what is left of it at a kill is random.
            time.sleep(max(0, max(killed_at + 5, led_at + random.uniform(0.5, 1.75)) - time.monotonic()))
        print(f"{len(took)} leaders killed in {time.monotonic() - began:.0f} s; the next one led after at most {max(took):.2f} s "
              f"(median {statistics.median(took):.2f} s) at a lease of {LEADER_LEASE} s", file=sys.stderr)
        self.assertGreater(len(took), seconds / 20)
        if seconds > 60:  # a short run is for machines that do other work, too
            self.assertLess(max(took), TAKE_OVER_LIMIT, took)
            self.assertGreater(len(took), seconds / 10)

    def check_kills(self, seconds):
        """No worker notices that the leading rdzvd is killed again and again."""
        with Hosts(7) as hosts:
            members, workers = list(hosts)[:3], list(hosts)[3:]
            etcd = Etcd(hosts, members)
            daemons = {host: self.start_rdzvd(hosts, host, etcd) for host in members}
            self.nodes = "4"
            nodes, number = self.start_job(hosts, daemons, workers, USUAL_LEASE)
            self.kill_leaders(hosts, etcd, daemons, seconds)
            self.assertEqual({sign[1] for sign in self.alive(hosts)}, {number}, "\n".join(map(str, nodes)))
            self.fail_a_worker(hosts, nodes, number)
            (hosts.folder / "gate").touch()
            for node in nodes:
                self.assertEqual(node.wait(60), 0, node)
            self.check_rounds_never_overlap(hosts)

    def end_job(self, hosts, nodes, daemons):
        (hosts.folder / "gate").touch()
        for node in nodes:
            self.assertEqual(node.wait(60), 0, node)
        for daemon in daemons.values():
            daemon.process.terminate()
            self.assertEqual(daemon.wait(), 0, daemon)
        self.check_rounds_never_overlap(hosts)
