"""Several rdzvd with an etcd on other hosts, and jobs that meet there."""

import base64
import json
import os
import shutil
import signal
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

    def leader(self):
        """The host and port of the rdzvd that leads; empty: none does, or no member answers."""
        return next((place for host in self.members if (place := self.read(host, "ddprun/leader"))), "")


# Of agents, 15 s.
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

    def wait_for_leader(self, etcd, daemons, other_than=None):
        """The host that leads, of those that have an rdzvd."""
        places = {f"{host.addr}:29400": host for host in daemons if host is not other_than}
        return until(lambda: places.get(etcd.leader()), 30, lambda: "\n".join(map(str, daemons.values())))

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
        """The leading rdzvd is killed every five seconds for so long, and started again."""
        kills, began = 0, time.monotonic()
        while time.monotonic() < began + seconds:
            tick = time.monotonic()
            # For the first seconds after a kill none leads.
            leader = next((host for host in daemons if etcd.leader() == f"{host.addr}:29400"), None)
            if leader:
                os.kill(daemons[leader].process.pid, signal.SIGKILL)
                self.assertEqual(daemons[leader].wait(), -signal.SIGKILL)
                daemons[leader] = self.start_rdzvd(hosts, leader, etcd)
                kills += 1
            time.sleep(max(0, tick + 5 - time.monotonic()))
        self.assertGreater(kills, seconds / 20)
        print(f"{kills} leaders killed in {time.monotonic() - began:.0f} s", file=sys.stderr)

    def check_kills(self, seconds):
        """No worker notices that the leading rdzvd is killed again and again."""
        with Hosts(7) as hosts:
            etcd = Etcd(hosts, [hosts[0]])
            daemons = {host: self.start_rdzvd(hosts, host, etcd) for host in list(hosts)[:3]}
            self.nodes = "4"
            nodes, number = self.start_job(hosts, daemons, list(hosts)[3:], USUAL_LEASE)
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
