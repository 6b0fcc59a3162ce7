"""Unmodified PyTorch over several hosts, with the commands by which they meet; skipped where no Python has torch.

The interpreters that have it: see ../pytorch/harness.py. More commands: test_hosts_pytorch_slow.py.
"""

import unittest

import harness
from harness import Hosts, pytorch
from reducing import ReducingTest

harness.enter_namespaces()

C10D = ["--rdzv-backend=c10d", "--rdzv-endpoint=node1"]


class PyTorch(ReducingTest):
    @pytorch.with_each_torch
    def test_one_line_for_all_hosts_reduces_over_gloo(self, torch):
        with Hosts(3) as hosts:
            nodes = [self.start(torch, hosts, host, "--nnodes=3", "--nproc-per-node=2", *C10D) for host in hosts]
            ranks = self.reduce(hosts, nodes, 6)
            self.assertEqual({rank.interface for rank in ranks}, {"the name"})
            self.assertEqual({rank.host for rank in ranks}, {"node1", "node2", "node3"})

    @pytorch.with_each_torch
    def test_static_hosts_reduce_where_their_own_names_are_loopback(self, torch):
        with Hosts(3, loopback_names=True) as hosts:
            nodes = [self.start(torch, hosts, host, "--nnodes=3", f"--node-rank={rank}", "--master-addr=node1",
                                "--master-port=29511") for rank, host in enumerate(hosts)]
            ranks = self.reduce(hosts, nodes, 3)
            self.assertEqual({rank.interface for rank in ranks}, {"eth0"})
            self.assertEqual({rank.place for rank in ranks}, {"node1:29511"})
            self.assertEqual([rank.host for rank in ranks], ["node1", "node2", "node3"])

    @pytorch.with_each_torch
    def test_a_script_of_torch_distributed_launch_reduces_with_the_options_of_that(self, torch):
        with Hosts(2) as hosts:
            nodes = [self.start(torch, hosts, host, "--nnodes", "2", "--node_rank", rank, "--master_addr", hosts[0].addr,
                                "--master_port", "1234", "--nproc_per_node", "1", script="launched.py",
                                arguments=["--lr=0.1"]) for rank, host in enumerate(hosts)]
            ranks = self.reduce(hosts, nodes, 2)
            self.assertEqual({rank.place for rank in ranks}, {"192.168.77.1:1234"})
            self.assertEqual([rank.host for rank in ranks], ["node1", "node2"])

    @pytorch.with_each_torch
    def test_the_variables_of_a_kubeflow_job_alone_are_enough(self, torch):
        with Hosts(2) as hosts:
            for host in hosts:
                host.add_name("job-node-0-0.job", hosts[0].addr)
            nodes = [self.start(torch, hosts, host, PET_NNODES="2", PET_NPROC_PER_NODE="1", PET_NODE_RANK=str(rank),
                                PET_MASTER_ADDR="job-node-0-0.job", PET_MASTER_PORT="29500")
                     for rank, host in enumerate(hosts)]
            ranks = self.reduce(hosts, nodes, 2)
            self.assertEqual({rank.place for rank in ranks}, {"job-node-0-0.job:29500"})
            self.assertEqual([rank.host for rank in ranks], ["node1", "node2"])

    @pytorch.with_each_torch
    def test_a_store_behind_a_firewall_is_named_with_the_option_that_helps(self, torch):
        hidden = "192.168.77.101"
        with Hosts(2) as hosts:
            hosts[0].add_addr(hidden)
            hosts[1].lose_packets_to(hidden)
            nodes = [self.start(torch, hosts, hosts[0], "--nnodes=2", *C10D, f"--local-addr={hidden}", script="impatient.py"),
                     self.start(torch, hosts, hosts[1], "--nnodes=2", *C10D, script="impatient.py")]
            self.finish(hosts, nodes, 100, status=1)
            self.assertRegex(nodes[0].err, f"hint: its node cannot reach the workers' store at {hidden}:[0-9]+: open that port "
                                           "between the nodes, or let ddprun choose one .* --port-range=FIRST:LAST")

    @pytorch.with_each_torch
    def test_a_host_that_comes_later_takes_part_in_the_next_round(self, torch):
        with Hosts(3) as hosts:
            def start(host):
                return self.start(torch, hosts, host, "--nnodes=2:3", "--grow-delay=0.1", *C10D,
                                  "--rdzv-conf=keep_alive_interval=0.6,keep_alive_max_attempt=5,last_call_timeout=0.1",
                                  UNTIL_SIZE="3")
            nodes = [start(hosts[0]), start(hosts[1])]
            for node in nodes:
                node.wait_for("rank . of 2: sum 1", 60)
            nodes.append(start(hosts[2]))
            self.assertEqual({rank.host for rank in self.reduce(hosts, nodes, 3)}, {"node1", "node2", "node3"})
            self.ranks(nodes, 2)

    @pytorch.with_each_torch
    def test_the_store_is_where_local_addr_and_port_range_say_and_node_ranks_are_kept_with_c10d(self, torch):
        with Hosts(2) as hosts:
            for number, host in enumerate(hosts, 1):
                host.add_addr(f"192.168.77.10{number}")
            nodes = [self.start(torch, hosts, host, "--nnodes=2", f"--node-rank={2 - number}", *C10D,
                                f"--local-addr=192.168.77.10{number}", "--port-range=30100:30107")
                     for number, host in enumerate(hosts, 1)]
            ranks = self.reduce(hosts, nodes, 2)
            self.assertEqual([rank.host for rank in ranks], ["node2", "node1"])
            addr, port = ranks[0].place.split(":")
            self.assertEqual(addr, "192.168.77.102")
            self.assertIn(int(port), range(30100, 30108))


if __name__ == "__main__":
    unittest.main()
