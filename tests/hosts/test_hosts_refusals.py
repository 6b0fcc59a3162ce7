"""What a user is told where hosts cannot meet: other secrets, other programs at the port."""

import re
import subprocess
import sys
import unittest

import harness
from harness import BIN, MEETING_WORKER, Hosts, HostsTest, until

harness.enter_namespaces()

TWO = ["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node1"]
HURRY = "--rdzv-conf=join_timeout=4"
ANYBODY = "anybody who can connect to node1:29400 can join or stop it"


class Secrets(HostsTest):
    def secret(self, folder, name):
        path = folder / name
        subprocess.run([BIN / "ddprun", "--make-secret", f"--rdzv-secret-file={path}"], check=True, capture_output=True)
        return f"--rdzv-secret-file={path}"

    def test_a_host_with_another_secret_is_refused_and_the_others_go_on(self):
        with Hosts(3) as hosts:
            good, other = self.secret(hosts.folder, "good"), self.secret(hosts.folder, "other")
            first = hosts.ddprun(hosts[0], *TWO, good, MEETING_WORKER)
            first.wait_for("1 of 2 nodes have joined")
            wrong = hosts.ddprun(hosts[1], *TWO, other, MEETING_WORKER)
            self.assertEqual(wrong.wait(), 69, wrong)
            self.assertIn("the rendezvous at node1:29400 refuses this node: it has another secret", wrong.err, wrong)
            first.wait_for(r"closed 192\.168\.77\.2:\d+: not from a peer that has the secret")
            right = hosts.ddprun(hosts[2], *TWO, MEETING_WORKER, DDPRUN_SECRET_FILE=good.split("=")[1])
            self.finish(hosts, [first, right])
            self.assertNotIn(ANYBODY, first.err, first)

    def test_a_host_without_the_secret_is_refused_at_once_and_the_others_go_on(self):
        with Hosts(3) as hosts:
            good = self.secret(hosts.folder, "good")
            first = hosts.ddprun(hosts[0], *TWO, good, MEETING_WORKER)
            first.wait_for("1 of 2 nodes have joined")
            without = hosts.ddprun(hosts[1], *TWO, MEETING_WORKER)
            self.assertEqual(without.wait(20), 69, without)
            self.assertRegex(without.err, "refuses this node: .*asks for a secret", without)
            self.assertIsNone(first.status, first)
            self.finish(hosts, [first, hosts.ddprun(hosts[2], *TWO, good, MEETING_WORKER)])

    def test_only_the_host_of_the_rendezvous_warns_that_there_is_no_secret(self):
        with Hosts(2) as hosts:
            nodes = [hosts.ddprun(host, *TWO, MEETING_WORKER) for host in hosts]
            self.finish(hosts, nodes)
            self.assertEqual(nodes[0].err.count(ANYBODY), 1, nodes[0])
            self.assertEqual(nodes[1].err.count(ANYBODY), 0, nodes[1])

    def test_a_host_that_insists_on_a_secret_does_not_join_others_without(self):
        with Hosts(2) as hosts:
            good = self.secret(hosts.folder, "good")
            nodes = [hosts.ddprun(hosts[0], *TWO, HURRY, MEETING_WORKER),
                     hosts.ddprun(hosts[1], *TWO, HURRY, good, "--rdzv-auth=required", MEETING_WORKER)]
            self.finish(hosts, nodes, status=69)
            self.assertIn("secret", nodes[1].err, nodes[1])

    def test_a_secret_file_that_others_may_read_is_refused(self):
        with Hosts(1) as hosts:
            good = self.secret(hosts.folder, "good")
            (hosts.folder / "good").chmod(0o644)
            node = hosts.ddprun(hosts[0], *TWO, good, MEETING_WORKER)
            self.finish(hosts, [node], status=2)
            self.assertIn("chmod 600", node.err, node)


class Ports(HostsTest):
    def at_port(self, hosts, *words):
        """Starts a program on node1 that listens on port 29400."""
        program = hosts.run(hosts[0], words)
        listening = ["nsenter", f"--target={hosts[0].holder.pid}", "--net", "cat", "/proc/net/tcp", "/proc/net/tcp6"]
        until(lambda: re.search(":72D8 0+:0000 0A", harness.checked(listening)), 30, lambda: f"a listener: {program}")
        return program

    def stop(self, hosts, program):
        program.process.terminate()
        program.wait()
        hosts[0].kill()

    def test_hosts_meet_in_a_rdzvd_that_has_the_port(self):
        with Hosts(3) as hosts:
            daemon = self.at_port(hosts, BIN / "rdzvd", "--listen=0.0.0.0:29400")
            nodes = [hosts.ddprun(host, *TWO, MEETING_WORKER) for host in hosts[1:]]
            for node in nodes:
                self.assertEqual(node.wait(), 0, node)
            self.assertEqual(self.met(nodes)[0], ["0/2", "1/2"])
            self.stop(hosts, daemon)

    def test_a_job_with_another_run_id_at_the_port_is_named(self):
        with Hosts(2) as hosts:
            first = hosts.ddprun(hosts[0], *TWO, "--rdzv-id=a", MEETING_WORKER)
            first.wait_for("1 of 2 nodes have joined")
            other = hosts.ddprun(hosts[1], *TWO, "--rdzv-id=b", MEETING_WORKER)
            self.assertEqual(other.wait(), 69, other)
            self.assertRegex(other.err, "node1:29400 refuses this node: .*serves the job 'a' only", other)
            self.finish(hosts, [first, hosts.ddprun(hosts[1], *TWO, "--rdzv-id=a", MEETING_WORKER)])

    def check_other_program(self, hosts, name, *words):
        """Both nodes give up; node1 names the program, node2 at least says that it is another one."""
        program = self.at_port(hosts, *words)
        nodes = [hosts.ddprun(host, *TWO, HURRY, MEETING_WORKER) for host in hosts]
        for node in nodes:
            self.assertEqual(node.wait(), 69, node)
        self.assertIn(name, nodes[0].err, nodes[0])
        self.assertRegex(nodes[1].err, "another program|not .*rendezvous of ddprun|PyTorch's store has the port", nodes[1])
        static = hosts.ddprun(hosts[0], "--nnodes=2", "--master-addr=node1", "--master-port=29400", MEETING_WORKER)
        self.assertEqual(static.wait(), 69, static)
        self.assertRegex(static.err, f"port 29400: Address already in use .*{name}.* has it", static)
        self.stop(hosts, program)

    def test_a_store_of_pytorch_at_the_port_is_named(self):
        torches = harness.pytorch.torches()
        if not torches:
            self.skipTest("no PyTorch")
        store = ("import torch.distributed, time; store = torch.distributed.TCPStore('0.0.0.0', 29400, is_master=True, "
                 "wait_for_workers=False); time.sleep(100)")
        with Hosts(2) as hosts:
            self.check_other_program(hosts, "import torch", torches[0].python, "-c", store)

    def test_a_web_server_at_the_port_is_named(self):
        with Hosts(2) as hosts:
            self.check_other_program(hosts, "http.server", sys.executable, "-m", "http.server", "29400")

    def test_a_firewall_that_drops_packets_is_named_with_the_command_that_tests_it(self):
        with Hosts(2) as hosts:
            hosts[1].cut_towards(hosts[0])
            node = hosts.ddprun(hosts[1], *TWO, "--rdzv-conf=join_timeout=6", MEETING_WORKER)
            self.finish(hosts, [node], status=69)
            self.assertIn("no answer from 192.168.77.1:29400: a firewall drops the packets, or the host is down; "
                          "try nc -vz 192.168.77.1 29400", node.err, node)

    def test_a_second_node_rank_0_is_told_that_master_addr_is_not_its_own(self):
        with Hosts(2) as hosts:
            static = ["--nnodes=2", "--node-rank=0", "--master-addr=node1", HURRY]
            nodes = [hosts.ddprun(host, *static, MEETING_WORKER) for host in hosts]
            for node in nodes:
                self.assertEqual(node.wait(), 69, node)
            self.assertIn("node1 (192.168.77.1) is not an address of", nodes[1].err, nodes[1])
            self.assertNotIn("is not an address of", nodes[0].err, nodes[0])


if __name__ == "__main__":
    unittest.main()
